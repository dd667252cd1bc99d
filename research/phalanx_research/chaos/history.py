"""The events of a run, from which the checks of invariants read what has happened."""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES


class History:
    """The history of a run: its nodes and drivers, and what happened to them."""

    def __init__(self) -> None:
        self.had_faults = False
        self.had_full_disk = False
        """Whether the head's disk was ever full. New work may have been refused then."""
        self.dead_nodes: set[str] = set()
        """Ids of nodes that have ended, or that the head has declared dead."""
        self.drained_nodes: set[str] = set()
        """The ids of nodes that were drained."""
        self.groups: set[bytes] = set()
        """Placement groups that drivers have requested and not removed."""
        self.removed_groups: set[bytes] = set()
        self.counts: dict[str, int] = {}
        """The number of events of each kind, for the summary."""
        self._nodes: dict[bytes, tuple[str, str]] = {}
        """The (name, id) of each node, by its prefix."""
        self._drivers: dict[bytes, str] = {}

    def count(self, what: str) -> None:
        """Count one event of this kind."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def node_joined(self, prefix: bytes, name: str, node_id: str) -> None:
        """Record that a node of this name exists."""
        self._nodes[prefix] = (name, node_id)

    def driver_joined(self, process: bytes, name: str) -> None:
        """Record that a driver of this name has received its id."""
        self._drivers[process] = name

    def is_dead(self, prefix: bytes) -> bool:
        """Whether a node does not exist, has ended, or was declared dead by the head."""
        return prefix not in self._nodes or self._nodes[prefix][1] in self.dead_nodes

    def name_of_node(self, prefix: bytes) -> str:
        """Return a node's name for display."""
        return self._nodes[prefix][0] if prefix in self._nodes else prefix.hex()

    def name_of(self, process: bytes) -> str:
        """Return a process's name for display: a driver's name, or a worker's number on its
        node.
        """
        found = self._drivers.get(process)
        if found is not None:
            return found
        number = int.from_bytes(process[PREFIX_BYTES:12], "big")
        return f"{self.name_of_node(process[:PREFIX_BYTES])}/w{number}"
