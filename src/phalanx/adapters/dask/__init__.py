"""Dask on Phalanx: collections whose pieces stay in the object store, and Dask itself as a gang.

    import phalanx.adapters.dask            # from now on Dask knows the scheduler "phalanx"
    total = array.sum().compute(scheduler="phalanx")

`enable()` makes this scheduler the default. `Cluster` starts Dask's own scheduler and workers as a
gang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.base import named_schedulers

from phalanx.adapters.dask.graph import enable, get

if TYPE_CHECKING:
    from phalanx.adapters.dask.cluster import Cluster

__all__ = ["Cluster", "enable", "get"]

named_schedulers["phalanx"] = get


def __getattr__(name: str) -> Any:
    """Import `Cluster` on first use, because only `Cluster` needs the package `distributed`."""
    if name == "Cluster":
        from phalanx.adapters.dask.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
