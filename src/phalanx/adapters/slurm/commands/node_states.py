"""Drains and resumes nodes, for `scontrol update NodeName=...`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.usage import address, refuse
from phalanx.cli.draining import asker
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import say
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo
from phalanx.protocol.requests.cluster import DrainNode, GetStatus, UndrainNode

_DRAIN = ("drain",)
_RESUME = ("resume", "undrain")
_REFUSED = {
    "down": "`phalanx drain NODE --deadline 1m` ends the work of a node",
    "fail": "`phalanx cordon` keeps new work away from a node",
    "power_down": "`phalanx provision` starts and ends machines",
    "power_up": "`phalanx provision` starts and ends machines",
}
"""Other states of nodes in Slurm, each with Phalanx's command for the same purpose."""


class Change(NamedTuple):
    """The request that the operands of `scontrol update NodeName=...` make."""

    names: tuple[str, ...]
    drains: bool
    """Whether the nodes drain; else they take work again."""
    reason: str


def read_change(operands: Sequence[str]) -> Change:
    """Return the change in operands such as `NodeName=n[1-3] State=DRAIN Reason=disks`. Raises
    ValueError.
    """
    pairs = {}
    for word in operands:
        name, _, value = word.partition("=")
        if name.lower() not in ("nodename", "state", "reason"):
            raise ValueError(f"update {word}: only State and Reason of nodes can be changed")
        pairs[name.lower()] = value
    state = pairs.get("state", "").lower()
    names = tuple(expanded(pairs.get("nodename", "")))
    if not names:
        raise ValueError("update: give NodeName=NAME")
    if state in _RESUME:
        return Change(names, False, "")
    if state not in _DRAIN:
        other = _REFUSED.get(state, "the states are DRAIN and RESUME")
        raise ValueError(f"update State={pairs.get('state', '')}: {other}")
    if not pairs.get("reason"):
        raise ValueError("You must specify a reason when DRAINING a node. Update denied.")
    return Change(names, True, pairs["reason"])


def update(operands: Sequence[str]) -> None:
    """Drain nodes, or let them take work again."""
    try:
        change = read_change(operands)
    except ValueError as error:
        refuse("scontrol", str(error))
    nodes = ask(address(), GetStatus()).nodes
    for row in [_find(nodes, name) for name in change.names]:
        if change.drains:
            ask(address(), DrainNode(row.node_id, change.reason, asker()))
        else:
            ask(address(), UndrainNode(row.node_id))


def _find(nodes: Sequence[NodeInfo], name: str) -> NodeInfo:
    """Return the living node with this name. Ends the command if no such node lives."""
    for row in nodes:
        if row.state != DEAD and name in (row.name, row.hostname, row.host):
            return row
    say("slurm_update error: Invalid node name specified", err=True)
    raise Ended(FAILED)
