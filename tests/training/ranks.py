"""Runs a function on several gloo ranks; its result is what rank 0 returns."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.processes import ready_processes


def on_ranks(function: Callable[..., Any], *arguments: Any, size: int = 2) -> Any:
    """Returns `function(*arguments)` of rank 0; the function must be importable."""
    context, environment = ready_processes(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            context.Process(
                target=_main, args=(rank, size, folder, environment, function, arguments)
            )
            for rank in range(size)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join(120)
            job.kill()
        assert [job.exitcode for job in jobs] == [0] * size
        return torch.load(Path(folder) / "result.pt", weights_only=True)


def _main(
    rank: int,
    size: int,
    folder: str,
    environment: dict[str, str],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
    try:
        result = function(*arguments)
        if rank == 0:
            torch.save(result, Path(folder) / "result.pt")
    finally:
        dist.destroy_process_group()
