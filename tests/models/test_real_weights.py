"""Real ImageNet weights on real photographs, through the same code as any training."""

from collections import Counter

import numpy as np
import pytest
import torch.nn.functional as F

from hsearch.data.batches import evaluation_batches
from hsearch.data.pixels import open_pixels
from hsearch.data.records import Record
from hsearch.data.sources import folder
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.data.transforms import normalise
from hsearch.evaluation.embed import embed_batches
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.models.embedder import Embedder
from hsearch.spec import ImageSpec, ModelSpec
from tests.shared_data import shared_data

pytestmark = pytest.mark.realdata

IMAGES_PER_CLASS = 5
IMAGE = ImageSpec(resize=128, crop=128, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """A store of a few images of each of CUB's 40 classes, and its pixels."""
    path = tmp_path_factory.mktemp("birds") / "birds.arrow"
    taken: Counter[tuple[str, ...]] = Counter()
    few = []
    for record in folder.records(shared_data("cub200/CUB_200_2011/images")):
        assert isinstance(record, Record)
        taken[record.labels] += 1
        if taken[record.labels] <= IMAGES_PER_CLASS:
            few.append(record)
    write_store(path, "birds", few, size=128, provenance={})
    store = Store.open(path)
    return store, open_pixels(store, np.arange(len(store)), IMAGE.resize, memory_share=0.0)


def scores(birds, weights):
    store, pixels = birds
    spec = ModelSpec(
        backbone="tf_efficientnet_lite0", weights=weights, head="none", embedding_dim=1280
    )
    embedder = Embedder(spec, seed=0).eval()
    batches = evaluation_batches(pixels, np.arange(len(store)), IMAGE)
    embeddings = embed_batches(batches, lambda x: F.normalize(embedder(normalise(x, IMAGE))))
    return retrieval_metrics(embeddings, store.classes)


def test_real_weights_retrieve_birds_far_better_than_random_ones(birds, capsys):
    real = scores(birds, str(shared_data("weights/tf_efficientnet_lite0.safetensors")))
    random = scores(birds, "random")
    figures = [
        f"{n}: {real[n]:.3f}, random {random[n]:.3f}" for n in ("precision_at_1", "map_at_r")
    ]
    with capsys.disabled():
        print("\n40 birds, real weights", *figures, sep="; ", end=" ")  # noqa: T201
    assert len(birds[0]) == 40 * IMAGES_PER_CLASS
    assert real["precision_at_1"] > 3 * random["precision_at_1"]
    assert real["map_at_r"] > 3 * random["map_at_r"]
