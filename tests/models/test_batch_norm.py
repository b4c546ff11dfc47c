import pytest
import torch
import torch.distributed as dist
from torch import nn

from hsearch.distributed import rank, world_size
from hsearch.models.batch_norm import synchronise_batch_norm
from hsearch.models.embedder import Embedder
from hsearch.spec import ModelSpec
from tests.processes import ready_processes

RANKS = 2
BATCH = 8
NETWORKS = ("batch_norm", "stack", "test_efficientnet")


def make_network(kind, dtype):
    torch.manual_seed(3)
    if kind == "batch_norm":
        network = nn.Sequential(nn.BatchNorm2d(5), nn.Flatten())
        synchronise_batch_norm(network)
        return network.to(dtype).train(), (5, 6, 6)
    if kind == "stack":
        # Own momentum; no affine with a cumulative average; no statistics; vectors, which stay.
        network = nn.Sequential(
            nn.BatchNorm2d(5, momentum=0.3),
            nn.ReLU(),
            nn.Conv2d(5, 6, 3, bias=False),
            nn.BatchNorm2d(6, affine=False, momentum=None),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(6, track_running_stats=False),
            nn.Flatten(),
            nn.Linear(96, 7, bias=False),
            nn.BatchNorm1d(7, momentum=0.0),
        )
        synchronise_batch_norm(network)
        return network.to(dtype).train(), (5, 6, 6)
    spec = ModelSpec(backbone=kind, batch_norm="synchronised", weights="random", embedding_dim=16)
    return Embedder(spec, seed=3).to(dtype).train(), (3, 32, 32)


def step(kind, dtype):
    """One forward and backward of this rank's part of a batch, everything joined over the ranks."""
    network, shape = make_network(kind, dtype)
    generator = torch.Generator().manual_seed(4)
    whole = torch.randn(BATCH, *shape, generator=generator, dtype=torch.float64)
    target = torch.randn(BATCH, 180, generator=generator, dtype=torch.float64).to(dtype)
    own = slice(rank() * BATCH // world_size(), (rank() + 1) * BATCH // world_size())
    images = whole.to(dtype)[own].requires_grad_()
    for _ in range(2):  # twice, for the running statistics
        images.grad = None
        network.zero_grad()
        output = network(images)
        (output * target[own, : output.shape[1]]).sum().backward()
    results = {"output": output.detach(), "images": images.grad}
    if dist.is_initialized():
        for name, value in results.items():
            parts = [torch.empty_like(value) for _ in range(world_size())]
            dist.all_gather(parts, value.contiguous())
            results[name] = torch.cat(parts)
    for name, parameter in network.named_parameters():
        total = parameter.grad.clone()
        if dist.is_initialized():
            dist.all_reduce(total)
        results[f"gradient of {name}"] = total
    return {**results, **dict(network.named_buffers())}


def half_step():
    """As in a training with autocast: images in bfloat16, far from 0, and weights in float32."""
    network = nn.BatchNorm2d(5)
    synchronise_batch_norm(network)
    whole = 100 + torch.randn(BATCH, 5, 6, 6, generator=torch.Generator().manual_seed(4))
    images = whole.bfloat16().chunk(world_size())[rank()].requires_grad_()
    output = network.train()(images)
    output.pow(3).sum().backward()
    return {"output": output.detach(), "images": images.grad, "mean": network.running_mean}


def rank_main(number, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/ranks", rank=number, world_size=RANKS
    )
    for kind in NETWORKS:
        for dtype in (torch.float32, torch.float64):
            torch.save(step(kind, dtype), f"{folder}/{kind}-{dtype}-{number}.pt")
    torch.save(half_step(), f"{folder}/half-{number}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    context = ready_processes()
    processes = [context.Process(target=rank_main, args=(r, str(folder))) for r in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
        process.join()
    assert [process.exitcode for process in processes] == [0] * RANKS
    return folder


def worst(results, expected):
    """Largest difference of any value, relative to the largest of its tensor or to 1."""
    assert results.keys() == expected.keys()
    errors = [
        ((results[name] - value).abs().max() / value.abs().max().clamp(min=1)).item()
        for name, value in expected.items()
    ]
    return max(errors)


@pytest.mark.parametrize("kind", NETWORKS)
def test_synchronised_on_two_ranks_equals_one_process(two_ranks, kind):
    alone = {dtype: step(kind, dtype) for dtype in (torch.float32, torch.float64)}
    rounding = worst(alone[torch.float32], alone[torch.float64])
    for number in range(RANKS):
        single, double = (
            torch.load(two_ranks / f"{kind}-{dtype}-{number}.pt", weights_only=True)
            for dtype in (torch.float32, torch.float64)
        )
        assert worst(double, alone[torch.float64]) < 1e-13
        # float32 cannot be nearer to one process than that one is to float64.
        assert worst(single, alone[torch.float64]) < 2 * rounding + 1e-6
        if kind == "batch_norm":
            assert worst(single, alone[torch.float32]) < 1e-6


def test_half_precision_stays_and_is_normalised_in_float32(two_ranks):
    halves = [torch.load(two_ranks / f"half-{n}.pt", weights_only=True) for n in range(RANKS)]
    alone = half_step()
    for name in ("output", "images"):
        joined = torch.cat([half[name] for half in halves])
        assert joined.dtype == torch.bfloat16
        torch.testing.assert_close(joined, alone[name])
    torch.testing.assert_close(halves[0]["mean"], alone["mean"])
