"""Simulated files of large objects: on one machine, and copied from another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.file_hold import FileHold
from phalanx.objects.names import prefix_of_name
from phalanx.protocol.gateway_messages import Pulled
from phalanx.protocol.messages import SHARED, Value
from phalanx.protocol.node_messages import Dropped, Sealed
from phalanx.sim.chaos.hosts import Host
from phalanx.sim.chaos.network import End, Network

SIZE_BYTES = 1000
_COPY_S = 0.01
_GIVES_UP_S = 0.05
"""So long it takes to find out that a machine cannot be reached."""


class ProcessFiles:
    """One process's access to the files of its machine; see `owner.objects.table.Files`."""

    def __init__(self, host: Host, process_id: bytes, node: End) -> None:
        """`node`: the connection to its node."""
        self._files = host.files
        self._process_id = process_id
        self._node = node
        self._count = 0
        self.dropped: deque[tuple[str, Any, bool, Any]] = deque()

    def hold(self, name: str, size: int) -> FileHold:
        """See Files."""
        return FileHold(self, name, size, None)

    def is_here(self, name: str) -> bool:
        """See Files."""
        return name in self._files

    def lend(self, name: str) -> None:
        """See FileStore."""

    def write(self, content: bytes) -> Value:
        """A new file's payload."""
        self._count += 1
        name = f"{self._process_id.hex()}-{self._count}"
        self._files[name] = content
        self._node.post(Sealed(name, SIZE_BYTES))
        return Value(SHARED, name.encode(), size=SIZE_BYTES)

    def can_be_elsewhere(self, name: str) -> bool:
        """Whether another node may have this file."""
        return prefix_of_name(name) != self._process_id[:PREFIX_BYTES]

    def release(self) -> None:
        """Objects were dropped whose owner this process is. What lies here is the owner's to
        delete; a copy, and what lies elsewhere, is the nodes'."""
        while self.dropped:
            name = self.dropped.popleft()[0]
            if not self.can_be_elsewhere(name):
                self._files.pop(name, None)
            self._node.post(Dropped(name, 0))


class NodeFiles:
    """See object_store.StoreFiles and object_room.SpillFiles. Memory holds everything."""

    def __init__(self, host: Host) -> None:
        self._files = host.files

    def is_in_memory(self, name: str) -> bool:
        """See StoreFiles."""
        return name in self._files

    is_here = is_in_memory

    def stat(self, name: str) -> tuple[float, int] | None:
        """See StoreFiles."""
        return (0.0, SIZE_BYTES) if name in self._files else None

    def delete(self, name: str) -> None:
        """See StoreFiles."""
        self._files.pop(name, None)

    def delete_spilled(self, name: str) -> None:
        """See StoreFiles."""

    def rename(self, name: str, to: str) -> None:
        """See StoreFiles."""
        if name in self._files:
            self._files[to] = self._files.pop(name)

    def written_by(self, process: bytes) -> list[str]:
        """See StoreFiles."""
        prefix = f"{process.hex()}-"
        return [name for name in self._files if name.startswith(prefix)]

    def copy(self, names: Sequence[str], copied: Callable[[list[OSError | None]], None]) -> None:
        """See SpillFiles."""
        raise AssertionError("memory holds everything")

    def keep_copy(self, name: str) -> bool:
        """See SpillFiles."""
        return False

    def discard_copy(self, name: str) -> None:
        """See SpillFiles."""


class SimTransfers:
    """See object_store.Transfers."""

    def __init__(self, host: Host, network: Network, pulled: Callable[[Pulled], None]) -> None:
        """`pulled`: the node is told what came of it."""
        self._host = host
        self._network = network
        self._pulled = pulled

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """See Transfers."""
        host, source = self._host, self._network.host_of(nodes[0])
        if source is None or not source.is_up or self._network.is_blocked(host, source):
            missing = Pulled(name, False, "its node cannot be reached", 0, 0.0, may_pass=True)
            host.later(_GIVES_UP_S, partial(self._pulled, missing))
            return
        seconds = _COPY_S * source.slowness
        host.later(seconds, partial(self._arrived, name, source, seconds))

    def let_go(self, name: str) -> None:
        """See Transfers."""

    def _arrived(self, name: str, source: Host, seconds: float) -> None:
        content = source.files.get(name) if source.is_up else None
        if content is None:
            self._pulled(Pulled(name, False, "it is not there", 0, 0.0))
            return
        self._host.files[name] = content
        self._pulled(Pulled(name, True, "", SIZE_BYTES, seconds))
