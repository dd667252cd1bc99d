"""Calls to Ray that must not run at the same time as Ray's own callbacks.

Ray resolves the arguments of waiting tasks on one thread of each process, and that thread also runs
completion callbacks. If another thread cancels a task while this thread resolves the task's
argument, Ray forgets the task twice, and then ends the whole process (seen with Ray 2.60.0). A
cancellation that runs on this thread cannot overlap with callbacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

R = TypeVar("R")


class CallbackThread:
    """The thread on which Ray runs the completion callbacks of this process."""

    def __init__(self, small: Any) -> None:
        """Find the thread. `small`: a reference to a result of less than 100 KiB, which Ray keeps
        in this process. Returns when this result has arrived. For larger results, Ray runs
        callbacks on other threads.
        """
        self._small = small
        self._id = self._run(threading.get_ident)

    def call(self, function: Callable[[], R]) -> R:
        """Run `function` on Ray's thread. Returns its result, or raises its error. The function
        must not wait for a result of Ray.
        """
        if threading.get_ident() == self._id:
            return function()
        return self._run(function)

    def _run(self, function: Callable[[], R]) -> R:
        outcome: Future[R] = Future()

        def run(_: Any) -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        self._small._on_completed(run)
        return outcome.result()
