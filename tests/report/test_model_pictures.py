"""From a run's folder to files."""

import pytest

from hsearch.report.model_pictures import write_model_pictures
from tests.report.conftest import pixels_of

MAPS = {"map-level_0.png", "map-level_1.png", "map-level_2.png"}
ALWAYS = {"gallery.png", "levels.png", "violations.png", "confusion.png"} | MAPS


@pytest.mark.parametrize(
    ("method", "part", "expected"),
    [("hier", "validation", ALWAYS | {"tree.png"}), ("supcon", "test", ALWAYS)],
)
def test_a_run_has_all_its_pictures(trained, tmp_path, method, part, expected):
    told = []
    written = write_model_pictures(
        trained(method), tmp_path / "new", part, lambda *state: told.append(state)
    )
    assert {path.name for path in written} == expected
    for path in written:
        pixels = pixels_of(path)
        assert min(pixels.shape[:2]) > 200
        assert 0.005 < (pixels.min(axis=2) < 200).mean() < 0.9
    phases = ["embedding, before training", "embedding, trained", "scoring", "mapping"]
    assert list(dict.fromkeys(what for what, _, _ in told)) == phases
    for phase in phases:
        done, total = [(done, total) for what, done, total in told if what == phase][-1]
        assert done == total
