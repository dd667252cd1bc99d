"""Seeds tried one after another, and what came of each."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.story import story_lines
from phalanx_research.chaos.world import World

STORY_LINES = 40


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One seed's run. `broken`: the promise that did not hold, in a sentence; else empty."""

    seed: int
    digest: str
    """Of everything that happened: equal digests are equal runs."""
    simulated_s: float
    events: int
    promised: int
    """Tasks and calls."""
    outcomes: dict[str, int]
    faults: dict[str, int]
    broken: str = ""
    story: tuple[str, ...] = ()
    """The last events of those that have to do with it."""

    @property
    def replay(self) -> str:
        """The command that runs it again."""
        return f"phalanx simulate --chaos --seed {self.seed}"

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return msgspec.structs.asdict(self) | {"ok": not self.broken, "replay": self.replay}


def try_seed(seed: int) -> tuple[Result, World]:
    """Run one seed. The world is as the run left it."""
    world = World(seed)
    broken = ""
    story: tuple[str, ...] = ()
    try:
        world.run()
    except Broken as error:
        broken = error.sentence
        story = tuple(story_lines(world.kernel.story, error.involved, STORY_LINES))
    counts = dict(world.history.counts)
    result = Result(
        seed=seed,
        digest=world.kernel.digest(),
        simulated_s=round(world.kernel.now, 3),
        events=world.kernel.count,
        promised=counts.pop("promised", 0),
        outcomes=counts,
        faults=dict(world.faults.counts),
        broken=broken,
        story=story,
    )
    return result, world
