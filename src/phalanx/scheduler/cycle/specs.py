"""What a cycle is given, as frozen values: nodes, queues, podgroups, tasks, and all of it.

Amounts are written as a person writes them (cores, bytes, devices); `amounts.Dimensions` turns
them into numbers that arithmetic is exact on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.model.jobs.topology import NetworkTopology as NetworkTopology  # noqa: PLC0414 -- read from here
from phalanx.scheduler.cycle.config import Configuration

Labels = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, float], ...]


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One requirement on a label: `op` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()


class PodTerm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tasks whose labels meet every match, seen in the domains of `topology_key`."""

    matches: tuple[Match, ...]
    topology_key: str
    namespaces: tuple[str, ...] = ()
    weight: int = 1


class PreferredNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A wish for nodes whose labels meet every match, worth `weight`."""

    weight: int
    matches: tuple[Match, ...]


class Affinity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Node and pod affinity. `node_required` is met when any one of its lists is met whole."""

    node_required: tuple[tuple[Match, ...], ...] = ()
    node_preferred: tuple[PreferredNode, ...] = ()
    pod_required: tuple[PodTerm, ...] = ()
    pod_preferred: tuple[PodTerm, ...] = ()
    pod_anti_required: tuple[PodTerm, ...] = ()
    pod_anti_preferred: tuple[PodTerm, ...] = ()

    @property
    def between_tasks(self) -> bool:
        """True when a placement of another task can change the answer."""
        return bool(
            self.pod_required
            or self.pod_preferred
            or self.pod_anti_required
            or self.pod_anti_preferred
        )


class Taint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a node refuses: `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A taint that a task puts up with; an empty key with Exists tolerates all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Spread(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Keep the tasks that match within `max_skew` of each other over the domains of a label."""

    max_skew: int
    topology_key: str
    matches: tuple[Match, ...]
    hard: bool = True


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that decides where a task may go; tasks with one shape are interchangeable."""

    request: Amounts = ()
    limits: Amounts = ()
    """What it may use at most, where that is more than it requests (see plugins.usage)."""
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


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One task; `phase` is Pending, Running, Releasing, Succeeded, Failed or Unknown."""

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

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    @property
    def uid(self) -> str:
        return f"{self.shape.namespace}/{self.name}"


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A machine; its capacity is also what can be allocated."""

    name: str
    capacity: Amounts
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    annotations: Labels = ()
    unschedulable: bool = False
    usage: Amounts = ()
    """Measured use in percent, by resource; empty where nobody measures."""
    usage_at: float | None = None
    numa: tuple[Amounts, ...] = ()
    """Free amounts of each NUMA node, empty where unknown."""
    devices: tuple[tuple[float, float], ...] = ()
    """(memory in MiB, share 0..1 in use by others than the snapshot's tasks) of every GPU that can
    be shared."""
    images: Amounts = ()
    """Container images (or data sets) that are there, with their sizes in bytes."""
    ports: tuple[tuple[int, int], ...] = ()
    """Closed ranges of ports that gangs may use; empty where nobody says."""


class HyperNodeSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A network domain of nodes, or of smaller domains (`children`); tier 1 is closest."""

    name: str
    tier: int
    tier_name: str = ""
    nodes: tuple[str, ...] = ()
    parent: str = ""
    children: tuple[str, ...] = ()


class GroupAffinity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Node groups that a queue must, may, must not and would rather not use."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


class UserShare(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A user's part in a queue, and what they have used of it (see plugins.fair_tree)."""

    name: str
    shares: float = 1.0
    use: float = 0.0
    """Billing units times seconds at the time `at`; nothing where `at` is None."""
    at: float | None = None


class QueueSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue and its quotas; an amount left out of `capability` is unlimited."""

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
    """Share of the cluster used lately, already decayed (see plugins.half_life)."""
    default_time_s: float | None = None
    """How long a job of it may run that says nothing of it; None: as long as `max_time_s` lets."""
    max_time_s: float | None = None
    """How long a job of it may run at most."""
    users: tuple[UserShare, ...] = ()
    """Users with shares or use; who is not named has one share and no use."""


class SubgroupPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Cut a podgroup into subgroups by labels; each is a small gang of `size`."""

    name: str
    match_label_keys: tuple[str, ...] = ()
    size: int | None = None
    minimum: int = 0
    topology: NetworkTopology | None = None


class PodGroupSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A gang and its life so far."""

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
    """How long it will run, from `started` on, as far as is known."""
    started: float | None = None
    ran_s: float = 0.0
    """How long it ran before `started`, if it was stopped since it was submitted."""
    turn: int | None = None
    """Its place in an order that somebody keeps from cycle to cycle (see plugins.tiresias)."""
    promised: bool = False
    """Evictions made room for it: its queue has its turn before others."""
    port_count: int = 0
    """So many ports are to be free on all its nodes."""
    ports: tuple[int, ...] = ()
    """Those that it has, or had when it last ran."""
    tried: tuple[tuple[str, Amounts], ...] = ()
    """What it asked of nodes in vain a moment ago, by node."""
    reservation: str = ""
    """It runs inside of this one, and nowhere else."""
    licenses: tuple[tuple[str, int], ...] = ()
    """So many of each it holds while any of its tasks has a place."""

    @property
    def uid(self) -> str:
        return f"{self.namespace}/{self.name}"


class ReservationSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of the cluster that is kept for some at some times (see `calendar`)."""

    name: str
    places: tuple[tuple[str, Amounts], ...] = ()
    """How much of each node; no amounts: all of it."""
    windows: tuple[tuple[float, float | None], ...] = ()
    """When: (begin, end) in seconds as `now`, in order, one after the other. None: without end."""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Whose podgroups may name it, by user or by queue; neither: anybody's."""
    maintenance: bool = False
    """Nothing runs there at that time, whoever names it."""


class LicenseSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A count that the whole cluster has, such as of floating licences."""

    name: str
    total: int


class QuotaSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A namespace's hard limits (`limits.*` are ignored, `requests.*` and plain names count)."""

    name: str
    namespace: str
    hard: Amounts


class BudgetSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tasks with these labels of which at least so many must stay running."""

    name: str
    namespace: str
    matches: tuple[Match, ...]
    min_available: str = ""
    max_unavailable: str = ""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle over the snapshot should give; None where it does not say."""

    binds: Mapping[str, str] | None = None
    bind_count: int | None = None
    evicted: tuple[str, ...] | None = None
    evict_count: int | None = None
    pipelined: Mapping[str, tuple[str, ...]] | None = None
    phases: Mapping[str, str] | None = None
    binds_per_lowest_hypernode_sorted: tuple[int, ...] | None = None
    allocated_per_podgroup: Mapping[str, Any] | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one cycle looks at."""

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
    """When plugins last did what they do only now and then, in seconds as `now`."""
    expect: Expectation | None = None
