"""Event loops of an actor. asyncio is imported with the first one, because its import is slow."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of the program's policy.

    If the program has set no policy, the loop looks for events repeatedly for a moment before it
    sleeps.
    """
    import asyncio

    if type(asyncio.get_event_loop_policy()) is not asyncio.DefaultEventLoopPolicy:
        return asyncio.new_event_loop()
    from phalanx.runtime.worker.spinning_selector import SpinningSelector

    return asyncio.SelectorEventLoop(SpinningSelector())


def start_loop() -> asyncio.AbstractEventLoop:
    """Start an event loop in a new thread, which runs as long as the process."""
    import asyncio

    loop = new_loop()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    return loop


def is_inside_loop() -> bool:
    """Whether the caller runs in a task of an event loop."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False


def cancelled() -> BaseException:
    """Return the error that a cancelled call raises, in a loop or outside of one."""
    from asyncio import CancelledError

    return CancelledError()


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is of the kind that `cancelled` returns."""
    return isinstance(error, type(cancelled()))
