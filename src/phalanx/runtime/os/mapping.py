"""Maps files into memory without keeping a descriptor for each.

Before Python 3.13, an `mmap` keeps a copy of its file's descriptor, so a process could map no more
files than it may have open. Here the `mmap` is made over anonymous memory, which has no descriptor,
and then the file is mapped over that memory.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Callable
from typing import Any

_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000
"""Flags from <asm-generic/mman.h>. They are the same on all Linux architectures for which Python is
built. (On MIPS, PowerPC and SPARC, _MAP_NORESERVE differs, but is not needed.)
"""


def map_file(fd: int, size: int, is_writable: bool) -> mmap.mmap:
    """Map the first `size` bytes of a file. The mapping is shared with other mappings of the file.
    Raises OSError.

    Python considers every mapping writable, so views of a read-only mapping must be made read-only.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    mapping = mmap.mmap(-1, size, flags=flags)
    prot = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
    try:
        _map_over(mapping, size, prot, fd)
    except OSError:
        mapping.close()
        raise
    return mapping


def _map_over(mapping: mmap.mmap, size: int, prot: int, fd: int) -> None:
    import ctypes  # not at the top, because many programs have no large object

    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    if _libc_mmap()(address, size, prot, mmap.MAP_SHARED | _MAP_FIXED, fd, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def _libc_mmap() -> Callable[..., Any]:
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    number, length, offset = ctypes.c_int, ctypes.c_size_t, ctypes.c_long
    function.argtypes = [ctypes.c_void_p, length, number, number, number, offset]
    return function
