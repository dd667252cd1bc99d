"""What another cycle came to than the one before it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.model.rows.cycles import CycleInfo, PlacedInfo, RefusedInfo


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Gangs whose matter is another than in the cycle before."""

    came: list[str]
    """They did not wait then."""
    served: list[str]
    """They were left waiting then, and have places or a promise now."""
    gone: list[str]
    """They were left waiting then, and do not wait any more without this cycle's doing."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle came to for a gang."""

    gang: str
    queue: str
    verdict: str
    """placed, evicted, promised or left."""
    members: int
    action: str
    """Which decided that it had to go."""
    other: str
    """The gang that gets its room."""
    nodes: list[str]
    refused: RefusedInfo | None = None
    """Of one that was left: the plugin that refused it as a whole."""
    chosen: PlacedInfo | None = None
    """Of one that was placed: which node won, and by which scores."""

    def won(self, name: str) -> str:
        """Why its first member went to the node of this name, in words; empty where that was not
        noted."""
        chosen = self.chosen
        if chosen is None:
            return ""
        if chosen.among < 2:
            return f"only {name} would take it"
        of = f"{name} of {chosen.among} that would take it"
        if chosen.chooser:
            return f"{chosen.chooser} chose {of}"
        said = ", ".join(f"{who} {score:.4g}" for who, score in chosen.scores.items())
        return f"{of}, score {sum(chosen.scores.values()):.4g}: {said or 'nobody ranks nodes'}"


def difference(cycles: Sequence[CycleInfo]) -> Difference | None:
    """Of the last of two cycles from the one before; None where there is only one."""
    if len(cycles) < 2:
        return None
    before, now = cycles[-2], cycles[-1]
    left, waits = set(before.left), set(now.left)
    served = {one.gang for one in now.placed} | set(now.promised)
    known = left | {one.gang for one in before.placed} | set(before.promised)
    return Difference(
        came=sorted((waits | served) - known),
        served=sorted(left & served),
        gone=sorted(left - waits - served),
    )


def verdicts(cycle: CycleInfo) -> list[Verdict]:
    """What it came to for each gang that it names: who got something first, who waits last."""
    said = [
        Verdict(
            gang=one.gang, queue=one.queue, verdict="placed", members=one.members, action="",
            other="", nodes=one.nodes, chosen=one if one.first else None,
        )
        for one in cycle.placed
    ]  # fmt: skip
    said += [
        Verdict(
            gang=one.gang, queue=one.queue, verdict="evicted", members=one.members,
            action=one.action, other=one.claimant, nodes=[],
        )
        for one in cycle.evicted
    ]  # fmt: skip
    refused = {one.gang: one for one in cycle.refused}
    for verdict, gangs in (("promised", cycle.promised), ("left", cycle.left)):
        said += [
            Verdict(
                gang=gang, queue="", verdict=verdict, members=0, action="", other="", nodes=[],
                refused=refused.get(gang),
            )
            for gang in gangs
        ]  # fmt: skip
    return said
