"""Phalanx and Ray as pools. For single calls, a function is made remote only once. A map uses the
engine's own pool (`util.multiprocessing`), in chunks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx_benchmarks.row import Api, start


class Engine:
    """A pool that runs on a session of Phalanx or of Ray."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._remote: dict[Callable[..., Any], Any] = {}
        self._pool: Any = None
        start(api)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call of the function."""
        remote = self._remote.get(function)
        if remote is None:
            # neither engine makes Python's built-in functions remote
            def call(*values: Any) -> Any:
                return function(*values)

            remote = self._remote[function] = self._api.remote(call)
        return remote.remote(*arguments)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        """Return the results when all of them have arrived."""
        return list(self._api.get(list(submitted)))

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """Map the function over the items with the engine's own pool."""
        if self._pool is None:
            module = importlib.import_module(f"{self._api.__name__}.util.multiprocessing")
            self._pool = module.Pool()
        return list(self._pool.map(function, items))

    def share(self, value: Any) -> Any:
        """Put the value in the object store. Returns its reference."""
        return self._api.put(value)

    def close(self) -> None:
        """End the session."""
        if self._pool is not None:
            self._pool.terminate()
        self._api.shutdown()
