"""`ray.util.multiprocessing`: the names that programs import from it."""

from __future__ import annotations

from multiprocessing import JoinableQueue

from phalanx.adapters.ray.modules.multiprocessing.pool import Pool
from phalanx.util.multiprocessing import AsyncResult, TimeoutError

__all__ = ["AsyncResult", "JoinableQueue", "Pool", "TimeoutError"]
