"""`ray._private.worker`: the facts that programs read about their own process."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any, NamedTuple

import cloudpickle

from phalanx.adapters.ray.modules.constants import ID_SIZE
from phalanx.adapters.ray.modules.locations import get_local_object_locations
from phalanx.adapters.ray.modules.network import get_node_ip_address
from phalanx.api.job_config import JOB_CONFIG
from phalanx.api.objects import wait
from phalanx.api.runtime_context import get_runtime_context
from phalanx.api.session import after_init, is_initialized, running_engine
from phalanx.model.ids import ActorID, JobID, TaskID, WorkerID
from phalanx.objects.reference import ObjectRef, living_references

pickle = cloudpickle
_post_init_hooks = after_init
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2


class _IdText(str):
    """An id in hex, with the methods of an id."""

    __slots__ = ()

    def hex(self) -> str:
        return str(self)

    def binary(self) -> bytes:
        return bytes.fromhex(self)


class GlobalNode:
    """The node of this process."""

    @property
    def unique_id(self) -> str:
        """The node's id in hex."""
        return get_runtime_context().get_node_id()

    node_id = unique_id

    @property
    def cluster_id(self) -> _IdText:
        """The cluster's id, computed from its session's name."""
        return _IdText(hashlib.sha256(self.session_name.encode()).hexdigest()[: 2 * ID_SIZE])

    @property
    def address_info(self) -> dict[str, Any]:
        """The facts that `init` returned."""
        return running_engine().facts()

    @property
    def node_ip_address(self) -> str:
        """The address under which other nodes reach this process's node."""
        return get_node_ip_address()

    @property
    def gcs_address(self) -> str:
        """The head's address."""
        return get_runtime_context().gcs_address

    @property
    def session_name(self) -> str:
        """The session's name."""
        return get_runtime_context().get_session_name()

    def get_session_dir_path(self) -> str:
        """Return the session's directory."""
        return get_runtime_context().get_temp_dir()

    def get_temp_dir_path(self) -> str:
        """Return the session's directory."""
        return get_runtime_context().get_temp_dir()


class JobConfig:
    """The configuration with which this driver's job was submitted."""

    def __init__(self) -> None:
        of_job = json.loads(os.environ.get(JOB_CONFIG) or "{}")
        self.metadata: dict[str, str] = of_job.get("metadata") or {}
        self.runtime_env: dict[str, Any] = of_job.get("runtime_env") or {}


class CoreWorker:
    """Answers programs' questions to Ray's core worker about this process's references and
    values.
    """

    def get_all_reference_counts(self) -> dict[bytes, dict[str, int]]:
        """Return Ray's counts of references to each object that this process refers to, by the
        object's id in hex.

        The count is always 1, because a process has at most one reference to an object, even if
        several variables hold it.
        """
        return {
            ref.hex().encode(): {"local": 1, "submitted": 0, "owned_by_us": 1}
            for ref in living_references()
        }

    def add_object_out_of_scope_callback(
        self, ref: ObjectRef[Any], callback: Callable[[bytes], None]
    ) -> bool:
        """Call `callback` with the object's id when this process drops its last reference to the
        object.

        A task that received the object keeps a reference until it has ended. Returns whether the
        callback will be called.
        """
        weakref.finalize(ref, callback, ref.binary()).atexit = False
        return True

    def get_local_memory_store_bytes_used(self) -> int:
        """Return the bytes of the values in this process's own memory."""
        facts = get_local_object_locations(living_references()).values()
        return sum(one["object_size"] or 0 for one in facts if not one["node_ids"])

    def get_disable_job_level_lineage_reconstruction(self) -> bool:
        """Return False: lost objects are always reconstructed."""
        return False

    def get_job_config(self) -> JobConfig:
        """Return the configuration of this driver's job."""
        return JobConfig()

    def object_exists(self, ref: ObjectRef[Any]) -> bool:
        """Whether the object exists."""
        return bool(wait([ref], timeout=0, fetch_local=False)[0])


class _Serialized(NamedTuple):
    total_bytes: int


class SerializationContext:
    """Lets libraries change how a class is pickled, and measure the size of values."""

    def serialize(self, value: Any) -> _Serialized:
        """Return an object with the number of bytes of a serialized value."""
        buffers: list[PickleBuffer] = []
        data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return _Serialized(len(data) + sum(buffer.raw().nbytes for buffer in buffers))

    def _register_cloudpickle_reducer(self, cls: type, reducer: Callable[[Any], Any]) -> None:
        cloudpickle.CloudPickler.dispatch_table[cls] = reducer

    def _unregister_cloudpickle_reducer(self, cls: type) -> None:
        cloudpickle.CloudPickler.dispatch_table.pop(cls, None)


class GlobalWorker:
    """The object `global_worker`, which describes this process."""

    node = GlobalNode()
    core_worker = CoreWorker()
    _serialization = SerializationContext()

    def get_serialization_context(self) -> SerializationContext:
        """Return the context that sets how classes are pickled."""
        return self._serialization

    @property
    def connected(self) -> bool:
        """Whether this process has a runtime."""
        return is_initialized()

    @property
    def mode(self) -> int | None:
        """The mode of this process: SCRIPT_MODE in a driver, WORKER_MODE in a worker, None without
        a runtime.
        """
        if not is_initialized():
            return None
        return WORKER_MODE if running_engine().is_worker else SCRIPT_MODE

    @property
    def current_node_id(self) -> Any:
        """The node's id."""
        return _IdText(get_runtime_context().get_node_id())

    @property
    def current_job_id(self) -> JobID:
        """The job's id."""
        return JobID.from_hex(get_runtime_context().get_job_id())

    @property
    def current_task_id(self) -> TaskID | None:
        """The running task's id; None in a driver and without a runtime.

        The property does not start a runtime.
        """
        text = get_runtime_context().get_task_id() if is_initialized() else None
        return None if text is None else TaskID.from_hex(text)

    @property
    def actor_id(self) -> ActorID | None:
        """The actor's id; None outside actors and without a runtime. The property does not start a
        runtime.
        """
        text = get_runtime_context().get_actor_id() if is_initialized() else None
        return None if text is None else ActorID.from_hex(text)

    @property
    def worker_id(self) -> bytes:
        """The process's id."""
        return WorkerID.from_hex(get_runtime_context().get_worker_id()).binary()

    @property
    def namespace(self) -> str:
        """The namespace of this job's named actors."""
        return running_engine().namespace

    @property
    def runtime_env(self) -> str:
        """The runtime environment of this process, as JSON."""
        return get_runtime_context().get_runtime_env_string()

    @property
    def node_ip_address(self) -> str:
        """The address under which other nodes reach this process's node."""
        return get_node_ip_address()

    def check_connected(self) -> None:
        """Raise an error if this process has no runtime."""
        running_engine()


global_worker = GlobalWorker()
_global_node = GlobalWorker.node


def get_local_ongoing_lineage_reconstruction_tasks() -> list[Any]:
    """Return an empty list, because Phalanx does not distinguish tasks that run again for lost
    objects from other tasks.
    """
    return []
