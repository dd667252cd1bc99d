"""The differences between two successive cycles of the scheduler."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.model.rows.cycles import CycleInfo, PlacedInfo, RefusedInfo


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The gangs for which a cycle differs from the cycle before it."""

    came: list[str]
    """Gangs that this cycle left waiting, placed or promised resources, and that the cycle before
    did not know.
    """
    served: list[str]
    """Gangs that the cycle before left waiting, and that this cycle placed or promised
    resources.
    """
    gone: list[str]
    """Gangs that the cycle before left waiting, and that no longer wait, although this cycle did
    nothing for them.
    """


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cycle for one gang."""

    gang: str
    queue: str
    verdict: str
    """The result: placed, evicted, promised or left."""
    members: int
    action: str
    """The action that evicted the gang."""
    other: str
    """The gang that gets the evicted gang's resources."""
    nodes: list[str]
    refused: RefusedInfo | None = None
    """For a gang that was left waiting: the plugin that refused the whole gang."""
    chosen: PlacedInfo | None = None
    """For a gang that was placed: the node that won, and its scores."""

    def won(self, name: str) -> str:
        """Return a sentence that says why the gang's first member was placed on the node with this
        name; "" if the reason was not recorded.
        """
        chosen = self.chosen
        if chosen is None:
            return ""
        if chosen.among < 2:
            return f"only {name} would take it"
        of = f"{name} of {chosen.among} that would take it"
        if chosen.chooser:
            return f"{chosen.chooser} chose {of}"
        said = ", ".join(f"{who} {score:.4g}" for who, score in chosen.scores.items())
        return f"{of}, score {sum(chosen.scores.values()):.4g}: {said or 'no plugin ranks nodes'}"


def difference(cycles: Sequence[CycleInfo]) -> Difference | None:
    """Return the difference between the last two cycles; None if there is only one cycle."""
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
    """Return the result for each gang that the cycle names: placed gangs first, waiting gangs
    last.
    """
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
