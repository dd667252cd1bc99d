"""Simulated files of large objects on a machine, and copies of files from other machines."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.node.object_room import Copied
from phalanx.objects.file_hold import FileHold
from phalanx.objects.names import prefix_of_name
from phalanx.protocol.gateway_messages import Pulled
from phalanx.protocol.messages import SHARED, Value
from phalanx.protocol.node_messages import Dropped, GivenBack, Sealed
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.network import End, Network

SIZE_BYTES = 1000
_COPY_S = 0.01
_SPILL_S = (0.001, 0.3)
_GIVES_UP_S = 0.05
"""Seconds after which a pull from an unreachable machine fails."""


class ProcessFiles:
    """The access of one process to its machine's files, in place of `owner.objects.table.Files`."""

    def __init__(self, host: Host, process_id: bytes, node: End) -> None:
        """`node` is the connection to the process's node."""
        self._files = host.files
        self._disk = host.disk
        self.credit_bytes = 0
        """The number of bytes that the process may write to memory before it must ask the node for
        room.
        """
        self._process_id = process_id
        self._node = node
        self._count = 0
        self.dropped: deque[tuple[str, Any, bool]] = deque()

    def hold(self, name: str, size: int) -> FileHold:
        """Return a hold on a file; it keeps the file while the process reads it."""
        return FileHold(self, name, size, None)

    def is_here(self, name: str) -> bool:
        """Whether the file is on this machine."""
        return name in self._files

    def lend(self, name: str) -> None:
        """Do nothing: a simulated file needs no protection from its writer while it is read."""

    def write(self, content: bytes, is_for_disk: bool = False) -> Value:
        """Write a new file. Returns the payload that names it. `is_for_disk`: write the file to
        disk, because memory has no room.
        """
        self._count += 1
        name = f"{self._process_id.hex()}-{self._count}"
        if is_for_disk:
            self._disk[name] = content
        else:
            self._files[name] = content
            self.credit_bytes = max(self.credit_bytes - SIZE_BYTES, 0)
            self._node.post(Sealed(name, SIZE_BYTES))
        return Value(SHARED, name.encode(), size=SIZE_BYTES)

    def can_be_elsewhere(self, name: str) -> bool:
        """Whether another node may also have this file."""
        return prefix_of_name(name) != self._process_id[:PREFIX_BYTES]

    def release(self) -> None:
        """Release the objects that this process has dropped. It deletes its own files. For a copy,
        or a file on another machine, it tells the node to delete the object; a file that another
        process of this machine wrote is given back to that process.
        """
        while self.dropped:
            name = self.dropped.popleft()[0]
            if self.can_be_elsewhere(name):
                self._node.post(Dropped(name, 0))
            elif name.startswith(f"{self._process_id.hex()}-"):
                self.delete(name)
            else:
                self._node.post(GivenBack(name))

    def delete(self, name: str) -> None:
        """Delete an object that this process wrote."""
        self._files.pop(name, None)
        self._disk.pop(name, None)
        self._node.post(Dropped(name, 0))


class NodeFiles:
    """A node's files, in place of object_store.StoreFiles and object_room.SpillFiles."""

    def __init__(
        self, host: Host, rng: random.Random, guarded: Callable[[Callable[[], object]], None]
    ) -> None:
        """`guarded` runs an action as a step of the node."""
        self._host = host
        self._files, self._disk = host.files, host.disk
        self._copies: dict[str, bytes] = {}
        """Copies on disk of files that are still in memory, by name."""
        self._rng = rng
        self._guarded = guarded

    def is_in_memory(self, name: str) -> bool:
        """Whether the file is in memory."""
        return name in self._files

    def is_here(self, name: str) -> bool:
        """Whether the file is on this machine."""
        return self._host.content(name) is not None

    def stat(self, name: str) -> tuple[float, int] | None:
        """Return the time and size of a file; None if the file is not in memory."""
        return (0.0, SIZE_BYTES) if name in self._files else None

    def delete(self, name: str) -> None:
        self._files.pop(name, None)
        self.delete_spilled(name)

    def delete_spilled(self, name: str) -> None:
        self._disk.pop(name, None)

    def rename(self, name: str, to: str) -> None:
        if name in self._files:
            self._files[to] = self._files.pop(name)

    def written_by(self, process: bytes) -> list[str]:
        """Return the files that a process has written."""
        prefix = f"{process.hex()}-"
        places = (self._files, self._disk)
        return [name for place in places for name in place if name.startswith(prefix)]

    def copy(self, names: Sequence[str], copied: Copied) -> None:
        """Copy files to disk."""
        failures: list[OSError | None] = []
        for name in names:
            content = self._files.get(name)
            if content is not None:
                self._copies[name] = content
            failures.append(None if content is not None else FileNotFoundError(name))
        seconds = self._rng.uniform(*_SPILL_S) * self._host.slowness
        self._host.later(seconds, partial(self._guarded, partial(copied, failures)))

    def keep_copy(self, name: str) -> bool:
        """Delete a file from memory, and keep its copy on disk."""
        content = self._copies.pop(name, None)
        if content is None:
            return False
        self._disk[name] = content
        self._files.pop(name, None)
        return True

    def discard_copy(self, name: str) -> None:
        """Delete a file's copy on disk."""
        self._copies.pop(name, None)


class SimTransfers:
    """The transfers of files from other nodes, in place of object_store.Transfers."""

    def __init__(self, host: Host, network: Network, pulled: Callable[[Pulled], None]) -> None:
        """`pulled` reports the result of a pull to the node."""
        self._host = host
        self._network = network
        self._pulled = pulled

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """Copy a file from one of these nodes."""
        host, source = self._host, self._network.host_of(nodes[0])
        if source is None or not source.is_up or self._network.is_blocked(host, source):
            missing = Pulled(name, False, "its node cannot be reached", 0, 0.0, may_pass=True)
            host.later(_GIVES_UP_S, partial(self._pulled, missing))
            return
        seconds = _COPY_S * source.slowness
        host.later(seconds, partial(self._arrived, name, source, seconds, on_disk))

    def release_file(self, name: str) -> None:
        """Release a file that was pulled."""

    def _arrived(self, name: str, source: Host, seconds: float, on_disk: bool) -> None:
        content = source.content(name) if source.is_up else None
        if content is None:
            self._pulled(Pulled(name, False, "it is not there", 0, 0.0))
            return
        (self._host.disk if on_disk else self._host.files)[name] = content
        self._pulled(Pulled(name, True, "", SIZE_BYTES, seconds))
