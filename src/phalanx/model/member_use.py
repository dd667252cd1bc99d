"""The usage of a running member of a job over time."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.row import Row

Pieces = list[tuple[float, float]]
"""(seconds, mean value) of each piece of time, from the member's begin to its last sample."""


class MemberUse(Row, frozen=True):
    """The usage of a member since it began; empty while it does not run, and before the first
    sample.
    """

    cpus: Pieces = msgspec.field(default_factory=list)
    """CPUs that its processes kept busy."""
    memory: Pieces = msgspec.field(default_factory=list)
    """Bytes of memory of its processes."""
    gpus: Pieces = msgspec.field(default_factory=list)
    """The part of the time in which its GPUs were busy, from 0 to 1; empty if not measured."""
    gpu_memory: Pieces = msgspec.field(default_factory=list)
    """Bytes in use on its GPUs; empty if not measured."""
