"""Event loops of an actor. asyncio is imported with the first: it is slow, and most have none."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop as the program's policy makes them; where it has none of its own, one that
    looks again and again for a moment before it sleeps."""
    import asyncio

    if type(asyncio.get_event_loop_policy()) is not asyncio.DefaultEventLoopPolicy:
        return asyncio.new_event_loop()
    from phalanx.runtime.worker.spinning_selector import SpinningSelector

    return asyncio.SelectorEventLoop(SpinningSelector())


def start_loop() -> asyncio.AbstractEventLoop:
    """An event loop that runs in a thread of its own, as long as the process."""
    import asyncio

    loop = new_loop()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    return loop


def is_inside_loop() -> bool:
    """Whether what calls this is a task of a loop."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False


def cancelled() -> BaseException:
    """What is raised in a call that is cancelled, in a loop or not."""
    from asyncio import CancelledError

    return CancelledError()


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is what `cancelled` gives."""
    return isinstance(error, type(cancelled()))
