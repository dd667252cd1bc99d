"""The listing of the events of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.head.event_gathering import EventGathering
from phalanx.observe.gang_events import MembersFreed, MembersPlaced
from phalanx.protocol.requests.cluster import ListClusterEvents


def placed(gang: str, at: float) -> MembersPlaced:
    places = [(0, "n1", {"GPU": [3]})]
    return MembersPlaced(
        at=at, node="", gang=gang, queue="q", priority=0, places=places, ports=[], held=1,
        min_members=1,
    )  # fmt: skip


def freed(gang: str, at: float) -> MembersFreed:
    return MembersFreed(at=at, node="", gang=gang, queue="q", members=[0], why="ended")


def test_a_step_of_the_clock_does_not_turn_the_heads_events_round() -> None:
    """If the order changed, a device would seem to be given away before its last holder gave it
    back.
    """
    outbox: Any = SimpleNamespace(connected=[], broadcast=lambda message: None)
    clock: Any = SimpleNamespace(now=lambda: 0.0)
    gathering = EventGathering(outbox, clock)
    for event in (placed("a", 10.0), freed("a", 20.0), placed("b", 19.9), freed("b", 25.0)):
        gathering.record_gang(event)
    replies: list[Any] = []
    ((_, handle),) = gathering.entries()
    asker: Any = SimpleNamespace(reply=replies.append)
    handle(asker, ListClusterEvents())
    assert [(row["gang"], row["at"]) for row in replies[0]] == [
        ("a", 10.0),
        ("a", 20.0),
        ("b", 19.9),
        ("b", 25.0),
    ]
