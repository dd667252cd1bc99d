"""The input of a cycle as immutable values: nodes, queues, podgroups, tasks, and the snapshot.

Amounts are in the units that users write (cores, bytes, devices). `amounts.Dimensions` converts
them to integers for exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.model.gpu_sharing import MEMORY, MPS, TERMS
from phalanx.model.jobs.topology import NetworkTopology as NetworkTopology  # noqa: PLC0414 -- read from here
from phalanx.scheduler.cycle.config import Configuration

Labels = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, float], ...]

SLURM_NOTE = "slurm/"
"""The start of the names of the annotations that `sbatch` gives to its jobs."""
PROGRAM_NOTE = SLURM_NOTE + "program"
"""The annotation with the command that a user of Slurm's commands gave: a script's path with its
arguments, the text of `--wrap`, or the command of `srun` or `salloc`. The job itself runs a program
that prepares this command, or waits for it.
"""
NICE_NOTE = SLURM_NOTE + "nice"
"""The annotation with the number that `sbatch --nice` has subtracted from the job's priority."""
GPUS = frozenset({"nvidia.com/gpu", "gpu"})
"""The names under which whole GPUs, or a part of a GPU, are requested."""


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One requirement on a label. `op` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()


class PodTerm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A condition on the places of other tasks. It selects tasks whose labels meet every match, in
    the same domain of `topology_key`.
    """

    matches: tuple[Match, ...]
    topology_key: str
    namespaces: tuple[str, ...] = ()
    weight: int = 1


class PreferredNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A preference, with a `weight`, for nodes whose labels meet every match."""

    weight: int
    matches: tuple[Match, ...]


class Affinity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Node and pod affinity. `node_required` is a list of lists: a node must meet all requirements
    of at least one list.
    """

    node_required: tuple[tuple[Match, ...], ...] = ()
    node_preferred: tuple[PreferredNode, ...] = ()
    pod_required: tuple[PodTerm, ...] = ()
    pod_preferred: tuple[PodTerm, ...] = ()
    pod_anti_required: tuple[PodTerm, ...] = ()
    pod_anti_preferred: tuple[PodTerm, ...] = ()

    @property
    def between_tasks(self) -> bool:
        """Whether placing another task can change which nodes these rules allow or prefer."""
        return bool(
            self.pod_required
            or self.pod_preferred
            or self.pod_anti_required
            or self.pod_anti_preferred
        )


class Taint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A mark on a node that turns tasks away. `effect` is NoSchedule, PreferNoSchedule or
    NoExecute.
    """

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A taint that a task accepts. An empty key with Exists tolerates all taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Spread(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule that spreads matching tasks over the domains of a label. The numbers of such tasks in
    two domains differ by at most `max_skew`.
    """

    max_skew: int
    topology_key: str
    matches: tuple[Match, ...]
    hard: bool = True


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything that determines where a task may run. Tasks with the same shape are
    interchangeable.
    """

    request: Amounts = ()
    limits: Amounts = ()
    """The largest amounts that a task may use, if they exceed its request (see plugins.usage)."""
    images: tuple[str, ...] = ()
    role: str = ""
    namespace: str = "default"
    labels: Labels = ()
    selector: Labels = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    spread: tuple[Spread, ...] = ()
    ports: tuple[int, ...] = ()
    revocable_zone: str = ""
    annotations: Labels = ()

    @property
    def shares_cards(self) -> bool:
        """Whether the shape requests a part of a GPU, GPU memory, or a mode of sharing."""
        return any(
            name in (MEMORY, MPS) or (name in GPUS and amount % 1 != 0)
            for name, amount in self.request
        )

    @property
    def cards(self) -> Amounts:
        """The part of the request that concerns GPUs."""
        return tuple(one for one in self.request if one[0] in GPUS or one[0] in TERMS)


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One task. `phase` is Pending, Running, Releasing, Succeeded, Failed or Unknown."""

    name: str
    podgroup: str
    shape: Shape
    node: str = ""
    phase: str = "Pending"
    priority: int = 1
    preemptable: bool = True
    preemption_policy: str = ""
    created: float | None = None
    started: float | None = None
    nominated_node: str = ""
    home: str = ""
    """The node that a move set aside for the task (see `cycle.moves`). It is given to no other
    work.
    """
    card: int = -1
    """The number of the GPU of which a running task has a part. It is -1 if it is unknown, and if
    the task has whole GPUs or parts of several.
    """

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    @property
    def uid(self) -> str:
        return f"{self.shape.namespace}/{self.name}"


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node. All of its capacity can be allocated."""

    name: str
    capacity: Amounts
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    annotations: Labels = ()
    unschedulable: bool = False
    usage: Amounts = ()
    """Measured use in percent, by resource; empty if nothing is measured."""
    usage_at: float | None = None
    numa: tuple[Amounts, ...] = ()
    """The free amounts of each NUMA node; empty if unknown."""
    devices: tuple[tuple[float, float], ...] = ()
    """For each GPU that can be shared: its memory in MiB, and the share (0 to 1) that work outside
    the snapshot uses.
    """
    images: Amounts = ()
    """Container images (or data sets) on the node, with their sizes in bytes."""
    ports: tuple[tuple[int, int], ...] = ()
    """Closed ranges of ports that gangs may use; empty if the node declares none."""


class HyperNodeSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A network domain of nodes or of smaller domains (`children`). The lower its tier, the closer
    its nodes are to each other.
    """

    name: str
    tier: int
    tier_name: str = ""
    nodes: tuple[str, ...] = ()
    parent: str = ""
    children: tuple[str, ...] = ()


class GroupAffinity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The node groups that a queue must use, prefers, must not use, and avoids."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


class UserShare(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A user's shares in a queue, and the user's usage there (see plugins.fair_tree)."""

    name: str
    shares: float = 1.0
    use: float = 0.0
    """The usage in billing units times seconds, at the time `at`; 0 if `at` is None."""
    at: float | None = None


class QueueSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue and its quotas. A resource that `capability` does not name is unlimited."""

    name: str
    weight: int = 1
    priority: int = 0
    state: str = "Open"
    capability: Amounts = ()
    deserved: Amounts = ()
    guarantee: Amounts = ()
    reclaimable: bool = True
    parent: str = ""
    hierarchy_path: str = ""
    hierarchy_weights: str = ""
    affinity: GroupAffinity | None = None
    created: float | None = None
    cohort: str = ""
    borrowing_limit: Amounts | None = None
    lending_limit: Amounts | None = None
    annotations: Labels = ()
    past_usage: float = 0.0
    """The decayed share of the cluster that the queue has used (see plugins.half_life)."""
    default_time_s: float | None = None
    """The time limit in seconds of jobs that declare none; if it is None, `max_time_s` applies."""
    max_time_s: float | None = None
    """The longest time limit, in seconds, that the queue's jobs may have."""
    users: tuple[UserShare, ...] = ()
    """The users whose shares or usage are known."""


class SubgroupPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule that divides a podgroup into subgroups by labels. Each subgroup is a small gang of
    `size` tasks.
    """

    name: str
    match_label_keys: tuple[str, ...] = ()
    size: int | None = None
    minimum: int = 0
    topology: NetworkTopology | None = None


class PodGroupSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A gang, and what has happened to it so far."""

    name: str
    queue: str
    namespace: str = "default"
    min_member: int = 0
    min_task_member: tuple[tuple[str, int], ...] = ()
    min_resources: Amounts | None = None
    priority: int = 0
    priority_class: str = ""
    phase: str = "Pending"
    annotations: Labels = ()
    topology: NetworkTopology | None = None
    allocated_hypernode: str = ""
    subgroups: tuple[SubgroupPolicy, ...] = ()
    created: float | None = None
    user: str = ""
    group: str = ""
    run_time_s: float | None = None
    """The run time in seconds from `started` on, if it is known."""
    started: float | None = None
    ran_s: float = 0.0
    """The seconds for which the podgroup ran before `started`, if it was stopped since its
    submission.
    """
    turn: int | None = None
    """The podgroup's position in an order that survives cycles (see plugins.tiresias)."""
    promised: bool = False
    """Whether evictions made room for this podgroup. Its queue then takes its turn before other
    queues.
    """
    port_count: int = 0
    """The number of ports that must be free on all nodes of the podgroup."""
    ports: tuple[int, ...] = ()
    """The ports that the podgroup has, or had when it last ran."""
    tried: tuple[tuple[str, Amounts], ...] = ()
    """The requests that nodes could not meet lately, by node."""
    reservation: str = ""
    """The reservation inside which the podgroup must run; "" if there is none."""
    licenses: tuple[tuple[str, int], ...] = ()
    """How many licenses of each kind the podgroup holds while any of its tasks has a place."""

    @property
    def uid(self) -> str:
        return f"{self.namespace}/{self.name}"


class ReservationSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of the cluster that is reserved for some users or queues at some times (see
    `calendar`).
    """

    name: str
    places: tuple[tuple[str, Amounts], ...] = ()
    """The amounts that are reserved on each node. An empty entry means the whole node."""
    windows: tuple[tuple[float, float | None], ...] = ()
    """The windows (begin, end), in order and disjoint, in seconds on the clock of `now`. An end of
    None means that the window never ends.
    """
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Users and queues: their podgroups may name the reservation. If both are empty, every podgroup
    may.
    """
    maintenance: bool = False
    """Whether the reservation is for maintenance. No podgroup runs inside such a reservation, even
    if the podgroup names it.
    """


class LicenseSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A kind of license, such as the floating licenses of one program. `total`: how many of them
    the whole cluster has.
    """

    name: str
    total: int


class QuotaSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A namespace's hard limits. `requests.*` and plain names are enforced; `limits.*` are
    ignored.
    """

    name: str
    namespace: str
    hard: Amounts


class BudgetSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The least number of tasks with certain labels that must keep running."""

    name: str
    namespace: str
    matches: tuple[Match, ...]
    min_available: str = ""
    max_unavailable: str = ""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """The expected result of a cycle over the snapshot. A field that is None is not checked."""

    binds: Mapping[str, str] | None = None
    bind_count: int | None = None
    evicted: tuple[str, ...] | None = None
    evict_count: int | None = None
    pipelined: Mapping[str, tuple[str, ...]] | None = None
    phases: Mapping[str, str] | None = None
    binds_per_lowest_hypernode_sorted: tuple[int, ...] | None = None
    allocated_per_podgroup: Mapping[str, Any] | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one cycle reads."""

    config: Configuration
    name: str = ""
    notes: str = ""
    nodes: tuple[NodeSpec, ...] = ()
    hypernodes: tuple[HyperNodeSpec, ...] = ()
    queues: tuple[QueueSpec, ...] = ()
    podgroups: tuple[PodGroupSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    quotas: tuple[QuotaSpec, ...] = ()
    budgets: tuple[BudgetSpec, ...] = ()
    reservations: tuple[ReservationSpec, ...] = ()
    licenses: tuple[LicenseSpec, ...] = ()
    now: float = 0.0
    seed: int = 0
    last_acted: Amounts = ()
    """When each plugin last did its periodic work, in seconds on the clock of `now`."""
    expect: Expectation | None = None
