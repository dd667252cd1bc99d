"""The interface between the API and an engine, and this process's engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from phalanx.model.ids import GangId, GroupId

if TYPE_CHECKING:
    from phalanx.model.rows.explanation import Explanation
    from phalanx.observe.state.query import StateAnswer, StateQuery
    from phalanx.protocol.node_messages import LogLine
    from phalanx.protocol.requests.request import Request
    from phalanx.runtime.engine.definitions import ActorDefinition, FunctionDefinition
    from phalanx.scheduler.placement.placement_policy import PlacementPolicy


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class PendingReply(Protocol[R_co]):
    """An answer that was requested and may not have come yet."""

    @property
    def is_there(self) -> bool:
        """Whether the answer has come."""
        ...

    def result(self, timeout_s: float | None = None) -> R_co:
        """Wait for the answer and return it. Raises GetTimeoutError, and the error with which the
        request was answered.
        """
        ...


Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Starts a task. Returns a reference, a list of references, a generator or None."""


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The checked arguments of `init`, whose docstring explains them. The engine chooses a value
    where an argument is None.
    """

    engine: str
    """The name of the engine: one of `phalanx.runtime.engine.starting.names()`."""
    address: str | None
    """The address in the form that the engine reads."""
    num_cpus: float | None
    num_gpus: float | None
    resources: dict[str, float] | None
    labels: dict[str, str] | None
    object_store_memory: int | None
    topology: str
    placement: PlacementPolicy | None
    """The placement policy of a new runtime; None when no policy was given."""
    include_dashboard: bool | None
    namespace: str | None
    runtime_env: dict[str, Any] | None
    log_to_driver: bool
    queue: str
    priority: int
    hook: Callable[[], None] | None
    """The function that each worker of the program runs when it starts."""
    preload: tuple[str, ...]
    """Modules that are imported before the workers of a new runtime start."""
    more: dict[str, Any]
    """Options of Ray's `init` for which this class has no field."""


def check_connecting(options: EngineOptions, hint: str = "") -> None:
    """Check that no option is given that only a new cluster can have. Raises ValueError, whose text
    ends with `hint`.
    """
    amounts = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory", "placement")
    given = [name for name in amounts if getattr(options, name) is not None]
    if options.more.get("_system_config"):
        given.append("_system_config")
    if given:
        raise ValueError(
            f"When connecting to a running cluster, {' and '.join(given)} must not be provided: "
            f"its nodes were started with their own.{hint}"
        )


class Output(Protocol):
    """Shows the program the output of its workers, and warnings."""

    def log(self, message: LogLine) -> None:
        """Show a line that a worker has printed."""
        ...

    def warn(self, text: str) -> None:
        """Warn that something waits, or takes a long time."""
        ...


class Engine(Protocol):
    """Runs tasks, actors and gangs for one process, a driver or a worker.

    The API has checked options and signatures. An engine raises an error of `phalanx.errors` for
    anything that it cannot do. It has classes of its own for references (`ref_type`), generators
    (`generator_type`) and handles of actors, which are ActorHandles.
    """

    default_env: dict[str, Any]
    """The runtime environment that new work inherits."""

    @property
    def owns_cluster(self) -> bool:
        """Whether the cluster was started for this program alone."""
        ...

    is_worker: bool
    """Whether this process runs tasks of other processes, so that it must not shut the engine
    down.
    """
    ref_type: type
    generator_type: type

    @property
    def namespace(self) -> str:
        """The namespace of this job's named actors, if an actor's options give no other."""
        ...

    @property
    def queue(self) -> str:
        """The queue of this job's work, if the work's options give no other; "" for no queue."""
        ...

    @property
    def priority(self) -> int:
        """The priority of this job's work, if the work's options give no other."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether the engine still runs."""
        ...

    def stop(self) -> None:
        """End the job. If the node was started here, end it, too, and wait until it is gone."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return the addresses and directories that `init` returns."""
        ...

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: Any, timeout_s: float | None) -> Any:
        """Return the value of a reference, or the values of a list of references. With the timeout
        None, the wait has no limit.
        """
        ...

    def put(self, value: Any) -> Any:
        """Store a value as a new object and return its reference."""
        ...

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        """Split references and generators into (ready, not ready); see `phalanx.wait`."""
        ...

    def cancel(self, ref: Any, force: bool, recursive: bool) -> None:
        """Cancel the task of a reference or generator. Raises ValueError for `force` on an actor's
        call."""
        ...

    def withdraw(self, ref: Any) -> bool:
        """Take the task of one of this process's references back, if no worker has the task.

        Returns whether the task was taken back; False if the engine cannot tell.
        """
        ...

    # ---- tasks and actors --------------------------------------------------------------------

    def bind_function(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Call:
        """Return the function with these options, prepared for many calls."""
        ...

    def create_actor(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Start an actor and return its handle."""
        ...

    def get_actor(self, name: str, namespace: str | None) -> Any:
        """Return the handle of a named actor. Raises ValueError if there is none."""
        ...

    def kill(self, actor: Any, no_restart: bool) -> None:
        """End an actor without waiting for its calls."""
        ...

    def exit_actor(self) -> None:
        """End the actor that calls this from one of its methods. Raises TypeError outside
        actors.
        """
        ...

    # ---- groups and gangs --------------------------------------------------------------------

    def create_group(
        self,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: list[dict[str, str]],
        soft_target: str | None,
    ) -> tuple[GroupId, PendingReply[None]]:
        """Request a placement group. Returns its id, and an answer, which raises an error if the
        group is refused.
        """
        ...

    def group_created(self, group: GroupId) -> PendingReply[bool]:
        """Return an answer that comes once work may run in a placement group or gang. The answer is
        True, or False if the group was removed before.
        """
        ...

    def remove_group(self, group: GroupId) -> PendingReply[None]:
        """Remove a placement group. When the answer comes, the work in its bundles has ended."""
        ...

    def named_group(self, name: str) -> tuple[bytes, list[dict[str, float]]]:
        """Return the id and the bundles of the living group with this name in the program's
        namespace.

        Raises ValueError if there is none.
        """
        ...

    def groups(self) -> list[dict[str, Any]]:
        """Return all placement groups, each as in `ray.util.placement_group_table()`."""
        ...

    def group_ready(self, group: GroupId) -> Any:
        """Return a reference that is ready once the placement group is created.

        The reference fails if the group is removed. If the engine returns None, the caller starts a
        task in the group: once the task runs, the group is created.
        """
        ...

    def new_gang(self) -> GangId:
        """Return a new id for a gang of this process."""
        ...

    def start_gang(
        self,
        definition: FunctionDefinition,
        options: Mapping[str, Any],
        group: GangId,
        members: int,
        least: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Submit tasks for the places of the gang `group`. Returns a reference for each member."""
        ...

    def gang_actors(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        group: GangId,
        members: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Start actors in the places of the gang `group`. Returns a handle for each member."""
        ...

    def why_pending(self, what: Any) -> Request[Explanation] | None:
        """Return the request that asks why a reference's task, or an actor, waits.

        None if no process knows why, or if the task has ended.
        """
        ...

    # ---- the cluster -------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> R:
        """Send a request to the head, and wait. Raises any error with which the head answers."""
        ...

    def nodes(self) -> list[dict[str, Any]]:
        """Return all nodes, in the form of `ray.nodes()`."""
        ...

    def cluster_resources(self) -> dict[str, float]:
        """Return the resources of all living nodes."""
        ...

    def available_resources(self) -> dict[str, float]:
        """Return the free resources. A resource that is used up has no entry."""
        ...

    def named_actors(self, namespace: str | None) -> list[tuple[str, str]]:
        """Return (namespace, name) of the living named actors, of all namespaces if `namespace` is
        None.
        """
        ...

    def runtime_context(self) -> Any:
        """Return facts about the place where the calling code runs (`get_runtime_context`)."""
        ...

    def gpu_ids(self) -> list[Any]:
        """Return the GPUs that the calling task or actor may use, as numbers or UUIDs."""
        ...

    def timeline(self) -> list[dict[str, Any]]:
        """Return finished tasks as trace events, with times in microseconds since the epoch."""
        ...

    def state(self, query: StateQuery) -> StateAnswer:
        """Return a listing of the cluster. Raises ValueError for a query that is not allowed."""
        ...

    def cluster_events(self) -> list[dict[str, Any]]:
        """Return the events that nodes and owners of tasks have recorded about each other, in any
        order.
        """
        ...


_current: Engine | None = None


def current() -> Engine | None:
    """Return the engine of this process; None if it has none."""
    return _current


def set_current(engine: Engine | None) -> None:
    """Set the engine of this process."""
    global _current
    _current = engine
