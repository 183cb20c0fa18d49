"""Refusals wait, and no more of them than may."""

from __future__ import annotations

import asyncio

from lightbox.core.pauses import Pauses
from support.patience import PATIENCE


def test_only_so_many_refusals_wait() -> None:
    async def both() -> bool:
        pauses = Pauses(2 * PATIENCE, most=1)
        first = asyncio.create_task(pauses.wait())
        await asyncio.sleep(0)
        await asyncio.wait_for(pauses.wait(), PATIENCE)
        waits = not first.done()
        first.cancel()
        return waits

    assert asyncio.run(both())


def test_the_place_of_one_that_waited_is_free_again() -> None:
    async def twice() -> bool:
        pauses = Pauses(0.001, most=1)
        await pauses.wait()
        next_one = asyncio.create_task(pauses.wait())
        await asyncio.sleep(0)
        waits = not next_one.done()
        await next_one
        return waits

    assert asyncio.run(twice())
