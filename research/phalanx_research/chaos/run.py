"""The run of one seed, and its result."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.story import story_lines
from phalanx_research.chaos.world import World

STORY_LINES = 40


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The run of one seed. `broken` is a sentence about the broken invariant; empty if every
    invariant held.
    """

    seed: int
    digest: str
    """The digest of all events. Equal digests mean equal runs."""
    simulated_s: float
    events: int
    promised: int
    """The number of tasks and calls that were submitted."""
    outcomes: dict[str, int]
    faults: dict[str, int]
    broken: str = ""
    story: tuple[str, ...] = ()
    """The last events of the processes involved in the broken invariant."""

    @property
    def replay(self) -> str:
        """The command that runs the seed again."""
        return f"phalanx simulate --chaos --seed {self.seed}"

    def facts(self) -> dict[str, Any]:
        """Return the figures of the run for JSON."""
        return msgspec.structs.asdict(self) | {"ok": not self.broken, "replay": self.replay}


def try_seed(seed: int) -> tuple[Result, World]:
    """Run one seed. Returns the result, and the world in its final state."""
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
