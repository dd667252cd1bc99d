"""Buffers that came in a message, where vector instructions and other libraries want them."""

from __future__ import annotations

import ctypes

ALIGN_BYTES = 64
"""As in files of shared memory: a line of the cache, and the widest vector."""

ALIGN_FROM_BYTES = 4096
"""Smaller ones stay where they are: nobody maps them, and a copy would cost more than reading."""


def aligned(buffer: bytes) -> bytes | memoryview:
    """The buffer, read-only, at a multiple of ALIGN_BYTES if it is large enough to matter."""
    size = len(buffer)
    if size < ALIGN_FROM_BYTES:
        return buffer
    room = bytearray(size + ALIGN_BYTES - 1)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % ALIGN_BYTES
    room[start : start + size] = buffer
    return memoryview(room)[start : start + size].toreadonly()
