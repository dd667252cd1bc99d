"""Large objects as files in shared memory: one file for each object, which each reader maps.

A writer keeps the file of a dropped object, with its mapping, and writes the next object of a
similar size into it, because existing pages are several times faster than new ones. A file that
other processes may have mapped is overwritten only after two steps: its name is removed, so that no
process can open it any more, and the kernel confirms that no other process has it open. So no
reader ever sees bytes change.

For a while, a worker also keeps mapped the files that it wrote for other processes. When the owner
of such an object has dropped the object, the owner returns the object's file to the worker.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from phalanx.errors import (
    LocalNodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfDiskError,
    SystemFailureError,
)
from phalanx.objects.file_hold import FileHold
from phalanx.objects.names import is_name, prefix_of_name
from phalanx.protocol.messages import SHARED, Value
from phalanx.runtime.os.copying import copy
from phalanx.runtime.os.file_leases import is_ours_alone
from phalanx.runtime.os.mapping import map_file

_ALIGN = 64
_PAGE = mmap.PAGESIZE
_HEAD = struct.Struct("<I")
_KEEP_FILES = 8
_KEEP_READ_BYTES = 256 << 20
"""The largest total size, in bytes, of the kept files that other processes may have mapped."""
_WATCHED, _WATCHED_SHARE = 64, 16
"""A process keeps the files that it has written last open, so that it can ask the kernel whether
other processes have them open. It keeps as many as the first number, or as the limit of open files
divided by the second number if that is less.

A file that is not open is not overwritten once other processes may have mapped it.
"""
_MADV_POPULATE_WRITE = 23
_HANDED_FILES, _HANDED_BYTES = 16, 256 << 20
"""The largest number of files, and of their bytes, that a process keeps mapped after it has written
them for objects that now have other owners.
"""
WRITTEN_MAPPINGS = 8192
"""The largest number of objects that a process keeps mapped after it has written them, so that
later objects can reuse the files. The kernel limits the number of mappings (vm.max_map_count,
65,530 by default).
"""


class Extent:
    """A file in shared memory that this process wrote and has mapped."""

    __slots__ = ("capacity", "fd", "is_shared", "map", "may_be_read", "name")

    def __init__(
        self, name: str, capacity: int, mapping: mmap.mmap, fd: int, is_shared: bool
    ) -> None:
        self.name = name
        self.capacity = capacity
        self.is_shared = is_shared
        """Whether the file is in shared memory; otherwise it is on disk, because memory had no
        room.
        """
        self.map: mmap.mmap | None = mapping
        self.fd = fd
        """The descriptor of the mapped file; negative if it is closed."""
        self.may_be_read = False
        """Whether other processes may have mapped the file while it is kept."""

    def close(self) -> None:
        """Unmap and close the file."""
        self.map = None
        self.forget_descriptor()

    def forget_descriptor(self) -> None:
        """Close the descriptor. The mapping stays."""
        fd, self.fd = self.fd, -1  # in one step, because two threads may do this at the same time
        if fd >= 0:
            os.close(fd)


class SharedStore:
    """One process's access to the node's shared memory.

    `reserve(bytes)` requests credit from the node before memory is taken. It may wait; it returns
    the number of bytes granted (at least the requested number) or raises ObjectStoreFullError.

    Four functions report to the node. `sealed(name, bytes)`: an object was written, which uses up
    credit. `returned(name, bytes)`: an object is gone, and this number of bytes is this process's
    credit again; with 0, the bytes are the node's. `kept(name)`: an object is gone, and its file is
    kept for the next object. `given_back(name)`: an object of another writer is gone, and its file
    belongs to that writer.
    """

    def __init__(
        self,
        directory: str,
        spill_directory: str,
        prefix: str,
        reserve: Callable[[int], int],
        sealed: Callable[[str, int], None],
        returned: Callable[[str, int], None],
        kept: Callable[[str], None],
        given_back: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.spill_directory = spill_directory
        self.dropped: deque[tuple[str, Any, bool]] = deque()
        self.bytes_mapped = 0
        """The bytes that this process has read without copying."""
        self._prefix = prefix
        self._reserve = reserve
        self._sealed = sealed
        self._returned = returned
        self._tell_kept = kept
        self._given_back = given_back
        self._count = 0
        self._credit = 0
        self._kept: list[Extent] = []
        self._spilled: deque[str] = deque()
        self._lent: dict[str, Extent] = {}
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_watched = min(_WATCHED, limit // _WATCHED_SHARE)
        self._watched: deque[Extent] = deque()
        """Files whose descriptors are kept. The file that was written last is the last one."""
        self._handed: dict[str, Extent] = {}
        """Files of objects that now belong to other processes. These files may come back."""
        self._come_back: deque[str] = deque()
        self._lock = threading.RLock()

    def write(self, data: bytes, buffers: Sequence[Any]) -> tuple[Value, FileHold]:
        """Write a new object from these parts. Raises ObjectStoreFullError."""
        raws = [b.raw() for b in buffers]
        header = msgspec.msgpack.encode([len(data), [len(r) for r in raws]])
        offset = _aligned(_HEAD.size + len(header))
        total = _aligned(offset + len(data))
        for raw in raws:
            total = _aligned(total + len(raw))
        while True:
            with self._lock:
                extent = self._take(total)
                if extent is not None:
                    return self._fill(extent, data, header, offset, raws)
                missing = _in_pages(total) - self._credit
            # The lock is not held here, because the answer may have to wait for a thread that must
            # write first.
            try:
                credit = self._reserve(missing)
            except ObjectStoreFullError:
                # Memory may not hold more, and nothing is left to spill, so the object goes to disk
                # at once.
                with self._lock:
                    extent = self._create(self._next_name(), _in_pages(total), self.spill_directory)
                    return self._fill(extent, data, header, offset, raws)
            with self._lock:
                self._credit += credit

    def _fill(
        self, extent: Extent, data: bytes, header: bytes, offset: int, raws: list[memoryview]
    ) -> tuple[Value, FileHold]:
        self._watch(extent)
        view = memoryview(extent.map)  # type: ignore[arg-type]
        _HEAD.pack_into(view, 0, len(header))
        view[_HEAD.size : _HEAD.size + len(header)] = header
        view[offset : offset + len(data)] = data
        position = _aligned(offset + len(data))
        for raw in raws:
            copy(view[position : position + len(raw)], raw)
            position = _aligned(position + len(raw))
        view.release()
        self._lent[extent.name] = extent
        if len(self._lent) > WRITTEN_MAPPINGS:
            # This unmaps the oldest file, which then cannot be used again.
            self._unmap(next(iter(self._lent)))
        if extent.is_shared:
            self._sealed(extent.name, extent.capacity)
        hold = FileHold(self, extent.name, extent.capacity, extent)
        return Value(SHARED, extent.name.encode(), [], [], extent.capacity), hold

    def open(self, name: str) -> mmap.mmap:
        """Map the object's file read-only.

        Raises ObjectLostError if the file does not exist, and SystemFailureError if the process may
        not open or map another file.
        """
        if not is_name(name):
            raise ObjectLostError("", f"{name!r} is no name of an object's file.")
        for directory in (self.directory, self.spill_directory, self.directory):
            try:
                fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _not_opened(error) from None
            try:
                mapping = map_file(fd, os.fstat(fd).st_size, is_writable=False)
                if self._is_still(name, directory, fd):
                    return mapping
            except OSError as error:
                raise _not_mapped(error) from None
            finally:
                os.close(fd)
        raise ObjectLostError("", f"The object's memory ({name}) is gone from this node.")

    def _is_still(self, name: str, directory: str, fd: int) -> bool:
        """Whether the file that was opened is still the file with this name. If it is, no process
        overwrites the file while it is mapped here. A file that lost its name while it was being
        opened may be overwritten.
        """
        try:
            there = os.stat(os.path.join(directory, name))
        except FileNotFoundError:
            return False
        return there.st_ino == os.fstat(fd).st_ino

    def parts(self, mapping: mmap.mmap) -> tuple[memoryview, list[memoryview]]:
        """Return (pickle, buffers) of a mapped object, as views of the mapping's pages."""
        view = memoryview(mapping).toreadonly()
        (header_bytes,) = _HEAD.unpack_from(view, 0)
        length, sizes = msgspec.msgpack.decode(view[_HEAD.size : _HEAD.size + header_bytes])
        offset = _aligned(_HEAD.size + header_bytes)
        data = view[offset : offset + length]
        position = _aligned(offset + length)
        buffers = []
        for size in sizes:
            buffers.append(view[position : position + size])
            position = _aligned(position + size)
        self.bytes_mapped += sum(sizes)
        return data, buffers

    def collect(self) -> None:
        """Free the memory of objects whose last reference was dropped.

        This never waits for the lock, because a writer that holds it may be waiting for the calling
        thread.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._collect()
        finally:
            self._lock.release()

    def _collect(self) -> None:
        while self._spilled:
            spilled = self._spilled.popleft()
            for kept in [e for e in self._kept if e.name == spilled]:
                self._kept.remove(kept)
                self._discard(kept)
        while self._come_back:
            name = self._come_back.popleft()
            extent = self._handed.pop(name, None)
            if extent is None or not self._prepare_keeping(extent, is_read=True):
                self._unlink(name)
                self._returned(name, 0)
            else:
                self._keep(extent)  # the node knows this, because it gave the file back
        while self.dropped:
            name, extent, seen = self.dropped.popleft()
            self._lent.pop(name, None)
            is_here = prefix_of_name(name) == prefix_of_name(self._prefix)
            if extent is not None and self._prepare_keeping(extent, is_read=seen):
                self._tell_kept(name)
                self._keep(extent)
                continue
            if is_here and extent is None:
                self._given_back(name)
                continue
            if is_here:
                # the file of another node's object is a copy, and the node deletes copies
                self._unlink(name)
            if extent is not None:
                extent.close()
            self._returned(name, 0)

    def unmap_spilled(self, names: Sequence[str]) -> None:
        """Unmap those files of spilled objects that this process wrote, so that their memory is
        freed.
        """
        for name in names:
            self._unmap(name)
        self._spilled.extend(names)
        self.collect()

    def hold(self, name: str, size: int) -> FileHold:
        """Return a hold on an object's file that another process wrote."""
        return FileHold(self, name, size, None)

    def is_here(self, name: str) -> bool:
        """Whether an object's file, or a copy of the file, is in this node's shared memory."""
        return os.path.exists(self._path(name))

    def lend(self, name: str) -> None:
        """Note that an object now belongs to another process, which may return its file."""
        with self._lock:
            extent = self._lent.pop(name, None)
            if extent is None:
                return
            if not extent.is_shared:
                extent.close()
                return
            self._handed[name] = extent
            while len(self._handed) > _HANDED_FILES or self._handed_bytes > _HANDED_BYTES:
                self._unmap(next(iter(self._handed)))

    @property
    def _handed_bytes(self) -> int:
        return sum(extent.capacity for extent in self._handed.values())

    def give_back(self, name: str) -> None:
        """Take back the file of an object that this process wrote and whose owner has dropped
        it.
        """
        self._come_back.append(name)
        self.collect()

    def _unmap(self, name: str) -> None:
        for extents in (self._lent, self._handed):
            extent = extents.pop(name, None)
            if extent is not None:
                extent.close()

    def trim(self) -> None:
        """Free all memory that is kept for reuse."""
        kept, self._kept = self._kept, []
        for extent in kept:
            self._discard(extent)

    def _take(self, size: int) -> Extent | None:
        """Return a file with room for `size` bytes; None if there is not enough credit."""
        self.collect()
        while (extent := self._fitting(size)) is not None:
            self._kept.remove(extent)
            name = self._next_name()
            try:
                os.rename(self._path(extent.name), self._path(name))
            except FileNotFoundError:
                self._discard(extent)  # the node freed the file when memory was needed
                continue
            if extent.may_be_read and not is_ours_alone(extent.fd):
                os.unlink(self._path(name))
                self._discard(extent)  # another process opened the file at the last moment
                continue
            self._returned(extent.name, extent.capacity)
            extent.name, extent.may_be_read = name, False
            return extent
        capacity = _in_pages(size)
        if self._credit < capacity:
            self.trim()
            return None
        extent = self._create(self._next_name(), capacity, self.directory)
        if extent.is_shared:
            self._credit -= capacity
        return extent

    def _fitting(self, size: int) -> Extent | None:
        """Return the smallest kept file that has room, is not much too large, and is not being
        read."""
        most = max(2 * size, size + 16 * _PAGE)
        fitting = [extent for extent in self._kept if size <= extent.capacity <= most]
        for extent in sorted(fitting, key=lambda extent: extent.capacity):
            if not extent.may_be_read or is_ours_alone(extent.fd):
                return extent
        return None

    def _next_name(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def _create(self, name: str, capacity: int, directory: str) -> Extent:
        path = os.path.join(directory, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise LocalNodeDiedError(f"{self.directory} is gone: the session has ended.") from None
        except OSError as error:
            raise _not_opened(error) from None
        try:
            mapping = _map_with_pages(fd, capacity)
        except BaseException as error:
            os.close(fd)
            os.unlink(path)
            if not isinstance(error, OSError):
                raise
            if error.errno == errno.ENOMEM:
                raise _not_mapped(error) from None
            if directory == self.directory:
                return self._create(name, capacity, self.spill_directory)
            raise OutOfDiskError(
                f"an object of {capacity} bytes fits neither shared memory nor the disk under "
                f"{directory}: {error.strerror}. Free references, raise object_store_memory, or "
                "free space on that disk."
            ) from None
        return Extent(name, capacity, mapping, fd, is_shared=directory == self.directory)

    def _watch(self, extent: Extent) -> None:
        """Keep a file's descriptor. If too many are kept, close the descriptor of the file that was
        written longest ago.
        """
        with contextlib.suppress(ValueError):
            self._watched.remove(extent)
        self._watched.append(extent)
        if len(self._watched) > self._most_watched:
            oldest = self._watched.popleft()
            oldest.forget_descriptor()
            # The kernel can no longer be asked about this file.
            if oldest.may_be_read and oldest in self._kept:
                self._kept.remove(oldest)
                self._discard(oldest)

    def _prepare_keeping(self, extent: Extent, is_read: bool) -> bool:
        """Note whether other processes may have mapped a deleted object's file (`is_read`). Returns
        whether the file may be overwritten, now or later.
        """
        if not extent.is_shared or extent.map is None:
            return False
        extent.may_be_read = is_read
        return not is_read or (extent.fd >= 0 and extent.capacity <= _KEEP_READ_BYTES)

    def _keep(self, extent: Extent) -> None:
        self._kept.append(extent)
        read_bytes = sum(one.capacity for one in self._kept if one.may_be_read)
        while len(self._kept) > _KEEP_FILES or read_bytes > _KEEP_READ_BYTES:
            gone = self._kept.pop(0)
            read_bytes -= gone.capacity if gone.may_be_read else 0
            self._discard(gone)

    def _discard(self, extent: Extent) -> None:
        extent.close()
        self._unlink(extent.name)
        self._returned(extent.name, 0)

    def _unlink(self, name: str) -> None:
        if not is_name(name):
            return
        for directory in (self.directory, self.spill_directory):
            try:
                os.unlink(os.path.join(directory, name))
            except FileNotFoundError:
                continue

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


def _map_with_pages(fd: int, capacity: int) -> mmap.mmap:
    """Return a writable mapping of a new file, with all of its pages allocated.

    Allocating all pages at once is quicker than a page fault for each. If the file system is full,
    this raises OSError here; otherwise a later write would cause a SIGBUS.
    """
    os.ftruncate(fd, capacity)
    mapping = map_file(fd, capacity, is_writable=True)
    try:
        mapping.madvise(_MADV_POPULATE_WRITE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        os.posix_fallocate(fd, 0, capacity)  # kernels before 5.14
    return mapping


def _not_opened(error: OSError) -> SystemFailureError:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    hint = f" It may have {limit} open files (ulimit -n)." if error.errno == errno.EMFILE else ""
    return SystemFailureError(
        f"This process cannot open the file of an object: {error.strerror}.{hint}"
    )


def _not_mapped(error: OSError) -> SystemFailureError:
    return SystemFailureError(
        f"This process cannot map the file of an object: {error.strerror}. It has mapped as many "
        "objects as the kernel allows (vm.max_map_count): drop references to values that were read."
    )


def _in_pages(size: int) -> int:
    """Return the bytes of the whole pages that this number of bytes needs."""
    return (size + _PAGE - 1) // _PAGE * _PAGE


def _aligned(offset: int) -> int:
    return (offset + _ALIGN - 1) & -_ALIGN
