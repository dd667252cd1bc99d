"""`ray.util.dask.optimizations`: Ray's optimization of data frames, which only versions of Dask
before 2025.1 need.
"""

from __future__ import annotations

from typing import Any


def dataframe_optimize(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Return the graph unchanged.

    Dask has optimized its data frames itself since 2025.1, and Phalanx requires a later version.
    """
    return dsk
