"""Options that take an amount of memory, such as `4Gi`, `512MiB` or `1.5 GiB`."""

from __future__ import annotations

from phalanx.manifests.sizes import read_size
from phalanx.model.options import LARGEST_AMOUNT
from phalanx.model.readable import size

LEAST_OF_MEMBER = 1 << 20
"""The least memory that a member may ask for, in bytes. A command needs more, so a smaller amount
is a number without its unit.
"""


def memory_bytes(given: str | float) -> int:
    """Return an option's value in bytes. Raises ValueError for a text that is not an amount."""
    return int(read_size(given))


def member_memory(given: str) -> str:
    """Return an option's value if it is an amount of memory for a member. Raises ValueError for a
    text that is not an amount, and for an amount that no command can run in or no node can have.
    """
    found = read_size(given)
    if found < LEAST_OF_MEMBER:
        alone = given.strip()
        example = f"{alone}MiB" if alone.isdecimal() and int(alone) else "512MiB"
        raise ValueError(
            f"{given} is less than 1 MiB: a number without a unit counts bytes. Give a unit, such "
            f"as {example}"
        )
    if found > LARGEST_AMOUNT:
        raise ValueError(f"{given} is more than the largest amount, {size(LARGEST_AMOUNT)}")
    return given
