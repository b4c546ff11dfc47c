"""What a configuration brings about is data; a search that only fails explains itself."""

import pytest

from tests.cluster.searches import Search
from tests.destroyed import without_test_images

SPACE = """\
knobs:
  optimizer.lr.proxies: {{low: {low}, high: 1.0e+30, log: true}}
  method.scale: {{low: 1.0, high: 64.0, log: true}}
"""


def space(folder, low):
    path = folder / "space.yaml"
    path.write_text(SPACE.format(low=low))
    return f"--space={path}"


@pytest.fixture
def unreadable_test_images(tmp_path, toy_store):
    """The toy store with every byte of the test images destroyed."""
    return without_test_images(toy_store, tmp_path / "broken")


def test_a_diverged_trial_is_failed_with_its_reason_and_the_search_goes_on(tmp_path, toy_store):
    options = ("--trials=6", "--sampler=random", "--tracking-uri=none", "--no-race")
    search = Search(tmp_path, toy_store, *options, space(tmp_path, "1.0e-2"))
    search.run()
    trials = search.record()["trials"]
    states = [trial["state"] for trial in trials]
    assert "failed" in states
    assert "complete" in states
    assert "running" not in states
    assert all("loss" in t["reason"] for t in trials if t["state"] == "failed")


def test_a_search_that_only_fails_stops_with_a_diagnosis(tmp_path, toy_store):
    options = ("--trials=40", "--sampler=random", "--tracking-uri=none")
    fixed = "--set=optimizer.lr.backbone=1e30"
    search = Search(tmp_path, toy_store, *options, fixed, space(tmp_path, "1.0e+20"))
    printed = search.run(exit_code=1)
    assert "failed" in printed
    assert "optimizer.lr.proxies" in printed
    assert len(search.record()["trials"]) < 40


def test_a_configuration_that_needs_too_much_memory_is_failed(tmp_path, toy_store):
    search = Search(
        tmp_path, toy_store, "--trials=1", "--tracking-uri=none", model__embedding_dim=10**12
    )
    search.run(exit_code=1)
    assert search.record()["trials"][0]["reason"].startswith("Out of memory in fold 0")


def test_trouble_of_the_machine_ends_the_search_and_is_not_held_against_the_trial(
    tmp_path, unreadable_test_images
):
    store = unreadable_test_images  # which a search never opens
    search = Search(tmp_path, store, "--trials=1", "--groups=1", "--tracking-uri=none")
    (tmp_path / "studies" / "toy").mkdir(parents=True)
    (tmp_path / "studies" / "toy" / "trial-0000").write_text("in the way")
    printed = search.run(exit_code=1)
    assert "trial-0000" in printed
    assert "Traceback" not in printed
    assert search.record()["trials"][0]["state"] == "running"
    (tmp_path / "studies" / "toy" / "trial-0000").unlink()
    search.run()
    assert search.record()["trials"][0]["state"] == "complete"
