"""The place where the calling code runs: its job, node, worker, task, actor and resources."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from phalanx.model.accelerators import VISIBLE
from phalanx.model.ids import (
    ActorID,
    JobID,
    NodeID,
    PlacementGroupID,
    TaskID,
    task_id_bytes,
    worker_id_of,
)
from phalanx.model.jobs.gang_view import GangView
from phalanx.model.options import ACCELERATORS
from phalanx.objects.handle import ActorHandle
from phalanx.runtime.engine import dialect
from phalanx.runtime.os.visible_devices import is_left_alone
from phalanx.worker.context import TaskContext, current_lease, current_task, placing_lease


def visible_ids(resource: str, devices: Mapping[str, Sequence[int]]) -> list[int] | list[str]:
    """Return the names by which the program knows the devices that its work holds.

    The names are the entries of the variable that shows devices to programs, such as
    CUDA_VISIBLE_DEVICES. They are numbers or UUIDs. Usually the variable lists just the devices of
    the work. But if one of Ray's variables forbids the runtime to change it, it lists all devices
    of the node; the names are then the entries for the work's devices. If the variable does not fit
    the work's devices, the names are the node's own numbers.
    """
    numbers = list(devices.get(resource, ()))
    variable = VISIBLE.get(resource, "")
    shown = os.environ.get(variable, "").split(",")
    if (
        is_left_alone(variable)
        and len(shown) > max(numbers, default=-1)
        and len(shown) > len(numbers)
    ):
        shown = [shown[number].strip() for number in numbers]
    if len(shown) != len(numbers) or not all(shown):
        return numbers
    return [int(n) for n in shown] if all(n.isdigit() for n in shown) else shown


class HostedActor(Protocol):
    """The actor that runs in this process."""

    actor: bytes
    name: str
    """The registered name of the actor; "" if it has none."""
    restarted: bool
    is_async: bool
    """Whether the actor's calls run on an event loop."""

    def path_of(self, method: str) -> str:
        """Return the module, class and name of a method."""
        ...


class Job(Protocol):
    """The job of this process."""

    @property
    def namespace(self) -> str:
        """The namespace of the job's actors."""
        ...

    @property
    def environment(self) -> dict[str, Any]:
        """The runtime environment that new work inherits."""
        ...


class Session(Protocol):
    """The session of this machine's node."""

    @property
    def name(self) -> str:
        """The session's name."""
        ...

    @property
    def directory(self) -> str:
        """The session's private directory."""
        ...


class Node(Protocol):
    """The node of this process, which provides facts about itself and its cluster."""

    def node_id(self) -> str:
        """Return the node's id."""
        ...

    def node_labels(self) -> dict[str, str]:
        """Return the node's labels."""
        ...

    def cluster_address(self) -> str:
        """Return the address of the node's cluster."""
        ...

    def handle_of(self, actor: bytes) -> ActorHandle[Any]:
        """Return a handle of the actor with this id."""
        ...


class RuntimeContext:
    """Facts about the calling task, actor call or driver. Ids are hex strings.

    Example:
        context = phalanx.get_runtime_context()
        print(context.get_node_id(), context.get_task_id())
    """

    def __init__(
        self,
        process_id: bytes,
        session: Session,
        job: Job,
        node: Node,
        actor: Callable[[], HostedActor | None],
    ) -> None:
        self._process_id = process_id
        self._session = session
        self._job = job
        self._node = node
        self._actor = actor

    @property
    def _task(self) -> TaskContext | None:
        return current_task()

    @property
    def worker(self) -> Any:
        """The global worker of the program's dialect, which Ray's libraries read from the context.

        Raises AttributeError if no dialect is installed.
        """
        spoken = dialect.first()
        if spoken is None:
            raise AttributeError("no dialect is installed, so no global worker exists")
        return spoken.global_worker()

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self._process_id[12:].hex()

    @property
    def job_id(self) -> JobID:
        """The job's id, in the older form of `get_job_id`."""
        return JobID.from_hex(_older_form_of("get_job_id", self.get_job_id()))

    def get_node_id(self) -> str:
        """Return the node's id."""
        return self._node.node_id()

    @property
    def node_id(self) -> NodeID:
        """The node's id, in the older form of get_node_id."""
        return NodeID.from_hex(_older_form_of("get_node_id", self.get_node_id()))

    def get_worker_id(self) -> str:
        """Return this process's id."""
        return worker_id_of(self._process_id)

    def get_task_id(self) -> str | None:
        """Return the id of the running task; None in a driver."""
        task = self._task
        if task is None or (task.is_actor and task.number == 0):
            return None
        return task_id_bytes(task.owner, task.number).hex()

    @property
    def task_id(self) -> TaskID | None:
        """The task's id, in the older form of get_task_id."""
        text = _older_form_of("get_task_id", self.get_task_id())
        return None if text is None else TaskID.from_hex(text)

    def get_task_name(self) -> str | None:
        """Return the name of the running task; None in a driver."""
        return None if self._task is None else self._task.name

    def get_task_function_name(self) -> str | None:
        """Return the module and name of the task's function or the actor's method; None in a
        driver.
        """
        task, actor = self._task, self._actor()
        if task is None:
            return None
        if actor is not None:
            return actor.path_of(task.method or task.name.rpartition(".")[2])
        return (
            f"{task.function.__module__}.{task.function.__name__}" if task.function else task.name
        )

    def get_attempt_number(self) -> int:
        """Return how often the task was attempted before."""
        return 0 if self._task is None else self._task.attempt

    def get_actor_id(self) -> str | None:
        """Return the actor's id; None outside actors."""
        actor = self._actor()
        return None if actor is None else actor.actor.hex()

    @property
    def actor_id(self) -> ActorID | None:
        """The actor's id, in the older form of get_actor_id."""
        text = _older_form_of("get_actor_id", self.get_actor_id())
        return None if text is None else ActorID.from_hex(text)

    def get_actor_name(self) -> str | None:
        """Return the actor's registered name ("" if it has none); None outside actors."""
        actor = self._actor()
        return None if actor is None else actor.name

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle of the calling actor. Raises RuntimeError outside actors."""
        return self._node.handle_of(self._own_actor().actor)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the calling actor has been restarted."""
        return self._own_actor().restarted

    def _own_actor(self) -> HostedActor:
        actor = self._actor()
        if actor is None:
            raise RuntimeError("This method is only available in an actor.")
        return actor

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return self._job.namespace

    @property
    def gang(self) -> GangView | None:
        """The gang of the calling task or actor, as it was when this member was placed; None
        outside gangs.

        Its fields are rank, local_rank, world_size, address, ports, devices and members.
        """
        lease = current_lease()
        return None if lease is None else lease.gang

    def get_placement_group_id(self) -> str | None:
        """Return the id of the placement group in which the task or actor runs; None outside
        placement groups.
        """
        lease = placing_lease()
        return None if lease is None or lease.group is None else lease.group.hex()

    @property
    def current_placement_group_id(self) -> PlacementGroupID | None:
        """The placement group's id, in the older form of get_placement_group_id."""
        text = _older_form_of("get_placement_group_id", self.get_placement_group_id())
        return None if text is None else PlacementGroupID.from_hex(text)

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks that are started here run in the same placement group."""
        lease = placing_lease()
        return lease is not None and lease.capture

    def get_assigned_resources(self) -> dict[str, float]:
        """Return the resources that the task or actor holds."""
        lease = current_lease()
        return {} if lease is None else dict(lease.resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return the devices that the work holds, by kind, as strings.

        The strings are numbers. If a variable showed the devices when the node was started, the
        strings are the entries of that variable at these positions.
        """
        lease = current_lease()
        devices = {} if lease is None else lease.devices
        return {kind: [str(n) for n in visible_ids(kind, devices)] for kind in ACCELERATORS}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Return the devices that the work holds. This is the older name of
        `get_accelerator_ids`.
        """
        return self.get_accelerator_ids()

    def get_node_labels(self) -> dict[str, str]:
        """Return the node's labels."""
        return self._node.node_labels()

    @property
    def runtime_env(self) -> dict[str, Any]:
        """The runtime environment of the calling work."""
        return dict(self._job.environment)

    def get_runtime_env_string(self) -> str:
        """Return the runtime environment of the calling work, as JSON."""
        return json.dumps(self.runtime_env, default=str, sort_keys=True)

    @property
    def gcs_address(self) -> str:
        """The address by which another program on this machine connects to the same cluster."""
        return self._node.cluster_address()

    def is_canceled(self) -> bool:
        """Whether the calling task was cancelled. Raises RuntimeError in a driver."""
        task = self._task
        if task is None:
            raise RuntimeError("This method is only available in a task or actor.")
        actor = self._actor()
        if actor is not None and actor.is_async:
            raise RuntimeError(
                "This method is not supported in an async actor. Its calls are cancelled by "
                "asyncio.CancelledError."
            )
        return task.is_cancelled

    def get_session_name(self) -> str:
        """Return the session's name."""
        return self._session.name

    def get_temp_dir(self) -> str:
        """Return the session's private directory."""
        return self._session.directory

    def get(self) -> dict[str, Any]:
        """Return the ids as a dict, in the older form of Ray."""
        found: dict[str, Any] = {
            "job_id": JobID.from_hex(self.get_job_id()),
            "node_id": NodeID.from_hex(self.get_node_id()),
            "namespace": self.namespace,
        }
        if self._task is not None:
            task, actor = self.get_task_id(), self.get_actor_id()
            found["task_id"] = None if task is None else TaskID.from_hex(task)
            if actor is not None:
                found["actor_id"] = ActorID.from_hex(actor)
        return found


_Text = TypeVar("_Text", str, str | None)


def _older_form_of(method: str, text: _Text) -> _Text:
    warnings.warn(f"Use {method}() instead", DeprecationWarning, stacklevel=3)
    return text
