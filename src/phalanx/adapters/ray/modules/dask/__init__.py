"""`ray.util.dask`: Dask's collections as tasks, under Ray's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask
from dask.base import DaskMethodsMixin

from phalanx.adapters.dask import enable, get
from phalanx.adapters.ray.modules.dask.callbacks import (
    ProgressBarCallback,
    RayDaskCallback,
    local_ray_callbacks,
    unpack_ray_callbacks,
)
from phalanx.adapters.ray.modules.dask.optimizations import dataframe_optimize

__all__ = [
    "ProgressBarCallback",
    "RayDaskCallback",
    "dataframe_optimize",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "local_ray_callbacks",
    "ray_dask_get",
    "ray_dask_get_sync",
    "ray_dask_persist",
    "unpack_ray_callbacks",
]

_RESOURCES = (
    'Use ray_remote_args={"resources": {...}} instead of resources={...} to specify what tasks '
    "require."
)


def ray_dask_get(
    dsk: Any,
    keys: Any,
    *,
    ray_remote_args: Mapping[str, Any] | None = None,
    ray_callbacks: Sequence[Any] | None = None,
    ray_persist: bool = False,
    pool: object = None,
    _ray_enable_progress_bar: object = None,
    **kwargs: Any,
) -> Any:
    """Compute a Dask graph by `phalanx.adapters.dask.get`.

    `pool` and `_ray_enable_progress_bar` have no effect: no pool of threads is used, and
    `ProgressBarCallback` shows a progress bar. Raises ValueError for resources outside of
    `ray_remote_args`.
    """
    of_keys: dict[str, Any] = getattr(dsk, "__dask_annotations__", dict)()
    if any("resources" in given for given in (kwargs, dask.get_annotations(), of_keys)):
        raise ValueError(_RESOURCES)
    with local_ray_callbacks(ray_callbacks) as active:
        hooks = unpack_ray_callbacks(active) if active else None
        return get(dsk, keys, remote_args=ray_remote_args, keep=ray_persist, hooks=hooks, **kwargs)


def ray_dask_get_sync(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Compute a Dask graph one task at a time."""
    return ray_dask_get(dsk, keys, **{**kwargs, "num_workers": 1})


def _in_store(persist: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Dask's `persist`, so that the results of this scheduler stay in the object store. A
    scheduler itself does not know which of Dask's functions calls it.
    """

    @functools.wraps(persist)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("scheduler", dask.config.get("scheduler", None)) is ray_dask_get:
            kwargs.setdefault("ray_persist", True)
        return persist(*args, **kwargs)

    return wrapped


dask.persist = ray_dask_persist = _in_store(dask.persist)
DaskMethodsMixin.persist = _in_store(DaskMethodsMixin.persist)


def enable_dask_on_ray(shuffle: str = "tasks", use_shuffle_optimization: bool = True) -> Any:
    """Make Phalanx's scheduler Dask's default: permanently or, as a context manager, inside its
    block.
    """
    return enable(scheduler=ray_dask_get, **{"dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> Any:
    """Let Dask choose its default scheduler again."""
    return dask.config.set(scheduler=None)
