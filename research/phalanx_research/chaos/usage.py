"""Checks that processes on each simulated machine never use more than the machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from phalanx.model.ids import BundleId
from phalanx.node.bundle_table import BundleTable
from phalanx.protocol.bundle_messages import CommitBundles, PrepareBundles
from phalanx.scheduler.devices.quantities import SCALE, to_units
from phalanx_research.chaos.broken import Broken, group_name
from phalanx_research.chaos.history import History

Amounts = Mapping[str, float]


class Node(Protocol):
    """A node whose usage is checked."""

    name: str
    prefix: bytes
    total: dict[str, float]
    bundles: BundleTable


class _Held(msgspec.Struct, frozen=True):
    """The amounts that one process uses; `devices` has the numbered devices by resource."""

    resources: Amounts
    devices: Mapping[str, Sequence[int]]
    in_bundle: bool


class Usage:
    """Checks the amounts and devices in use on each machine, and the bundles that the machine's
    node keeps.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._nodes: dict[bytes, Node] = {}
        self._held: dict[bytes, dict[str, _Held]] = {}
        """The usage of each worker, by node and worker."""
        self._lent: dict[str, Amounts] = {}
        """The amounts of each worker that has lent its CPUs."""
        self._asked: dict[tuple[bytes, int], dict[bytes, int]] = {}
        """The number of the head that asked a node, by (group, attempt) and the node's prefix."""
        self._prepared: dict[tuple[bytes, int], set[bytes]] = {}
        self._amounts: dict[tuple[bytes, int, int], Amounts] = {}
        """The requested amounts of each (group, attempt, bundle)."""

    def node_joined(self, node: Node) -> None:
        """Add a node."""
        self._nodes[node.prefix] = node

    # ---- processes ---------------------------------------------------------------------------

    def occupy(
        self,
        prefix: bytes,
        worker: str,
        resources: Amounts,
        devices: Mapping[str, Sequence[int]],
        in_bundle: bool,
    ) -> None:
        """Record that a worker of a node uses these amounts from now on.

        `resources` is the same object for all work under one lease.
        """
        if self._lent.get(worker) is resources:
            resources = _without_cpus(resources)
        else:
            self._lent.pop(worker, None)
        held = self._held.setdefault(prefix, {})
        held[worker] = _Held(resources, devices, in_bundle)
        self.check(prefix)

    def blocked(self, prefix: bytes, worker: str) -> None:
        """Record that a worker waits, and lends its CPUs to others. The worker gets its CPUs back
        even if they are in use. So the lent CPUs do not count until the lease ends.
        """
        held = self._held.get(prefix, {})
        one = held.get(worker)
        if one is not None:
            held[worker] = _Held(_without_cpus(one.resources), one.devices, one.in_bundle)
            self._lent.setdefault(worker, one.resources)

    def vacate(self, prefix: bytes, worker: str) -> None:
        """Record that a worker uses nothing any more."""
        self._held.get(prefix, {}).pop(worker, None)

    def node_gone(self, prefix: bytes) -> None:
        """Record that nothing runs on a node any more."""
        self._held.pop(prefix, None)

    def check(self, prefix: bytes) -> None:
        """Raise Broken if a node uses, or keeps for groups, more than it has."""
        node = self._nodes[prefix]
        held = self._held.get(prefix, {})
        used: dict[str, int] = {}
        devices: dict[tuple[str, int], int] = {}
        for one in held.values():
            _count_devices(one, devices)
            if not one.in_bundle:
                _add(used, one.resources)
        for group, index, attempt, _ in node.bundles.inventory().held:
            _add(used, self._amounts[group, attempt, index])
        for name, units in used.items():
            if units > to_units(node.total.get(name, 0.0)):
                raise Broken(
                    f"{node.name} has {node.total.get(name, 0):g} {name} and {units / SCALE:g} are "
                    f"in use or kept for groups: by {', '.join(held)}",
                    [node.name, *held],
                )
        for (name, number), units in devices.items():
            if units > SCALE:
                users = [w for w, one in held.items() if number in one.devices.get(name, ())]
                raise Broken(
                    f"{name} {number} of {node.name} is in use {units / SCALE:g} times: by "
                    f"{', '.join(users)}",
                    [node.name, *users],
                )

    # ---- bundles -----------------------------------------------------------------------------

    def asked(self, prefix: bytes, message: PrepareBundles, life: int) -> None:
        """Record that the head asks a node to prepare bundles."""
        key = (message.group, message.attempt)
        self._asked.setdefault(key, {})[prefix] = life
        for index, amounts in message.bundles.items():
            self._amounts[message.group, message.attempt, index] = amounts

    def prepared(self, node: Node, message: PrepareBundles) -> None:
        """Check a node's amounts after it was asked to prepare bundles."""
        held = node.bundles.inventory().held
        if any((g, a) == (message.group, message.attempt) for g, _, a, _ in held):
            key = (message.group, message.attempt)
            self._prepared.setdefault(key, set()).add(node.prefix)
            self.check(node.prefix)

    def committed(self, node: Node, message: CommitBundles) -> None:
        """Check that all nodes have prepared their bundles when a node is asked to commit
        bundles.
        """
        held = node.bundles.inventory().held
        kept = [
            (group, index)
            for group, index, attempt, is_committed in held
            if (group, attempt) == (message.group, message.attempt) and is_committed
        ]
        if not kept:
            return
        key = (message.group, message.attempt)
        asked = self._asked.get(key, {})
        life = max(asked.values(), default=0)
        lacking = [
            prefix
            for prefix, at in asked.items()
            if at == life and prefix not in self._prepared.get(key, set())
        ]
        if lacking:
            names = ", ".join(map(self._history.name_of_node, lacking))
            raise Broken(
                f"group {group_name(message.group)} begins on {node.name} while {names} never set "
                "its bundles aside",
                [node.name, "head"],
            )
        self._check_unique(node, kept)

    def _check_unique(self, node: Node, kept: list[BundleId]) -> None:
        if self._history.is_dead(node.prefix):
            return
        for other in self._nodes.values():
            if other is node or self._history.is_dead(other.prefix):
                continue
            for group, index, _, is_committed in other.bundles.inventory().held:
                if is_committed and (group, index) in kept:
                    raise Broken(
                        f"bundle {index} of group {group_name(group)} is kept by {node.name} and "
                        f"by {other.name}",
                        [node.name, other.name, "head"],
                    )


def _without_cpus(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name != "CPU"}


def _add(used: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        used[name] = used.get(name, 0) + to_units(amount)


def _count_devices(one: _Held, devices: dict[tuple[str, int], int]) -> None:
    for name, numbers in one.devices.items():
        amount = one.resources.get(name, 0.0)
        share = SCALE if amount >= 1 else to_units(amount)
        for number in numbers:
            devices[name, number] = devices.get((name, number), 0) + share
