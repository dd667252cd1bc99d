"""What the control store knows of each gang, and of each of its members: one record, as stored."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from phalanx.head.gangs.member_states import ENDED, HELD, PLACELESS, WAITING
from phalanx.model.jobs.records import moved
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.scheduler.cycle.specs import Labels

ROLE = "worker"
NAMESPACE = "default"


class Member(msgspec.Struct, kw_only=True, eq=False, omit_defaults=True):
    """One member. `member_lifecycle` alone changes its state and its node.

    `need` is in the names and units of leases.
    """

    need: dict[str, float]
    state: str = WAITING
    node: str = ""
    """Where its bundle is asked for, kept, or being freed; empty while it has no place."""
    number: int = 0
    """Of the attempt that placed it; or of the request that frees its bundle."""
    last_node: str = ""
    """The last node that kept its bundle: members that ended still count as ranks there."""
    started: float | None = None
    """Since when its node keeps its bundle, in seconds since the epoch."""
    why_gone: str = ""
    """Why it lost or gives up its place, where it was not evicted."""
    node_death: str = ""
    """How the node ended that it lost its place with (see `model.node_deaths`)."""
    gave_way: str = ""
    """For whom it was evicted, in words."""
    devices: dict[str, list[int]] = {}
    """The devices that were set aside for it last, by resource."""
    of_group: str = ""
    """Of a job: the group that it is of, its index in that group, and the attempt that was started
    last."""
    index: int = 0
    attempt: int = 0


class Gang(msgspec.Struct, kw_only=True, eq=False, omit_defaults=True, dict=True):
    """A gang of tasks or actors, or of a job's commands.

    To programs and nodes it is a placement group with a bundle for each member. `created` is in
    seconds since the epoch.
    """

    group: bytes
    name: str
    queue: str
    priority: int
    min_members: int
    """So many members must run for any to run. Of a job: 0, as its record says how many."""
    members: list[Member]
    creator: bytes
    created: float
    namespace: str = NAMESPACE
    selector: Labels = ()
    topology: NetworkTopology | None = None
    port_count: int = 1
    grace_s: float = 0.0
    user: str = ""
    """Who pays for it, as far as that was said."""
    job: str = ""
    """The job whose commands its members are; else they are tasks or actors."""
    revision: int = 0
    """Of a job: that of its record when the gang was made."""
    kind: bytes = b""
    """What gangs have in common that scheduling cannot tell apart (see `cycle_window`)."""
    number: int = 0
    """Of the last attempt to place members, or of the last request to free bundles."""
    is_prepared: bool = False
    """Nodes have set aside what members on their way ask for, and are asked to keep it."""
    is_removed: bool = False
    """All its members have ended; it is forgotten when nothing of it is taken any more."""
    ports: list[int] = []
    started: float | None = None
    """When members last began to run."""
    is_stranded: bool = False
    """Some members run, fewer than it needs, and the others find no room."""
    is_promised: bool = False
    """Evictions made room for it that it does not have yet."""
    preempted: int = 0
    """How often members were evicted."""
    rests_until: float = 0.0
    """A node refused it: cycles pass it over until then, on the head's clock."""
    backoff_s: float = 0.0

    @cached_property
    def uid(self) -> str:
        """The name of its podgroup."""
        return f"{self.namespace}/{self.name}"

    def clock_stepped(self, step_s: float) -> None:
        """The time of day was stepped by so much: what it noted moves along."""
        self.created += step_s
        self.started = moved(self.started, step_s)
        for member in self.members:
            member.started = moved(member.started, step_s)

    def task(self, index: int) -> str:
        """The name of a member's task in scheduling."""
        member = self.members[index]
        if self.job:
            return f"{self.namespace}/{self.name}-{member.of_group}-{member.index}"
        return f"{self.namespace}/{self.name}-{index}"

    def among(self, *states: str) -> list[int]:
        """The members in any of these states."""
        return self.within(states)

    def within(self, states: Iterable[str]) -> list[int]:
        """The members in any of these states."""
        return [index for index, member in enumerate(self.members) if member.state in states]

    def count(self, *states: str) -> int:
        """How many members are in any of these states."""
        return sum(member.state in states for member in self.members)

    def index_of(self, of_group: str, index: int) -> int | None:
        """Of a job: the member with this index in this group."""
        for at, member in enumerate(self.members):
            if member.index == index and member.of_group == of_group:
                return at
        return None

    @property
    def waits(self) -> bool:
        """Whether any member wants a place."""
        for member in self.members:  # noqa: SIM110  (asked of every gang; a generator is dearer)
            if member.state == WAITING:
                return True
        return False

    @property
    def holds(self) -> bool:
        """Whether any member takes, or may take, something of a node."""
        for member in self.members:  # noqa: SIM110
            if member.state not in PLACELESS:
                return True
        return False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for a place or has one."""
        for member in self.members:
            if member.state not in PLACELESS or member.state == WAITING:
                return False
        return True

    @property
    def phase(self) -> str:
        """In Volcano's words for podgroups."""
        if self.is_over:
            return "completed"
        if self.is_stranded:
            return "unknown"
        here = sum(m.state == HELD or m.state in ENDED for m in self.members)
        return "running" if here >= max(self.min_members, 1) else "pending"


def ended_count(gang: Gang) -> int:
    """How many members have ended, whatever they still hold."""
    return sum(member.state in ENDED for member in gang.members)
