"""The usage of a running member of a job over time."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.row import Row

Pieces = list[tuple[float, float]]
"""The mean value of a quantity in each successive interval: (seconds, mean) pairs that cover the
time from the member's start to its last sample.
"""


class MemberUse(Row, frozen=True):
    """The usage of a member since its start. All fields are empty while the member does not run,
    and before the first sample.
    """

    cpus: Pieces = msgspec.field(default_factory=list)
    """The number of CPUs that the member's processes kept busy."""
    memory: Pieces = msgspec.field(default_factory=list)
    """The bytes of memory that the member's processes used."""
    gpus: Pieces = msgspec.field(default_factory=list)
    """The part of the time in which the member's GPUs were busy, from 0 to 1; empty if not
    measured.
    """
    gpu_memory: Pieces = msgspec.field(default_factory=list)
    """The bytes in use on the member's GPUs; empty if not measured."""
