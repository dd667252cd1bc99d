"""Placement groups of a head, and the nodes that hold their bundles."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.present import present
from tests.world.cluster import World
from tests.world.network import Letter
from tests.world.node import Node
from tests.world.store import Changes, Journal

from phalanx.head.groups.record import Group, GroupRow
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import REMOVED
from phalanx.protocol.requests.request import Asker, Role
from phalanx.scheduler.devices.sets import ResourceSet

LIMITS = HealthLimits(period_s=1.0, misses=5)
amounts = ResourceSet.from_mapping


class GroupJournal(Journal):
    """A journal that writes immediately, and records each state of each group."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names: dict[bytes, str] = {}
        self.states: list[tuple[str, str]] = []

    def record(self, changes: Changes, durable: Any = None) -> None:
        for (table, key), value in changes.items():
            if table == "groups" and value is not None:
                row = msgspec.msgpack.decode(value, type=GroupRow)
                self.names[key] = row.name
                self.states.append((row.name, row.state))
            elif table == "groups":
                self.states.append((self.names.get(key, ""), REMOVED))
        super().record(changes, durable)


class GroupsWorld(World):
    """A head and nodes that join over the network.

    `at_once`: whether messages arrive before the call that sent them returns.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.was_freed: list[bytes] = []
        super().__init__(
            journal=GroupJournal(), is_alone=False, is_instant=at_once, time_s=0.0, limits=LIMITS
        )

    @property
    def groups(self) -> Any:
        return self.head.group_table

    @property
    def directory(self) -> Any:
        return self.head.nodes

    @property
    def stored_groups(self) -> list[bytes]:
        return [key for key, _ in self.journal.storage.load("groups")]

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Return (group, state) of all changes that this head has stored."""
        journal: Any = self.journal
        found: list[tuple[str, str]] = journal.states
        return found

    def report(self, node: Node) -> None:
        super().report(node)
        self.groups.resources_changed(self.now)

    def deliver(self, letter: Letter) -> None:
        """Deliver a message. The head learns later which resources are free."""
        if letter.receiver is self or letter.receiver.name in self.nodes:
            self.network.deliver(letter)

    def heal(self, seconds: int = 45) -> None:
        super().heal(seconds)

    def create(self, name: str, *bundles: dict[str, float], **fields: Any) -> Group:
        group = Group(
            group=GroupId(name.encode()),
            name=name,
            bundles=[amounts(bundle) for bundle in bundles],
            **{"strategy": "PACK", "creator": b"me", "detached": False, **fields},
        )
        self.groups.create(group, self.now)
        freed: Asker[None] = Asker(Role.PROCESS, b"", lambda *_: self.was_freed.append(group.group))
        self.head.groups.when_freed(group.group, freed)
        return group

    def known(self, group: bytes) -> Any:
        return present(self.groups.get(group))

    def state(self, name: str) -> str:
        return str(self.known(name.encode()).state)

    def where(self, name: str) -> str:
        return " ".join(self.known(name.encode()).nodes)

    def check_settled(self) -> None:
        """Check that the nodes hold exactly the bundles that the head believes them to hold."""
        believed = {
            (group, index): [(node, True)]
            for group in self.stored_groups
            for index, node in enumerate(self.known(group).nodes)
            if node
        }
        held = self.held()
        assert held == believed, f"held: {held}, believed: {believed}"
