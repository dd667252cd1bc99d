"""Requests that only the scheduler of a Ray cluster answers."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs.gang_view import EncodedView
from phalanx.model.rights import Verb
from phalanx.protocol.requests.request import Effect, Request


class GangPlace(msgspec.Struct, array_like=True):
    """The place of a gang's member: Ray's placement group (in hex), the bundle (-1 if the member
    requests nothing) and the node. It also has the member's view of the gang, and the member's
    state as in listings.
    """

    placement_group: str
    bundle: int
    node: str
    view: EncodedView
    state: str


class ListGangPlaces(Request[dict[int, GangPlace]]):
    """Return the place of each placed member of a gang, by the member's index; an empty dict for an
    unknown gang.
    """

    kind: ClassVar[int] = 100
    verb: ClassVar[Verb] = Verb.USE

    group: GroupId


class GetMemberState(Request[str]):
    """Return the state of a gang's member as in listings; "" for an unknown gang."""

    kind: ClassVar[int] = 101
    verb: ClassVar[Verb] = Verb.USE

    group: GangId
    index: int


class ListStages(Request[list[dict[str, float]]]):
    """Return two times for each of these gangs, as far as known: when the scheduler decided to
    place the gang, and when Ray had reserved its places. Times are in seconds of the scheduler's
    monotonic clock.
    """

    kind: ClassVar[int] = 102
    verb: ClassVar[Verb] = Verb.USE

    gangs: list[GangId]


class AdmitBatch(Request[None]):
    """Wait until a batch of `size` equal tasks may start in the queue. With `size` 0, the number of
    tasks is reported later.

    Raises QueueUnavailableError.
    """

    kind: ClassVar[int] = 103
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.ADDS

    ticket: bytes
    queue: str
    priority: int
    needs: dict[str, float]
    size: int


class GetBatchSize(Request[int]):
    """Return the number of equal tasks that one batch should have. It is at most the number of
    tasks that can run at the same time.
    """

    kind: ClassVar[int] = 104
    verb: ClassVar[Verb] = Verb.USE

    queue: str
    needs: dict[str, float]


class RunningBatch(msgspec.Struct, array_like=True):
    """A batch admitted before this scheduler started, of which `left` tasks still run."""

    ticket: bytes
    queue: str
    priority: int
    needs: dict[str, float]
    left: int


class ReportBatches(Request[None]):
    """Report the progress of the asker's batches, which also shows that the asker lives.

    `sized`: the final sizes of batches. `done`: the number of tasks of each batch that have ended
    since the last report.
    """

    kind: ClassVar[int] = 105
    verb: ClassVar[Verb] = Verb.USE

    sized: dict[bytes, int]
    done: dict[bytes, int]
    running: list[RunningBatch]


class LeaveScheduler(Request[None]):
    """Remove the asker's tasks and gangs, since its program has ended."""

    kind: ClassVar[int] = 106
    verb: ClassVar[Verb] = Verb.USE
