"""The pool of dask.distributed: a local cluster of processes with one thread each, without the
dashboard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import distributed

from phalanx_benchmarks.pools.pool import CPUS


class _Dask:
    def __init__(self) -> None:
        self._cluster = distributed.LocalCluster(
            n_workers=CPUS, threads_per_worker=1, dashboard_address=None, silence_logs=40
        )
        self._client = distributed.Client(self._cluster)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments, pure=False)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        return list(self._client.gather(list(submitted)))

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        return self.results(self._client.map(function, list(items), pure=False, batch_size=1000))

    def share(self, value: Any) -> Any:
        return self._client.scatter(value, broadcast=True)

    def close(self) -> None:
        self._client.close()
        self._cluster.close()


def make() -> _Dask:
    """Start a new local cluster."""
    return _Dask()
