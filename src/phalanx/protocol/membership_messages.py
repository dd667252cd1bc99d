"""Messages by which nodes join and leave a cluster, show that they and the head still run, and
learn what the head has stored.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from phalanx.model.machines import MachineShare
from phalanx.model.system_settings import SystemSettings
from phalanx.protocol.actor_messages import ActorHere
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class Join(msgspec.Struct, array_like=True, tag=109):
    """Node to head: let the node join the cluster, for the first time or again. This is the first
    message of a connection. The head answers with Joined or Expelled.

    `epoch`: the epoch of the node's last stay in the cluster; 0 if it never belonged to the
    cluster. `actors`: the actors on the node. `cluster`: the name of the node's cluster; "" if the
    node has not joined before, or if its head has no lasting store. `given_up`: the prefixes of
    nodes that a head has declared dead, which a restarted head may not know. `hostname`: the name
    that the node was given (which is then also in `name`). If the node was given no name: the name
    of its machine.
    """

    row: ViewRow
    hostname: str
    epoch: int
    actors: dict[bytes, ActorHere]
    bundles: BundleInventory
    cluster: str = ""
    given_up: list[bytes] = []
    name: str = ""
    machine: MachineShare | None = None
    """The machine whose amounts the node shares with other nodes; None if the node does not
    share.
    """
    is_system: bool = False
    """Whether the node runs jobs as their submitters."""
    formers: list[str] = []
    """The ids of earlier processes of this node, whose members the present process has taken
    over.
    """
    keeps_commands: bool = False
    """Whether members continue when this node's process ends, so that its next process can take
    them over.
    """


class BeginLease(NamedTuple):
    """How long a node may begin work after it has sent a report that reached the head."""

    sure_s: float
    """Seconds after such a report in which the head does not give the node up, even if the node's
    connection ends.
    """
    answered_s: float
    """Seconds after such a report in which the head does not give the node up if the node's
    connection has not ended.
    """


class Joined(msgspec.Struct, array_like=True, tag=110):
    """Head to node: the node belongs to the cluster, with this policy and these settings.

    A View with all rows follows.
    """

    epoch: int
    placement: PlacementPolicy
    cluster: str = ""
    settings: SystemSettings = SystemSettings()
    standbys: tuple[str, ...] = ()
    """HOST:PORT of each other process that may be the head of this cluster."""
    lease: BeginLease | None = None
    """How long the node may begin work after a report; None for a node that may begin work at any
    time.
    """


class Expelled(msgspec.Struct, array_like=True, tag=111):
    """Head to node: the node does not belong to the cluster.

    `is_stale`: the node was declared dead, and may join again as a new node. `is_foreign`: the node
    belongs to another cluster. That cluster's head may return to this address.
    """

    reason: str
    is_stale: bool
    is_foreign: bool = False


class Leave(msgspec.Struct, array_like=True, tag=112):
    """Node to head: the node ends on purpose."""

    reason: str
    is_failure: bool = False
    """Whether the node has to end because one of its own processes was killed."""


class Reported(msgspec.Struct, array_like=True, tag=95):
    """Node to head: messages that the head confirms with Acked; `body` is the body of their
    frame.
    """

    token: int
    body: bytes


class Acked(msgspec.Struct, array_like=True, tag=96):
    """Head to node: the changes of the node's Reported message are in the store."""

    token: int


class Probe(msgspec.Struct, array_like=True, tag=148):
    """Node to head: answer immediately with Probed. Nodes of a cluster with a standby send this to
    a head that has been silent for a while.
    """


class Probed(msgspec.Struct, array_like=True, tag=149):
    """Head to node: the answer to Probe."""


MembershipMessage = Join | Joined | Expelled | Leave | Reported | Acked | Probe | Probed
