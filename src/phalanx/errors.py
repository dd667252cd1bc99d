"""All exceptions, in one tree. The classes have Ray's names where Ray has such a class, so that
`except` clauses of Ray's programs work.
"""

from __future__ import annotations

import contextlib
from _pickle import PicklingError  # pickle's own class; `import pickle` is slow
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any


class PhalanxError(Exception):
    """The root of all exceptions that Phalanx itself raises."""

    __slots__ = ()  # no layout of its own, so that other engines' errors can derive from it


class CrossLanguageError(PhalanxError):
    """A feature needs another language than Python."""


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
    """A value that has to go to another process, or into the object store, cannot be pickled.

    The class is a TypeError as in Ray, and a PicklingError as in the standard library; `__cause__`
    is pickle's error.
    """


class TaskTimeoutError(PhalanxError, TimeoutError):
    """The task ran longer than its `timeout_s` and was ended."""


class TaskError(PhalanxError):
    """A task's own code raised an exception. If possible, the error is also an instance of that
    exception's class.

    `cause` is the user's exception, or None if it could not be pickled. `traceback_str` is the
    remote traceback as text. `function_name`, `pid` and `node_ip` say where the task ran.
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
    """The base class of the classes that `derive` makes. An error whose class has this base was
    made by `derive`.
    """


_derived: dict[type[BaseException], type[TaskError] | None] = {}


def derive(error: TaskError) -> TaskError:
    """Return `error` as an instance of TaskError and, if possible, also of its cause's class.

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
        # The class has Ray's name, because programs search texts for it.
        cls: type[TaskError] = type(f"RayTaskError({kind.__name__})", bases, body)
    except TypeError:
        return None  # the class is final, or the layouts do not fit together: use a plain TaskError
    return cls


def _blank(cls: type[TaskError], cause: BaseException) -> TaskError | None:
    """Return a new instance of `cls`, for which no constructor was run; None if that is
    impossible.
    """
    # Exception groups need their arguments already in __new__. MemoryError's own __new__ refuses
    # classes with several bases.
    ways = ((cls.__new__, ()), (cls.__new__, cause.args), (BaseException.__new__, ()))
    for new, args in ways:
        try:
            return new(cls, *args)
        except Exception:
            continue
    return None


def _copy_slots(cause: BaseException, made: TaskError) -> None:
    """Copy to `made` the fields that `cause` has in slots, such as OSError's errno. The forwarding
    of attributes does not reach these fields.
    """
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
    """The task was cancelled with `force=True`, so its worker was ended.

    This error is a WorkerCrashedError too, because Ray raises a WorkerCrashedError.
    """

    def __str__(self) -> str:
        return self.error_message or super().__str__()


class ActorError(PhalanxError):
    """The actor that was called has failed."""

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
        """Whether the actor died because its constructor raised an error or did not get its
        arguments.
        """

    def __str__(self) -> str:
        return self.error_msg

    @property
    def preempted(self) -> bool:
        """Whether the end of the actor's node was known in advance; always False, because Phalanx
        does not record such announcements.

        Ray's Tune reads this property before it counts a failure of a trial.
        """
        return False


class ActorDiedError(ActorError):
    """The actor is dead: it was killed, crashed with no restarts left, could not be made, or went
    out of scope.
    """


class ActorUnavailableError(ActorError):
    """The actor is restarting or cannot be reached now; the call may or may not have run."""


class LocalNodeDiedError(PhalanxError):
    """This machine's node has ended."""


class SystemFailureError(PhalanxError):
    """Phalanx itself failed, through no fault of the program."""


class ObjectStoreFullError(PhalanxError):
    """Shared memory is full and nothing in it can be spilled."""


class StoreFullError(PhalanxError):
    """The head's store is nearly full, so the head accepts no new work. Running work continues."""


class HistoryUnavailableError(PhalanxError):
    """No history of jobs is kept here, or its file cannot be read or written."""


class OutOfDiskError(PhalanxError):
    """The disk for spilled objects is full."""


class OutOfMemoryError(PhalanxError):
    """The memory monitor ended the task, and no retries were left."""


class ActorOutOfMemoryError(OutOfMemoryError, ActorDiedError):
    """The memory monitor ended the actor, and no restarts were left.

    This class is also an ActorDiedError, which Ray's class of this name is not.
    """


class MessageTooLargeError(PhalanxError, ValueError):
    """A message is too large to be sent to another process."""


class NodeDiedError(PhalanxError):
    """The node that ran the task died."""


class ObjectNotAvailableError(PhalanxError):
    """The object is not in this node's memory now."""


class ObjectLostError(PhalanxError):
    """The object's value is lost and cannot be computed again."""

    def __init__(self, object_ref_hex: str = "", message: str = "") -> None:
        super().__init__(object_ref_hex, message)
        self.object_ref_hex = object_ref_hex
        self.message = message

    def __str__(self) -> str:
        return self.message or f"Object {self.object_ref_hex} is lost."


class ObjectFetchTimedOutError(ObjectLostError):
    """The object exists, but the process that has it did not answer in time."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """A reference was used although nothing kept its object alive any more."""


class ObjectFreedError(ObjectLostError):
    """The program freed the object."""


class OwnerDiedError(ObjectLostError):
    """The process that owned the object died, so the object's value is unknown."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost, and the task that made it could not be run again."""


class ObjectReconstructionFailedMaxAttemptsExceededError(ObjectReconstructionFailedError):
    """The lost object cannot be made again, because its task has no retries left."""


class ObjectReconstructionFailedLineageEvictedError(ObjectReconstructionFailedError):
    """The lost object cannot be made again, because its owner dropped the lineage of its task for
    lack of memory.
    """


class GetTimeoutError(PhalanxError, TimeoutError):
    """`get` did not finish within its timeout."""

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
    """The task can never run on any node, and its strategy does not let it wait."""


class ActorUnschedulableError(PhalanxError):
    """The actor can be placed on no node, and its strategy does not let it wait."""


class ObjectRefStreamEndOfStreamError(PhalanxError):
    """The stream of a generator task has ended."""


class OutOfBandSerializationError(PhalanxError):
    """An ObjectRef was pickled by other code than Phalanx's while that is forbidden."""


class UnserializableException(PhalanxError):
    """A value or an exception from another process cannot be unpickled here."""


class RpcError(PhalanxError):
    """Ray's error for a failed call between its processes. Phalanx never raises it, but programs
    catch it.
    """

    def __init__(self, message: str = "", rpc_code: int | None = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class UserCodeException(PhalanxError):
    """The error that Ray's libraries raise when a function of the program fails."""


class ActorAlreadyExistsError(ValueError, PhalanxError):
    """The name is taken by a living actor of the same namespace."""

    __slots__ = ()  # see PhalanxError


class ActorHandleNotFoundError(ValueError, PhalanxError):
    """There is no such actor."""

    __slots__ = ()  # see PhalanxError


class AuthenticationError(PhalanxError):
    """The peer did not prove that it belongs to this cluster."""


class NotAllowedError(PhalanxError, PermissionError):
    """The asker has no right to make this request. The error's text names the rule, and says what
    would allow the request.
    """

    __str__ = Exception.__str__


class StaleNodeError(PhalanxError):
    """The cluster counts this node as dead, so it must join again as a new node."""


class ProtocolError(PhalanxError):
    """A peer sent bytes that do not follow the protocol."""


class WorkerExit(SystemExit):
    """Raised by `exit_actor` in the actor's thread. It ends the actor without a restart."""


class JobCommandError(PhalanxError, ValueError):
    """A request of a user, such as to suspend a job, does not fit the present state of the job or
    queue. The error's text gives the reason, and names the command that would fit.
    """


class JobNotFoundError(PhalanxError, KeyError):
    """There is no job with this name."""

    __str__ = Exception.__str__


class QueueUnavailableError(PhalanxError, ValueError):
    """No queue has this name, or the queue takes no jobs now."""


class StateQueryError(PhalanxError, ValueError):
    """A listing of the cluster's state is unavailable or incomplete."""


class GangInfeasibleError(PhalanxError, ValueError):
    """No node, or no cluster of this size, can ever hold the gang. The text says how large the gang
    could be.
    """


class CurrentDirectoryError(PhalanxError):
    """The directory in which the program runs was removed."""


class BatchFileError(PhalanxError, ValueError):
    """A configuration or snapshot cannot be used. The text names the file and line, and says
    why.
    """

    def __init__(self, reason: str, file: str = "", line: int | None = None) -> None:
        super().__init__(reason, file, line)
        self.reason = reason
        self.file = file
        self.line = line

    def __str__(self) -> str:
        where = ":".join(str(x) for x in (self.file, self.line) if x not in ("", None))
        return f"{where}: {self.reason}" if where else self.reason
