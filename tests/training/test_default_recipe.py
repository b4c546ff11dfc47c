"""The recipe follows the data, and no test image is looked at for it."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from hsearch.data.records import Record
from hsearch.data.sources import available_sources, load_source
from hsearch.data.splits import split_store
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.errors import ConfigError
from hsearch.methods import load_method
from hsearch.recipes import available_recipes
from hsearch.search.plan import plan_study
from hsearch.training.default_recipe import DRAWN, PAPERS, PHOTOS, SMALL, default_recipe
from hsearch.training.resolve import resolve

OWN = ("folder", "huggingface", "table")


def photos(path, source="folder", *, classes=24, side=72, tags=False, split=None):
    """A store of noisy images, which count as photos, four of each class."""
    rng = np.random.default_rng(0)
    records = []
    for number in range(4 * classes):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(file, "PNG")
        name = f"class-{number // 4:02d}"
        labels, several = ((), (name, "any")) if tags else ((name,), ())
        mark = "" if split is None else split(number // 4)
        records.append(Record(f"{number:03d}", file.getvalue(), labels, split=mark, tags=several))
    write_store(path, "birds", records, size=None, provenance={"source": source})
    return Store.open(path)


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    return photos(tmp_path_factory.mktemp("photos") / "birds.arrow")


def job_on(store, method="hpl", **further):
    return resolve(method=method, data=str(store.path), settings={}, **further)


def test_every_source_has_a_recipe_and_every_recipe_is_there():
    modules = {load_source(name).module for name in available_sources()}
    assert modules == {*DRAWN, *PAPERS, *OWN}
    assert {*SMALL.values(), *PHOTOS.values(), *PAPERS.values()} <= set(available_recipes())


@pytest.mark.parametrize(
    "source", [name for name in available_sources() if load_source(name).module not in OWN]
)
def test_a_published_data_set_has_its_recipe_without_an_image_being_opened(
    birds, source, monkeypatch
):
    module = load_source(source).module
    store = Store.open(birds.path)
    store.provenance["source"] = source
    monkeypatch.setattr(Store, "encoded", None)
    task = "multilabel" if module == "scenes" else "retrieval"
    chosen = default_recipe(store, task, np.arange(len(store)))
    assert chosen.name == (SMALL[task] if module in DRAWN else PAPERS[module])


def test_own_photos_have_the_recipe_of_photos_and_the_reason_is_told(birds):
    resolved = job_on(birds)
    assert resolved.job.training.recipe == "photos"
    assert resolved.why == (
        "Recipe photos (a frozen pretrained backbone), because birds are own photos; --recipe "
        "changes it."
    )
    assert resolved.warnings == ()


def test_photos_with_several_labels_have_a_recipe_of_their_own(tmp_path):
    store = photos(tmp_path / "tags.arrow", tags=True)
    training = job_on(store, "mulcon").job.training
    assert training.recipe == "photos-labels"
    assert training.model.pooling == "avg", "a token would leave no map"


def test_tiny_images_have_the_small_recipe(toy_store):
    resolved = job_on(toy_store)
    assert resolved.job.training.recipe == "small"
    assert "most images of toy are smaller than 64 pixels" in resolved.why


def test_small_on_photos_works_and_warns(birds, toy_store):
    resolved = job_on(birds, recipe="small")
    assert resolved.job.training.recipe == "small"
    (warning,) = resolved.warnings
    assert "small trains a small network from scratch, but birds are own photos" in warning
    assert resolved.why == "Recipe small (a network from scratch), as --recipe says."
    assert job_on(toy_store, recipe="small").warnings == ()


def test_a_search_looks_at_no_test_image(birds, monkeypatch):
    opened, encoded = set(), Store.encoded

    def look(self, row):
        opened.add(row)
        return encoded(self, row)

    monkeypatch.setattr(Store, "encoded", look)
    plan = plan_study(method="hpl", data=str(birds.path), settings={})
    assert opened
    assert not opened & set(split_store(birds, plan.spec.job.splits).test.tolist())


def test_a_drawn_data_set_needs_no_timm(monkeypatch, toy_store):
    monkeypatch.setitem(sys.modules, "timm", None)  # which makes its import fail
    monkeypatch.delitem(sys.modules, "hsearch.models.backbone", raising=False)
    assert job_on(toy_store).job.training.recipe == "small"


def test_papers_data_have_the_whole_protocol(tmp_path):
    store = photos(tmp_path / "cub.arrow", "cub200", classes=16)
    plan = plan_study(method="hpl", data=str(store.path), settings={})
    assert plan.spec.job.training.recipe == "mlrc/cub"
    assert (plan.spec.job.splits, plan.trials) == ("mlrc", 50)
    assert plan.spec.space["optimizer.lr.proxies"] == "1e-06 to 1, log"
    assert "because birds is a data set of the papers" in plan.why
    other = plan_study(
        method="hpl",
        data=str(store.path),
        settings={},
        splits="disjoint",
        trials=3,
        sampler="gp",
    )
    assert (other.spec.job.splits, other.trials, other.spec.sampler) == ("disjoint", 3, "gp")


def test_splits_of_a_recipe_that_do_not_fit_are_a_sentence_that_says_what_to_do(tmp_path):
    store = photos(
        tmp_path / "cub.arrow",
        "cub200",
        classes=20,
        split=lambda number: "test" if number < 8 else "train",
    )
    with pytest.raises(ConfigError, match=r"recipe mlrc/cub has `mlrc` splits.*--splits disj"):
        job_on(store)
    assert job_on(store, splits="disjoint").job.splits == "disjoint"


def test_a_methods_task_decides_among_the_small_ones(label_store):
    assert load_method("bce").task == "multilabel"
    assert job_on(label_store, "bce").job.training.recipe == "small-labels"
