"""What the head answers about gangs, and about why something waits."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rows.cycles import CycleInfo
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.plan import TimePlan
from phalanx.model.rows.work import GangInfo, RulesInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class CreateGang(Request[str]):
    """A gang waits in a queue from now on; the name that listings give it.

    `needs`: what each member asks for; `min_members` must have places for any to start. `topology`
    is a word for closeness ("" for none), `ports` so many are free on every node of the gang, and
    `grace_s` lies between SIGTERM and SIGKILL when members are evicted. Asked again after a head
    came back it changes nothing. Raises QueueUnavailableError, GangInfeasibleError, and ValueError
    for an unknown topology.
    """

    kind: ClassVar[int] = 60
    effect: ClassVar[Effect] = Effect.ADDS

    group: bytes
    name: str
    queue: str
    needs: list[dict[str, float]]
    min_members: int
    priority: int = 0
    topology: str = ""
    ports: int = 1
    grace_s: float = 0.0


class EndMembers(Request[None]):
    """These members of a gang are over: those that wait never start, and those that run are
    ended."""

    kind: ClassVar[int] = 61

    group: bytes
    indexes: list[int]


class ListGangs(Request[list[GangInfo]]):
    """All gangs that have not ended."""

    kind: ClassVar[int] = 62
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class Explain(Request[Explanation]):
    """Why a gang or job waits: reasons, what would change them, and its position in its queue.

    `name`: of a job or gang, or the group of a gang in hex. Raises JobNotFoundError.
    """

    kind: ClassVar[int] = 63
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class TakeSnapshot(Request[bytes]):
    """Everything that a scheduling cycle looks at, as a snapshot file in JSON. `has_past_runs`:
    where a job tells no limit, its run time is what past runs took."""

    kind: ClassVar[int] = 64
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    has_past_runs: bool = False


class ShowPlan(Request[TimePlan]):
    """Who of those that wait starts when and where, and until when what runs holds its places, as
    far as run times are known."""

    kind: ClassVar[int] = 65
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListCycles(Request[list[CycleInfo]]):
    """The last cycles, the oldest first and without names; or the one of this number after the one
    before it. Raises JobNotFoundError for a number that is not known (any more)."""

    kind: ClassVar[int] = 32
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    number: int | None = None


class GetRules(Request[RulesInfo]):
    """What the scheduler goes by."""

    kind: ClassVar[int] = 107
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class SetRules(Request[RulesInfo]):
    """The scheduler goes by this from now on, in Volcano's form; None: by what comes with the
    cluster. What it goes by then. Raises JobCommandError with `file`, line and reason."""

    kind: ClassVar[int] = 108
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    text: str | None
    file: str = ""
