"""How the scheduler calls the agents of Ray's nodes, and how many calls it makes. Needs no
cluster.
"""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.adapters.ray.scheduler import node_agents
from phalanx.adapters.ray.scheduler.node_agents import ACKS_WAIT_S, NodeAgents
from phalanx.model.ids import GroupId
from phalanx.protocol.bundle_messages import CommitBundles
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Acked

NODE = b"a" * 12
COMMIT = CommitBundles(GroupId(b"g" * 18), 1)


class Agent:
    """Stands for an agent's handle. It keeps the messages of each call."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.receive = SimpleNamespace(remote=self._receive)

    def _receive(self, epoch: int, body: bytes) -> Any:
        self.calls.append(decode_body(body))
        return SimpleNamespace(future=Future)


class Clock:
    """Stands for the clock of the process."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(node_agents, "own_time", clock.monotonic)
    return clock


def agents() -> NodeAgents:
    nobody: Any = SimpleNamespace(of_prefix=lambda prefix: None)
    nothing: Any = None
    return NodeAgents(nobody, nothing, nothing, nothing, nothing, nothing)


def test_a_confirmation_goes_with_the_next_message(clock: Clock) -> None:
    known, agent = agents(), Agent()
    known.admit(NODE, agent)
    known.post(NODE, Acked(1))
    known.flush(1)
    assert agent.calls == []
    known.post(NODE, COMMIT)
    known.post(NODE, Acked(2))
    known.flush(1)
    assert agent.calls == [[COMMIT, Acked(1), Acked(2)]]


def test_a_confirmation_does_not_wait_for_ever(clock: Clock) -> None:
    known, agent = agents(), Agent()
    known.admit(NODE, agent)
    known.post(NODE, Acked(1))
    clock.now += ACKS_WAIT_S
    known.flush(1)
    assert agent.calls == [[Acked(1)]]


def test_an_agent_in_the_place_of_another_hears_nothing_that_was_meant_for_that(
    clock: Clock,
) -> None:
    known, agent = agents(), Agent()
    known.admit(NODE, Agent())
    known.post(NODE, Acked(1))
    known.admit(NODE, agent)
    clock.now += ACKS_WAIT_S
    known.flush(1)
    assert agent.calls == []
