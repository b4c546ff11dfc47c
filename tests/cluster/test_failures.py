"""What a configuration brings about is data; a search that only fails explains itself."""

import pytest

from tests.cluster.searches import Search
from tests.destroyed import without_test_images

SOME_DIVERGE = {"optimizer.lr.proxies": "{choices: [0.01, 0.03, 1.0e+30]}"}
ONLY_DIVERGES = {"optimizer.lr.proxies": "{low: 1.0e+20, high: 1.0e+30, log: true}"}
SOME_TOO_LARGE = {"model.embedding_dim": "{choices: [8, 16, 32, 1000000000000]}"}
SCALE = {"method.scale": "{low: 1.0, high: 64.0, log: true}"}


def space(folder, **knobs):
    path = folder / "space.yaml"
    path.write_text("knobs:\n" + "".join(f"  {name}: {knobs[name]}\n" for name in knobs))
    return f"--space={path}"


@pytest.fixture
def unreadable_test_images(tmp_path, toy_store):
    """The toy store with every byte of the test images destroyed."""
    return without_test_images(toy_store, tmp_path / "broken")


def test_what_a_trial_brings_about_is_recorded_and_trouble_of_the_machine_is_not(
    tmp_path, unreadable_test_images
):
    store = unreadable_test_images  # which a search never opens
    options = ("--trials=8", "--sampler=random", "--tracking-uri=none", "--no-race")
    knobs = space(tmp_path, **SOME_DIVERGE, **SOME_TOO_LARGE)
    search = Search(tmp_path, store, *options, knobs)
    (tmp_path / "studies" / "toy").mkdir(parents=True)
    (tmp_path / "studies" / "toy" / "trial-0000").write_text("in the way")
    printed = search.run("--groups=1", exit_code=1)
    assert "trial-0000" in printed
    assert "Traceback" not in printed
    assert search.record()["trials"][0]["state"] == "running"

    (tmp_path / "studies" / "toy" / "trial-0000").unlink()
    search.run()
    trials = search.record()["trials"]
    assert {trial["state"] for trial in trials} == {"failed", "complete"}
    reasons = [trial["reason"] for trial in trials if trial["state"] == "failed"]
    large = [trial["reason"] for trial in trials if trial["knobs"]["model.embedding_dim"] > 32]
    assert large
    assert all(reason.startswith("Out of memory in fold 0") for reason in large)
    diverged = [reason for reason in reasons if reason not in large]
    assert diverged
    assert all("loss" in reason for reason in diverged)


def test_a_search_that_only_fails_stops_with_a_diagnosis(tmp_path, toy_store):
    options = ("--trials=40", "--sampler=random", "--tracking-uri=none")
    fixed = "--set=optimizer.lr.backbone=1e30"
    knobs = space(tmp_path, **ONLY_DIVERGES, **SCALE)
    search = Search(tmp_path, toy_store, *options, fixed, knobs)
    printed = search.run(exit_code=1)
    assert "failed" in printed
    assert "optimizer.lr.proxies" in printed
    assert len(search.record()["trials"]) < 40
