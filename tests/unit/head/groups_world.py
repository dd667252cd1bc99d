"""A cluster without processes: one head, nodes with real bundle tables, and what is on its way."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.present import present

from phalanx.head.groups.record import Group
from phalanx.head.groups.table import GroupTable
from phalanx.head.nodes import HealthLimits, NodeDirectory, NodeRecord
from phalanx.model.lifecycle import DEAD, REMOVED
from phalanx.node.bundle_table import BundleTable
from phalanx.protocol.cluster_messages import NodeReport
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

LIMITS = HealthLimits(period_s=1.0, misses=5)
amounts = ResourceSet.from_mapping


class Node:
    """A node's part: its resources, and the bundles it holds."""

    def __init__(self, name, total, labels=None):
        self.name = name
        self.resources = NodeResources(total)
        self.bundles = BundleTable(self.resources)
        self.labels = labels or {}

    def report(self):
        return NodeReport(
            available=self.resources.available(),
            devices=self.resources.devices_left(),
            total=self.resources.total(),
        )


class World:
    """The effects of both tables. `at_once`: messages are handled before the call returns."""

    def __init__(self, *, at_once=False):
        self.at_once = at_once
        self.now = 0.0
        self.nodes = {}
        self.on_the_way = []  # (to or from, node, name, arguments)
        self.stored_groups, self.stored_nodes = {}, {}
        self.told = []
        self.was_freed = []
        self.counts: Counter[str] = Counter()
        self.endings = []
        self.start_head()

    def start_head(self):
        self.directory = NodeDirectory(self, LIMITS)
        self.groups = GroupTable(self.directory.cluster, self)

    def restart_head(self):
        self.on_the_way.clear()
        self.start_head()
        self.directory.restore(list(self.stored_nodes.values()), self.now)
        self.groups.restore(list(self.stored_groups.values()), self.now)
        for node in list(self.nodes.values()):
            self.join(node)

    # ---- nodes

    def add(self, name, labels=None, **total):
        node = Node(name, total, labels)
        self.nodes[name] = node
        self.join(node)
        return node

    def join(self, node):
        known = self.directory.get(node.name)
        self.directory.join(
            self.now,
            NodeRecord(
                node_id=node.name,
                prefix=node.name.encode().ljust(6, b"-"),
                host="h",
                port=1,
                totals=node.resources.total(),
                labels=node.labels,
                epoch=0 if known is None else known.epoch,
            ),
        )
        inventory = node.bundles.inventory()
        self.groups.inventory(node.name, inventory.held, inventory.ended, self.now)
        self.report(node)

    def report(self, node):
        if self.directory.report(self.now, node.name, node.report()):
            self.groups.resources_changed(self.now)

    def kill(self, name):
        """The process dies, and what was on its way to or from it."""
        del self.nodes[name]
        self.on_the_way = [m for m in self.on_the_way if m[1] != name]
        self.directory.leave(name, "its process ended")

    def node_changed(self, record):
        self.stored_nodes[record.node_id] = record

    def node_held(self, record, kind, hold):
        pass

    def node_dead(self, record, reason):
        assert record.state == DEAD
        self.groups.node_gone(record.node_id, self.now)

    # ---- the head's requests

    def prepare(self, node, group, attempt, bundles):
        self.send("node", node, "prepare", (group, attempt, bundles))

    def when_written(self, action):
        action()

    def commit(self, node, group, attempt):
        self.send("node", node, "commit", (group, attempt))

    def give_back(self, node, group, attempt, indexes, ending):
        self.endings.append(ending)
        self.send("node", node, "give_back", (group, attempt, indexes))

    def changed(self, group):
        self.told.append((group.name, group.state))
        if group.state == REMOVED:
            self.stored_groups.pop(group.group, None)
        else:
            self.stored_groups[group.group] = group.row()

    def freed(self, group):
        self.was_freed.append(group)

    def send(self, to, node, name, arguments):
        self.counts[name] += 1
        if self.at_once:
            self.deliver((to, node, name, arguments))
        else:
            self.on_the_way.append((to, node, name, arguments))

    def deliver(self, message):
        to, name, what, arguments = message
        node = self.nodes.get(name)
        if node is None:
            return
        if to == "head":
            if self.directory.is_alive(name):
                if what == "returned":
                    self.groups.returned(name, *arguments)
                else:
                    getattr(self.groups.attempts, what)(name, *arguments, self.now)
            return
        group, attempt = arguments[:2]
        if what == "prepare":
            ok = node.bundles.prepare(group, attempt, arguments[2], self.now)
            self.send("head", name, "prepared", (group, attempt, ok))
        elif what == "commit":
            ok = node.bundles.commit(group, attempt)
            self.send("head", name, "committed", (group, attempt, ok))
        else:
            node.bundles.give_back(group, attempt, arguments[2])
            self.settle(node)

    def settle(self, node):
        for group, attempt in node.bundles.settle():
            self.send("head", node.name, "returned", (group, attempt))

    # ---- time

    def run(self):
        """Deliver everything, in order."""
        while self.on_the_way:
            self.deliver(self.on_the_way.pop(0))

    def pass_time(self, seconds):
        self.now += seconds
        for node in list(self.nodes.values()):
            node.bundles.tick(self.now)
            self.settle(node)
            if self.directory.is_alive(node.name):
                self.report(node)
        self.directory.tick(self.now)
        self.groups.tick(self.now)

    def heal(self, seconds=45):
        """No more losses: time passes, and every message arrives."""
        for _ in range(seconds):
            self.pass_time(1.0)
            self.run()

    # ---- groups

    def create(self, name, *bundles, strategy="PACK", **fields):
        group = Group(
            group=name.encode(),
            name=name,
            strategy=strategy,
            bundles=[amounts(bundle) for bundle in bundles],
            creator=fields.pop("creator", b"me"),
            detached=fields.pop("detached", False),
            **fields,
        )
        self.groups.create(group, self.now)
        return group

    def known(self, group):
        return present(self.groups.get(group))

    def state(self, name):
        return present(self.groups.get(name.encode())).state

    def where(self, name):
        return " ".join(present(self.groups.get(name.encode())).nodes)

    def held(self, *, committed):
        """(group, index) -> the living nodes that hold it."""
        found: dict[Any, Any] = {}
        for node in self.nodes.values():
            for group, index, _, is_committed in node.bundles.inventory().held:
                if is_committed or not committed:
                    found.setdefault((group, index), []).append(node.name)
        return found

    def check_settled(self):
        """The nodes hold exactly the bundles that the head believes them to hold."""
        believed = {
            (group.group, index): [node]
            for group in map(self.known, list(self.stored_groups))
            for index, node in enumerate(group.nodes)
            if node
        }
        held = self.held(committed=False)
        assert held == believed, f"held: {held}, believed: {believed}"
        assert held == self.held(committed=True), f"not all is committed of {held}"
