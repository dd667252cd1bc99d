"""A simulated machine. The node's decisions about bundles and members are production code (`node`),
and so is its link to the head, which repeats unconfirmed messages. Programs, which only take time,
connections and files are simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from phalanx.model.exit_codes import KILLED, SIGNALLED
from phalanx.model.principals import NOBODY
from phalanx.node.bundle_table import BundleTable
from phalanx.node.dispatch import MessageTable
from phalanx.node.group_places import GroupPlaces
from phalanx.node.groups import NodeGroups
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.job_members import JobMembers
from phalanx.node.member_effects import CommandEnd, MemberEffects
from phalanx.node.usage import NoUsageMeter
from phalanx.protocol.bundle_messages import Command, Receivers, StartMember
from phalanx.protocol.cluster_messages import ForwardedReply, ViewRow
from phalanx.protocol.membership_messages import Acked, Join, Joined
from phalanx.protocol.report_messages import NodeReport
from phalanx.scheduler.devices.instances import NodeResources
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.members import NoJobFiles, NoMemoryMeter

STOPS_S = 4.0
"""Seconds from SIGTERM to the end of a program."""
_TERMINATED = SIGNALLED + 15


class Programs(Protocol):
    """Decides how long members' commands run."""

    def begins(self, order: StartMember) -> float:
        """Start a member's command. Returns the seconds for which it will run."""
        ...

    def ends(self, order: StartMember, ran_s: float, code: int) -> None:
        """Record that the command has ended after `ran_s` seconds."""
        ...


class Wire:
    """A machine's connection to the head, as a Peer."""

    tag = "head"
    peer = b""
    principal = NOBODY

    def __init__(self, say: Callable[[Any], None]) -> None:
        self.post = self.send = say


class _Leases:
    """A set of leases that is always empty, because no work runs outside of bundles."""

    is_draining = False

    def dispatch_in(self, room: bytes | None, now: float) -> None:
        """Do nothing, since nothing runs outside of bundles."""

    def end_claim(self, group: bytes) -> None:
        """Do nothing, since no room is kept for gangs."""


class Machine:
    """One node of the lab."""

    def __init__(
        self, number: int, total: dict[str, float], kernel: Kernel, programs: Programs
    ) -> None:
        self.name = f"node{number:03d}"
        self.prefix = f"no{number:04d}".encode()
        self.node_id = self.prefix.hex().ljust(56, "0")
        self.resources = NodeResources(total)
        self._kernel = kernel
        self._programs = programs
        self._running: dict[bytes, tuple[StartMember, float]] = {}
        """The order of each running program, and the time of its start."""
        self._unique = 0
        self._epoch = 0
        self._wire: Wire | None = None
        self._control = RemoteHeadLink()
        self._bundles = BundleTable(self.resources)
        places = GroupPlaces(self.node_id, self._bundles)
        self.members = JobMembers(
            MemberEffects(
                clock=self._clock,
                commands=self,
                files=NoJobFiles(),
                memory=NoMemoryMeter(),
                make_unique=self._make_unique,
                usage=NoUsageMeter(),
                note=self._note,
            ),
            self._bundles,
            self._control,
        )
        self._groups = NodeGroups(
            self.prefix,
            self._clock,
            bundles=self._bundles,
            places=places,
            leases=_Leases(),
            tenants=(self.members,),
            head=self._control,
            request_plan=lambda: None,
            report_changed=self._report,
            is_port_free=lambda port: True,
        )
        self._table = table = MessageTable()
        self._groups.handle_in(table)
        self.members.handle_in(table)
        table.on(Joined, self._joined)
        table.on(Acked, self._control.acked)
        table.on(ForwardedReply, self._control.replied)

    # ---- the head ----------------------------------------------------------------------------

    def join(self, wire: Wire) -> None:
        """Join a head, for the first time or after a restart."""
        self._wire = wire
        row = ViewRow(
            node_id=self.node_id,
            prefix=self.prefix,
            host=self.name,
            port=1,
            state="ALIVE",
            total=self.resources.total(),
            available=self.resources.available(),
            labels={},
            devices=self.resources.devices_left(),
        )
        wire.post(Join(row, self.name, self._epoch, {}, self._bundles.inventory()))

    def _joined(self, message: Joined) -> None:
        assert self._wire is not None
        self._epoch = message.epoch
        self._control.connected(self._wire)

    def head_gone(self) -> None:
        """Handle the end of the head's process."""
        self._wire = None
        self._control.disconnected()

    def hears(self, message: Any) -> None:
        """Handle a message from the head. Messages about kinds of work that do not run here are
        ignored.
        """
        self._table.handle(message)

    def tick(self) -> None:
        now = self._clock()
        self._groups.tick(now)
        self.members.tick(now)
        if self._bundles.tick(now):
            self._report()
        self._groups.settle()

    def _report(self) -> None:
        free, devices = self.resources.available(), self.resources.devices_left()
        self._control.report(NodeReport(available=free, devices=devices))

    def _clock(self) -> float:
        return self._kernel.now

    def _note(self, text: str, *, level: str = "", job: str = "") -> None:
        self._kernel.log(self.name, f"{job} {text}")

    def _make_unique(self, size: int) -> bytes:
        self._unique += 1
        return self._unique.to_bytes(size, "big")

    # ---- CommandEffects ----------------------------------------------------------------------

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a program. It ends after a simulated time."""
        self._running[process] = (order, self._kernel.now)
        self._kernel.after(self._programs.begins(order), partial(self._ends, process, 0))

    def terminate(self, process: bytes) -> None:
        """Send SIGTERM to a program. It ends `STOPS_S` seconds later."""
        self._kernel.after(STOPS_S, partial(self._ends, process, _TERMINATED))

    def kill(self, process: bytes) -> None:
        """End a program immediately."""
        self._kernel.after(0.0, partial(self._ends, process, KILLED))

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Do nothing, since programs here save their work when they end."""

    def _ends(self, process: bytes, code: int) -> None:
        found = self._running.pop(process, None)
        if found is None:
            return
        order, began = found
        self._programs.ends(order, self._kernel.now - began, code)
        self.members.exited(process, CommandEnd(code=code))
        self._groups.settle()
