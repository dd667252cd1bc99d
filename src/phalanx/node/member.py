"""A member of a job on this node, and the programs that run in it."""

from __future__ import annotations

import msgspec

from phalanx.model.exit_codes import KILLED, SIGNALLED
from phalanx.model.ids import MemberId
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.kept_members import AttemptOf, KeptMember
from phalanx.node.usage import MemberUsage
from phalanx.protocol.bundle_messages import Command, StartMember, StartStep
from phalanx.scheduler.devices.instances import Allocation

NEVER = float("inf")


class Step(msgspec.Struct, eq=False):
    """An additional program of a member. It ends with the member."""

    order: StartStep
    usage: MemberUsage


class Member(msgspec.Struct, kw_only=True, eq=False):
    """One attempt of a member. Times are on the node's clock, in seconds."""

    order: StartMember
    pool: BundlePool
    held: Allocation
    log: str
    waiting: list[Command]
    """The commands of `before` that have not begun."""
    running: set[bytes] = set()
    """The processes of the member's own commands."""
    steps: dict[bytes, Step] = {}
    """The member's steps, by process."""
    began_at: float
    """The time when the member's commands began or, while the member rests, when they will
    begin.
    """
    limit_at: float = NEVER
    """The time when the member's time limit is reached."""
    usage: MemberUsage
    kept: KeptMember | None = None
    """The member's record, if the member continues when this node's process ends."""
    variables: dict[str, str] = {}
    """Environment variables that limit the member's programs to their part of shared GPUs."""
    prepares: bool = False
    """Whether the member's environment is being prepared, or the member waits until the
    environments of its gang's other members are prepared, too.
    """
    is_ready: bool = False
    """Whether the member's environment is prepared."""
    is_unprepared: bool = False
    """Whether the member's environment could not be prepared."""
    rests: bool = False
    """Whether the member's commands have not begun, because the member crashed before, or because
    the head may have given this node up.
    """
    has_begun: bool = False
    """Whether one of the member's processes has begun."""
    is_nodes_fault: bool = False
    """Whether the member could not begin because of its node."""
    is_quiet: bool = False
    """Whether the member is a task of a run, and was not reported to the head as running."""
    is_parent_killed: bool = False
    """Whether the member's failed command ended because its parent was killed."""
    is_warned: bool = False
    """Whether the member got the signal that its time is nearly up."""
    code: int = 0
    """The exit code of the member's first failed command; 0 if none has failed."""
    signal: int = 0
    """The signal that ended the member's first failed command; 0 if no signal did."""
    reason: str = ""
    """Why the member failed, for display."""
    terminate_at: float = NEVER
    """The time when the member gets SIGTERM. The signal that its job asks for comes before it."""
    kill_at: float = NEVER
    """The time when the member gets SIGKILL, because its grace period is over."""
    is_ending: bool = False
    is_through: bool = False
    """Whether all of the member's own commands have ended."""
    is_evicted: bool = False
    """Whether the member's bundle was taken away. The head ordered that, so it gets no report of
    the end.
    """

    def __post_init__(self) -> None:
        self._count_limit()

    def _count_limit(self) -> None:
        if self.order.time_limit_s:
            self.limit_at = self.began_at + self.order.time_limit_s

    def is_due(self, now: float) -> bool:
        """Whether the member rests and is to begin now."""
        return self.rests and now >= self.began_at and not self.is_ending

    def begin(self, now: float) -> None:
        """End the member's rest: its time counts from now on."""
        self.rests = False
        self.began_at = now
        self._count_limit()
        if self.kept is not None:
            self.kept.began = now

    @property
    def place(self) -> MemberId:
        """The member's group, and its index there."""
        return self.order.group, self.order.index

    @property
    def attempt(self) -> AttemptOf:
        """The attempt that runs."""
        return self.order.group, self.order.index, self.order.attempt

    @property
    def key(self) -> bytes:
        """The member's key among the users of a GPU."""
        return self.order.group + self.order.index.to_bytes(8, "big")

    @property
    def processes(self) -> list[bytes]:
        """The processes of the member's commands and steps, in a fixed order."""
        return sorted({*self.running, *self.steps})

    def blame_kill(self, reason: str) -> None:
        """Note why the node kills the member. If the member had already failed, the reason of that
        failure stays.
        """
        if not self.code:
            self.code, self.signal = KILLED, KILLED - SIGNALLED
        self.reason = self.reason or reason


def usage_of(held: Allocation, now: float) -> MemberUsage:
    """Return the usage of a member that begins with these resources."""
    devices = [number for number, _ in held.instances.get("GPU", ())]
    return MemberUsage(held.resources.to_mapping().get("CPU", 0.0), devices, now)
