"""`ray.util.dask.callbacks`: functions that Dask-on-Ray calls around its tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from dask.callbacks import Callback
from dask.diagnostics import ProgressBar

from phalanx.adapters.dask.hooks import Hook, Hooks

__all__ = [
    "ProgressBarCallback",
    "RayCallback",
    "RayDaskCallback",
    "add_ray_callbacks",
    "local_ray_callbacks",
    "unpack_ray_callbacks",
]


class RayCallback(NamedTuple):
    """The functions of one `RayDaskCallback`, by kind; None for a kind without a function."""

    ray_presubmit: Hook | None
    ray_postsubmit: Hook | None
    ray_pretask: Hook | None
    ray_posttask: Hook | None
    ray_postsubmit_all: Hook | None
    ray_finish: Hook | None


class RayDaskCallback(Callback):  # type: ignore[misc]  # Dask's is untyped
    """Dask's `Callback` with Ray's additional functions.

    These functions are arguments without the underscore, or methods of a derived class. A callback
    is active inside its `with` block, or after `register`. Dask's own functions (`start`,
    `pretask`, `posttask`, `finish`) run in the program's process; `ray_pretask` and `ray_posttask`
    run in workers.
    """

    ray_active: ClassVar[set[RayCallback]] = set()

    def __init__(self, **kwargs: Any) -> None:
        for field in RayCallback._fields:
            function = kwargs.pop(field, None)
            if function is not None:
                setattr(self, f"_{field}", function)
        super().__init__(**kwargs)

    @property
    def _ray_callback(self) -> RayCallback:
        return RayCallback(*(self._own(f"_{field}") for field in RayCallback._fields))

    def _own(self, name: str) -> Hook | None:
        """Return the callback's function with this name; None if neither an argument nor a derived
        class defines it.
        """
        if name in vars(self) or getattr(type(self), name) is not getattr(RayDaskCallback, name):
            found: Hook = getattr(self, name)
            return found
        return None

    def __enter__(self) -> RayDaskCallback:
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        RayDaskCallback.ray_active.discard(self._ray_callback)

    def register(self) -> None:
        """Make the callback active."""
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().register()

    def unregister(self) -> None:
        """Make the callback inactive."""
        RayDaskCallback.ray_active.remove(self._ray_callback)
        super().unregister()

    def _ray_presubmit(self, task: Any, key: Any, deps: Any) -> Any:
        """Called before a task is submitted. A result other than None becomes the task's result,
        and no task runs.
        """

    def _ray_postsubmit(self, task: Any, key: Any, deps: Any, object_ref: Any) -> None:
        """Called after a task was submitted."""

    def _ray_pretask(self, key: Any, object_refs: Any) -> Any:
        """Called in the worker before a task runs. The result is passed to `_ray_posttask`."""

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        """Called in the worker after a task has run."""

    def _ray_postsubmit_all(self, object_refs: Any, dsk: Any) -> None:
        """Called after all tasks were submitted."""

    def _ray_finish(self, result: Any) -> None:
        """Called at the end of the computation."""


class add_ray_callbacks:  # Ray's name
    """Makes callbacks active when it is called. As a context manager, it makes them inactive again
    at the end of the block. Raises TypeError for values that are not callbacks.
    """

    def __init__(self, *callbacks: RayDaskCallback | RayCallback) -> None:
        self._active = [_normal(one) for one in callbacks]
        RayDaskCallback.ray_active.update(self._active)

    def __enter__(self) -> add_ray_callbacks:
        return self

    def __exit__(self, *args: object) -> None:
        RayDaskCallback.ray_active.difference_update(self._active)


def _normal(one: RayDaskCallback | RayCallback) -> RayCallback:
    if isinstance(one, RayDaskCallback):
        return one._ray_callback
    if isinstance(one, RayCallback):
        return one
    raise TypeError(
        f"A callback must be a 'RayDaskCallback' or a 'RayCallback', not {type(one).__name__}."
    )


@contextlib.contextmanager
def local_ray_callbacks(
    callbacks: Sequence[RayDaskCallback | RayCallback] | None = None,
) -> Iterator[Iterable[RayCallback]]:
    """Yield the given callbacks or, without any, the active callbacks. Inside the context no
    callback is active. So no callback is called for computations that a task or a callback starts.
    """
    if callbacks is not None:
        yield [_normal(one) for one in callbacks]
        return
    active, RayDaskCallback.ray_active = RayDaskCallback.ray_active, set()
    try:
        yield active
    finally:
        RayDaskCallback.ray_active = active


def unpack_ray_callbacks(cbs: Iterable[RayCallback]) -> Hooks:
    """Return the functions of several callbacks by kind. In `pretask` and `posttask`, the functions
    of one callback have the same index, and None stands for a missing function.
    """
    each = list(cbs)
    presubmit, postsubmit, pretask, posttask, postsubmit_all, finish = (
        [getattr(one, field) for one in each] for field in RayCallback._fields
    )
    return Hooks(
        *(_there(presubmit), _there(postsubmit), pretask, posttask),
        *(_there(postsubmit_all), _there(finish)),
    )


def _there(hooks: list[Hook | None]) -> list[Hook]:
    return [hook for hook in hooks if hook is not None]


class ProgressBarCallback(RayDaskCallback):
    """A callback that shows Dask's own progress bar, and a line when all tasks are done."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = ProgressBar()

    def __enter__(self) -> ProgressBarCallback:
        super().__enter__()
        self._bar.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self._bar.__exit__(*args)
        super().__exit__(*args)

    def _ray_finish(self, result: Any) -> None:
        print("All tasks are completed.")
