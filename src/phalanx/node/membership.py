"""A node's membership in a cluster: the node joins, notices the loss of the head, and joins
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from phalanx.model.ids import CONTROL, node_process_id
from phalanx.model.machines import MachineShare
from phalanx.model.system_settings import SystemSettings
from phalanx.node.dispatch import MessageTable
from phalanx.node.head_addresses import HeadAddresses, HeadSilence
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.options import PATIENCE_S
from phalanx.node.peers import HEAD, Peer
from phalanx.node.standing import Standing
from phalanx.protocol.actor_messages import ActorHere
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ForwardedReply, ViewRow
from phalanx.protocol.membership_messages import Acked, Expelled, Join, Joined, Leave, Probe, Probed
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

RETRY_S = 0.2
PATIENCE_IN_USE_S = 86_400.0

Holdings = tuple[dict[bytes, ActorHere], BundleInventory]
"""The contents of a node: its actors by id, each with its worker (empty while it waits for one),
and its bundles.
"""


class MembershipOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a node's membership in its cluster."""

    heads: tuple[str, ...]
    """HOST:PORT of the head, then of each standby."""
    hostname: str
    """The host name of the node's machine."""
    name: str = ""
    """The name of the node for display; "" for the name of its machine."""
    machine: MachineShare | None = None
    """The node's share of its machine, as in `Join`."""
    is_system: bool = False
    """Whether the node runs work under the accounts of its owners, as in `Join`."""
    patience_s: float = PATIENCE_S
    """Seconds from the loss of the head until a node that holds nothing ends."""
    patience_in_use_s: float = PATIENCE_IN_USE_S
    """Seconds from the loss of the head until the node ends, if it holds places of jobs, gangs or
    groups, but nothing runs in them.

    While any work runs on a node, the node never ends for lack of a head.
    """
    retry_s: float = RETRY_S
    """Seconds from the end of a connection to the head until the next attempt to connect."""
    comes_back: bool = False
    """Whether the node was in the cluster before, under an id that the head has declared dead.

    If so, it waits for the head as long as a node that has lost its head.
    """
    formers: tuple[str, ...] = ()
    """The earlier ids of the node, as in `Join`."""
    keeps_commands: bool = False
    """Whether the commands of members continue when this node's process ends, as in `Join`."""


class MemberNode(Protocol):
    """The node as its membership sees it."""

    prefix: bytes
    standing: Standing

    def own_row(self) -> ViewRow:
        """Return the node's row for other nodes, without its address."""
        ...

    def holdings(self) -> Holdings:
        """Return what a head must know about this node when it joins."""
        ...

    def given_up(self) -> list[bytes]:
        """Return the prefixes of the nodes that a head has declared dead."""
        ...

    def has_work(self) -> bool:
        """Whether any work runs on the node."""
        ...

    def has_places(self) -> bool:
        """Whether the node holds places of jobs, gangs or groups.

        The work in a place may have ended with a result that the head does not know yet.
        """
        ...

    def on_head_joined(self, placement: PlacementPolicy, settings: SystemSettings) -> None:
        """Store the cluster's placement policy and settings, and report everything to the head
        again.
        """
        ...

    def on_head_lost(self) -> None:
        """Note that no head can be reached."""
        ...

    def lose(self, connection: Peer) -> None:
        """End a connection as if its other end had ended it."""
        ...


class HeadEffects(Protocol):
    """Connects to the head, writes the node's log, and ends the process, for the membership."""

    def dial_head(self, address: str) -> Peer | None:
        """Return a new connection to the head at this address. Messages posted on the connection
        wait until it is made.

        Returns None if no connection can be begun now.
        """
        ...

    def joined(self, cluster: str, address: str, standbys: tuple[str, ...]) -> None:
        """Note that the node belongs to the cluster of this name, for the first time or again. The
        head is at `address`, and may later be at one of the `standbys`.
        """
        ...

    def note(self, text: str) -> None:
        """Write a line into the node's log."""
        ...

    def end(self, reason: str, is_about_token: bool) -> None:
        """End the node's process. `is_about_token`: whether the reason is a wrong or missing
        token.
        """
        ...


class ClusterMembership:
    """The membership of one node, over its connection to the head."""

    def __init__(
        self,
        node: MemberNode,
        clock: Callable[[], float],
        *,
        options: MembershipOptions,
        link: RemoteHeadLink,
        effects: HeadEffects,
    ) -> None:
        self._node = node
        self._clock = clock
        self._options = options
        self._link = link
        self._effects = effects
        self._heads = HeadAddresses(options.heads)
        self._silence = HeadSilence()
        self._head: Peer | None = None
        self._address: tuple[str, int] | None = None
        self._dial_at = float("-inf")
        self._asked_at = 0.0
        """The time of the last request to join, on the clock of the node's standing."""
        self._headless_since: float | None = clock()
        """The time when the connection to the head was lost or, if there was none yet, when the
        node began; None while the node is joined.
        """
        self._epoch = 0
        self._cluster = ""
        self._refusal = ""
        """Why the head at the address refuses this node; "" if the head does not refuse the
        node.
        """
        self._was_joined = options.comes_back
        self._is_over = False
        self._why_ended = ""
        self.is_stale = False
        """Whether the head has declared this node dead. The node must then come back as another
        node.
        """
        self.trouble = ""
        """Why the head cannot be reached; empty while it can."""
        self._noted: set[str] = set()
        """The reasons for which the head could not be reached since the node last joined."""

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's answers."""
        table.on(Acked, self._link.acked)
        table.on(Joined, self._joined)
        table.on(Probed, lambda message: None)
        table.on(Expelled, self._expelled)
        table.on(ForwardedReply, self._link.replied)

    @property
    def heads(self) -> tuple[str, ...]:
        """The addresses at which the cluster's head can be, as HOST:PORT."""
        return self._heads.all

    def join(self, host: str, port: int) -> None:
        """Begin to join. Other nodes reach this node at the given address."""
        self._address = (host, port)
        self._dial()

    def leave(self, failure: str = "") -> Peer | None:
        """Tell the head that the node ends. Returns the connection that was used.

        `failure`: why the node must end, if nobody asked for that.
        """
        if self._head is not None and not self.is_stale:
            reason = failure or self._why_ended or "Expected termination: received SIGTERM"
            self._head.post(Leave(reason, is_failure=bool(failure)))
        return self._head

    def is_head(self, connection: Peer) -> bool:
        """Whether this is the connection to the head."""
        return connection is self._head

    def _dial(self) -> None:
        head = self._effects.dial_head(self._heads.current)
        self._silence.heard(self._clock())
        if head is None:
            self._dial_at = self._clock() + self._options.retry_s
            return
        head.peer, head.tag = CONTROL, HEAD
        self._asked_at = self._node.standing.now()
        self._head = head
        head.post(Hello(PROTOCOL_VERSION, node_process_id(self._node.prefix), "node", 0))
        row = self._node.own_row()
        assert self._address is not None
        row.host, row.port = self._address
        actors, bundles = self._node.holdings()
        head.post(
            Join(
                row,
                self._options.name or self._options.hostname,
                self._epoch,
                actors,
                bundles,
                self._cluster,
                self._node.given_up(),
                self._options.name,
                self._options.machine,
                self._options.is_system,
                list(self._options.formers),
                self._options.keeps_commands,
            )
        )

    def connection_lost(
        self, refusal: str, is_about_token: bool = False, is_given_up: bool = False
    ) -> None:
        """Handle a connection to the head that has ended, or that could not be made. `refusal`: why
        it could not be made.

        If the head has declared the node dead (`is_given_up`), the node ends its work, because the
        work may already run elsewhere. `is_about_token`: whether the reason is a wrong or missing
        token; a node that has not joined yet then ends without trying other addresses.
        """
        if is_given_up:
            self.is_stale = True
            self._end(f"The head at {self._heads.current} refuses this node: {refusal}.")
            return
        now, address = self._clock(), self._heads.current
        self._heads.failed()
        self._head = None
        self._refusal = ""
        self._link.disconnected()
        self._dial_at = now + self._options.retry_s
        if self._headless_since is None:
            self._headless_since = now
        self._node.on_head_lost()
        why = (refusal or "the connection ended").rstrip(".")
        if not self._was_joined:
            if self._heads.are_all_tried or is_about_token:
                self._end(f"The head at {address} cannot be reached: {why}.", is_about_token)
            return
        self.trouble = why
        if why not in self._noted:
            self._noted.add(why)
            self._effects.note(
                f"The head at {address} cannot be reached: {why}. The node keeps trying."
            )

    def _expelled(self, message: Expelled) -> None:
        if self._is_over:
            return
        if message.is_foreign:
            # Most likely the head's store was lost or exchanged, so the work here waits for the
            # right head.
            self._refusal = message.reason
            if self._headless_since is None:
                self._headless_since = self._clock()
            if message.reason != self.trouble:
                self.trouble = message.reason
                self._effects.note(
                    f"The head at {self._heads.current} refuses this node: {message.reason}. While "
                    "the node has work it waits for its own head, which needs its own store."
                )
        else:
            self.is_stale = message.is_stale
            self._end(f"The head at {self._heads.current} refuses this node: {message.reason}")

    def _joined(self, message: Joined) -> None:
        if self._is_over:
            return
        assert self._head is not None
        self._epoch = message.epoch
        self._cluster = message.cluster
        self._headless_since = None
        self._was_joined = True
        self._heads.joined(message.standbys)
        self._link.connected(self._head)
        self._node.standing.joined(message.lease, self._asked_at)
        self._node.on_head_joined(message.placement, message.settings)
        if self.trouble:
            self.trouble = ""
            self._noted.clear()
            self._effects.note(f"The head is back, at {self._heads.current}.")
        self._effects.joined(message.cluster, self._heads.current, self._heads.others)

    def heard(self) -> None:
        """Note that a message of the head has come."""
        self._silence.heard(self._clock())

    def _watch_silence(self, head: Peer, now: float) -> None:
        """Ask a silent head for an answer, and give up a head that sends none."""
        if self._silence.is_too_long(now, is_joined=self._headless_since is None):
            self._node.lose(head)
        elif self._silence.is_probe_due(now):
            head.post(Probe())

    def tick(self, now: float) -> None:
        """Connect to the head again if it is time. End the node if it has waited for the head too
        long.
        """
        if self._is_over:
            return
        if self._head is not None and self._heads.are_several:
            self._watch_silence(self._head, now)
        if self._headless_since is None:
            return
        lasted_s = now - self._headless_since
        if self._refusal and not (self._node.has_work() or self._node.has_places()):
            self.is_stale = True
            self._end(f"The head at {self._heads.current} refuses this node: {self._refusal}")
        elif lasted_s > self._options.patience_s and lasted_s > self._patience_s():
            self._end(f"No head could be reached for {lasted_s:.0f} s.")
        elif self._head is None and self._address is not None and now >= self._dial_at:
            self._dial()

    def _patience_s(self) -> float:
        """Return for how many seconds the node waits for a head. The time depends on what the node
        holds now.
        """
        if self._node.has_work():
            return float("inf")
        options = self._options
        return options.patience_in_use_s if self._node.has_places() else options.patience_s

    def round(self) -> None:
        """Do nothing: messages are sent as soon as they are made."""

    def _end(self, reason: str, is_about_token: bool = False) -> None:
        self._is_over = True
        self._why_ended = reason
        self._effects.end(reason, is_about_token)
