"""The pool of joblib: its executor for single calls, and `Parallel` for many calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import joblib
from joblib.externals import loky

from phalanx_benchmarks.pools.futures import Futures
from phalanx_benchmarks.pools.pool import CPUS


class _Joblib(Futures):
    """Two pools, because `Parallel` has its own pool. Each pool starts its processes on
    first use.
    """

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        call = joblib.delayed(function)
        return list(joblib.Parallel(n_jobs=CPUS)(call(item) for item in items))

    def close(self) -> None:
        super().close()
        loky.get_reusable_executor().shutdown()


def make() -> Futures:
    """Start a new pool of joblib."""
    return _Joblib(loky.ProcessPoolExecutor(max_workers=CPUS))
