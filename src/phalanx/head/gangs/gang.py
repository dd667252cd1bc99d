"""Records of gangs and of their members, as the head stores them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from phalanx.head.gangs.member_states import ENDED, HELD, PLACELESS, WAITING
from phalanx.model.ids import GangId, JobId
from phalanx.model.jobs.records import moved
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.scheduler.cycle.specs import Labels

ROLE = "worker"
NAMESPACE = "default"


class Member(msgspec.Struct, kw_only=True, eq=False, omit_defaults=True):
    """A member of a gang. Only `member_lifecycle` changes its state and its node.

    `need` is in the resource names and units of leases.
    """

    need: dict[str, float]
    state: str = WAITING
    node: str = ""
    """The node where the member's bundle is requested, kept or being freed; empty while the member
    has no place.
    """
    number: int = 0
    """The number of the attempt that placed the member. Once the member's bundle is being freed:
    the number of the request to free it.
    """
    last_node: str = ""
    """The last node that kept the member's bundle. Ended members still count as ranks of this
    node.
    """
    started: float | None = None
    """The time when the node began to keep the member's bundle, in seconds since the epoch."""
    why_gone: str = ""
    """The reason why the member lost or gives up its place, if it was not evicted."""
    node_death: str = ""
    """How the member's node ended, if the member lost its place with the node (see
    `model.node_deaths`).
    """
    gave_way: str = ""
    """The work that the member was evicted for, in words."""
    devices: dict[str, list[int]] = {}
    """The devices that were last set aside for the member, by resource name."""
    of_group: str = ""
    """The name of the job's group to which this member belongs. `index` is the index in that group,
    and `attempt` is the attempt that was started last.
    """
    index: int = 0
    attempt: int = 0
    ahead: int = 0
    """The number by which `attempt` exceeds the job's own count. It is above 0 if other tasks of
    the job's array had the place before.
    """

    @property
    def start(self) -> int:
        """The number of the attempt that was started last, as the job counts its attempts; 0 if
        none was started.
        """
        return self.attempt - self.ahead


class Gang(msgspec.Struct, kw_only=True, eq=False, omit_defaults=True, dict=True):
    """A gang whose members are tasks, actors, or a job's commands.

    Programs and nodes see it as a placement group with one bundle for each member. `created` is in
    seconds since the epoch.
    """

    gang_id: GangId = msgspec.field(name="group")
    name: str
    queue: str
    priority: int
    min_members: int
    """The minimum number of members. With fewer, no member may run. 0 for the gang of a job,
    because the job's record has the number.
    """
    members: list[Member]
    creator: bytes
    created: float
    namespace: str = NAMESPACE
    selector: Labels = ()
    topology: NetworkTopology | None = None
    port_count: int = 1
    grace_s: float = 0.0
    user: str = ""
    """The user to whom the gang's usage is charged, if known."""
    job: JobId = JobId("")
    """The job whose commands are the members; empty if the members are tasks or actors."""
    revision: int = 0
    """For a gang of a job: the revision of the job's record when the gang was made."""
    kind: bytes = b""
    """A value that is equal for gangs which scheduling cannot tell apart (see `cycle_window`)."""
    number: int = 0
    """The number of the last attempt to place members, or of the last request to free bundles."""
    is_prepared: bool = False
    """Whether nodes have set aside the bundles of the members that are on their way, and are being
    asked to commit them.
    """
    is_removed: bool = False
    """Whether all members have ended. The gang is forgotten once all its resources are free."""
    ports: list[int] = []
    started: float | None = None
    """The time when members last began to run, in seconds since the epoch."""
    is_stranded: bool = False
    """Whether some members run, but fewer than the minimum, and there is no room for the gang's
    other members.
    """
    is_promised: bool = False
    """Whether members are being evicted to make room for the gang. The gang does not have its
    places yet.
    """
    preempted: int = 0
    """How many times members of the gang were evicted."""
    rests_until: float = 0.0
    """The time, on the head's clock, until which cycles skip the gang after a node's refusal."""
    backoff_s: float = 0.0

    @cached_property
    def uid(self) -> str:
        """The name of the gang's podgroup."""
        return f"{self.namespace}/{self.name}"

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds."""
        self.created += step_s
        self.started = moved(self.started, step_s)
        for member in self.members:
            member.started = moved(member.started, step_s)

    def task(self, index: int) -> str:
        """Return the name of a member's task in the scheduler."""
        member = self.members[index]
        if self.job:
            return f"{self.namespace}/{self.name}-{member.of_group}-{member.index}"
        return f"{self.namespace}/{self.name}-{index}"

    def among(self, *states: str) -> list[int]:
        """Return the indexes of the members that are in any of these states."""
        return self.within(states)

    def within(self, states: Iterable[str]) -> list[int]:
        """Return the indexes of the members that are in any of these states."""
        return [index for index, member in enumerate(self.members) if member.state in states]

    def count(self, *states: str) -> int:
        """Return how many members are in any of these states."""
        return sum(member.state in states for member in self.members)

    def index_of(self, of_group: str, index: int) -> int | None:
        """Return the gang's member, as an index, that is member `index` of the job's group
        `of_group`; None if there is none.
        """
        for at, member in enumerate(self.members):
            if member.index == index and member.of_group == of_group:
                return at
        return None

    @property
    def waits(self) -> bool:
        """Whether any member of the gang waits for a place."""
        for member in self.members:  # noqa: SIM110  (asked of every gang; a generator is dearer)
            if member.state == WAITING:
                return True
        return False

    @property
    def holds(self) -> bool:
        """Whether any member of the gang takes, or may take, resources of a node."""
        for member in self.members:  # noqa: SIM110
            if member.state not in PLACELESS:
                return True
        return False

    @property
    def is_over(self) -> bool:
        """Whether no member of the gang waits for a place or has one."""
        for member in self.members:
            if member.state not in PLACELESS or member.state == WAITING:
                return False
        return True

    @property
    def phase(self) -> str:
        """The phase of the gang's podgroup, in Volcano's words."""
        if self.is_over:
            return "completed"
        if self.is_stranded:
            return "unknown"
        here = 0
        for member in self.members:
            if member.state == HELD or member.state in ENDED:
                here += 1
        return "running" if here >= max(self.min_members, 1) else "pending"


def ended_count(gang: Gang) -> int:
    """Return how many members have ended, including members that still hold a place."""
    return sum(member.state in ENDED for member in gang.members)
