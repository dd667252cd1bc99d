"""What is in use on each simulated machine, as its processes have it: never more than there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from phalanx.protocol.cluster_messages import CommitBundles, PrepareBundles
from phalanx.resources.quantities import SCALE, to_units
from phalanx.sim.chaos.broken import Broken, group_name

if TYPE_CHECKING:
    from phalanx.sim.chaos.node import SimNode
    from phalanx.sim.chaos.worker import SimWorker
    from phalanx.sim.chaos.world import World

Amounts = Mapping[str, float]


class _Held(msgspec.Struct, frozen=True):
    """What one process uses; `devices` by resource."""

    resources: Amounts
    devices: Mapping[str, Sequence[int]]
    in_bundle: bool


class Usage:
    """Amounts and devices by machine, and which bundles its node keeps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[str, dict[str, _Held]] = {}
        """By host and worker."""
        self._lent: dict[str, Amounts] = {}
        """What each worker holds under whose lease CPUs were lent."""
        self._asked: dict[tuple[bytes, int], dict[bytes, int]] = {}
        """(group, attempt): the life of the head in which each node (prefix) was asked."""
        self._prepared: dict[tuple[bytes, int], set[bytes]] = {}
        self._amounts: dict[tuple[bytes, int, int], Amounts] = {}
        """What each (group, attempt, bundle) asks for."""

    # ---- processes ---------------------------------------------------------------------------

    def occupy(
        self,
        worker: SimWorker,
        resources: Amounts,
        devices: Mapping[str, Sequence[int]],
        in_bundle: bool,
    ) -> None:
        """This process uses so much from now on. `resources`: the same object for all work under
        one lease."""
        if self._lent.get(worker.name) is resources:
            resources = _without_cpus(resources)
        else:
            self._lent.pop(worker.name, None)
        held = self._held.setdefault(worker.host.name, {})
        held[worker.name] = _Held(resources, devices, in_bundle)
        self.check(worker.node)

    def blocked(self, worker: SimWorker) -> None:
        """It waits, and lends its CPUs to others. They come back whether they are free or not: so
        they do not count any more, until its lease ends."""
        held = self._held.get(worker.host.name, {})
        one = held.get(worker.name)
        if one is not None:
            held[worker.name] = _Held(_without_cpus(one.resources), one.devices, one.in_bundle)
            self._lent.setdefault(worker.name, one.resources)

    def vacate(self, worker: SimWorker) -> None:
        """It uses nothing any more."""
        self._held.get(worker.host.name, {}).pop(worker.name, None)

    def host_down(self, host: str) -> None:
        """Nothing runs there any more."""
        self._held.pop(host, None)

    def check(self, node: SimNode) -> None:
        """Raise Broken when more is in use on a node, or kept for groups, than it has."""
        held = self._held.get(node.name, {})
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
        """The head asks a node to set bundles aside."""
        key = (message.group, message.attempt)
        self._asked.setdefault(key, {})[prefix] = life
        for index, amounts in message.bundles.items():
            self._amounts[message.group, message.attempt, index] = amounts

    def prepared(self, node: SimNode, message: PrepareBundles) -> None:
        """A node was asked; what does it hold now?"""
        held = node.bundles.inventory().held
        if any((g, a) == (message.group, message.attempt) for g, _, a, _ in held):
            key = (message.group, message.attempt)
            self._prepared.setdefault(key, set()).add(node.prefix)
            self.check(node)

    def committed(self, node: SimNode, message: CommitBundles) -> None:
        """A node was told to keep bundles: by then all others have set theirs aside."""
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
            raise Broken(
                f"group {group_name(message.group)} begins on {node.name} while "
                f"{', '.join(map(self._world.name_of_node, lacking))} never set its bundles aside",
                [node.name, "head"],
            )
        self._check_unique(node, kept)

    def _check_unique(self, node: SimNode, kept: list[tuple[bytes, int]]) -> None:
        living = self._world.living_nodes()
        for other in living if node in living else ():
            if other is node:
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
