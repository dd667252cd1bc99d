"""Requests to the head about gangs, the scheduler, and the reasons why work waits."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.ids import GangId
from phalanx.model.rights import Verb
from phalanx.model.rows.cycles import CycleInfo
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.plan import TimePlan
from phalanx.model.rows.work import GangInfo, RulesInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class CreateGang(Request[str]):
    """Create a gang, which then waits in a queue. Returns the gang's name in listings.

    `needs`: the amounts for each member. Members start only when at least `min_members` of them are
    placed. `topology`: the word for the required closeness of the nodes; "" for any nodes. `ports`:
    the number of ports that must be free on every node of the gang. `grace_s`: the seconds between
    SIGTERM and SIGKILL when members are evicted. A request that is repeated after a restart of the
    head changes nothing. Raises QueueUnavailableError, GangInfeasibleError, and ValueError for an
    unknown topology.
    """

    kind: ClassVar[int] = 60
    verb: ClassVar[Verb] = Verb.SUBMIT
    effect: ClassVar[Effect] = Effect.ADDS

    group: GangId
    name: str
    queue: str
    needs: list[dict[str, float]]
    min_members: int
    priority: int = 0
    topology: str = ""
    ports: int = 1
    grace_s: float = 0.0


class EndMembers(Request[None]):
    """End these members of a gang. Waiting members never start, and running members are ended."""

    kind: ClassVar[int] = 61
    verb: ClassVar[Verb] = Verb.CHANGE

    group: GangId
    indexes: list[int]


class ListGangs(Request[list[GangInfo]]):
    """List all gangs that have not ended."""

    kind: ClassVar[int] = 62
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class Explain(Request[Explanation]):
    """Explain why a gang or job waits: the reasons, the changes that would help, and the position
    in the queue. `name`: the name of a job or gang, or the group of a gang in hex. Raises
    JobNotFoundError.
    """

    kind: ClassVar[int] = 63
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class TakeSnapshot(Request[bytes]):
    """Return everything that a scheduling cycle reads, as a snapshot file in JSON.

    With `has_past_runs`, the run time of jobs without a time limit is estimated from past runs.
    """

    kind: ClassVar[int] = 64
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    has_past_runs: bool = False


class ShowPlan(Request[TimePlan]):
    """Return the forecast: when and where waiting work starts, and when running work ends if its
    run time is known.
    """

    kind: ClassVar[int] = 65
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListCycles(Request[list[CycleInfo]]):
    """List the last cycles, the oldest first, without the names of gangs. With a number: return the
    cycle with this number and the cycle before it, with names. Raises JobNotFoundError for a cycle
    that the head does not have.
    """

    kind: ClassVar[int] = 32
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    number: int | None = None


class GetRules(Request[RulesInfo]):
    """Return the scheduler's configuration."""

    kind: ClassVar[int] = 107
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class SetRules(Request[RulesInfo]):
    """Set the scheduler's configuration in Volcano's form, or the default with None. Returns the
    new configuration.

    Raises JobCommandError with `file`, line and reason.
    """

    kind: ClassVar[int] = 108
    verb: ClassVar[Verb] = Verb.ADMINISTER
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    text: str | None
    file: str = ""
