"""What a process of the pool runs: a batch of calls, each with its result or its error."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import cloudpickle

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


class Answers(NamedTuple):
    """The results of a batch in order; `errors` holds those of the calls that failed, by place."""

    results: list[Any]
    errors: dict[int, Exception]

    def each(self) -> Iterable[tuple[Any, Exception | None]]:
        """Each call's result and error."""
        return ((result, self.errors.get(i)) for i, result in enumerate(self.results))


class PoolProcess:
    """The actor behind one process of a pool."""

    def __init__(
        self, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
    ) -> None:
        if initializer is not None:
            initializer(*initargs)

    def is_ready(self) -> bool:
        """True, once the initializer has run."""
        return True

    def run(self, func: Callable[..., Any], calls: Calls) -> Answers:
        """Call `func` for each; a call that fails leaves None and its error."""
        results: list[Any] = []
        errors: dict[int, Exception] = {}
        for place, (args, kwargs) in enumerate(calls):
            try:
                results.append(func(*args, **kwargs))
            except Exception as error:
                results.append(None)
                errors[place] = _that_travels(error)
        return Answers(results, errors)


def _that_travels(error: Exception) -> Exception:
    """The error itself if it survives pickling, else one with its text."""
    try:
        pickle.loads(cloudpickle.dumps(error))  # noqa: S301  # our own bytes, just made
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error} (the error itself cannot be pickled)")
    return error
