"""How a pool of each system is made. What a system needs is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from phalanx_benchmarks.pools.pool import Pool


def maker_of(system: str) -> Callable[[], Pool]:
    """What makes a pool of that system: each call starts one. Raises ImportError where the system
    is not installed, and ValueError for a name that is none."""
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
            raise ValueError(f"no system is called {system!r}")
    return maker
