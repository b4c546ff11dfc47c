"""Real handwriting, from the zips of its owners to a trained network."""

import pytest
import torch
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.library import open_data
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import resolve_job
from tests.shared_data import shared_data

pytestmark = pytest.mark.realdata

ALPHABETS = {
    "Balinese": 24,
    "Early_Aramaic": 22,
    "Greek": 24,
    "Japanese_(katakana)": 47,
    "Korean": 40,
    "Latin": 26,
    "Sanskrit": 42,
    "Tagalog": 17,
}
SETTINGS = {
    "image.resize": 28,
    "image.crop": 28,
    "schedule.epochs": 3,
    "schedule.eval_every": 3,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The folder of the stores, and what the command line said."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HSEARCH_DATA", str(home))
        path = str(shared_data("omniglot"))
        yield home, CliRunner().invoke(main, ["data", "prepare", "omniglot", "--from", path])


def test_both_small_sets_become_one_store(prepared):
    home, result = prepared
    assert result.exit_code == 0
    assert "omniglot: 4840 images of 242 classes" in result.output
    assert [path.name for path in home.iterdir()] == ["omniglot.arrow"]
    store = open_data("omniglot")
    alphabets = [store.label_path(label)[0] for label in range(242)]
    assert {name: alphabets.count(name) for name in alphabets} == ALPHABETS
    assert {int(count) for count in torch.bincount(torch.from_numpy(store.classes))} == {20}
    assert set(store.split.tolist()) == {""}
    assert (store.heights == 105).all()


@pytest.mark.usefixtures("prepared")
def test_a_short_training_clearly_beats_the_untrained_network(tmp_path, capsys):
    job = resolve_job(method="supcon", data="omniglot", recipe="small", settings=SETTINGS)
    result = train_locally(job, Report(), tmp_path / "run")
    untrained = result.untrained["map_at_r"]
    with capsys.disabled():
        figures = f"{result.validation['map_at_r']:.3f}, untrained {untrained:.3f}"
        print(f"\nOmniglot, MAP@R: {figures}", end=" ")  # noqa: T201
    assert untrained < 0.1
    assert result.validation["map_at_r"] > 0.2
    assert result.validation["h_ap"] > result.untrained["h_ap"] + 0.05
