"""`multiprocessing.Pool` with actors: the same calls, but on the whole cluster.

with Pool() as pool:
    assert pool.map(abs, [-1, 2, -3]) == [1, 2, 3]
"""

from __future__ import annotations

from multiprocessing import TimeoutError

from phalanx.util.multiprocessing.pool import Pool
from phalanx.util.multiprocessing.result import AsyncResult

__all__ = ["AsyncResult", "Pool", "TimeoutError"]
