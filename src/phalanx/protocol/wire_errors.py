"""Exceptions on the wire: a code, a message, and the additional fields of the exception's class."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx import errors

Field = str | int | None


class WireError(msgspec.Struct, array_like=True, frozen=True):
    """An exception as a message carries it. `details`: the arguments of the class's constructor, by
    name; empty if the constructor takes only the message.
    """

    code: str
    message: str
    details: dict[str, Field] = {}


ERROR_CLASSES: dict[str, type[Exception]] = {
    "phalanx": errors.PhalanxError,
    "cross_language": errors.CrossLanguageError,
    "state_query": errors.StateQueryError,
    "task_cancelled": errors.TaskCancelledError,
    "task_killed": errors.TaskKilledError,
    "task_timeout": errors.TaskTimeoutError,
    "task_failed": errors.TaskError,
    "worker_crashed": errors.WorkerCrashedError,
    "actor": errors.ActorError,
    "actor_died": errors.ActorDiedError,
    "actor_unavailable": errors.ActorUnavailableError,
    "local_node_died": errors.LocalNodeDiedError,
    "system_failure": errors.SystemFailureError,
    "object_store_full": errors.ObjectStoreFullError,
    "store_full": errors.StoreFullError,
    "history": errors.HistoryUnavailableError,
    "out_of_disk": errors.OutOfDiskError,
    "out_of_memory": errors.OutOfMemoryError,
    "actor_out_of_memory": errors.ActorOutOfMemoryError,
    "too_large": errors.MessageTooLargeError,
    "node_died": errors.NodeDiedError,
    "object_not_available": errors.ObjectNotAvailableError,
    "object_lost": errors.ObjectLostError,
    "object_fetch_timed_out": errors.ObjectFetchTimedOutError,
    "reference_counting": errors.ReferenceCountingAssertionError,
    "object_freed": errors.ObjectFreedError,
    "owner_died": errors.OwnerDiedError,
    "reconstruction_failed": errors.ObjectReconstructionFailedError,
    "reconstruction_no_retries": errors.ObjectReconstructionFailedMaxAttemptsExceededError,
    "reconstruction_lineage_evicted": errors.ObjectReconstructionFailedLineageEvictedError,
    "get_timeout": errors.GetTimeoutError,
    "async_actor_exit": errors.AsyncioActorExit,
    "runtime_env": errors.RuntimeEnvSetupError,
    "task_group_removed": errors.TaskPlacementGroupRemoved,
    "actor_group_removed": errors.ActorPlacementGroupRemoved,
    "pending_calls_limit": errors.PendingCallsLimitExceeded,
    "task_unschedulable": errors.TaskUnschedulableError,
    "actor_unschedulable": errors.ActorUnschedulableError,
    "end_of_stream": errors.ObjectRefStreamEndOfStreamError,
    "out_of_band": errors.OutOfBandSerializationError,
    "unserializable": errors.UnserializableException,
    "rpc": errors.RpcError,
    "user_code": errors.UserCodeException,
    "actor_exists": errors.ActorAlreadyExistsError,
    "no_such_actor": errors.ActorHandleNotFoundError,
    "authentication": errors.AuthenticationError,
    "not_allowed": errors.NotAllowedError,
    "stale_node": errors.StaleNodeError,
    "protocol": errors.ProtocolError,
    "job_command": errors.JobCommandError,
    "no_such_job": errors.JobNotFoundError,
    "queue_unavailable": errors.QueueUnavailableError,
    "gang_infeasible": errors.GangInfeasibleError,
    "batch_file": errors.BatchFileError,
    "current_directory": errors.CurrentDirectoryError,
    "invalid_value": ValueError,
    "invalid_type": TypeError,
}
"""The class of exceptions for each code. A code is never given to another class, because messages
carry it.
"""

_FIELDS: dict[type[Exception], tuple[str, ...]] = {
    errors.TaskCancelledError: ("task_id", "error_message"),
    errors.TaskError: ("function_name", "traceback_str", "pid", "node_ip", "actor_repr"),
    errors.ActorError: ("error_msg", "actor_id"),
    errors.ObjectLostError: ("object_ref_hex", "message"),
    errors.RuntimeEnvSetupError: ("error_message",),
    errors.BatchFileError: ("reason", "file", "line"),
}
"""The additional fields of exceptions whose constructors take more than a message."""

_CODES = {made: code for code, made in ERROR_CLASSES.items()}


def code_of(kind: type[Exception]) -> str:
    """Return the code of a class of exceptions. Raises KeyError for a class that has no code."""
    return _CODES[kind]


def to_wire(error: BaseException) -> WireError:
    """Return an exception in the form for messages, with the code of its class or of the nearest
    base class that has one.

    An exception without such a class, such as a KeyError, travels as a SystemFailureError that
    names its class.
    """
    for kind in type(error).__mro__:
        if kind is errors.PhalanxError and type(error) is not kind:
            break
        code = _CODES.get(kind)
        if code is not None:
            return WireError(code, str(error), _details(error, kind))
    text = f"{type(error).__name__}: {error}"
    return WireError(code_of(errors.SystemFailureError), text)


def is_defect(error: BaseException) -> bool:
    """Whether an error is an internal error, such as a KeyError, and not an answer that the asker
    should see.
    """
    is_known = isinstance(error, errors.SystemFailureError)
    return not is_known and to_wire(error).code == code_of(errors.SystemFailureError)


def from_wire(error: WireError) -> Exception:
    """Return the exception that a message carries; for an unknown code, a PhalanxError that names
    the code.
    """
    made = ERROR_CLASSES.get(error.code)
    if made is None:
        return errors.PhalanxError(f"{error.message} (an error of the unknown code {error.code!r})")
    try:
        return made(**error.details) if error.details else made(error.message)
    except TypeError:  # in the sender's version, the class has other fields
        return errors.PhalanxError(f"{error.code}: {error.message}")


def _details(error: BaseException, kind: type[Any]) -> dict[str, Field]:
    names = next((_FIELDS[base] for base in kind.__mro__ if base in _FIELDS), ())
    fields = vars(error)
    return {name: fields[name] for name in names}
