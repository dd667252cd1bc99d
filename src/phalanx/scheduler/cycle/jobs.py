"""Gangs and their parts during a cycle: how many tasks are in each state, and how many are missing.

The counting rules follow Volcano's JobInfo and SubJobInfo (pkg/scheduler/api).
"""

from __future__ import annotations

import copy

from phalanx.scheduler.cycle.amounts import Amount, Counts
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.specs import NICE_NOTE, NetworkTopology, PodGroupSpec

(PENDING, ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, UNKNOWN) = (
    range(10)
)
STATUS_NAMES = (
    "Pending", "Allocated", "Pipelined", "Binding", "Bound", "Running", "Releasing",
    "Succeeded", "Failed", "Unknown",
)  # fmt: skip
HOLDING = frozenset({ALLOCATED, BINDING, BOUND, RUNNING})
"""States in which a task keeps its node's resources (Volcano's AllocatedStatus)."""
IDLE_PENDING = 10
"""The index in `counts` of pending tasks that request nothing."""
SLOTS = 11
_MOST_DIGITS = 12


class Counted:
    """The number of tasks in each state, which jobs and subjobs have in common."""

    __slots__ = ("counts", "min_available")

    def __init__(self, min_available: int) -> None:
        self.counts = [0] * SLOTS
        self.min_available = min_available

    def ready_count(self) -> int:
        c = self.counts
        return c[ALLOCATED] + c[BINDING] + c[BOUND] + c[RUNNING] + c[SUCCEEDED]

    def holding_count(self) -> int:
        c = self.counts
        return c[ALLOCATED] + c[BINDING] + c[BOUND] + c[RUNNING]

    def valid_count(self) -> int:
        return self.ready_count() + self.counts[PIPELINED] + self.counts[PENDING]

    def shortfall(self) -> int:
        """Return how many more tasks must be placed to reach the minimum."""
        return self.min_available - self.ready_count() - self.counts[IDLE_PENDING]

    def is_ready(self) -> bool:
        return self.shortfall() <= 0

    def is_pipelined(self) -> bool:
        return self.shortfall() <= self.counts[PIPELINED]

    def is_starving(self) -> bool:
        return self.counts[PIPELINED] + self.ready_count() < self.min_available


class SubJob(Counted):
    """A part of a job that is placed together: the whole job, or one subgroup."""

    __slots__ = (
        "allocated_hypernode", "gid", "job", "match_index", "nominated_hypernode", "priority",
        "tasks", "topology", "uid",
    )  # fmt: skip

    def __init__(
        self, job: Job, gid: str, uid: str, min_available: int, topology: NetworkTopology | None
    ) -> None:
        super().__init__(min_available)
        self.job = job
        self.gid = gid
        self.uid = uid
        self.topology = topology
        self.priority = 0
        self.match_index = 0
        self.tasks: list[int] = []
        self.allocated_hypernode = ""
        self.nominated_hypernode = ""

    def is_hard(self) -> bool:
        return is_bound(self.topology)


class Job(Counted):
    """A podgroup with its tasks. `failed_roles`: for each subjob, the roles for which no node had
    room.
    """

    __slots__ = (
        "allocated_hypernode",
        "eq_class",
        "failed_roles",
        "has_subgroups",
        "held",
        "index",
        "min_resources",
        "min_subjobs",
        "pending_since",
        "phase",
        "preemptable",
        "priority",
        "queue",
        "revocable",
        "role_counts",
        "role_min",
        "role_min_total",
        "spec",
        "standing",
        "subjobs",
        "tasks",
        "topology",
        "total_request",
        "uid",
    )  # fmt: skip

    def __init__(self, spec: PodGroupSpec, index: int, queue: int, zero: Counts) -> None:
        super().__init__(spec.min_member)
        self.uid = spec.uid
        self.index = index
        self.queue = queue
        self.phase = spec.phase
        self.role_counts: dict[str, list[int]] = {}
        self.min_resources: Amount | None = None
        self.topology = spec.topology
        self.allocated_hypernode = spec.allocated_hypernode
        self.has_subgroups = bool(spec.subgroups)
        self.min_subjobs = {f"{self.uid}/{p.name}": p.minimum for p in spec.subgroups}
        self.subjobs: dict[str, SubJob] = {}
        self.tasks: list[int] = []
        self.eq_class: EquivalenceClass | None = None
        """The class of all tasks of the job; None if the job has no tasks, or tasks of several
        classes.
        """
        self.held = zero.copy()
        """The amounts that the job's tasks hold at the start of the cycle."""
        self.total_request = zero.copy()
        self.failed_roles: dict[str, set[str]] = {}
        self.amend(spec)

    def amend(self, spec: PodGroupSpec) -> None:
        """Replace the podgroup's description. The queue, the topology and the division into
        subgroups must be the same as before.
        """
        self.spec = spec
        self.min_available = spec.min_member
        self.priority = spec.priority
        self.role_min = dict(spec.min_task_member)
        self.role_min_total = sum(self.role_min.values())
        annotations = dict(spec.annotations)
        plain = spec.priority + _whole(annotations.get(NICE_NOTE, ""))
        self.standing = min(plain, max(spec.priority, 0))
        """The priority without what `--nice` changed. Only the order follows `--nice`. Anybody can
        write the note, so it lifts no job above the usual priority, 0.
        """
        self.preemptable = annotations.get("volcano.sh/preemptable") == "true"
        self.revocable = annotations.get("volcano.sh/revocable-zone", "")
        self.pending_since = spec.created

    def yields_to(self, other: Job) -> bool:
        """Whether the job's priority is so much lower that its tasks may be evicted for the other
        job. A difference that only `--nice` makes is not enough.
        """
        return self.priority < other.priority and self.standing < other.standing

    def copy(self) -> Job:
        """Return an independent copy of a job that has at most one part."""
        other = copy.copy(self)
        other.counts = list(self.counts)
        other.tasks = list(self.tasks)
        other.held = self.held.copy()
        other.total_request = self.total_request.copy()
        other.role_counts = {role: list(counts) for role, counts in self.role_counts.items()}
        other.failed_roles = {}
        other.subjobs = {}
        if self.subjobs:
            sub = SubJob(other, self.uid, self.uid, self.min_available, self.topology)
            sub.counts, sub.tasks = other.counts, other.tasks
            other.subjobs[self.uid] = sub
        return other

    @property
    def default_subjob(self) -> SubJob | None:
        return self.subjobs.get(self.uid)

    def is_pending(self) -> bool:
        return self.phase == "Pending"

    def roles_matter(self) -> bool:
        """Whether the minimums of roles count. They do if the job's own minimum is at least their
        sum.
        """
        return self.min_available >= self.role_min_total

    def role_count(self, role: str, *, pipelined: bool = False, idle: bool = False) -> int:
        """Return how many tasks of a role are ready.

        `pipelined` adds the tasks that are promised room. `idle` adds the pending tasks that
        request nothing.
        """
        c = self.role_counts.get(role)
        if c is None:
            return 0
        ready = c[ALLOCATED] + c[BINDING] + c[BOUND] + c[RUNNING] + c[SUCCEEDED]
        return ready + c[PIPELINED] * pipelined + c[IDLE_PENDING] * idle

    def roles_short(self, *, pipelined: bool) -> dict[str, int]:
        """Return how many tasks each role lacks, for the roles below their minimums."""
        if not self.role_min or not self.roles_matter():
            return {}
        lacks = {
            role: least - self.role_count(role, pipelined=pipelined, idle=True)
            for role, least in self.role_min.items()
        }
        return {role: n for role, n in lacks.items() if n > 0}

    def roles_valid(self) -> bool:
        """Whether every role has its minimum or could reach it."""
        if not self.role_min or not self.roles_matter():
            return True
        for role, least in self.role_min.items():
            c = self.role_counts.get(role)
            have = 0
            if c is not None:
                have = sum(c[:BOUND]) + c[BOUND] + c[RUNNING] + c[SUCCEEDED]
            if least and have < least:
                return False
        return True

    def roles_ready(self) -> bool:
        return self._roles_hold(pipelined=False)

    def roles_pipelined(self) -> bool:
        return self._roles_hold(pipelined=True)

    def _roles_hold(self, *, pipelined: bool) -> bool:
        if not self.role_min or not self.roles_matter():
            return True
        for role, least in self.role_min.items():
            if self.role_count(role, pipelined=pipelined, idle=True) < least:
                return False
        return True

    def subjobs_valid(self) -> bool:
        if not self.min_subjobs:
            return True
        found: dict[str, int] = {}
        for sub in self.subjobs.values():
            found[sub.gid] = found.get(sub.gid, 0) + 1
        return all(found.get(gid, 0) >= n for gid, n in self.min_subjobs.items())

    def subjobs_short(self, *, pipelined: bool) -> dict[str, int]:
        """Return how many ready subgroups each subgroup policy lacks. Policies that lack none are
        left out.

        With `pipelined`, subgroups that will be ready once evictions end count as ready.
        """
        out: dict[str, int] = {}
        for gid, least in self.min_subjobs.items():
            if least:
                subs = (x for x in self.subjobs.values() if x.gid == gid)
                good = sum(x.is_pipelined() if pipelined else x.is_ready() for x in subs)
                if good < least:
                    out[gid] = least - good
        return out

    def subjobs_hold(self, *, pipelined: bool) -> bool:
        return not self.min_subjobs or not self.subjobs_short(pipelined=pipelined)

    def is_hard(self) -> bool:
        """Whether the job, or a part of it, must stay within a network domain."""
        return is_bound(self.topology) or any(x.is_hard() for x in self.subjobs.values())

    def has_topology(self) -> bool:
        if self.topology is not None:
            return True
        for sub in self.subjobs.values():  # noqa: SIM110 -- asked so often that a generator costs time
            if sub.topology is not None:
                return True
        return False

    def forget_failures(self, sub: SubJob | None = None) -> None:
        if sub is None:
            self.failed_roles.clear()
        else:
            self.failed_roles.pop(sub.uid, None)


def is_bound(topology: NetworkTopology | None) -> bool:
    """Whether a topology is hard and names a highest tier. Tier 0 counts as named.

    Topologies that were soft in the snapshot count, too: `parts.bound_and_settle` has made them
    hard, with a highest tier that allows the whole cluster.
    """
    return (
        topology is not None
        and topology.mode == "hard"
        and (topology.highest_tier is not None or bool(topology.highest_tier_name))
    )


def _whole(text: str) -> int:
    """Return a whole number; 0 for other text."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0
