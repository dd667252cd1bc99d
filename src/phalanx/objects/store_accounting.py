"""The account of a node's shared memory: the capacity, the credit of each process, and the objects
in the order of their last use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container

from phalanx.objects.names import writer_of_name

CHUNK_BYTES = 16 << 20
"""The bytes of credit that a process gets in one grant, so that it need not ask before each put."""


class StoreAccounting:
    """The credit of each process, and the order in which objects would be spilled.

    Memory counts as used as soon as a process has credit for it.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._shared: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._spilled: dict[str, int] = {}
        self._credit: dict[bytes, int] = {}
        self._kept: dict[str, tuple[int, bytes]] = {}
        """The files without objects that processes keep for their next objects: (bytes, process) by
        name, oldest first.
        """
        self._kept_early: set[str] = set()
        """The kept files whose writers have not yet reported the objects that they wrote there."""
        self._claimed: dict[str, bytes] = {}
        """The owner of each object that another process wrote."""
        self.shared_bytes = 0
        self.kept_bytes = 0
        """The bytes of all kept files. These files contain no objects."""
        self.spilled_bytes = 0
        self.spilled_total_bytes = 0
        self.spill_count = 0
        """How often an object was copied to disk."""

    @property
    def object_count(self) -> int:
        """The number of objects, in memory and on disk."""
        return len(self._shared) + len(self._spilled)

    @property
    def used_bytes(self) -> int:
        """The bytes that are written, kept or promised."""
        return self.shared_bytes + self.kept_bytes + sum(self._credit.values())

    @property
    def free_bytes(self) -> int:
        """The bytes that are available for new objects, including the bytes of kept files."""
        return max(0, self.capacity_bytes - self.used_bytes + self.kept_bytes)

    def kept(self, name: str, process: bytes) -> None:
        """Note that an object is gone, and that `process`, which wrote the object's file, keeps the
        file.
        """
        size = self.size_of(name)
        self.dropped(name, 0, process)
        if size:
            self._kept[name] = (size, process)
            self.kept_bytes += size
        else:
            self._kept_early.add(name)

    def oldest_kept(self, needed_bytes: int) -> list[tuple[str, bytes]]:
        """Return (name, process) of kept files that together free this many bytes."""
        chosen: list[tuple[str, bytes]] = []
        for name, (size, process) in self._kept.items():
            if needed_bytes <= 0:
                break
            chosen.append((name, process))
            needed_bytes -= size
        return chosen

    def missing(self, wanted_bytes: int) -> int:
        """Return the bytes that must be freed before `wanted_bytes` can be granted."""
        return max(0, self.used_bytes + wanted_bytes - self.capacity_bytes)

    def grant(self, process: bytes, wanted_bytes: int) -> int:
        """Give `process` credit: a chunk, or a quarter of the free bytes if that is less, but at
        least the bytes that it asked for. Returns the granted bytes.
        """
        room = self.capacity_bytes - self.used_bytes
        granted = max(wanted_bytes, min(CHUNK_BYTES, room // 4))
        self._credit[process] = self._credit.get(process, 0) + granted
        return granted

    def promise(self, process: bytes, wanted_bytes: int) -> None:
        """Give `process` credit of exactly this size, for one object that the process will
        write.
        """
        self._credit[process] = self._credit.get(process, 0) + wanted_bytes

    def withdraw(self, process: bytes, promised_bytes: int) -> None:
        """Take back a part of a promise, because `process` will not write these bytes."""
        self._credit[process] = max(0, self._credit.get(process, 0) - promised_bytes)

    def sealed(self, name: str, size: int, process: bytes) -> None:
        """Count an object that `process` wrote."""
        self._credit[process] = max(0, self._credit.get(process, 0) - size)
        self._shared[name] = (size, process)
        self.shared_bytes += size
        if name in self._kept_early:
            self.kept(name, process)

    def claimed(self, name: str, process: bytes) -> None:
        """Note that `process` owns an object that another process wrote."""
        self._claimed[name] = process

    def owner_of(self, name: str) -> bytes:
        """Return the process that claimed the object as its owner; empty if no process did."""
        return self._claimed.get(name, b"")

    def writer_of(self, name: str) -> bytes:
        """Return the process that wrote the object; empty if the object is not in memory."""
        return self._shared.get(name, (0, b""))[1]

    def owners(self) -> set[bytes]:
        """Return the owners of objects that another process wrote."""
        return set(self._claimed.values())

    def owned(self, process: bytes, written: list[str]) -> list[str]:
        """Return the objects of `process`, and the files that it keeps.

        Its objects are those that it claimed, and those among `written` that no process claimed.
        """
        names = [name for name, owner in self._claimed.items() if owner == process]
        names += [name for name in written if name not in self._claimed]
        names += [name for name, (_, keeper) in self._kept.items() if keeper == process]
        return list(dict.fromkeys(names))

    def dropped(self, name: str, credit_bytes: int, process: bytes) -> None:
        """Forget an object that is gone; `credit_bytes` become credit of `process` again."""
        self._claimed.pop(name, None)
        self._kept_early.discard(name)
        self.spilled_bytes -= self._spilled.pop(name, 0)
        entry = self._shared.pop(name, None)
        if entry is not None:
            size, _ = entry
            self.shared_bytes -= size
        self.kept_bytes -= self._kept.pop(name, (0, b""))[0]
        if credit_bytes:
            self._credit[process] = self._credit.get(process, 0) + credit_bytes

    def holds(self, name: str) -> bool:
        """Whether the object is in memory."""
        return name in self._shared

    def size_of(self, name: str) -> int:
        """Return the bytes of memory that the object takes."""
        return self._shared.get(name, (0, b""))[0]

    def used(self, name: str) -> None:
        """Note that the object was read, so that others are spilled before it."""
        if name in self._shared:
            self._shared.move_to_end(name)

    def victims(
        self, needed_bytes: int, pinned: Container[str] = ()
    ) -> list[tuple[str, int, bytes]]:
        """Return (name, bytes, writer) of the least recently used objects that together free enough
        bytes.

        Objects that are `pinned` are left out.
        """
        chosen: list[tuple[str, int, bytes]] = []
        freed = 0
        for name, (size, writer) in self._shared.items():
            if freed >= needed_bytes:
                break
            if name in pinned:
                continue
            chosen.append((name, size, writer))
            freed += size
        return chosen

    def spilled(self, name: str) -> None:
        """Note that the object is only on disk now, and that its memory is free."""
        entry = self._shared.pop(name, None)
        if entry is not None:
            size, _ = entry
            self.shared_bytes -= size
            self._spilled[name] = size
            self.spilled_bytes += size
            self.spilled_total_bytes += size
            self.spill_count += 1

    def lost(self, name: str) -> None:
        """Forget an object whose file does not exist."""
        entry = self._shared.pop(name, None)
        if entry is not None:
            size, _ = entry
            self.shared_bytes -= size

    def process_gone(self, process: bytes) -> None:
        """Free the bytes that an ended process was promised and has not written."""
        self._credit.pop(process, None)
        self._kept_early = {n for n in self._kept_early if writer_of_name(n) != process}

    def files(self) -> dict[str, tuple[int, str, str]]:
        """Return for each object on this node its size in bytes, its writer and its owner. The
        processes are given in hex.
        """
        sizes = {name: (size, writer) for name, (size, writer) in self._shared.items()}
        sizes |= {name: (size, b"") for name, size in self._spilled.items()}
        return {
            name: (size, writer.hex(), self._claimed.get(name, writer).hex())
            for name, (size, writer) in sizes.items()
        }

    def counts(self) -> dict[str, int]:
        """Return counts for display."""
        return {
            "objects": len(self._shared),
            "shared_bytes": self.shared_bytes,
            "kept_bytes": self.kept_bytes,
            "spilled_objects": len(self._spilled),
            "spilled_bytes": self.spilled_bytes,
            "spilled_total_bytes": self.spilled_total_bytes,
            "spills": self.spill_count,
            "capacity_bytes": self.capacity_bytes,
        }
