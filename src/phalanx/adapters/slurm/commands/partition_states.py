"""Opens and closes queues, for `scontrol update PartitionName=...`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phalanx.adapters.slurm.commands.usage import address, refuse
from phalanx.cli.reach import ask
from phalanx.protocol.requests.queues import CloseQueue, OpenQueue

_OPENS = {"up": True, "drain": False}
_REFUSED = {
    "down": "DRAIN refuses new jobs; `phalanx suspend JOB` stops jobs that were submitted",
    "inactive": "DRAIN refuses new jobs; `phalanx suspend JOB` stops jobs that were submitted",
}
"""Other states of partitions in Slurm, each with the nearest command of Phalanx."""


class Change(NamedTuple):
    """The request that the operands of `scontrol update PartitionName=...` make."""

    name: str
    opens: bool
    """Whether the queue takes new jobs from now on."""


def read_change(operands: Sequence[str]) -> Change:
    """Return the change in operands such as `PartitionName=lab State=DRAIN`. Raises ValueError."""
    pairs = {}
    for word in operands:
        name, _, value = word.partition("=")
        if name.lower() not in ("partitionname", "state"):
            raise ValueError(
                f"update {word}: only State of a partition can be changed here; `phalanx queue "
                "update` changes the rest"
            )
        pairs[name.lower()] = value
    if not pairs.get("partitionname"):
        raise ValueError("update: give PartitionName=NAME")
    state = pairs.get("state", "").lower()
    if state not in _OPENS:
        other = _REFUSED.get(state, "the states are UP and DRAIN")
        raise ValueError(f"update State={pairs.get('state', '')}: {other}")
    return Change(pairs["partitionname"], _OPENS[state])


def update(operands: Sequence[str]) -> None:
    """Let a queue take new jobs, or refuse them."""
    try:
        change = read_change(operands)
    except ValueError as error:
        refuse("scontrol", str(error))
    ask(address(), OpenQueue(change.name) if change.opens else CloseQueue(change.name))
