"""Which recipe the data ask for: it follows from the store and the task, never from the machine."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsearch.data.image_kind import TINY_PIXELS, image_kind
from hsearch.data.sources import available_sources, load_source
from hsearch.data.store import Store

SMALL = {"retrieval": "small", "multilabel": "small-labels"}
"""By task, the recipe of drawn and tiny images."""

PHOTOS = {"retrieval": "photos", "multilabel": "photos-labels"}
"""By task, the recipe of own photos."""

DRAWN = ("cifar100", "fashion_mnist", "glyphs", "omniglot", "scenes")
"""Files of `data/sources` whose images are drawn or tiny."""

PAPERS = {
    "cub200": "mlrc/cub",
    "cars196": "mlrc/cars",
    "sop": "mlrc/sop",
    **dict.fromkeys(
        ("deepfashion_category", "dyml", "imagenet", "inat", "inshop", "modelnet40"), "mlrc/inshop"
    ),
    **dict.fromkeys(("coco", "nus_wide", "vg500", "voc2007"), "mulcon/coco"),
}
"""By file of `data/sources`, the recipe of the papers' data sets."""


@dataclass(frozen=True)
class DefaultRecipe:
    """A recipe that data ask for.

    Attributes:
        name: Of the recipe.
        why: What the data are, as the rest of a sentence behind `because`.
    """

    name: str
    why: str


def default_recipe(store: Store, task: str, rows: NDArray[np.int64]) -> DefaultRecipe:
    """Returns the recipe where nobody names one.

    Args:
        store: The data set.
        task: Of the method.
        rows: Of images that may be looked at, which those of the test may not.
    """
    given = str(store.provenance.get("source"))
    source = load_source(given) if given in available_sources() else None
    if source is not None and source.module in DRAWN:
        return DefaultRecipe(SMALL[task], f"the images of {store.name} are drawn or tiny")
    if source is not None and source.module in PAPERS:
        return DefaultRecipe(PAPERS[source.module], f"{store.name} is a data set of the papers")
    match image_kind(store, rows):
        case "tiny":
            why = f"most images of {store.name} are smaller than {TINY_PIXELS} pixels"
            return DefaultRecipe(SMALL[task], why)
        case "drawing":
            why = f"the images of {store.name} are drawings with few colours"
            return DefaultRecipe(SMALL[task], why)
        case "photo":
            return DefaultRecipe(PHOTOS[task], f"{store.name} are own photos")
