"""`ray.util.multiprocessing.pool`: our Pool, with failed calls of imap as values, as in Ray's."""

from __future__ import annotations

from phalanx.util.multiprocessing import AsyncResult, TimeoutError
from phalanx.util.multiprocessing import Pool as _Pool
from phalanx.util.multiprocessing.result import ResultIterator

__all__ = ["AsyncResult", "Pool", "PoolTaskError", "TimeoutError"]


class PoolTaskError(Exception):
    """Stands for a call that failed; `underlying` is what it raised."""

    def __init__(self, underlying: BaseException) -> None:
        super().__init__(underlying)
        self.underlying = underlying


class _ErrorsAsValues(ResultIterator):
    """A call that failed gives a PoolTaskError at its place."""

    def _failed(self, error: BaseException) -> PoolTaskError:
        return PoolTaskError(error)


class Pool(_Pool):
    """`phalanx.util.multiprocessing.Pool`, but that imap and imap_unordered raise nothing."""

    _iterator = _ErrorsAsValues
