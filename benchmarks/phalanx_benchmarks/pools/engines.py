"""Phalanx and Ray as pools: a function is made remote once, and called; a map goes over the pool
that each has for that (`util.multiprocessing`), by chunks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx_benchmarks.row import Api, start


class Engine:
    """A session of one of the two."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._remote: dict[Callable[..., Any], Any] = {}
        self._pool: Any = None
        start(api)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """See Pool."""
        remote = self._remote.get(function)
        if remote is None:

            def call(*values: Any) -> Any:  # neither engine makes Python's own functions remote
                return function(*values)

            remote = self._remote[function] = self._api.remote(call)
        return remote.remote(*arguments)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        """See Pool."""
        return list(self._api.get(list(submitted)))

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """See Pool."""
        if self._pool is None:
            module = importlib.import_module(f"{self._api.__name__}.util.multiprocessing")
            self._pool = module.Pool()
        return list(self._pool.map(function, items))

    def share(self, value: Any) -> Any:
        """See Pool."""
        return self._api.put(value)

    def close(self) -> None:
        """See Pool."""
        if self._pool is not None:
            self._pool.terminate()
        self._api.shutdown()
