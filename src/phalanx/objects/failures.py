"""Exceptions as bytes. An exception keeps the user's own class if that class can be pickled;
otherwise only its text is kept.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import traceback
from collections.abc import Iterator
from typing import Any

from phalanx import errors
from phalanx.errors import PhalanxError, TaskCancelledError, TaskError, WorkerCrashedError
from phalanx.objects.serialization import dumps_whole
from phalanx.protocol.messages import FAILED, Value

EXCEPTION_BYTES = 64 << 20
"""The largest number of bytes of a pickled exception that are sent to its reader."""
SUMMARY_CHARS = 300
"""The largest number of characters of an exception's summary."""
EXCEPTION_TEXT_CHARS = 1 << 20
"""The largest number of characters of an exception's text, with its traceback, that are sent."""


def describe(
    error: BaseException,
    function_name: str,
    pid: int,
    actor_repr: str | None = None,
    skip_frames: int = 1,
) -> bytes:
    """Return a task's exception as bytes, from which its reader can raise it. `skip_frames`: the
    number of Phalanx's own frames to leave out.
    """
    if isinstance(error, TaskError):
        # If a dependency failed and was read inside the task, show the first failure.
        text, cause = error.traceback_str, error.cause
        function_name, pid = error.function_name, error.pid or pid
    else:
        text, cause = remote_traceback(error, skip_frames), error
    cause_bytes = _pickle_cause(cause)
    text = _shortened(text)
    if cause_bytes is not None and len(cause_bytes) > EXCEPTION_BYTES:
        text += (
            f"\nphalanx: only the text of the exception is here: the exception has "
            f"{len(cause_bytes)} bytes, and the limit is {EXCEPTION_BYTES}."
        )
        cause_bytes = None
    if actor_repr is not None:
        actor_repr = _shortened(actor_repr)
    return pickle.dumps(("task", function_name, text, cause_bytes, pid, actor_repr), 5)


def summary(error: BaseException) -> str:
    """Return the class of an exception and the first line of its text, such as `ValueError: x`. If
    the exception is the failure of a dependency, describe the dependency's exception.
    """
    try:
        if isinstance(error, TaskError):
            said = error.traceback_str.strip().rpartition("\n")[2]
        else:
            said = traceback.format_exception_only(type(error), error)[-1]
    except Exception:  # the user's __str__ may raise an error
        said = type(error).__qualname__
    return said.strip().partition("\n")[0][:SUMMARY_CHARS]


def _shortened(text: str) -> str:
    """Return the text, without its middle if it is longer than the limit."""
    excess = len(text) - EXCEPTION_TEXT_CHARS
    if excess <= 0:
        return text
    half = EXCEPTION_TEXT_CHARS // 2
    note = f"\n[... {excess} of {len(text)} characters: the limit is {EXCEPTION_TEXT_CHARS} ...]\n"
    return text[:half] + note + text[-half:]


def remote_traceback(error: BaseException, skip_frames: int) -> str:
    """Return the traceback as text, without this package's frames."""
    frames = error.__traceback__
    for _ in range(skip_frames):
        if frames is not None and frames.tb_next is not None:
            frames = frames.tb_next
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception as broken:  # the user's __str__ may raise an error
        return f"{type(error).__qualname__} (its text cannot be made: {broken!r})"
    return "".join(lines)


def _pickle_cause(cause: BaseException | None) -> bytes | None:
    """Return the bytes of an exception and of the exceptions from which it was raised. None if
    `cause` itself cannot be pickled.

    Each exception is pickled alone. The chain ends before the first exception that cannot be
    pickled, or for which there is no room.
    """
    if cause is None:
        return None
    links: list[bytes] = []
    room = EXCEPTION_BYTES // 2
    seen: set[int] = set()
    link: BaseException | None = cause
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        try:
            with _alone(link):
                data: bytes = dumps_whole(link)
            pickle.loads(data)  # noqa: S301  (our own bytes: does the class rebuild itself?)
        except Exception:
            break
        room -= len(data)
        if links and room < 0:
            break
        links.append(data)
        link = link.__cause__
    if len(links) < 2:
        return links[0] if links else None
    return pickle.dumps(_Chain(links), 5)


@contextlib.contextmanager
def _alone(error: BaseException) -> Iterator[None]:
    """Separate an exception, until the block ends, from the exceptions from which it was raised.

    Some libraries (tblib, which Dask installs) make pickle include those exceptions in the pickle
    of the first one. Then the first one could not be pickled if one of the others cannot.
    """
    known = error.__cause__, error.__context__, error.__suppress_context__
    error.__cause__ = error.__context__ = None
    try:
        yield
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = known


class _Chain:
    """A pickled exception, and the pickled exceptions from which it was raised. Unpickled, it is
    the first exception, with the others as its causes.
    """

    def __init__(self, links: list[bytes]) -> None:
        self._links = links

    def __reduce__(self) -> tuple[Any, ...]:
        return _linked, (self._links,)


def _linked(links: list[bytes]) -> BaseException:
    errors_of: list[BaseException] = [pickle.loads(data) for data in links]  # noqa: S301
    for later, earlier in itertools.pairwise(errors_of):
        later.__cause__ = earlier
    return errors_of[0]


def pack(error: PhalanxError) -> bytes:
    """Return an error of this package as bytes. Every process knows the classes of such errors, so
    the error is simply pickled.
    """
    return pickle.dumps(error, 5)


def failed(error: PhalanxError) -> Value:
    """Return the value of an object that failed with this error of this package."""
    return Value(FAILED, pack(error))


def cancelled(task_id: str, name: str) -> Value:
    """Return the failure of work that was cancelled while it ran. The failure is also a TaskError,
    as in Ray.
    """
    error = TaskCancelledError(task_id, None)
    text = f"TaskCancelledError: {error}"  # programs search for this word
    described = ("task", name, text, pickle.dumps(error, 5), None, None)
    return Value(FAILED, pickle.dumps(described, 5))


def of_argument(argument: Value, name: str) -> Value:
    """Return the failure of work that cannot run because the value of its argument `argument` is a
    failure.

    An error that a task raised is passed on unchanged. A failure of the system becomes a TaskError
    of `name`, as in Ray, so that readers can tell a lost argument of a task from a lost result.
    """
    error = load(argument.data)
    if isinstance(error, TaskError):
        return argument
    described = ("task", name, f"an argument failed: {error}", argument.data, None, None)
    return Value(FAILED, pickle.dumps(described, 5))


def load(data: bytes) -> BaseException:
    """Return the exception that these bytes contain, ready to be raised."""
    loaded: Any = pickle.loads(data)  # noqa: S301  (from a worker or owner of the same user)
    if not isinstance(loaded, tuple):
        assert isinstance(loaded, BaseException)
        return loaded
    _, function_name, text, cause_bytes, pid, actor_repr = loaded
    try:
        if cause_bytes is None:
            raise TypeError("it could not be pickled")
        cause = pickle.loads(cause_bytes)  # noqa: S301
    except Exception as broken:
        last = text.strip().rpartition("\n")[2]
        cause = PhalanxError(
            f"The original cause of this error isn't serializable ({broken}): {last}"
        )
    task_error = TaskError(function_name, text, cause, pid, "127.0.0.1", actor_repr)
    return errors.derive(task_error)


def failure_text(failure: bytes) -> str | None:
    """Return the text of a failure for display, without an instance of the program's exception
    class.

    None for a failure that the program did not raise and that is no crash.
    """
    loaded: Any = pickle.loads(failure)  # noqa: S301  (as in `load`)
    if not isinstance(loaded, tuple):
        return str(loaded) if isinstance(loaded, WorkerCrashedError) else None
    _, function_name, text, _, pid, actor_repr = loaded
    return str(TaskError(function_name, text, None, pid, "127.0.0.1", actor_repr))


def is_raised(failure: Value) -> bool:
    """Whether the code of a task raised the failure. Otherwise the system raised it."""
    return isinstance(pickle.loads(failure.data), tuple)  # noqa: S301  (as in `load`)


def is_retriable(wanted: Any, error: bytes) -> bool:
    """Whether a task is retried after `error`, a pickled exception. `wanted` is the task's option:
    a bool, or the classes of exceptions after which the task is retried.
    """
    if wanted is False or wanted is None:
        return False
    if wanted is True:
        return True
    with contextlib.suppress(Exception):
        return isinstance(load(error), tuple(wanted))
    return False


NONE = pickle.dumps(None, 5)
"""The pickle of None, which is the value of references that only keep an object alive."""
