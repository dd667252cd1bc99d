"""Handlers of Ctrl-C and SIGTERM that never interrupt the runtime's own work.

Python runs a signal's handler between any two instructions of the main thread. If messages are
being handled at that moment, an exception would lose some of them, and threads that wait for them
would wait for ever. So the handler looks at the code that the thread runs. In the user's code or in
a sleep, it raises the exception. In the runtime's own code, it sends the signal again a moment
later.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_OURS = (
    *(f"phalanx.{part}." for part in ("api", "runtime", "objects", "owner", "protocol")),
    *(f"phalanx.worker.{part}" for part in ("actor_calls", "assigned", "core", "references")),
)
"""Prefixes of the names of modules whose work must not be left half done by an exception."""
_AGAIN_S = 0.001
_interruptible: set[CodeType] = set()
_handler_of: Callable[[int], Any] = import_module("_signal").getsignal
"""The function behind `signal.getsignal`, without the search for the handler's name.

That search raises and catches an error for each function, and it would run before each wait.
"""


def interruptible(function: F) -> F:
    """Mark a function of the runtime that an interrupt may end, because the function sleeps or
    calls the user's code.
    """
    _interruptible.add(function.__code__)
    return function


def in_runtime(frame: FrameType | None) -> bool:
    """Whether the thread that runs `frame` is in the middle of the runtime's own work, which an
    exception would leave half done. Code that a function marked as `interruptible` has called does
    not count.
    """
    while frame is not None:
        if frame.f_code in _interruptible:
            return False
        if frame.f_globals.get("__name__", "").startswith(_OURS):
            return True
        frame = frame.f_back
    return False


def come_again(is_wanted: Callable[[], bool], signum: int = signal.SIGINT) -> None:
    """Send a signal to the main thread again a moment later, if `is_wanted` returns true then."""
    # This does not use threading.Thread, because the interrupted frame may hold its locks.
    _thread.start_new_thread(_send_later, (is_wanted, signum))


def _send_later(is_wanted: Callable[[], bool], signum: int) -> None:
    time.sleep(_AGAIN_S)
    if is_wanted():
        signal.pthread_kill(threading.main_thread().ident or 0, signum)


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    if in_runtime(frame):
        come_again(lambda: True)
    else:
        signal.default_int_handler(signum, frame)


def guard() -> None:
    """Replace Python's default handler of SIGINT.

    Notebooks restore the default handler for each cell, so this is called before each wait. A
    handler of the user's own stays.
    """
    if (
        _handler_of(signal.SIGINT) is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGINT, _on_interrupt)


def _on_termination(signum: int, frame: FrameType | None) -> None:
    if in_runtime(frame):
        come_again(lambda: True, signum)
        return
    # A second signal ends a program that the first signal did not end.
    signal.signal(signum, signal.SIG_DFL)
    raise SystemExit(128 + signum)


def end_by_exit() -> None:
    """Make SIGTERM end this program as `sys.exit` does, so that `finally` blocks and `atexit`
    handlers run, as on Ray.

    If the user has set a handler, it stays.
    """
    if (
        _handler_of(signal.SIGTERM) == signal.SIG_DFL
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGTERM, _on_termination)


def end_by_signal() -> None:
    """Give SIGTERM its default effect again, if `end_by_exit` has changed it. This is for a program
    that is no longer a driver, and for a forked child of a driver.
    """
    if (
        _handler_of(signal.SIGTERM) is _on_termination
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def unguard() -> None:
    """Give SIGINT Python's default handler again, if `guard` has replaced it."""
    if (
        _handler_of(signal.SIGINT) is _on_interrupt
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)
