"""Alignment of buffers that arrive in messages, as vector instructions and other libraries need
it.
"""

from __future__ import annotations

import ctypes

ALIGN_BYTES = 64
"""The alignment in bytes, which files of shared memory have, too. A cache line and the widest
vector have this size.
"""

ALIGN_FROM_BYTES = 4096
"""The size in bytes from which a buffer is copied to an aligned place. For a smaller buffer, the
copy would cost more than the alignment saves.
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
