"""A node: passes messages, lost connections, ticks and rounds on to its machines.

A shell (the runtime's node, or the simulated one) provides the effects, and reports these events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from phalanx.model.system_settings import SystemSettings
from phalanx.node.dispatch import MessageTable, PeerMessageTable
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.failed_orders import refusal
from phalanx.node.group_places import GroupPlaces
from phalanx.node.head_link import HeadLink
from phalanx.node.leases.remote import LeaseInquiries
from phalanx.node.membership import Holdings
from phalanx.node.no_other_nodes import Spills
from phalanx.node.own_requests import OwnRequests
from phalanx.node.parts import NodeParts
from phalanx.node.peers import NODE, Peer
from phalanx.node.requests import NodeRequests
from phalanx.node.waiting_tasks import WaitingTasks
from phalanx.protocol.asking import Ask
from phalanx.protocol.bundle_messages import ClaimRoom
from phalanx.protocol.cluster_messages import (
    EndWork,
    EnvironmentKnown,
    JobKnown,
    QueueWeights,
    SetTotals,
    Via,
    ViewRow,
)
from phalanx.protocol.frames import decode_body
from phalanx.protocol.messages import Hello
from phalanx.protocol.node_messages import LeaseWanted, Stop
from phalanx.protocol.report_messages import EventsReported, GatherEvents, ReportHeard
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class Membership(Protocol):
    """The membership of a node in its cluster."""

    @property
    def trouble(self) -> str:
        """Why the head cannot be reached; "" while it can."""
        ...

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's answers."""
        ...

    def is_head(self, connection: Peer) -> bool:
        """Whether this is the connection to the head."""
        ...

    def heard(self) -> None:
        """Note that a message has come over the connection to the head."""
        ...

    def connection_lost(self, refusal: str, is_about_token: bool, is_given_up: bool) -> None:
        """Handle the end of the connection to the head. `refusal`: why the connection could not be
        made, if it was never made.

        `is_given_up`: whether the head has declared the node dead. `is_about_token`: whether the
        reason is a wrong or missing token.
        """
        ...

    def tick(self, now: float) -> None:
        """Do the work that is due."""
        ...

    def round(self) -> None:
        """Handle the end of a round: all messages that had arrived have been handled."""
        ...


M_co = TypeVar("M_co", bound=Membership, covariant=True)


class Node(NodeParts, Generic[M_co]):
    """A node as its shell sees it: passes messages, ticks and rounds on to the machines."""

    def __init__(
        self,
        setup: NodeSetup,
        effects: NodeEffects,
        head: HeadLink,
        make_spilling: Callable[[LeaseInquiries, GroupPlaces], Spills],
        make_membership: Callable[[Node[M_co]], M_co],
        reports_every_tick: bool = False,
    ) -> None:
        """`make_membership` is called with the node when all other parts exist."""
        super().__init__(setup, effects, head, make_spilling, reports_every_tick)
        self.from_head = MessageTable()
        self.from_processes = PeerMessageTable()
        self.membership = make_membership(self)
        self.requests = NodeRequests(
            OwnRequests(
                setup.node_id,
                setup.labels,
                self.drivers,
                self.store,
                self.events,
                WaitingTasks(self.leases.waiting, self.spilling, self.resources, self._clock),
                effects.drain_output,
            ).handlers,
            head,
            self.membership,
            setup.address,
            self.reports.report_needed,
        )
        self._handle_head()
        self._handle_processes()
        self._handle_other_nodes()

    def _handle_head(self) -> None:
        """Register the handlers for messages of the head."""
        table, leases, clock = self.from_head, self.leases, self._clock
        self.membership.handle_in(table)
        self.actors.handle_in(table, self.from_processes)
        self.groups.handle_in(table)
        self.members.handle_in(table)
        self.devices.handle_in(table)
        self.usage.handle_in(table)
        self.output.handle_in(table)
        self.drivers.handle_in(table)
        self.others.handle_in(table)
        table.on(Via, self._pass_on)
        table.on(JobKnown, self.jobs.job_known)
        table.on(EnvironmentKnown, self.jobs.environment_known)
        table.on(ClaimRoom, lambda message: leases.claim(message, clock()))
        table.on(SetTotals, lambda message: leases.set_totals(message.totals, clock()))
        table.on(EndWork, lambda message: leases.end_all(message.reason, message.by_force))
        table.on(QueueWeights, lambda message: leases.set_weights(message.weights, clock()))
        table.on(GatherEvents, self._send_events)
        table.on(ReportHeard, self._report_heard)

    def _handle_processes(self) -> None:
        """Register the handlers for messages of this node's drivers and workers."""
        table = self.from_processes
        table.on(Hello, self.processes.introduced)
        table.on(Ask, self.requests.answer)
        table.on(LeaseWanted, self.wanted.wanted)
        self.owners.handle_in(table)
        self.store.handle_in(table)
        self.events.handle_in(table)
        self.state.handle_in(self.from_head, table)
        self.counts.handle_in(table)
        table.on(Stop, lambda peer, message: self._connections.lose(peer))

    def _handle_other_nodes(self) -> None:
        """Register the handlers for messages of other nodes and of their processes."""
        from_afar = self.others.from_afar
        from_afar.on(LeaseWanted, self.wanted.wanted)
        self.owners.handle_from_afar_in(from_afar)
        self.store.handle_from_afar_in(from_afar)
        self.store.handle_from_nodes_in(self.others.from_nodes)
        self.jobs.handle_from_nodes_in(self.others.from_nodes)

    def _pass_on(self, message: Via) -> None:
        """Pass a message of the head on to a process of this node."""
        for inner in decode_body(message.body):
            self.peers.post(message.process, inner)

    def _report_heard(self, message: ReportHeard) -> None:
        self.standing.heard(message.number)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begin the work that waited, because it is now certain that the head has not given this
        node up.
        """
        self.members.begin_waiting()
        self.actors.begin_waiting()

    def _send_events(self, message: GatherEvents) -> None:
        self.head.report(EventsReported(message.number, self.events.rows()))

    # ---- input from the shell --------------------------------------------------------------------

    def on_message(self, connection: Peer, message: Any) -> None:
        """Handle a message. A sender that may not send it loses its connection."""
        if connection.tag == NODE:
            self.others.on_message(connection, message)
        elif self.membership.is_head(connection):
            self.membership.heard()
            try:
                self.from_head.handle(message)
            except Exception as error:  # the head repeats its order to a node that comes back
                self._report_defect(error)
                answer = refusal(message, error)
                if answer is not None:
                    self.head.notify(answer)
        else:
            is_known = bool(connection.peer) or isinstance(message, Hello | Ask)
            if not (is_known and self.from_processes.handle(connection, message)):
                self._connections.lose(connection)

    def on_lost(
        self,
        connection: Peer,
        refusal: str = "",
        is_about_token: bool = False,
        is_given_up: bool = False,
    ) -> None:
        """Handle a connection that has ended, or that could not be made. `refusal`: why it could
        not be made. `is_about_token`: whether the reason is a wrong or missing token.
        `is_given_up`: whether the head has declared this node dead.
        """
        if self.membership.is_head(connection):
            self.membership.connection_lost(refusal, is_about_token, is_given_up)
        elif connection.tag == NODE:
            self.others.connection_lost(connection, refusal)
        else:
            self.processes.connection_lost(connection)

    def on_tick(self, now: float) -> None:
        """Let each part do the work that is due. An error in one part does not stop the others."""
        for tick in (
            self.leases.tick,
            self.workers.tick,
            self.records.tick,
            self._tick_bundles,
            self.store.tick,
            self.groups.tick,
            self.directories.tick,
            self.shortage.tick,
            self.members.tick,
            self.fork_watch.tick,
            self.devices.tick,
            self.machine_use.tick,
            self.checks.tick,
            self.state.tick,
            lambda now: self.groups.settle(),
            self.reports.tick,
            self.membership.tick,
            self.planner.tick,
            self.counts.tick,
        ):
            try:
                tick(now)
            except Exception as error:
                self._report_defect(error)

    def _tick_bundles(self, now: float) -> None:
        if self.bundles.tick(now):
            self.leases.dispatch(now)

    def on_round(self) -> None:
        """Handle the end of a round: all messages that had arrived have been handled."""
        self.leases.round(self._clock())
        self.groups.settle()
        self.reports.round()
        self.membership.round()
        has_settled = self.groups.settle()  # a head in this process may have freed bundles
        if self.planner.round() or has_settled:
            self.membership.round()

    # ---- questions of its membership -------------------------------------------------------------

    def on_head_joined(self, placement: PlacementPolicy, settings: SystemSettings) -> None:
        """Store the cluster's placement policy and settings, and report everything to the head
        again.
        """
        self.spilling.use(placement)
        self.jobs.settings = settings
        self._begin_waiting()
        self.groups.head_joined()
        self.reports.head_joined()
        self.counts.head_joined()
        self.members.head_joined()
        self.drivers.head_joined()

    def on_head_lost(self) -> None:
        """Forget the version of the view that the lost head has sent, so that the next head is
        asked for a whole view.
        """
        self.view.head_lost()

    def lose(self, connection: Peer) -> None:
        """End a connection as if its other end had ended it."""
        self._connections.lose(connection)

    def own_row(self) -> ViewRow:
        """Return the node's row for other nodes, without its address."""
        return self.status.row()

    def given_up(self) -> list[bytes]:
        """Return the prefixes of the nodes that a head has declared dead."""
        return self.links.given_up()

    def holdings(self) -> Holdings:
        """Return what a head must know about this node when it joins."""
        return self.actors.here(), self.bundles.inventory()

    def has_places(self) -> bool:
        """Whether the node holds places for jobs, gangs or groups."""
        return bool(self.bundles.inventory().held)
