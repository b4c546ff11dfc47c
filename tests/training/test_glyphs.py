"""The embedded data set through the default recipe, shortened: learnable, not easy."""

from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from hsearch.evaluation.scoring import ScoreOptions, score
from hsearch.methods import available_methods, load_method
from hsearch.results import FoldResult
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import resolve_job
from hsearch.training.score import embed_run
from hsearch.yaml_file import Value
from tests.processes import ready_processes

SHORT: dict[str, Value] = {
    "image.resize": 24,
    "image.crop": 24,
    "model.backbone_args.output_stride": 32,
}
EPOCHS = 3
MORE_EPOCHS = {
    **{"csl": 4, "hier": 5, "himulcon": 6, "hpl": 5, "proxy_anchor": 5, "simclr": 5},
    **{"smooth_ap": 4, "soft_triple": 4, "triplet": 4},
}
SETTINGS: dict[str, dict[str, Value]] = {
    "hier": {"method.num_lcas": 64},  # as many as are published take most of its time
}


@dataclass(frozen=True)
class Trained:
    result: FoldResult
    tested: float


def train(method: str, folder: Path) -> Trained:
    epochs = MORE_EPOCHS.get(method, EPOCHS)
    length: dict[str, Value] = {"schedule.epochs": epochs, "schedule.eval_every": epochs}
    settings = {**SHORT, **length, **SETTINGS.get(method, {})}
    job = resolve_job(method=method, data="glyphs", recipe="small", settings=settings)
    result = train_locally(job, Report(), folder)
    return Trained(result, score(embed_run(folder, "test"), ScoreOptions())["map_at_r"])


def use_one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def trainings(request, tmp_path_factory):
    """All trainings that are asked for, side by side: one thread each is the fastest for them."""
    folder = tmp_path_factory.mktemp("glyphs")
    mine = [item for item in request.session.items if item.module is request.module]
    with ProcessPoolExecutor(2, ready_processes(), use_one_thread) as pool:
        futures: dict[str, Future[Trained]] = {}
        for method in sorted({item.callspec.params["method"] for item in mine}):
            futures[method] = pool.submit(train, method, folder / method)
        yield futures


@pytest.mark.parametrize("method", available_methods("retrieval"))
def test_every_method_clearly_beats_the_untrained_network(method, trainings):
    trained = trainings[method].result()
    result = trained.result
    assert result.untrained["map_at_r"] < 0.04
    assert result.score < 0.9
    if load_method(method).supervised:
        assert result.score > 5 * result.untrained["map_at_r"]
        assert trained.tested > 0.06
        assert result.validation["h_ap"] > result.untrained["h_ap"] + 0.1
    else:
        assert result.score > 3 * result.untrained["map_at_r"]
