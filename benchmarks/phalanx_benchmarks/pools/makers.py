"""The functions that create the pool of each system. A system's modules are imported only when its
pool is requested.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from phalanx_benchmarks.pools.pool import Pool


def maker_of(system: str) -> Callable[[], Pool]:
    """Return a function that starts a pool of that system.

    Raises ImportError if the system is not installed, and ValueError for an unknown name.
    """
    maker: Callable[[], Pool]
    match system:
        case "phalanx" | "ray":
            from phalanx_benchmarks.pools.engines import Engine

            api = importlib.import_module(system)

            def maker() -> Pool:
                return Engine(api)
        case "multiprocessing":
            from phalanx_benchmarks.pools.stdlib import multiprocessing_pool as maker
        case "concurrent.futures":
            from phalanx_benchmarks.pools.stdlib import process_pool_executor as maker
        case "joblib":
            from phalanx_benchmarks.pools.loky import make as maker
        case "dask":
            from phalanx_benchmarks.pools.dask_distributed import make as maker
        case "parsl":
            from phalanx_benchmarks.pools.parsl_htex import make as maker
        case _:
            raise ValueError(f"unknown system {system!r}")
    return maker
