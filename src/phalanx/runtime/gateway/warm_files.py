"""Files that this gateway has filled, held open and mapped for the next objects.

The next object may be written over a file that is no longer needed, into pages that are allocated
and mapped already. This is only allowed if no other process has the file open or mapped. To find
that out, the gateway asks the kernel for a file lease (F_SETLEASE), which the kernel refuses while
another process has the file open or mapped.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from phalanx.objects.file_pool import MAX_BYTES, MAX_FILES, MIN_BYTES
from phalanx.runtime.gateway.object_files import Begun, ObjectFiles
from phalanx.runtime.os.file_leases import is_ours_alone


class WarmFiles:
    """The files that were filled last, by the names of their objects. Several threads may use this
    object.
    """

    def __init__(self, files: ObjectFiles) -> None:
        self._files = files
        self._held: OrderedDict[str, Begun] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def hold(self, name: str, begun: Begun) -> None:
        """Hold the file of a complete object. The file may be reused once the object is deleted. A
        file that is too small or too large for this is closed at once.
        """
        if not MIN_BYTES <= begun.size <= MAX_BYTES:
            begun.close()
            return
        with self._lock:
            self._close(name)
            self._held[name] = begun
            self._bytes += begun.size
            while len(self._held) > 2 * MAX_FILES or self._bytes > MAX_BYTES:
                self._close(next(iter(self._held)))

    def release(self, name: str) -> None:
        """Release the memory of a deleted object."""
        with self._lock:
            self._close(name)

    def reuse(self, spare: str, name: str, size: int) -> Begun | None:
        """Begin object `name` in the file of a deleted object.

        If that file is no longer held, is too small, or is still being read, delete it and return
        None.
        """
        with self._lock:
            begun = self._held.pop(spare, None)
            if begun is not None:
                self._bytes -= begun.size
        if begun is None or begun.size < size or not is_ours_alone(begun.fd):
            self._files.discard_spare(spare)
            if begun is not None:
                begun.close()
            return None
        try:
            self._files.begin_over(spare, name)
            os.ftruncate(begun.fd, size)
        except OSError:
            begun.close()
            return None
        return Begun(begun.fd, begun.mapping, size)

    def _close(self, name: str) -> None:
        begun = self._held.pop(name, None)
        if begun is not None:
            self._bytes -= begun.size
            begun.close()
