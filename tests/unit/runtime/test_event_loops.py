"""Event loops of async actors: the program chooses their kind, and they answer fast."""

from __future__ import annotations

import asyncio
import os

import pytest

from phalanx.runtime.worker.event_loops import new_loop
from phalanx.runtime.worker.spinning_selector import SpinningSelector


def test_a_loop_runs_what_is_to_run_and_waits_for_what_comes():
    loop = new_loop()
    ours, theirs = os.pipe()
    try:

        async def main():
            came = asyncio.Event()
            loop.add_reader(ours, lambda: came.set() if os.read(ours, 1) else None)
            for _ in range(5):
                came.clear()
                loop.call_later(0.0005, os.write, theirs, b"x")
                await asyncio.wait_for(came.wait(), 30)
            return "done"

        assert loop.run_until_complete(main()) == "done"
    finally:
        loop.close()
        os.close(ours)
        os.close(theirs)


def test_a_policy_of_the_programs_makes_its_own_loops():
    class Loop(asyncio.SelectorEventLoop):
        pass

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self):
            return Loop()

    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(Policy())
    try:
        loop = new_loop()
        assert type(loop) is Loop
        loop.close()
    finally:
        asyncio.set_event_loop_policy(before)


@pytest.mark.parametrize("timeout", [0, -0.001, 0.001])
def test_a_selector_waits_no_longer_than_it_may(timeout):
    with SpinningSelector() as selector:
        assert selector.select(timeout) == []
