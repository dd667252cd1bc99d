"""The pool of Parsl: its high-throughput executor, with a block of local processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

from phalanx_benchmarks.pools.pool import CPUS


class _Parsl:
    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="bench-parsl-")
        executor = HighThroughputExecutor(
            label="local",
            address="127.0.0.1",
            max_workers_per_node=CPUS,
            provider=LocalProvider(init_blocks=1, max_blocks=1),
        )
        config = Config(executors=[executor], run_dir=self._directory.name, strategy="none")
        self._kernel = parsl.load(config)
        self._apps: dict[Callable[..., Any], Any] = {}

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        app = self._apps.get(function)
        if app is None:

            def call(*values: Any) -> Any:
                return function(*values)

            app = self._apps[function] = parsl.python_app(call)
        return app(*arguments)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        return [future.result() for future in submitted]

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        return self.results([self.submit(function, item) for item in items])

    def share(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        self._kernel.cleanup()
        parsl.clear()
        self._directory.cleanup()


def make() -> _Parsl:
    """Start a new executor."""
    return _Parsl()
