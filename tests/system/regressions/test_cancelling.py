"""Work that is cancelled or runs for too long, and the error that its reader gets."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest
from tests.polling import eventually

from phalanx.errors import TaskCancelledError, TaskTimeoutError


class Waits:
    """An actor whose calls wait until `let_go` is called."""

    def __init__(self):
        self.begun = 0
        self.go = threading.Event()

    def wait(self):
        self.begun += 1
        assert self.go.wait(60)
        return self.begun

    def count(self):
        return self.begun

    def let_go(self):
        self.go.set()


class WaitsAsync:
    def __init__(self):
        self.begun = 0
        self.go = threading.Event()  # each group of calls has an event loop of its own

    async def wait(self):
        self.begun += 1
        assert await asyncio.to_thread(self.go.wait, 60)
        return self.begun

    async def count(self):
        return self.begun

    async def let_go(self):
        self.go.set()


@pytest.mark.parametrize("kind", [Waits, WaitsAsync])
def test_a_call_that_waits_for_its_turn_at_a_concurrent_actor_is_cancelled(runtime, get, kind):
    """The waiting call was in no list of calls, so the request to cancel it had no effect and the
    call ran.
    """
    actor = runtime.remote(concurrency_groups={"one": 1})(kind).options(max_concurrency=2).remote()
    get(actor.count.remote())
    calls = [actor.wait.options(concurrency_group="one").remote() for _ in range(3)]
    eventually(lambda: get(actor.count.remote()) == 1)
    runtime.cancel(calls[1])
    with pytest.raises(TaskCancelledError):
        get(calls[1])
    get(actor.let_go.remote())
    assert get([calls[0], calls[2]]) == [1, 2]


def test_a_task_that_runs_for_too_long_and_dies_when_asked_to_stop_ran_for_too_long(runtime, get):
    """The task's reader was told that the task had been cancelled, and not that it had run for too
    long.
    """

    @runtime.remote(timeout_s=0.2)
    def stubborn():
        signal.signal(signal.SIGINT, lambda *_: os._exit(1))
        threading.Event().wait(60)

    with pytest.raises(TaskTimeoutError, match="ran longer than"):
        get(stubborn.remote())


def test_a_cancelled_task_with_a_time_limit_was_cancelled(runtime, get, tmp_path):
    """The task did not stop before its time limit, and was then reported as having run for too
    long.
    """

    @runtime.remote(timeout_s=4.0)  # a slow machine cancels it in time too
    def stubborn(path):
        signal.signal(signal.SIGINT, lambda *_: None)
        path.touch()
        while True:
            threading.Event().wait(60)

    ref = stubborn.remote(tmp_path / "begun")
    eventually((tmp_path / "begun").exists)
    runtime.cancel(ref)
    with pytest.raises(TaskCancelledError):
        get(ref)
