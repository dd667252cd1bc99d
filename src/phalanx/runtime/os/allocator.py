"""The allocation of large values by the C library."""

from __future__ import annotations

_LARGEST_BYTES = (32 << 20) - (64 << 10)
"""The size, in bytes, of the largest block whose release makes glibc raise its two thresholds."""


def keep_freed_memory() -> None:
    """Let this process, and all processes that it forks, keep memory that large values leave.

    By default, glibc gives memory back to the kernel when a value of a MiB is freed and lies at the
    end of the heap. The next such value then needs 256 new pages, which takes longer than to copy
    it. When a program frees a block of 32 MiB, glibc raises its thresholds to their maximum: larger
    blocks are still given back when they are freed, and otherwise at most 64 MiB are kept. This
    function makes and frees such a block, whose pages are never written to. With another C library
    it does nothing.
    """
    bytes(_LARGEST_BYTES)
