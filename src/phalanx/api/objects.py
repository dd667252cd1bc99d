"""The operations on references and handles: get, put, wait, cancel, kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from phalanx.api.session import engine_or_start
from phalanx.errors import NotPicklableError, PhalanxError
from phalanx.objects.handle import ActorHandle
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import blame
from phalanx.runtime.engine import interface

T = TypeVar("T")


@overload
def get(refs: ObjectRef[T], *, timeout: float | None = None) -> T: ...
@overload
def get(refs: Sequence[ObjectRef[T]], *, timeout: float | None = None) -> list[T]: ...
def get(refs: Any, *, timeout: float | None = None) -> Any:
    """Return the value of a reference, or the values of a list of references, in order.

    Waits until all values exist, but at most `timeout` seconds (0: without waiting). Raises the
    error of the first task that failed, which is also an instance of the user's own exception
    class. Raises GetTimeoutError after `timeout`, and ValueError or TypeError for an argument that
    is no reference.

    Example:
        assert phalanx.get([phalanx.put(1), phalanx.put(2)], timeout=10) == [1, 2]
    """
    engine = interface._current
    if engine is None:
        engine = engine_or_start()
    if timeout is not None:
        if timeout == -1:
            timeout = None
        elif timeout < 0:
            raise ValueError(f"timeout must be at least 0 seconds, got {timeout}.")
    ref_type = engine.ref_type
    if type(refs) is ref_type:
        return engine.get(refs, timeout)
    if isinstance(refs, engine.generator_type):
        return refs
    if not isinstance(refs, list):
        raise ValueError(
            f"Invalid type of object refs, {type(refs)}, is given. get takes an ObjectRef or a "
            "list of them."
        )
    for ref in refs:
        if type(ref) is not ref_type:
            raise TypeError(
                f"Invalid type of object refs, {type(ref)}, in the list given to get. "
                "Every element must be an ObjectRef."
            )
    return engine.get(refs, timeout)


def put(value: T, *, _owner: Any = None) -> ObjectRef[T]:
    """Store a copy of a value. Returns a reference to the copy.

    Later changes to the value do not change the copy.

    Raises TypeError for an ObjectRef and for a value that cannot be pickled, and
    ObjectStoreFullError when there is no memory for it.

    Example:
        ref = phalanx.put({"rate": 0.1})
        assert phalanx.get(ref) == {"rate": 0.1}
    """
    engine = interface._current
    if engine is None:
        engine = engine_or_start()
    if type(value) is engine.ref_type:
        raise TypeError(
            "Calling put on an ObjectRef is not allowed: it is a reference already. Put the list "
            "[ref] if you want an object that holds it."
        )
    try:
        stored: ObjectRef[T] = engine.put(value)
        return stored
    except PhalanxError:
        raise
    except Exception as error:
        raise NotPicklableError(
            f"Could not serialize the value put: {blame(value, error)}"
        ) from error


@overload
def wait(
    refs: list[ObjectRef[T]],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[ObjectRef[T]], list[ObjectRef[T]]]: ...
@overload
def wait(
    refs: list[Any],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Any], list[Any]]: ...
def wait(
    refs: Any,
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Split references into (ready, not ready), each in the given order.

    Returns when `num_returns` are ready, or after `timeout` seconds; at most `num_returns`
    references are returned as ready. An object whose task failed is ready. With `fetch_local`, a
    large object is brought to this node and is ready once it is here; otherwise it is ready as soon
    as it is on any node. Raises TypeError or ValueError for wrong arguments.

    Example:
        pending = [square.remote(n) for n in range(100)]
        while pending:
            (done,), pending = phalanx.wait(pending)
            print(phalanx.get(done))
    """
    engine = interface._current
    if engine is None:
        engine = engine_or_start()
    if isinstance(refs, engine.ref_type):
        raise TypeError("wait() expected a list of ObjectRefs, got a single ObjectRef.")
    if not isinstance(refs, list):
        raise TypeError(f"wait() expected a list of ObjectRefs, got {type(refs)}.")
    if timeout is not None and timeout < 0:
        raise ValueError(f"The 'timeout' argument must be at least 0, got {timeout}.")
    if not refs:
        return [], []
    for kind in set(map(type, refs)):
        if kind is not engine.ref_type and not issubclass(kind, engine.generator_type):
            raise TypeError(f"wait() expected a list of ObjectRefs, got a list with {kind}.")
    if len(set(refs)) != len(refs):
        raise ValueError("wait() requires a list of unique ObjectRefs.")
    if num_returns <= 0:
        raise ValueError(f"num_returns must be a positive number, got {num_returns}.")
    if num_returns > len(refs):
        raise ValueError(
            f"num_returns cannot be greater than the number of ObjectRefs "
            f"({num_returns} > {len(refs)})."
        )
    return engine.wait(refs, num_returns, timeout, fetch_local)


def cancel(ref: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel a task: remove it from its queue, or interrupt it with KeyboardInterrupt.

    `force` ends the task's worker instead. Nothing happens to a finished task. With `recursive`,
    the tasks that this task submitted are cancelled too. Raises TypeError for an argument that is
    no reference, and ValueError for `force` on an actor's call.

    Example:
        ref = square.remote(4)
        phalanx.cancel(ref)
    """
    engine = engine_or_start()
    if not isinstance(ref, (engine.ref_type, engine.generator_type)):
        raise TypeError(
            f"cancel() takes an ObjectRef or a generator of them, got {type(ref)}. "
            "Use kill() for actors."
        )
    engine.cancel(ref, force, recursive)


def withdraw(ref: Any) -> bool:
    """Cancel a task of this process if no worker has the task. Returns whether the task was
    cancelled.
    """
    return engine_or_start().withdraw(ref)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """End an actor immediately; its pending calls fail. With `no_restart=False` the actor may
    restart.

    Raises ValueError for an argument that is no actor.

    Example:
        counter = Counter.remote()
        phalanx.kill(counter)
    """
    engine = engine_or_start()
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"kill() only supported for actors. For tasks, try cancel(). Got: {type(actor)}."
        )
    engine.kill(actor, no_restart)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Return the handle of a named actor. Raises ValueError when no living actor has the name.

    The default `namespace` is this driver's own.

    Example:
        Counter.options(name="hits").remote()
        hits = phalanx.get_actor("hits")
    """
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor.")
    if not isinstance(name, str):
        raise TypeError(f"get_actor takes a name, got {type(name).__name__}.")
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"namespace must be a string, got {namespace!r}.")
    if namespace == "":
        raise ValueError("namespace must not be empty.")
    handle: ActorHandle[Any] = engine_or_start().get_actor(name, namespace)
    return handle
