"""Stands in for a search's worker groups. Ray's worker processes import it: only Ray here."""

import asyncio
import time

import ray


class Trainers:
    """All groups of a search in one actor, which train nothing and answer at once."""

    async def work(self, board: str, groups: int, result: str) -> None:
        """Takes jobs until the board sends the groups home."""
        actor = ray.get_actor(board)
        node = ray.get_runtime_context().get_node_id()

        async def group(number: int) -> None:
            await actor.enter.remote(number, [node])
            while (taken := await actor.take.remote(number, 20.0)) != "leave":
                if taken is not None:
                    outcome = {"result": result, "finished": str(time.time())}
                    await actor.finish.remote(number, taken["key"], outcome)

        await asyncio.gather(*[group(number) for number in range(groups)])
