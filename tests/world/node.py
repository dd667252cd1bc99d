"""Nodes of a world: they have real resources and bundle tables, and carry out the head's orders
immediately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tests.world.network import Party

from phalanx.model.ids import GangId, GroupId, MemberId
from phalanx.node.bundle_table import BundleTable
from phalanx.node.failed_orders import refusal
from phalanx.observe.state.query import StatePart
from phalanx.protocol.actor_messages import ActorPlaced, PlaceActor
from phalanx.protocol.bundle_messages import (
    BundleInventory,
    BundlesGone,
    CommitBundles,
    Committed,
    EndMember,
    GiveBackBundles,
    LogRead,
    MemberNews,
    PrepareBundles,
    Prepared,
    ReadLog,
    StartMember,
)
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.membership_messages import Joined
from phalanx.protocol.report_messages import (
    EventsReported,
    GatherEvents,
    GatherState,
    NodeReport,
    StateReported,
)
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

if TYPE_CHECKING:
    from tests.world.cluster import World


class Node:
    """A node: its resources, its bundles, and the orders that it got."""

    def __init__(
        self,
        world: World,
        name: str,
        total: Mapping[str, float],
        labels: Mapping[str, str] | None = None,
        prefix: bytes = b"",
    ) -> None:
        self.world = world
        self.name = name
        self.prefix = prefix or name.encode().ljust(6, b"-")
        self.resources = NodeResources(dict(total))
        self.bundles = BundleTable(self.resources)
        self.labels = dict(labels or {})
        self.epoch = 0
        self.is_draining = False
        self.about: dict[str, Any] = {}
        """Fields of its reports that the test sets."""
        self.orders: list[Any] = []
        """The orders that it got and has no answer to."""
        self.warned: list[GroupId] = []
        """The groups whose members it had to warn, in order."""

    def row(self) -> ViewRow:
        total = self.resources.total()
        return ViewRow(
            self.name, self.prefix, "10.0.0.1", 7, "ALIVE", total, self.resources.available(),
            self.labels, self.resources.devices_left(),
        )  # fmt: skip

    def report(self) -> NodeReport:
        fields: dict[str, Any] = {
            "available": self.resources.available(),
            "devices": self.resources.devices_left(),
            "total": self.resources.total(),
        }
        return NodeReport(**{**fields, **self.about})

    def inventory(self) -> BundleInventory:
        return self.bundles.inventory()

    def hear(self, sender: Party, message: Any) -> None:
        """Do what the head orders, and answer."""
        try:
            answers = list(self.answers(message))
        except Exception as error:
            answers = [refusal(message, error)]
        for answer in answers:
            self.world.network.send(self, sender, answer)

    def answers(self, message: Any) -> Iterator[Any]:
        """Carry out what a message orders; yield the node's answers."""
        match message:
            case Joined():
                self.epoch = message.epoch
            case PrepareBundles():
                yield self._prepared(message)
            case CommitBundles():
                ok = self.bundles.commit(message.group, message.attempt)
                yield Committed(message.group, message.attempt, ok)
            case GiveBackBundles():
                if message.warn and any(
                    group == message.group for group, *_ in self.inventory().held
                ):
                    self.warned.append(message.group)
                self.bundles.give_back(message.group, message.attempt, message.indexes)
                yield from self.settled()
            case _:
                self.orders.append(message)

    def _prepared(self, message: PrepareBundles) -> Prepared:
        bundles = {i: ResourceSet.from_mapping(b) for i, b in message.bundles.items()}
        ok = not self.is_draining and self.bundles.prepare(
            message.group, message.attempt, bundles, self.world.now
        )
        devices = self.bundles.devices(message.group, bundles) if ok else {}
        return Prepared(message.group, message.attempt, ok, devices)

    def settled(self) -> Iterator[BundlesGone]:
        """Yield messages about the bundles that were given back and have become free."""
        for group, attempt in self.bundles.settle():
            yield BundlesGone(group, attempt)

    def tick(self) -> None:
        """Do what is due now."""
        self.bundles.tick(self.world.now)
        for gone in self.settled():
            self.world.network.send(self, self.world, gone)

    def held(self) -> dict[MemberId, dict[str, float]]:
        """Return the bundles that are set aside on this node, with their resources."""
        return {
            (GangId(group), index): {
                name: amount
                for pool in self.bundles.pools((group, index))
                for name, amount in pool.resources.to_mapping().items()
            }
            for group, index, _, _ in self.inventory().held
        }


class WorkingNode(Node):
    """A node whose members and actors run: they end when the test says so, or when the head orders
    it.

    It also answers requests of the head for what people see.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.running: dict[MemberId, StartMember] = {}

    def answers(self, message: Any) -> Iterator[Any]:
        match message:
            case GiveBackBundles():
                for index in message.indexes:
                    self.running.pop((GangId(message.group), index), None)
                yield from super().answers(message)
            case StartMember():
                self.running[message.group, message.index] = message
                yield MemberNews(message.group, message.index, message.attempt, log="x")
            case EndMember():
                yield from self.ended(message.group, message.index, message.attempt, 143)
            case PlaceActor():
                worker = self.prefix + bytes(10)
                yield ActorPlaced(message.actor, message.incarnation, worker, 1)
            case ReadLog():
                yield LogRead(message.token, b"", 0)
            case GatherEvents():
                yield EventsReported(message.number, [])
            case GatherState():
                yield StateReported(message.number, StatePart([], 0, 0))
            case _:
                yield from super().answers(message)

    def ended(self, group: GangId, index: int, attempt: int, code: int) -> Iterator[MemberNews]:
        """Yield the news that a member has ended, if this attempt of it or an earlier one runs."""
        order = self.running.get((group, index))
        if order is not None and order.attempt <= attempt:
            del self.running[group, index]
            yield MemberNews(group, index, order.attempt, code, log="x")

    def end(self, member: MemberId, code: int) -> None:
        """End a running member, and let its node tell the head."""
        order = self.running[member]
        for news in self.ended(*member, order.attempt, code):
            self.world.network.send(self, self.world, news)
