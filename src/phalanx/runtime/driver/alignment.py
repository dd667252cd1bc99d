"""Alignment of buffers that arrive in messages, as vector instructions and other libraries need
it.
"""

from __future__ import annotations

import ctypes

ALIGN_BYTES = 64
"""An aligned buffer begins at a multiple of this number of bytes. Files of shared memory are
aligned in the same way. A cache line and the widest vector have this size.
"""

ALIGN_FROM_BYTES = 4096
"""The smallest size in bytes of a buffer that is aligned, by copying it. For a smaller buffer, the
copy would cost more than the alignment saves.
"""


def aligned(buffer: bytes) -> bytes | memoryview:
    """Return the buffer unchanged if it is small. Otherwise, return a read-only copy that begins at
    a multiple of ALIGN_BYTES.
    """
    size = len(buffer)
    if size < ALIGN_FROM_BYTES:
        return buffer
    room = bytearray(size + ALIGN_BYTES - 1)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % ALIGN_BYTES
    room[start : start + size] = buffer
    return memoryview(room)[start : start + size].toreadonly()
