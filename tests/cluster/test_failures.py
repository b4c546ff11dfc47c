"""What a configuration brings about is data; a search that only fails explains itself."""

import pytest

from tests.cluster.searches import Search
from tests.destroyed import without_test_images

# One trial diverges, one needs too much memory, and then one is well.
MIXED = """\
knobs:
  optimizer.lr.proxies: {low: 1.0e-2, high: 1.0e+30, log: true}
  model.embedding_dim: {low: 8, high: 1000000000000, log: true}
start:
  - {source: a test, values: {optimizer.lr.proxies: 1.0e+30, model.embedding_dim: 16}}
  - {source: a test, values: {optimizer.lr.proxies: 0.03, model.embedding_dim: 1000000000000}}
  - {source: a test, values: {optimizer.lr.proxies: 0.03, model.embedding_dim: 16}}
"""
FATAL = """\
knobs:
  optimizer.lr.proxies: {low: 1.0e+20, high: 1.0e+30, log: true}
  method.scale: {low: 1.0, high: 64.0, log: true}
"""


def space(folder, text):
    path = folder / "space.yaml"
    path.write_text(text)
    return f"--space={path}"


@pytest.fixture
def unreadable_test_images(tmp_path, toy_store):
    """The toy store with every byte of the test images destroyed."""
    return without_test_images(toy_store, tmp_path / "broken")


def test_what_a_trial_brings_about_is_recorded_and_trouble_of_the_machine_is_not(
    tmp_path, unreadable_test_images
):
    store = unreadable_test_images  # which a search never opens
    options = ("--trials=4", "--tracking-uri=none", "--no-race", space(tmp_path, MIXED))
    search = Search(tmp_path, store, *options, model__embedding_dim=None)
    (tmp_path / "studies" / "toy").mkdir(parents=True)
    (tmp_path / "studies" / "toy" / "trial-0000").write_text("in the way")
    printed = search.run("--groups=1", exit_code=1)
    assert "trial-0000" in printed
    assert "Traceback" not in printed
    assert search.record()["trials"][0]["state"] == "running"

    (tmp_path / "studies" / "toy" / "trial-0000").unlink()
    search.run()
    first, diverged, large, last = search.record()["trials"]
    assert (first["state"], last["state"]) == ("complete", "complete")
    assert (diverged["state"], large["state"]) == ("failed", "failed")
    assert "loss" in diverged["reason"]
    assert large["reason"].startswith("Out of memory in fold ")


def test_a_search_that_only_fails_stops_with_a_diagnosis(tmp_path, toy_store):
    options = ("--trials=40", "--sampler=random", "--tracking-uri=none")
    fixed = "--set=optimizer.lr.backbone=1e30"
    search = Search(tmp_path, toy_store, *options, fixed, space(tmp_path, FATAL))
    printed = search.run(exit_code=1)
    assert "failed" in printed
    assert "optimizer.lr.proxies" in printed
    assert len(search.record()["trials"]) < 40
