"""The Python stacks of this process's threads, as text."""

from __future__ import annotations

import sys
import threading
import traceback

MAX_CHARACTERS = 20_000
"""The number of characters of a stack that are kept, from the innermost frame outwards."""


def thread_stacks() -> list[tuple[str, str]]:
    """Return (name, stack) of each thread, main thread first. A stack ends with its innermost
    frame.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = []
    frames = sys._current_frames()
    for ident in sorted(frames, key=lambda ident: (ident != main, ident)):
        text = "".join(traceback.format_stack(frames[ident]))
        found.append((names.get(ident, f"thread {ident}"), text[-MAX_CHARACTERS:]))
    return found
