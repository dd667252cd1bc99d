"""The work of a pool's process: batches of calls, with the result or the error of each call."""

from __future__ import annotations

import multiprocessing.pool
import pickle
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from phalanx.errors import NotPicklableError
from phalanx.objects import by_value

# typeshed does not know these two classes.
RemoteTraceback: type[Exception] = getattr(multiprocessing.pool, "RemoteTraceback")  # noqa: B009
MaybeEncodingError: type[Exception] = getattr(multiprocessing.pool, "MaybeEncodingError")  # noqa: B009

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


class UnsentResultError(MaybeEncodingError, NotPicklableError):  # type: ignore[valid-type,misc]
    """Raised when the result or the error of a call cannot be pickled.

    `value` describes the result or the error, and `exc` is pickle's error. The class derives from
    MaybeEncodingError, as in the standard library, and from TypeError, as elsewhere in Phalanx.
    """

    def __init__(self, exc: str, value: str) -> None:
        Exception.__init__(self, exc, value)
        self.exc = exc
        self.value = value


class Answers(NamedTuple):
    """The results of a batch, in the order of the calls.

    `errors` maps the place of each failed call to its error and to its traceback as text.
    """

    results: list[Any]
    errors: dict[int, tuple[BaseException, str]]

    def each(self) -> Iterable[tuple[Any, BaseException | None]]:
        """Yield each call's result and error. The error's cause shows where it was raised."""
        for place, result in enumerate(self.results):
            error, text = self.errors.get(place, (None, ""))
            if error is not None:
                error.__cause__ = RemoteTraceback(text)
            yield result, error


class PoolProcess:
    """The actor that is one process of a pool."""

    def __init__(
        self, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
    ) -> None:
        if initializer is not None:
            initializer(*initargs)

    def is_ready(self) -> bool:
        """Return True. An answer means that the initializer has run."""
        return True

    def run(self, func: Callable[..., Any], calls: Calls) -> Answers:
        """Call `func` with each set of arguments. For a call that fails, the result is None and the
        error is kept.
        """
        return self.run_each(lambda call: func(*call[0], **call[1]), calls)

    def run_each(self, func: Callable[[Any], Any], items: Sequence[Any]) -> Answers:
        """Call `func` with each item as its only argument.

        Sending plain items takes a third of the time of sending calls.
        """
        results: list[Any] = []
        errors: dict[int, tuple[BaseException, str]] = {}
        for place, item in enumerate(items):
            try:
                results.append(func(item))
            except _FAILURES as error:
                results.append(None)
                errors[place] = _with_traceback(error)
        return Answers(results, errors)


_FAILURES = (Exception, KeyboardInterrupt)
"""The errors that a batch catches. KeyboardInterrupt is one of them, because a task that raised it
would count as cancelled.
"""


def _with_traceback(error: BaseException) -> tuple[BaseException, str]:
    text = "".join(traceback.format_exception(error))
    return _that_travels(error), f'\n"""\n{text}"""'


def _that_travels(error: BaseException) -> BaseException:
    """Return the error itself if it can be pickled and unpickled, else an error with its text."""
    try:
        pickle.loads(by_value.dumps(error))  # noqa: S301  # our own bytes, just made
    except Exception as said:
        return UnsentResultError(repr(said), f"{type(error).__name__}: {error}")
    return error
