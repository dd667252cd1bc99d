"""What the API asks of an engine, and the engine of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

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
    """An answer that is on its way."""

    @property
    def is_there(self) -> bool:
        """Whether it has come."""
        ...

    def result(self, timeout_s: float | None = None) -> R_co:
        """Wait for it. Raises the error that it is, or GetTimeoutError."""
        ...


Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Starts a task with these arguments: a reference, a list of them, a generator of them or None."""


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `init` was given, checked: see there. What is None is left to the engine."""

    engine: str
    """One of `phalanx.runtime.engine.starting.names()`."""
    address: str | None
    """As the engine reads addresses."""
    num_cpus: float | None
    num_gpus: float | None
    resources: dict[str, float] | None
    labels: dict[str, str] | None
    object_store_memory: int | None
    topology: str
    placement: PlacementPolicy | None
    """The policy of a runtime of its own; None: nothing was said."""
    include_dashboard: bool | None
    namespace: str | None
    runtime_env: dict[str, Any] | None
    log_to_driver: bool
    queue: str
    priority: int
    hook: Callable[[], None] | None
    preload: tuple[str, ...]
    """Modules that workers of a runtime of its own find imported."""
    """What each worker of the program runs at its start."""
    more: dict[str, Any]
    """Options of Ray's `init` that are not named here."""


class Output(Protocol):
    """Where an engine shows its program what others print, and what a person should know."""

    def log(self, message: LogLine) -> None:
        """A worker has printed something."""
        ...

    def warn(self, text: str) -> None:
        """Something waits, or takes its time."""
        ...


class Engine(Protocol):
    """Runs tasks, actors and gangs for one process, be it a driver or a worker.

    The API has checked options and signatures; what an engine cannot do it refuses with the
    errors that `phalanx.errors` has for it. References, generators of them and handles of actors
    are the engine's own: `ref_type` and `generator_type` say which; its handles are ActorHandles.
    """

    default_env: dict[str, Any]
    """The runtime environment that new work inherits."""

    @property
    def owns_cluster(self) -> bool:
        """Whether the cluster was started for this program alone."""
        ...

    is_worker: bool
    """Whether this process runs tasks for somebody, and so must not shut the engine down."""
    ref_type: type
    generator_type: type

    @property
    def namespace(self) -> str:
        """Where named actors of this job are, unless they say otherwise."""
        ...

    @property
    def queue(self) -> str:
        """The queue that this job's work is charged to, unless it says otherwise; empty for
        none."""
        ...

    @property
    def priority(self) -> int:
        """The priority of this job's work, unless it says otherwise."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it still runs anything."""
        ...

    def stop(self) -> None:
        """End the job; and the node, when it was started here. Waits until all is gone."""
        ...

    def facts(self) -> dict[str, Any]:
        """Addresses and places, as `init` gives them."""
        ...

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: Any, timeout_s: float | None) -> Any:
        """The value of a reference, or those of a list of them; None waits as long as it takes."""
        ...

    def put(self, value: Any) -> Any:
        """A reference to a new object."""
        ...

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        """(ready, not ready) of references and generators; see `phalanx.wait`."""
        ...

    def cancel(self, ref: Any, force: bool, recursive: bool) -> None:
        """Cancel the task behind a reference or generator. Raises ValueError for `force` on an
        actor's call."""
        ...

    def withdraw(self, ref: Any) -> bool:
        """Cancel the task behind a reference of this process if it was not handed to a worker.
        Whether it was taken back; False where an engine cannot tell."""
        ...

    # ---- tasks and actors --------------------------------------------------------------------

    def bind_function(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Call:
        """The function with these options, made ready for many calls."""
        ...

    def create_actor(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Start an actor; its handle."""
        ...

    def get_actor(self, name: str, namespace: str | None) -> Any:
        """The handle of a named actor. Raises ValueError when there is none."""
        ...

    def kill(self, actor: Any, no_restart: bool) -> None:
        """End an actor at once."""
        ...

    def exit_actor(self) -> None:
        """End the actor whose method calls this. Raises TypeError outside actors."""
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
    ) -> tuple[bytes, PendingReply[None]]:
        """A new placement group's id, and whether it could be asked for."""
        ...

    def group_created(self, group: bytes) -> PendingReply[bool]:
        """Whether what waits for a placement group or gang may run in it: False when it is removed
        first."""
        ...

    def remove_group(self, group: bytes) -> PendingReply[None]:
        """Give a placement group's bundles back; what ran in them has ended with the answer."""
        ...

    def named_group(self, name: str) -> tuple[bytes, list[dict[str, float]]]:
        """Id and bundles of the living group of a name in the program's namespace. Raises
        ValueError when there is none."""
        ...

    def groups(self) -> list[dict[str, Any]]:
        """All placement groups, as `ray.util.placement_group_table()` has each."""
        ...

    def group_ready(self, group: bytes) -> Any:
        """A reference that is there once the placement group is created, and fails when it is
        removed; None where a task in the group shows that."""
        ...

    def new_group(self) -> bytes:
        """An id for a gang of this process."""
        ...

    def start_gang(
        self,
        definition: FunctionDefinition,
        options: Mapping[str, Any],
        group: bytes,
        members: int,
        least: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Tasks that run once the gang `group` has its places; references by member."""
        ...

    def gang_actors(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        group: bytes,
        members: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Actors that live in the places of the gang `group`; handles by member."""
        ...

    def why_pending(self, what: Any) -> Request[Explanation] | None:
        """What is to be asked about why a reference's task, or an actor, waits; None where nobody
        knows, or the task has ended."""
        ...

    # ---- the cluster -------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> R:
        """Ask the control store, and wait. Raises the error that it answers with."""
        ...

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes, in the form of `ray.nodes()`."""
        ...

    def cluster_resources(self) -> dict[str, float]:
        """What all living nodes have."""
        ...

    def available_resources(self) -> dict[str, float]:
        """What is free; a resource that is used up is not named."""
        ...

    def named_actors(self, namespace: str | None) -> list[tuple[str, str]]:
        """(namespace, name) of the living actors that have names; None: of all namespaces."""
        ...

    def runtime_context(self) -> Any:
        """Where the calling code runs: what `phalanx.get_runtime_context` gives."""
        ...

    def gpu_ids(self) -> list[Any]:
        """The numbers of the GPUs that the calling task or actor may use."""
        ...

    def timeline(self) -> list[dict[str, Any]]:
        """Finished tasks as trace events, times in microseconds since the epoch."""
        ...

    def state(self, query: StateQuery) -> StateAnswer:
        """A listing of the cluster. Raises ValueError for what cannot be asked."""
        ...

    def cluster_events(self) -> list[dict[str, Any]]:
        """What nodes recorded of each other, in no order."""
        ...


_current: Engine | None = None


def current() -> Engine | None:
    """The engine of this process."""
    return _current


def set_current(engine: Engine | None) -> None:
    """Make this the engine of this process."""
    global _current
    _current = engine
