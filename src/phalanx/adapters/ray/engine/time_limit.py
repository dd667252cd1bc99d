"""A limit on the run time of a task, which Ray does not have."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from typing import Any

from phalanx.errors import TaskTimeoutError

GRACE_S = 5.0
"""Seconds from the timeout error until the process is ended, if the task ignores the error."""


def limited(function: Callable[..., Any], timeout_s: float) -> Callable[..., Any]:
    """Wrap `function` so that it ends with TaskTimeoutError after `timeout_s` seconds.

    An alarm of the worker raises the error in the main thread, where Ray runs tasks; it also
    interrupts a sleep or a read. The process of a task that catches the error and continues is
    ended.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        def too_long(number: int, frame: Any) -> None:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)
            raise TaskTimeoutError(f"{function.__name__} ran longer than {timeout_s:g} s.")

        before = signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        try:
            return function(*args, **kwargs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    return run
