"""What has happened in a run, which promises are held against."""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES


class History:
    """Who was there, and what has become of them."""

    def __init__(self) -> None:
        self.had_faults = False
        self.had_full_disk = False
        """Whether the head's disk was ever full: new work may have been refused."""
        self.dead_nodes: set[str] = set()
        """Ids of nodes that are gone, or that the head has given up."""
        self.drained_nodes: set[str] = set()
        """Ids of nodes that were asked to begin nothing new."""
        self.groups: set[bytes] = set()
        """Placement groups that drivers have asked for and have not removed."""
        self.removed_groups: set[bytes] = set()
        self.counts: dict[str, int] = {}
        """For the summary."""
        self._nodes: dict[bytes, tuple[str, str]] = {}
        """(name, id) of each node by its prefix."""
        self._drivers: dict[bytes, str] = {}

    def count(self, what: str) -> None:
        """One more of these."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def node_joined(self, prefix: bytes, name: str, node_id: str) -> None:
        """There is a node of this name."""
        self._nodes[prefix] = (name, node_id)

    def driver_joined(self, process: bytes, name: str) -> None:
        """A driver of this name has its id."""
        self._drivers[process] = name

    def is_dead(self, prefix: bytes) -> bool:
        """Whether there is no such node, or none any more that the head takes for alive."""
        return prefix not in self._nodes or self._nodes[prefix][1] in self.dead_nodes

    def name_of_node(self, prefix: bytes) -> str:
        """A node's name for people."""
        return self._nodes[prefix][0] if prefix in self._nodes else prefix.hex()

    def name_of(self, process: bytes) -> str:
        """A process's name for people: of a driver, else the worker's number on its node."""
        found = self._drivers.get(process)
        if found is not None:
            return found
        number = int.from_bytes(process[PREFIX_BYTES:12], "big")
        return f"{self.name_of_node(process[:PREFIX_BYTES])}/w{number}"
