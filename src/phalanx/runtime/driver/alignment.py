"""Alignment of buffers that came in a message, for vector instructions and other libraries."""

from __future__ import annotations

import ctypes

ALIGN_BYTES = 64
"""The alignment in bytes, as in files of shared memory: a cache line, which is also the widest
vector.
"""

ALIGN_FROM_BYTES = 4096
"""The size in bytes below which a buffer stays where it is: nobody maps such a buffer, and a copy
costs more than it saves.
"""


def aligned(buffer: bytes) -> bytes | memoryview:
    """Return the buffer read-only. If it is large, the returned buffer begins at a multiple of
    ALIGN_BYTES.
    """
    size = len(buffer)
    if size < ALIGN_FROM_BYTES:
        return buffer
    room = bytearray(size + ALIGN_BYTES - 1)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % ALIGN_BYTES
    room[start : start + size] = buffer
    return memoryview(room)[start : start + size].toreadonly()
