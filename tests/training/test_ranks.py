"""Two ranks with half the batch each give the numbers of one process with the whole batch."""

from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from hsearch import distributed
from hsearch.data.transforms import normalise
from hsearch.methods import available_methods, load_method
from hsearch.spec import FoldJob
from hsearch.training.optimizer import forget_moments
from hsearch.training.setup import build_batches, build_step, load_fold
from tests.training.ranks import on_ranks

SETTINGS: dict[str, dict[str, Any]] = {
    "hpl": {"method__update_period": 3},  # within the test
    "hier": {"method__num_lcas": 64},  # for speed
}


def losses_and_gradients(job_values: Any, iterations: int, dtype: str) -> dict[str, torch.Tensor]:
    """Trains a few steps with SGD; returns every loss, and the last gradients and weights."""
    job = FoldJob.from_dict(job_values)
    data = load_fold(job)
    step = build_step(job, data.hierarchy, torch.device("cpu")).to(getattr(torch, dtype))
    batches = build_batches(job, data, step.method.views)
    several = distributed.world_size() > 1
    network = DistributedDataParallel(step) if several else step
    optimizer = torch.optim.SGD(step.parameters(), lr=0.05, momentum=0.9)
    result = {}
    for iteration, batch in enumerate(batches.epoch(1, iterations), start=1):
        images = normalise(batch.images, job.training.image).to(getattr(torch, dtype))
        optimizer.zero_grad()
        loss = network(images, batch.labels)
        loss.backward()
        result[f"loss {iteration}"] = loss.detach()
        result |= {
            f"grad {k}": p.grad.clone() for k, p in step.named_parameters() if p.grad is not None
        }
        optimizer.step()
        forget_moments(optimizer, step.method.step(iteration))
    return result | {f"state {k}": v for k, v in step.state_dict().items()}


@pytest.mark.parametrize("method", available_methods())
def test_two_ranks_equal_one(method, toy_job):
    job = toy_job(method, **SETTINGS.get(method, {})).to_dict()
    one = losses_and_gradients(job, 8, "float64")
    two = on_ranks(losses_and_gradients, job, 8, "float64")
    assert one.keys() == two.keys()
    kind = load_method(method)
    groups = ["embedder.backbone", *(f"method.{group}" for group in kind.groups)]
    if kind.features == "vector":
        groups.append("embedder.head")
    for group in groups:
        assert any(key.startswith(f"grad {group}") for key in one), group
    for key, expected in one.items():
        torch.testing.assert_close(two[key], expected, rtol=1e-6, atol=1e-9, msg=key)


def test_two_ranks_equal_one_in_float32_up_to_rounding(toy_job):
    job = toy_job("hpl").to_dict()
    one = losses_and_gradients(job, 1, "float32")
    two = on_ranks(losses_and_gradients, job, 1, "float32")
    for key, expected in one.items():
        if key.startswith("grad"):
            scale = float(expected.abs().max())
            torch.testing.assert_close(two[key], expected, rtol=0, atol=1e-5 * scale, msg=key)


def exchanges() -> dict[str, torch.Tensor]:
    rank = distributed.rank()
    local = (torch.arange(4.0).reshape(4, 1) + 10 * rank).requires_grad_()
    whole = distributed.gather_batch(local, views=2)
    (whole * torch.arange(8.0).reshape(8, 1)).sum().backward()
    assert local.grad is not None
    rows = distributed.gather_rows(torch.full((3 - rank, 1), float(rank)))
    return {"whole": whole.detach(), "gradient": local.grad, "rows": rows}


def test_exchanges_between_ranks():
    result = {key: value.flatten().tolist() for key, value in on_ranks(exchanges).items()}
    assert result["whole"] == [0, 1, 10, 11, 2, 3, 12, 13]  # all first views first
    # Rank 0 holds rows 0, 1 (first view) and 4, 5 (second); twice, for DDP's mean over two ranks.
    assert result["gradient"] == [0, 2, 8, 10]
    assert result["rows"] == [0, 0, 0, 1, 1]  # of unequal length
