"""The control store with nodes that have real bundle tables, and all that is on its way between
them: the test delivers it, loses it, or delivers it twice."""

from __future__ import annotations

import random
from typing import Any

from tests.asking import ask
from tests.present import present
from tests.unit.head.making import make_control

from phalanx.head.head import NOTHING_STORED
from phalanx.head.nodes import HealthLimits
from phalanx.head.state_store import read_state
from phalanx.node.bundle_table import BundleTable
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
)
from phalanx.protocol.cluster_messages import Join, NodeReport, ViewRow
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.storage import Storage

LIMITS = HealthLimits(period_s=1.0, misses=5, restored_s=5.0)


class AtOnce:
    """A journal that has written as soon as it is told."""

    shortage = ""
    is_stalled = False

    def __init__(self, storage):
        self.storage = storage

    def record(self, changes, durable=None):
        self.storage.apply(changes)
        if durable is not None:
            durable()

    def flush(self):
        """Nothing waits."""


class Node:
    """A node's part: its resources, and the bundles it holds."""

    def __init__(self, name, total, labels):
        self.name = name
        self.prefix = name.encode().ljust(6, b"-")
        self.resources = NodeResources(total)
        self.bundles = BundleTable(self.resources)
        self.labels = labels
        self.epoch = 0
        self.is_draining = False

    def row(self):
        total = self.resources.total()
        return ViewRow(
            self.name, self.prefix, "h", 1, "ALIVE", total,
            self.resources.available(), self.labels,
        )  # fmt: skip

    def report(self):
        return NodeReport(
            available=self.resources.available(),
            total=self.resources.total(),
        )

    def hear(self, message, now):
        """What it answers."""
        match message:
            case PrepareBundles():
                bundles = {i: ResourceSet.from_mapping(b) for i, b in message.bundles.items()}
                ok = not self.is_draining and self.bundles.prepare(
                    message.group, message.attempt, bundles, now
                )
                yield Prepared(message.group, message.attempt, ok)
            case CommitBundles():
                ok = self.bundles.commit(message.group, message.attempt)
                yield Committed(message.group, message.attempt, ok)
            case GiveBackBundles():
                self.bundles.give_back(message.group, message.attempt, message.indexes)
                yield from self.settled()

    def settled(self):
        for group, attempt in self.bundles.settle():
            yield BundlesGone(group, attempt)


class World:
    """`on_the_way`: (the node, whether to it, the message), the first first."""

    def __init__(self):
        self.now = 100.0
        self.nodes = {}
        self.on_the_way = []
        self.disk = MemoryDisk()
        self.rng = random.Random(0)
        self.start(NOTHING_STORED)

    def start(self, stored):
        self.head = make_control(
            self.sent,
            lambda: self.now,
            rng=self.rng,
            journal=AtOnce(Storage([MemoryShard(self.disk)])),
            stored=stored,
            limits=LIMITS,
        )

    def restart(self):
        """The head dies, and what was on its way; the next one begins, and nodes join it."""
        self.on_the_way.clear()
        self.start(read_state(Storage([MemoryShard(self.disk)])))
        for node in self.nodes.values():
            self.join(node)

    @property
    def batch(self):
        return self.head.gang_scheduler

    # ---- nodes

    def add(self, name, labels=None, **total):
        node = self.nodes[name] = Node(name, total, labels or {})
        self.join(node)
        return node

    def join(self, node):
        join = Join(node.row(), "", node.epoch, {}, node.bundles.inventory())
        self.head.on_message(node.prefix, join)
        node.epoch = present(self.head.nodes.get(node.name)).epoch
        self.report(node)

    def kill(self, name):
        """The process dies, and what was on its way to or from it."""
        del self.nodes[name]
        self.on_the_way = [one for one in self.on_the_way if one[0] != name]
        self.head.nodes.leave(name, "its process ended")

    def report(self, node):
        self.head.on_message(node.prefix, node.report())

    # ---- messages

    def sent(self, prefix, message):
        name = prefix.decode().rstrip("-")
        if name in self.nodes and isinstance(
            message, PrepareBundles | CommitBundles | GiveBackBundles
        ):
            self.on_the_way.append((name, True, message))

    def deliver(self, one):
        name, is_to_node, message = one
        node = self.nodes.get(name)
        if node is None:
            return
        if is_to_node:
            self.on_the_way += [(name, False, answer) for answer in node.hear(message, self.now)]
            self.report(node)
        else:
            self.head.on_message(node.prefix, message)

    def run(self):
        """Deliver everything, in order."""
        while self.on_the_way:
            self.deliver(self.on_the_way.pop(0))

    def pass_time(self, seconds):
        self.now += seconds
        for node in list(self.nodes.values()):
            node.bundles.tick(self.now)
            self.on_the_way += [(node.name, False, answer) for answer in node.settled()]
            self.report(node)
        self.head.on_tick(self.now)

    def cycle(self):
        """A round of the head, and a cycle if one is due."""
        self.head.on_round(self.now)

    def heal(self, seconds=30):
        """No more losses: time passes, and every message arrives."""
        for _ in range(seconds):
            self.pass_time(1.0)
            self.cycle()
            self.run()

    # ---- gangs

    def ask(self, request):
        return ask(self.head, request)

    def gang(self, name, members, least=None, cpus=1.0, **fields):
        group = name.encode().ljust(18, b"-")
        queue, least = fields.pop("queue", "default"), members if least is None else least
        needs = [{"CPU": cpus}] * members
        self.ask(CreateGang(group, name, queue, needs, min_members=least, **fields))
        return self.batch.registry.gangs[group]

    def place(self, gang, choice):
        return self.batch.reservations.place(gang, choice)

    def states(self, gang):
        return [member.state for member in gang.members]

    def held(self):
        """(group, index) -> the living nodes that hold it, and whether it is committed."""
        found: dict[Any, Any] = {}
        for node in self.nodes.values():
            for group, index, _, is_committed in node.bundles.inventory().held:
                found.setdefault((group, index), []).append((node.name, is_committed))
        return found

    def check_settled(self):
        """What the nodes hold is exactly what members have."""
        believed = {
            (gang.gang_id, index): [(member.node, True)]
            for gang in self.batch.registry.gangs.values()
            for index, member in enumerate(gang.members)
            if member.node
        }
        held = self.held()
        assert held == believed, f"held: {held}, believed: {believed}"
