"""Parsl's executor whose apps are tasks.

    parsl.load(parsl.Config(executors=[PhalanxExecutor(label="phalanx")]))

An app's `parsl_resource_specification` are the options of its task, such as `{"num_gpus": 1}`.
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
    """See ParslExecutor. Parsl itself tries again what fails, so its tasks are tried once."""

    def __init__(
        self,
        label: str = "phalanx",
        init: Mapping[str, Any] | None = None,
        storage_access: list[Any] | None = None,
        working_dir: str | None = None,
    ) -> None:
        """`init`: arguments of `phalanx.init`, which is called unless the program has done so."""
        super().__init__()
        self.label = label
        self.init = init
        self.storage_access = storage_access
        self.working_dir = working_dir
        self._executors: dict[str, Executor] = {}

    def start(self) -> None:
        """See ParslExecutor."""
        if not phalanx.is_initialized():
            phalanx.init(**(self.init or {}))

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """See ParslExecutor. Raises ValueError and TypeError for options that tasks do not have."""
        options = {"max_retries": 0, **resource_specification}
        key = repr(sorted(options.items()))
        if key not in self._executors:
            self._executors[key] = Executor(**options)
        return self._executors[key].submit(func, *args, **kwargs)

    def shutdown(self, block: bool = False) -> None:
        """See ParslExecutor. Tasks that have not begun never do; `block`: wait for the others."""
        for executor in self._executors.values():
            executor.shutdown(wait=block, cancel_futures=True)
        super().shutdown()
