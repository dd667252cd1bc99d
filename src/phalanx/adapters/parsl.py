"""Parsl's executor that runs apps as tasks.

    parsl.load(parsl.Config(executors=[PhalanxExecutor(label="phalanx")]))

An app's `parsl_resource_specification` holds the options of its task, such as `{"num_gpus": 1}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import parsl.executors.base
import parsl.utils

import phalanx
from phalanx.util import Executor


class PhalanxExecutor(parsl.executors.base.ParslExecutor, parsl.utils.RepresentationMixin):
    """A ParslExecutor of tasks. Parsl itself retries failed apps, so Phalanx runs each task only
    once.
    """

    def __init__(
        self,
        label: str = "phalanx",
        init: Mapping[str, Any] | None = None,
        storage_access: list[Any] | None = None,
        working_dir: str | None = None,
    ) -> None:
        """`init`: arguments of `phalanx.init`, which is called unless the program has called it."""
        super().__init__()
        self.label = label
        self.init = init
        self.storage_access = storage_access
        self.working_dir = working_dir
        self._executors: dict[str, Executor] = {}

    def start(self) -> None:
        """Connect to a cluster, or start one."""
        if not phalanx.is_initialized():
            phalanx.init(**(self.init or {}))

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Start an app as a task. Raises ValueError and TypeError for invalid options."""
        options = {"max_retries": 0, **resource_specification}
        key = repr(sorted(options.items()))
        if key not in self._executors:
            self._executors[key] = Executor(**options)
        return self._executors[key].submit(func, *args, **kwargs)

    def shutdown(self, block: bool = False) -> None:
        """Cancel the tasks that have not started. `block`: wait for the tasks that have started."""
        for executor in self._executors.values():
            executor.shutdown(wait=block, cancel_futures=True)
        super().shutdown()
