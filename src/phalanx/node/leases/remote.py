"""Leases that this node's owners hold on other nodes.

An owner talks only to its own node. If that node lacks workers, it asks another node on the owner's
behalf. Grants come back the same way. The owner then sends its tasks straight to the other node's
workers.
"""

from __future__ import annotations

import itertools
from typing import Any

from phalanx.model.ids import node_prefix
from phalanx.node.events import NodeEvents
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.demands import Demands
from phalanx.node.leases.model import Demand
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import NodeLinks
from phalanx.node.peers import Peers
from phalanx.node.spillback_planner import PlanRequests
from phalanx.protocol.cluster_messages import EnvironmentKnown
from phalanx.protocol.node_messages import (
    OVER,
    Granted,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    LogLine,
    Refused,
    WorkerDied,
)
from phalanx.scheduler.devices.sets import EMPTY


class LeaseInquiries:
    """Asks other nodes for workers, as spillback has planned."""

    def __init__(self, links: NodeLinks, jobs: KnownJobs, events: NodeEvents) -> None:
        self._links = links
        self._jobs = jobs
        self._events = events
        self._described: dict[bytes, set[bytes]] = {}
        """For each other node: the jobs and environments that this node has described to it."""

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        """Tell a node how many workers a demand would use there. `seen`: how many workers the node
        has given so far.
        """
        prefix = node_prefix(node_id)
        self._events.asked(demand, prefix, count)
        self._describe(prefix, demand)
        strategy: dict[str, Any] = {}
        if demand.group is not None:
            strategy = {"group": demand.group[0].hex(), "bundle": demand.group[1]}
        wanted = LeaseWanted(
            demand.scheduling_class,
            demand.place.to_mapping(),
            count,
            demand.environment,
            strategy,
            demand.priority,
            demand.queue,
            seen,
            demand.retriable,
        )
        self._links.send_to(prefix, demand.owner, wanted)

    def _describe(self, prefix: bytes, demand: Demand) -> None:
        """Send the other node everything that it must know before it starts workers for the
        demand.
        """
        described = self._described.setdefault(prefix, set())
        job = self._jobs.get(demand.job)
        if job is not None and demand.job not in described:
            described.add(demand.job)
            self._links.send(prefix, job)
        key = demand.environment
        if key and key not in described:
            described.add(key)
            self._links.send(prefix, EnvironmentKnown(key, self._jobs.environment(key)))

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        """Tell a node that a demand is met or gone. `is_over`: whether the demand's class is over
        as well.
        """
        prefix = node_prefix(node_id)
        if self._links.is_asked(prefix):
            count = OVER if is_over else 0
            self._links.send_to(prefix, owner, LeaseWanted(scheduling_class, {}, count))

    def node_cut(self, prefix: bytes) -> None:
        """Forget which jobs and environments were described to a node, because the connection to
        the node has ended.
        """
        self._described.pop(prefix, None)


class BorrowedLeases:
    """Leases that other nodes have granted. Owners know them by negative numbers."""

    def __init__(
        self,
        links: NodeLinks,
        peers: Peers,
        waiting: Demands,
        spilling: Spills,
        plans: PlanRequests,
    ) -> None:
        self._links = links
        self._peers = peers
        self._waiting = waiting
        self._spilling = spilling
        self._plans = plans
        self._numbers = itertools.count(1)
        self._borrowed: dict[int, tuple[bytes, Granted, bytes]] = {}
        """For each lease, by the number under which its owner knows it: (node, grant, owner)."""
        self._number_of: dict[tuple[bytes, int], int] = {}

    # ---- what this node's owners say ---------------------------------------------------------

    def returned(self, owner: bytes, message: LeaseReturned) -> None:
        """Give a borrowed lease back to its node, on behalf of its owner."""
        entry = self._borrowed.get(message.lease)
        if entry is not None:
            node, granted, _ = entry
            self._forget(message.lease)
            self._links.send_to(node, owner, LeaseReturned(granted.lease, message.reusable))

    def kill(self, owner: bytes, message: KillWorker) -> None:
        """End the worker of a borrowed lease on behalf of its owner."""
        entry = self._borrowed.get(message.lease)
        if entry is None:
            return
        node, granted, borrower = entry
        if borrower == owner:
            self._links.send_to(node, owner, KillWorker(granted.lease))

    def owner_gone(self, owner: bytes) -> None:
        """Forget the leases of a process that has ended. Other nodes get a message about its end,
        and end the workers.
        """
        for number, (_, _, who) in list(self._borrowed.items()):
            if who == owner:
                self._forget(number)

    def _forget(self, number: int) -> None:
        prefix, granted, _ = self._borrowed.pop(number)
        del self._number_of[prefix, granted.lease]
        self._spilling.given_back(self._links.node_id(prefix))

    # ---- what other nodes say ----------------------------------------------------------------

    def on_message(self, prefix: bytes, owner: bytes, message: Any) -> None:
        """Handle a message that another node sent to a process of this node."""
        match message:
            case Granted():
                self._granted(prefix, owner, message)
            case LeaseDue():
                due = self._number_of.get((prefix, message.lease))
                if due is not None:
                    self._peers.post(owner, LeaseDue(due))
            case Refused():
                self._plans.request()
            case WorkerDied():
                for number, (node, granted, _) in list(self._borrowed.items()):
                    if node == prefix and granted.worker == message.worker:
                        self._forget(number)
                self._peers.post(owner, message)
            case LogLine():
                self._peers.post(owner, message)

    def _granted(self, prefix: bytes, owner: bytes, message: Granted) -> None:
        peer = self._peers.get(owner)
        if peer is None or not self._waiting.is_known(owner, message.scheduling_class):
            # The class or the owner's process ended while the grant was on its way.
            self._links.send_to(prefix, owner, LeaseReturned(message.lease))
            over = LeaseWanted(message.scheduling_class, {}, OVER)
            self._links.send_to(prefix, owner, over)
            return
        number = -next(self._numbers)
        self._borrowed[number] = (prefix, message, owner)
        self._number_of[prefix, message.lease] = number
        demand = self._waiting.of(owner, message.scheduling_class)
        hold = EMPTY if demand is None or demand.group is not None else demand.hold
        node_id = self._links.node_id(prefix)
        self._spilling.granted(node_id, owner, message.scheduling_class, hold, message.lease)
        self._waiting.granted_elsewhere(owner, message.scheduling_class)
        peer.post(
            Granted(
                message.scheduling_class,
                number,
                message.worker,
                message.resources,
                message.devices,
                message.gang,
                message.variables,
            )
        )

    def node_cut(self, prefix: bytes, reason: str) -> None:
        """Drop the leases that were borrowed from a node, because the connection to it has
        ended.
        """
        for number, (node, granted, owner) in list(self._borrowed.items()):
            if node == prefix:
                self._forget(number)
                died = WorkerDied(granted.worker, f"its node died: {reason}", "node")
                self._peers.post(owner, died)
