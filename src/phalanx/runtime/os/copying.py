"""Copies large buffers with several cores, because one core cannot use the whole bandwidth of the
memory.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_WORTH_BYTES = 8 << 20
_MAX_THREADS = 4

_pool: tuple[int, ThreadPoolExecutor] | None = None


def copy(target: memoryview, source: memoryview) -> None:
    """Do `target[:] = source`. Both must consist of bytes and have the same length."""
    count = min(len(source) // _WORTH_BYTES + 1, _threads_allowed())
    # NumPy releases the interpreter lock while it copies; without NumPy, threads would gain
    # nothing.
    if count < 2 or "numpy" not in sys.modules:
        target[:] = source
        return
    numpy = sys.modules["numpy"]
    step = (len(source) // count + 4095) & -4096
    pieces = [(target[i : i + step], source[i : i + step]) for i in range(0, len(source), step)]
    copies = [_threads().submit(_copy_piece, numpy, *piece) for piece in pieces[1:]]
    _copy_piece(numpy, *pieces[0])
    for one in copies:
        one.result()


def _threads_allowed() -> int:
    """Return how many threads may copy. A task may use the cores that it requested."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0))
    return min(int(asked) if asked.isdigit() else cores, cores, _MAX_THREADS)


def _copy_piece(numpy: Any, target: memoryview, source: memoryview) -> None:
    numpy.copyto(numpy.frombuffer(target, numpy.uint8), numpy.frombuffer(source, numpy.uint8))


def _threads() -> ThreadPoolExecutor:
    # This import is slow, and few copies are large.
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    pid = os.getpid()
    if _pool is None or _pool[0] != pid:  # threads do not survive a fork
        _pool = (pid, ThreadPoolExecutor(_MAX_THREADS - 1, thread_name_prefix="phalanx-copy"))
    return _pool[1]
