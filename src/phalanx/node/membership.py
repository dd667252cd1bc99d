"""A node's membership in a cluster: it joins, notices that the head is gone, and joins again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from phalanx.model.ids import CONTROL, node_process_id
from phalanx.model.system_settings import SystemSettings
from phalanx.node.dispatch import MessageTable
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.options import PATIENCE_S
from phalanx.node.peers import HEAD, Peer
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import (
    Acked,
    ActorHere,
    Expelled,
    ForwardedReply,
    Join,
    Joined,
    Leave,
    ViewRow,
)
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

RETRY_S = 0.2
PATIENCE_IN_USE_S = 86_400.0

Holdings = tuple[dict[bytes, ActorHere], BundleInventory]
"""The worker of each actor, empty for one that waits for its worker, and the bundles."""


class MembershipOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a node belongs to its cluster."""

    head: str
    """The head's address, for people."""
    hostname: str
    """Of its machine."""
    name: str = ""
    """What people call it; empty: as its machine."""
    patience_s: float = PATIENCE_S
    """The node ends so long after its connection to the head was lost, if nothing needs it."""
    patience_in_use_s: float = PATIENCE_IN_USE_S
    """The same, if it holds places of jobs, gangs or groups. While something runs on it, the node
    never ends for want of a head."""
    retry_s: float = RETRY_S
    """So long after a connection to the head has ended, another is tried."""
    comes_back: bool = False
    """Whether it was a node of the cluster before, under an id that the head gave up: then it
    waits for the head as a node does that has lost it."""


class Use(Protocol):
    """What the node is needed for while there is no head."""

    def has_work(self) -> bool:
        """Whether anything runs here."""
        ...

    def has_places(self) -> bool:
        """Whether places are held here for jobs, gangs or groups. What ran in one of them may have
        ended, with a result that the head does not know yet."""
        ...


class HeadEffects(Protocol):
    """What membership asks of its shell."""

    def dial_head(self) -> Peer | None:
        """A connection to the head on which what is posted waits until it is there. None when none
        can be begun now."""
        ...

    def joined(self, cluster: str) -> None:
        """The node belongs to the cluster of this name, for the first time or again."""
        ...

    def note(self, text: str) -> None:
        """Something that a person who reads the node's log wants to know."""
        ...

    def end(self, reason: str, is_about_token: bool) -> None:
        """The node's process has to end."""
        ...


class ClusterMembership:
    """One node's, over the connection to the head."""

    def __init__(
        self,
        prefix: bytes,
        clock: Callable[[], float],
        options: MembershipOptions,
        link: RemoteHeadLink,
        effects: HeadEffects,
        own_row: Callable[[], ViewRow],
        holdings: Callable[[], Holdings],
        given_up: Callable[[], list[bytes]],
        use: Use,
        go_by: Callable[[PlacementPolicy, SystemSettings], None],
        on_joined: Sequence[Callable[[], None]],
        on_lost: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`holdings`: what is here, which a head needs to know when the node joins; `given_up`: the
        prefixes of nodes that a head gave up.
        `go_by`: takes the cluster's placement policy and settings."""
        self._prefix = prefix
        self._clock = clock
        self._options = options
        self._link = link
        self._effects = effects
        self._own_row = own_row
        self._holdings = holdings
        self._given_up = given_up
        self._use = use
        self._go_by = go_by
        self._on_joined = on_joined
        self._on_lost = on_lost
        self._head: Peer | None = None
        self._address: tuple[str, int] | None = None
        self._dial_at = float("-inf")
        self._headless_since: float | None = clock()
        """When the connection to the head was lost, or the node began; None while it is part of
        the cluster."""
        self._epoch = 0
        self._cluster = ""
        self._refusal = ""
        """Why the head at the address is not this node's; empty while none there said so."""
        self._was_joined = options.comes_back
        self._is_over = False
        self._why_ended = ""
        self.is_stale = False
        """Whether the head takes this node for dead: then it must come back as a new one."""
        self.trouble = ""
        """Why the head is not there, as it was noted last; empty while it is."""

    def handle_in(self, table: MessageTable) -> None:
        """Take what the head says about what it was sent."""
        table.on(Acked, self._link.acked)
        table.on(Joined, self._joined)
        table.on(Expelled, self._expelled)
        table.on(ForwardedReply, self._link.replied)

    def join(self, host: str, port: int) -> None:
        """Begin: other nodes reach this one there."""
        self._address = (host, port)
        self._dial()

    def leave(self, failure: str = "") -> Peer | None:
        """Say goodbye, since the node ends. `failure`: why it has to, where nobody asked it to. The
        connection that this leaves over."""
        if self._head is not None and not self.is_stale:
            reason = failure or self._why_ended or "Expected termination: received SIGTERM"
            self._head.post(Leave(reason, is_failure=bool(failure)))
        return self._head

    def is_head(self, connection: Peer) -> bool:
        """Whether this is the connection to the head."""
        return connection is self._head

    def _dial(self) -> None:
        head = self._effects.dial_head()
        if head is None:
            self._dial_at = self._clock() + self._options.retry_s
            return
        head.peer, head.tag = CONTROL, HEAD
        self._head = head
        head.post(Hello(PROTOCOL_VERSION, node_process_id(self._prefix), "node", 0))
        row = self._own_row()
        assert self._address is not None
        row.host, row.port = self._address
        actors, bundles = self._holdings()
        head.post(
            Join(
                row,
                self._options.name or self._options.hostname,
                self._epoch,
                actors,
                bundles,
                self._cluster,
                self._given_up(),
                self._options.name,
            )
        )

    def connection_lost(
        self, refusal: str, is_about_token: bool = False, is_given_up: bool = False
    ) -> None:
        """The connection to the head has ended, or could not be made for this reason. Where the
        head takes the node for dead, what runs here ends: it may run elsewhere."""
        if is_given_up:
            self.is_stale = True
            self._end(f"The head at {self._options.head} refuses this node: {refusal}.")
            return
        now = self._clock()
        self._head = None
        self._refusal = ""
        self._link.disconnected()
        self._dial_at = now + self._options.retry_s
        if self._headless_since is None:
            self._headless_since = now
        for lost in self._on_lost:
            lost()
        why = (refusal or "the connection ended").rstrip(".")
        if not self._was_joined:
            self._end(f"The head at {self._options.head} cannot be reached: {why}.", is_about_token)
        elif why != self.trouble:
            self.trouble = why
            self._effects.note(
                f"The head at {self._options.head} is not there: {why}. It is tried again."
            )

    def _expelled(self, message: Expelled) -> None:
        if self._is_over:
            return
        if message.is_foreign:
            # Its store was lost or confused, most likely: what runs here waits for the right one.
            self._refusal = message.reason
            if self._headless_since is None:
                self._headless_since = self._clock()
            if message.reason != self.trouble:
                self.trouble = message.reason
                self._effects.note(
                    f"The head at {self._options.head} refuses this node: {message.reason}. While "
                    "the node has work it waits for its own head, which needs its own store."
                )
        else:
            self.is_stale = message.is_stale
            self._end(f"The head at {self._options.head} refuses this node: {message.reason}")

    def _joined(self, message: Joined) -> None:
        if self._is_over:
            return
        assert self._head is not None
        self._epoch = message.epoch
        self._cluster = message.cluster
        self._headless_since = None
        self._was_joined = True
        self._go_by(message.placement, message.settings)
        self._link.connected(self._head)
        for joined in self._on_joined:
            joined()
        if self.trouble:
            self.trouble = ""
            self._effects.note("The head is there again.")
        self._effects.joined(message.cluster)

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._headless_since is None or self._is_over:
            return
        lasted_s = now - self._headless_since
        if self._refusal and not (self._use.has_work() or self._use.has_places()):
            self.is_stale = True
            self._end(f"The head at {self._options.head} refuses this node: {self._refusal}")
        elif lasted_s > self._options.patience_s and lasted_s > self._patience_s():
            self._end(f"No head was there for {lasted_s:.0f} s.")
        elif self._head is None and self._address is not None and now >= self._dial_at:
            self._dial()

    def _patience_s(self) -> float:
        """How long the node waits for a head, as it is used now."""
        if self._use.has_work():
            return float("inf")
        options = self._options
        return options.patience_in_use_s if self._use.has_places() else options.patience_s

    def round(self) -> None:
        """All messages that had come are handled."""

    def _end(self, reason: str, is_about_token: bool = False) -> None:
        self._is_over = True
        self._why_ended = reason
        self._effects.end(reason, is_about_token)
