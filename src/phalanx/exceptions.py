"""The exception tree under the names that Ray's programs import."""

from __future__ import annotations

from phalanx.errors import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorHandleNotFoundError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    AsyncioActorExit,
    AuthenticationError,
    CrossLanguageError,
    GetTimeoutError,
    NodeDiedError,
    ObjectFetchTimedOutError,
    ObjectFreedError,
    ObjectLostError,
    ObjectReconstructionFailedError,
    ObjectRefStreamEndOfStreamError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    OwnerDiedError,
    PendingCallsLimitExceeded,
    ReferenceCountingAssertionError,
    RuntimeEnvSetupError,
    TaskCancelledError,
    TaskPlacementGroupRemoved,
    TaskTimeoutError,
    TaskUnschedulableError,
    UnserializableException,
    WorkerCrashedError,
)
from phalanx.errors import ActorError as RayActorError
from phalanx.errors import LocalNodeDiedError as LocalRayletDiedError
from phalanx.errors import ObjectNotAvailableError as PlasmaObjectNotAvailable
from phalanx.errors import OutOfBandSerializationError as OufOfBandObjectRefSerializationException
from phalanx.errors import PhalanxError as RayError
from phalanx.errors import SystemFailureError as RaySystemError
from phalanx.errors import TaskError as RayTaskError

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "AuthenticationError",
    "CrossLanguageError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError",
    "OufOfBandObjectRefSerializationException",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskTimeoutError",
    "TaskUnschedulableError",
    "UnserializableException",
    "WorkerCrashedError",
]
