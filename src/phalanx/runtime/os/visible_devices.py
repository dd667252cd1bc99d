"""What the devices of a node are called, of which the node itself was shown some alone."""

from __future__ import annotations

from collections.abc import Sequence

CUDA = "CUDA_VISIBLE_DEVICES"


def named_devices(shown: str | None, numbers: Sequence[int]) -> str:
    """The variable that shows devices, for those that the node hands out by these numbers.

    `shown`: the variable as the node has it, within which its numbers count; it may hold UUIDs.
    """
    names = shown.split(",") if shown else []
    return ",".join(names[n].strip() if n < len(names) else str(n) for n in numbers)


def of_command(variables: dict[str, str], shown: str | None) -> dict[str, str]:
    """A command's variables, in which devices stand by the node's numbers, with their names."""
    words = variables.get(CUDA, "").split(",")
    if not shown or not all(word.isdecimal() for word in words):
        return variables
    return variables | {CUDA: named_devices(shown, [int(word) for word in words])}
