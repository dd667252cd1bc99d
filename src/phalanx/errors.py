"""One exception tree. Ray's names are these classes, so that programs' `except` clauses work."""

from __future__ import annotations

import contextlib
from pickle import PicklingError
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any


class PhalanxError(Exception):
    """Root of all exceptions that Phalanx itself raises."""

    __slots__ = ()  # no layout of its own, so that other engines' errors can derive from it


class CrossLanguageError(PhalanxError):
    """A feature needs a language other than Python."""


class TaskCancelledError(PhalanxError):
    """The task was cancelled before it gave a result."""

    def __init__(self, task_id: str | None = None, error_message: str | None = None) -> None:
        super().__init__(task_id, error_message)
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        what = f"Task {self.task_id} was cancelled" if self.task_id else "This task was cancelled"
        return f"{what}: {self.error_message}" if self.error_message else f"{what}."


class NotPicklableError(TypeError, PicklingError):
    """A value for or from another process cannot be pickled.

    It is a TypeError as in Ray, and a PicklingError as in the standard library; `__cause__` is
    pickle's error.
    """


class TaskTimeoutError(PhalanxError, TimeoutError):
    """The task ran longer than its `timeout_s` and was ended."""


class TaskError(PhalanxError):
    """A task's own code raised. If possible, also an instance of the user's exception class.

    `cause` is the user's exception (or None where it could not travel), `traceback_str` the remote
    traceback as text, `function_name`, `pid` and `node_ip` say where it ran.
    """

    def __init__(
        self,
        function_name: str = "",
        traceback_str: str = "",
        cause: BaseException | None = None,
        pid: int | None = None,
        node_ip: str = "127.0.0.1",
        actor_repr: str | None = None,
    ) -> None:
        Exception.__init__(self, function_name, traceback_str, cause, pid, node_ip, actor_repr)
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.pid = pid
        self.ip = self.node_ip = node_ip
        self.actor_repr = actor_repr

    def __str__(self) -> str:
        where = [] if self.pid is None else [f"pid={self.pid}"]
        if self.actor_repr:
            where.append(self.actor_repr)
        who = f"{self.function_name}() ({', '.join(where)})" if where else f"{self.function_name}()"
        return f"{who} raised:\n{self.traceback_str.rstrip()}"

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (
            self.function_name,
            self.traceback_str,
            self.cause,
            self.pid,
            self.node_ip,
            self.actor_repr,
        )
        return (_rebuild_task_error, (*fields, isinstance(self, _Derived)))

    def as_instanceof_cause(self) -> TaskError:
        """Return this error as an instance of both TaskError and the class of `cause`."""
        return derive(self)

    make_dual_exception_instance = as_instanceof_cause


class _Derived:
    """Marks the classes that `derive` makes."""


_derived: dict[type[BaseException], type[TaskError] | None] = {}


def derive(error: TaskError) -> TaskError:
    """Return `error` as an instance of TaskError and, if possible, of its cause's class.

    The instance forwards unknown attributes to the cause, so that `e.errno` and similar ones work.
    """
    cause = error.cause
    if cause is None or isinstance(error, _Derived):
        return error
    kind = type(cause)
    if issubclass(TaskError, kind):
        return error
    if kind not in _derived:
        _derived[kind] = _make_derived(kind)
    cls = _derived[kind]
    if cls is None:
        return error
    made = _blank(cls, cause)
    if made is None:
        return error
    TaskError.__init__(
        made,
        error.function_name,
        error.traceback_str,
        cause,
        error.pid,
        error.node_ip,
        error.actor_repr,
    )
    if not _has_read_only_args(kind):
        made.args = cause.args
    made.__cause__ = None
    _copy_slots(cause, made)
    return made


def _has_read_only_args(kind: type[BaseException]) -> bool:
    found = getattr(kind, "args", None)
    return isinstance(found, property) and found.fset is None


def _make_derived(kind: type[BaseException]) -> type[TaskError] | None:
    def forward(self: TaskError, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__.get("cause"), name)

    body: dict[str, Any] = {
        "__getattr__": forward,
        "__str__": TaskError.__str__,
        "__module__": __name__,
    }
    if _has_read_only_args(kind):
        body["args"] = property(lambda self: (self.cause,))
    try:
        bases: tuple[type, ...] = (_Derived, TaskError, kind)
        # Ray's name for it: programs look for it in texts.
        cls: type[TaskError] = type(f"RayTaskError({kind.__name__})", bases, body)
    except TypeError:
        return None  # final classes, layouts that do not mix: plain TaskError then
    return cls


def _blank(cls: type[TaskError], cause: BaseException) -> TaskError | None:
    """Return an instance to fill; None if the cause's class cannot make one from any arguments."""
    # Groups of exceptions must have their arguments from the start; MemoryError's own __new__
    # refuses classes with several bases.
    ways = ((cls.__new__, ()), (cls.__new__, cause.args), (BaseException.__new__, ()))
    for new, args in ways:
        try:
            return new(cls, *args)
        except Exception:
            continue
    return None


def _copy_slots(cause: BaseException, made: TaskError) -> None:
    """Copy fields that are in slots, such as OSError's errno: no forwarding reaches them."""
    for cls in type(cause).__mro__:
        if cls in (BaseException, object):
            continue
        for name, field in vars(cls).items():
            if isinstance(field, MemberDescriptorType | GetSetDescriptorType):
                with contextlib.suppress(AttributeError, TypeError):
                    setattr(made, name, getattr(cause, name))


def _rebuild_task_error(
    function_name: str,
    traceback_str: str,
    cause: BaseException | None,
    pid: int | None,
    node_ip: str,
    actor_repr: str | None,
    derived: bool,
) -> TaskError:
    error = TaskError(function_name, traceback_str, cause, pid, node_ip, actor_repr)
    return derive(error) if derived else error


class WorkerCrashedError(PhalanxError):
    """The worker process died while it ran the task, and no retries were left."""


class TaskKilledError(WorkerCrashedError, TaskCancelledError):
    """The task was cancelled with `force=True`, and its worker was ended for that.

    It is a WorkerCrashedError too, which is what Ray raises.
    """

    def __str__(self) -> str:
        return self.error_message or super().__str__()


class ActorError(PhalanxError):
    """The actor to which a call went has failed."""

    def __init__(
        self,
        error_msg: str = "The actor died.",
        actor_id: str | None = None,
        actor_init_failed: bool = False,
    ) -> None:
        super().__init__(error_msg, actor_id, actor_init_failed)
        self.error_msg = error_msg
        self.actor_id = actor_id
        self.actor_init_failed = actor_init_failed
        """Whether it died because its constructor raised, or had no arguments."""

    def __str__(self) -> str:
        return self.error_msg

    @property
    def preempted(self) -> bool:
        """Whether its node was announced to go away: always False, as that is not distinguished
        here.

        Ray's Tune asks before it counts a failure of a trial.
        """
        return False


class ActorDiedError(ActorError):
    """The actor is dead: killed, crashed with no restarts left, not made, or out of scope."""


class ActorUnavailableError(ActorError):
    """The actor is restarting or cannot be reached now; the call may or may not have run."""


class LocalNodeDiedError(PhalanxError):
    """The node process of this machine is gone."""


class SystemFailureError(PhalanxError):
    """Phalanx itself failed, through no fault of the program."""


class ObjectStoreFullError(PhalanxError):
    """Shared memory is full and nothing in it can be spilled."""


class StoreFullError(PhalanxError):
    """The head's store has too little room, so no new work is accepted; running work goes on."""


class HistoryUnavailableError(PhalanxError):
    """No history of jobs is kept here, or its file cannot be read or written."""


class OutOfDiskError(PhalanxError):
    """The disk that objects spill to is full."""


class OutOfMemoryError(PhalanxError):
    """The memory monitor ended the task, and no retries were left."""


class ActorOutOfMemoryError(OutOfMemoryError, ActorDiedError):
    """The memory monitor ended the actor, and no restarts were left.

    Ray's class is not an ActorDiedError.
    """


class MessageTooLargeError(PhalanxError, ValueError):
    """A message is too large to be sent to another process."""


class NodeDiedError(PhalanxError):
    """The node that ran the task died."""


class ObjectNotAvailableError(PhalanxError):
    """The object is not in this node's memory now."""


class ObjectLostError(PhalanxError):
    """The object's value is gone and cannot be made again."""

    def __init__(self, object_ref_hex: str = "", message: str = "") -> None:
        super().__init__(object_ref_hex, message)
        self.object_ref_hex = object_ref_hex
        self.message = message

    def __str__(self) -> str:
        return self.message or f"Object {self.object_ref_hex} is lost."


class ObjectFetchTimedOutError(ObjectLostError):
    """The object exists, but its holder did not answer in time."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """A reference was used after everything that kept its object alive had gone."""


class ObjectFreedError(ObjectLostError):
    """The object was freed by hand."""


class OwnerDiedError(ObjectLostError):
    """The process that owned the object died, so its value is unknown."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and its lineage could not be run again."""


class ObjectReconstructionFailedMaxAttemptsExceededError(ObjectReconstructionFailedError):
    """The task that made the lost object has no retries left."""


class ObjectReconstructionFailedLineageEvictedError(ObjectReconstructionFailedError):
    """The task that made the lost object was forgotten for lack of room."""


class GetTimeoutError(PhalanxError, TimeoutError):
    """`get` ran into its timeout."""

    __slots__ = ()  # see PhalanxError


class AsyncioActorExit(PhalanxError):
    """Raised inside an async actor by `exit_actor`."""


class RuntimeEnvSetupError(PhalanxError):
    """The runtime environment could not be made."""

    def __init__(self, error_message: str = "") -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return f"Failed to set up the runtime environment: {self.error_message}"


class TaskPlacementGroupRemoved(PhalanxError):
    """The task's placement group was removed."""


class ActorPlacementGroupRemoved(PhalanxError):
    """The actor's placement group was removed."""


class PendingCallsLimitExceeded(PhalanxError):
    """The actor handle already has `max_pending_calls` calls on their way."""


class TaskUnschedulableError(PhalanxError):
    """The task can run nowhere, now or ever, and its strategy does not let it wait."""


class ActorUnschedulableError(PhalanxError):
    """The actor can be placed nowhere, and its strategy does not let it wait."""


class ObjectRefStreamEndOfStreamError(PhalanxError):
    """The stream of a generator task has ended."""


class OutOfBandSerializationError(PhalanxError):
    """An ObjectRef was pickled outside Phalanx while that is forbidden."""


class UnserializableException(PhalanxError):
    """A value or an exception of another process cannot be read here."""


class RpcError(PhalanxError):
    """Ray's name for a failed call between its processes: never raised here, but caught by name."""

    def __init__(self, message: str = "", rpc_code: int | None = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class UserCodeException(PhalanxError):
    """The error that Ray's libraries raise when a function that they were given fails."""


class ActorAlreadyExistsError(ValueError, PhalanxError):
    """The name is taken by a living actor of the same namespace."""

    __slots__ = ()  # see PhalanxError


class ActorHandleNotFoundError(ValueError, PhalanxError):
    """No such actor exists."""

    __slots__ = ()  # see PhalanxError


class AuthenticationError(PhalanxError):
    """The peer did not prove that it belongs to this cluster."""


class NotAllowedError(PhalanxError, PermissionError):
    """The asker has no right to this; the text says by which rule, and what would allow it."""

    __str__ = Exception.__str__


class StaleNodeError(PhalanxError):
    """The cluster no longer counts on this node: it must join again as a new one."""


class ProtocolError(PhalanxError):
    """A peer sent bytes that do not follow the protocol."""


class WorkerExit(SystemExit):
    """Raised by `exit_actor` in the actor's thread; ends the actor without a restart."""


class JobCommandError(PhalanxError, ValueError):
    """A command does not fit the state of the job or queue; the text says why, and what would."""


class JobNotFoundError(PhalanxError, KeyError):
    """No job has that name."""

    __str__ = Exception.__str__


class QueueUnavailableError(PhalanxError, ValueError):
    """No such queue exists, or it takes no jobs now."""


class StateQueryError(PhalanxError, ValueError):
    """A listing of the cluster's state is unavailable or incomplete."""


class GangInfeasibleError(PhalanxError, ValueError):
    """No node, or no cluster of this size, can ever hold the gang; says how large it could be."""


class CurrentDirectoryError(PhalanxError):
    """The directory in which the program runs was removed."""


class BatchFileError(PhalanxError, ValueError):
    """A configuration or snapshot cannot be used; says in which file and line, and why."""

    def __init__(self, reason: str, file: str = "", line: int | None = None) -> None:
        super().__init__(reason, file, line)
        self.reason = reason
        self.file = file
        self.line = line

    def __str__(self) -> str:
        where = ":".join(str(x) for x in (self.file, self.line) if x not in ("", None))
        return f"{where}: {self.reason}" if where else self.reason
