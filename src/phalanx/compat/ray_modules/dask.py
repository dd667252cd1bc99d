"""`ray.util.dask`: Dask's collections as tasks, under Ray's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask

from phalanx.integrations.dask import enable, get

__all__ = ["disable_dask_on_ray", "enable_dask_on_ray", "ray_dask_get"]


def ray_dask_get(
    dsk: Any,
    keys: Any,
    *,
    ray_remote_args: Mapping[str, Any] | None = None,
    ray_persist: bool = False,
    pool: object = None,
    **kwargs: Any,
) -> Any:
    """`phalanx.integrations.dask.get`. There is no `pool` of threads to use."""
    return get(dsk, keys, remote_args=ray_remote_args, keep=ray_persist, **kwargs)


def enable_dask_on_ray(shuffle: str = "tasks", use_shuffle_optimization: bool = True) -> Any:
    """Make it Dask's default; as a context manager, within it."""
    return enable(scheduler=ray_dask_get, **{"dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> Any:
    """Have Dask choose its scheduler by itself again."""
    return dask.config.set(scheduler=None)
