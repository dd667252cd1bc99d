"""joblib: its executor for single calls, `Parallel` for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import joblib
from joblib.externals import loky

from phalanx_benchmarks.pools.futures import Futures
from phalanx_benchmarks.pools.pool import CPUS


class _Joblib(Futures):
    """Two pools, as `Parallel` has one of its own; each starts its processes when it is asked."""

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        call = joblib.delayed(function)
        return list(joblib.Parallel(n_jobs=CPUS)(call(item) for item in items))

    def close(self) -> None:
        super().close()
        loky.get_reusable_executor().shutdown()


def make() -> Futures:
    """A fresh pool of joblib's."""
    return _Joblib(loky.ProcessPoolExecutor(max_workers=CPUS))
