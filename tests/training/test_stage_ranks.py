"""Two ranks train averaged weights over a change of stages as one process does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hsearch import distributed
from hsearch.spec import FoldJob
from hsearch.training.setup import load_fold
from tests.training.ranks import on_ranks
from tests.training.runs import begin, train_steps


@contextmanager
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def two_stages(job_values: list[Any]) -> dict[str, torch.Tensor]:
    """Trains both stages of some jobs; returns losses, weights and averages at the end of each."""
    found = {}
    with double_precision():
        for values in job_values:
            job = FoldJob.from_dict(values)
            data = load_fold(job)
            tools = begin(job, data)
            for epoch, stage in enumerate(job.stages(), start=1):
                if epoch > 1:
                    tools = tools.follow(stage, data)
                losses = train_steps(tools, epoch, 4)
                assert tools.average is not None
                for name, tensor in tools.average.state().items():
                    ranks = distributed.gather_rows(tensor.reshape(1, -1))
                    assert torch.equal(ranks, ranks[:1].expand_as(ranks)), name
                if job.training.model.batch_norm == "trained":
                    continue  # statistics are those of a rank's own images
                states = {"weight": tools.step.state_dict(), "average": tools.average.state()}
                here = f"{job.method.name} {epoch}"
                found[f"{here} loss"] = torch.stack(losses)
                found |= {
                    f"{here} {kind} {name}": tensor.clone()
                    for kind, state in states.items()
                    for name, tensor in state.items()
                }
    return found


def test_two_ranks_equal_one_over_two_stages_with_averaged_weights(toy_job):
    settings = {"optimizer__name": "sgd", "optimizer__ema": 0.9, "optimizer__lr__backbone": 0.01}
    other = {"share": 0.5, "batch__size": 8, "optimizer__lr__backbone": 0.02}
    jobs = [
        toy_job(method, **settings, **{f"stages__{stage}__{k}": v for k, v in other.items()})
        for method, stage in [("mulcon", "classify"), ("proxy_anchor", "first")]
    ]
    jobs.append(toy_job("bce", **settings, model__batch_norm="trained"))
    values = [job.to_dict() for job in jobs]
    one, two = two_stages(values), on_ranks(two_stages, values)
    assert one.keys() == two.keys()
    for key, expected in one.items():
        assert expected.dtype in (torch.float64, torch.int64, torch.uint8), key
        torch.testing.assert_close(two[key], expected, rtol=1e-6, atol=1e-9, msg=key)
