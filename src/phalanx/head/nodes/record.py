"""A node as the head's store keeps it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from phalanx.model.holds import Hold
from phalanx.model.lifecycle import ALIVE
from phalanx.model.machines import MachineShare
from phalanx.model.options import ACCELERATORS, LARGEST_AMOUNT, MOST_DEVICES
from phalanx.scheduler.devices.cards import PLAIN, Cards


class NodeTotals(dict[str, float]):
    """A node's resources if all its devices were open, and the facts about its GPUs."""

    cards: Cards = PLAIN


class NodeRecord(msgspec.Struct, kw_only=True, eq=False):
    """A node as the store keeps it. The epoch of a node that has never joined is 0."""

    node_id: str
    """The node's id in hex."""
    prefix: bytes
    """The first six bytes of the ids of the node's processes."""
    host: str
    port: int
    hostname: str = ""
    """The name of the node's machine. If a person gave the node a name, that name is here and in
    `name`.
    """
    name: str = ""
    totals: dict[str, float] = {}
    labels: dict[str, str] = {}
    ports: str = ""
    """The ports that gangs may use on the node; empty for the usual ports."""
    state: str = ALIVE
    reason: str = ""
    """Why the node drains, or why it is dead."""
    death: str = ""
    """How the node ended, once it is dead (see `model.node_deaths`)."""
    began: float = 0.0
    """When the node first joined, in seconds since the epoch."""
    ended: float = 0.0
    """When the node was declared dead, in seconds since the epoch."""
    epoch: int = 0
    """How many times the node has joined. A node joins again after its connection or the head has
    come back.
    """
    holds: dict[str, Hold] = {}
    """The reasons why the node drains, by kind. The node takes work again when the last reason is
    gone.
    """
    cordoned: dict[int, Hold] = {}
    """The GPUs of the node that an operator has closed."""
    devices: dict[str, int] = {}
    """For each resource with numbered devices: the number of the node's devices, including closed
    devices.
    """
    cards: Cards = PLAIN
    """The facts about the node's GPUs, without the modes in which they are shared now."""
    limits: dict[str, int] = {}
    """For each resource: the largest number of devices that the node can have, if its environment
    hides some of the machine's devices.
    """
    machine: MachineShare | None = None
    """The node's machine; None if the node's amounts are not compared with the amounts of other
    nodes on the machine.
    """
    keeps_commands: bool = False
    """Whether commands of jobs continue on the node when its process ends."""
    next_id: str = ""
    """The id of the node's next process, once there is one."""

    @property
    def whole(self) -> NodeTotals:
        """The node's resources if all its devices were open."""
        counts = {name: float(count) for name, count in self.devices.items()}
        whole = NodeTotals(
            (name, max(self.totals.get(name, 0.0), counts.get(name, 0.0)))
            for name in self.totals | counts
        )
        whole.cards = self.cards
        return whole


def check_totals(
    record: NodeRecord, numbered: Collection[str], wanted: Mapping[str, float]
) -> None:
    """Check new totals for a node. The new totals may be below the amounts in use. `numbered`: the
    resources of which the node has numbered devices.

    Raises ValueError for invalid amounts, for a fraction of a numbered device, and for more devices
    than the node's environment lets it see.
    """
    for name, amount in wanted.items():
        if not 0 <= amount < float("inf"):
            raise ValueError(f"{name}: an amount is a number of at least 0, not {amount:g}")
        if amount > LARGEST_AMOUNT:
            raise ValueError(f"{name}: an amount is at most {LARGEST_AMOUNT:g}, not {amount:g}")
        if (name in numbered or name in ACCELERATORS) and amount > MOST_DEVICES:
            raise ValueError(f"{name}: a node has at most {MOST_DEVICES} devices, not {amount:g}")
        if name == "object_store_memory":
            raise ValueError(f"{name} cannot be changed while the node runs")
        if (name in numbered or name in ACCELERATORS) and amount != int(amount):
            raise ValueError(f"{name}: a node has a whole number of devices, not {amount:g}")
        if amount > record.limits.get(name, amount):
            raise ValueError(
                f"{name}: the environment of the node shows it {record.limits[name]} devices, so "
                f"it cannot have {amount:g}"
            )
