"""What the scheduler of a Ray cluster answers beside what every head does."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.protocol.requests.request import Effect, Request


class GangPlace(msgspec.Struct, array_like=True):
    """Where a member of a gang has its place: Ray's placement group (in hex) and the bundle in it
    (-1: the member asks for nothing), its node, what the member knows of its gang (the msgpack of
    `model.jobs.gang_view.GangView`), and its state, as listings call it."""

    placement_group: str
    bundle: int
    node: str
    view: bytes
    state: str


class ListGangPlaces(Request[dict[int, GangPlace]]):
    """The place of each member of a gang that has one; none for a gang that there is not."""

    kind: ClassVar[int] = 100

    group: bytes


class GetMemberState(Request[str]):
    """The state of a member of a gang, as listings call it; empty when there is no such gang."""

    kind: ClassVar[int] = 101

    group: bytes
    index: int


class ListStages(Request[list[dict[str, float]]]):
    """When each of these gangs was decided on, and reserved by Ray: seconds of the scheduler's
    monotonic clock, as far as they are known."""

    kind: ClassVar[int] = 102

    groups: list[bytes]


class AdmitBatch(Request[None]):
    """A batch of `size` equal tasks waits for its queue's turn, and is answered when it has it.
    `size` 0: how many they are is reported later. Raises QueueUnavailableError."""

    kind: ClassVar[int] = 103
    effect: ClassVar[Effect] = Effect.ADDS

    ticket: bytes
    queue: str
    priority: int
    needs: dict[str, float]
    size: int


class GetBatchSize(Request[int]):
    """How many equal tasks one batch should have: no more than run side by side."""

    kind: ClassVar[int] = 104

    queue: str
    needs: dict[str, float]


class RunningBatch(msgspec.Struct, array_like=True):
    """A batch that was admitted before this scheduler was there, of which `left` tasks run."""

    ticket: bytes
    queue: str
    priority: int
    needs: dict[str, float]
    left: int


class ReportBatches(Request[None]):
    """What became of the asker's batches: the sizes of those that grow no more, and how many tasks
    of each have ended since the last report. It also says that the asker lives."""

    kind: ClassVar[int] = 105

    sized: dict[bytes, int]
    done: dict[bytes, int]
    running: list[RunningBatch]


class LeaveScheduler(Request[None]):
    """The program has ended: its tasks and its gangs go."""

    kind: ClassVar[int] = 106
