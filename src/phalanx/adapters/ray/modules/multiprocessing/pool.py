"""`ray.util.multiprocessing.pool`: Phalanx's Pool, except that imap returns an error as the value
of a failed call, as in Ray.
"""

from __future__ import annotations

from phalanx.util.multiprocessing import AsyncResult, TimeoutError
from phalanx.util.multiprocessing import Pool as _Pool
from phalanx.util.multiprocessing.result import ResultIterator

__all__ = ["AsyncResult", "Pool", "PoolTaskError", "TimeoutError"]


class PoolTaskError(Exception):
    """The value in place of a failed call's result; `underlying` is the error that the call
    raised.
    """

    def __init__(self, underlying: BaseException) -> None:
        super().__init__(underlying)
        self.underlying = underlying


class _ErrorsAsValues(ResultIterator):
    """An iterator over results, which returns a PoolTaskError for each failed call."""

    def _failed(self, error: BaseException) -> PoolTaskError:
        return PoolTaskError(error)


class Pool(_Pool):
    """`phalanx.util.multiprocessing.Pool`, except that imap and imap_unordered raise nothing."""

    _iterator = _ErrorsAsValues
