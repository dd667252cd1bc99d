"""The control store by itself, with one node that does at once what it is told."""

from __future__ import annotations

from typing import Any

from tests.asking import ask
from tests.present import present
from tests.unit.head.making import make_control

from phalanx.model.ids import GangId, GroupId
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
    StartMember,
)
from phalanx.protocol.cluster_messages import NodeReport, ViewRow
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.queues import CreateQueue, QueueFields

PREFIX = bytes(6)
ROUNDS = 60
"""So many rounds are long enough for anything to come to rest."""


class World:
    """A head with one node, which does at once what it is told. The test moves the clock."""

    def __init__(self, cpus):
        self.now = 100.0
        self.total = {"CPU": float(cpus)}
        self.held = {}
        self.directories = ""
        """What the node says is wrong with its directories."""
        self.shortage = ""
        """The shortage that the node reports."""
        self.preempted = []
        self.orders = []
        """Everything that the node was told and does not do by itself."""
        self.box: list[Any] = []
        self.shell = make_control(
            lambda prefix, message: self.box.append(message), lambda: self.now, is_alone=True
        )
        row = ViewRow("n0", PREFIX, "", 0, "ALIVE", self.total, dict(self.total), labels={})
        self.shell.join_alone(row)
        self.report()

    def ask(self, request):
        return ask(self.shell, request)

    def queue(self, name, weight=1, **quotas):
        self.ask(CreateQueue(name, QueueFields(weight=weight, **quotas)))

    def gang(self, name, queue, members, cpus, priority=0):
        needs = [{"CPU": float(cpus)}] * members
        group = GangId(GroupId(name.encode().ljust(18)))
        self.ask(CreateGang(group, name, queue, needs, min_members=members, priority=priority))

    def report(self):
        free = self.total["CPU"] - sum(self.held.values())
        report = NodeReport(
            available={"CPU": free}, directories=self.directories, shortage=self.shortage
        )
        self.shell.on_message(PREFIX, report)

    def rounds(self, count=ROUNDS):
        for _ in range(count):
            self.now += 1.0
            self.shell.on_round(self.now)
            while self.box:
                self.node_does(self.box.pop(0))
            self.report()

    def node_does(self, message):
        group = GroupId(getattr(message, "group", b""))
        answer: Prepared | Committed | BundlesGone
        match message:
            case PrepareBundles():
                for index, bundle in message.bundles.items():
                    self.held[group, index] = bundle["CPU"]
                devices: dict[int, dict[str, list[int]]] = {index: {} for index in message.bundles}
                answer = Prepared(group, message.attempt, True, devices, [])
            case CommitBundles():
                answer = Committed(group, message.attempt, True)
            case GiveBackBundles():
                for index in message.indexes:
                    self.held.pop((group, index), None)
                self.preempted += [group.decode(errors="replace").strip()] * message.warn
                answer = BundlesGone(group, message.attempt)
            case _:
                self.orders.append(message)
                return
        self.shell.on_message(PREFIX, answer)

    def rejoins(self):
        """The connection to the node broke, and it is there again with all that it held."""
        record = present(self.shell.nodes.of_prefix(PREFIX))
        self.shell.gang_scheduler.node_joined(record)
        self.rounds(1)

    def hear(self, message):
        self.shell.on_message(PREFIX, message)

    def started(self):
        return [message for message in self.orders if isinstance(message, StartMember)]

    def running(self):
        return sorted({group.decode().strip() for group, _ in self.held if group.isascii()})
