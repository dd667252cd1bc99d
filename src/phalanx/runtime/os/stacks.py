"""The Python stacks of this process's threads, as text."""

from __future__ import annotations

import sys
import threading
import traceback

MAX_CHARACTERS = 20_000
"""Characters that are kept of a stack: the innermost frames."""


def thread_stacks() -> list[tuple[str, str]]:
    """Return (name, stack) of each thread, the main thread first. The innermost frame is the last
    of a stack.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = []
    frames = sys._current_frames()
    for ident in sorted(frames, key=lambda ident: (ident != main, ident)):
        text = "".join(traceback.format_stack(frames[ident]))
        found.append((names.get(ident, f"thread {ident}"), text[-MAX_CHARACTERS:]))
    return found
