"""Attempts to reserve bundles: all bundles or none, and not on another node while a node may still
hold some.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.groups.give_backs import RESEND_S, Ending, GiveBacks
from phalanx.head.groups.two_phase_commit import Attempt, Attempts
from phalanx.model.ids import GroupId

GROUP = GroupId(b"g")


class Owner:
    """Records what the attempts request from their owner and from nodes."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.is_wanted = True

    def prepare(self, attempt: Attempt, node_id: str) -> None:
        self.log.append(f"prepare {node_id}")

    def commit(self, attempt: Attempt, node_id: str) -> None:
        self.log.append(f"commit {node_id}")

    def when_written(self, action: Callable[[], None]) -> None:
        action()

    def on_prepared(self, attempt: Attempt, now: float) -> None:
        pass

    def may_begin(self, attempt: Attempt) -> bool:
        return self.is_wanted

    def on_refused(self, attempt: Attempt, now: float) -> None:
        self.log.append("refused")

    def on_settled(self, attempt: Attempt, now: float) -> None:
        self.log.append(f"settled {attempt.kept}")

    def free(self, node: str, group: bytes, number: int, indexes: list[int], how: Ending) -> None:
        self.log.append(f"free {node}")


def begun() -> tuple[Owner, Attempts]:
    owner = Owner()
    attempts = Attempts(owner, GiveBacks(owner.free))
    attempts.begin(Attempt(group=GROUP, number=1, bundles={"a": [0], "b": [1]}), 0.0)
    return owner, attempts


def test_all_prepare_then_all_commit() -> None:
    owner, attempts = begun()
    attempts.prepared("a", GROUP, 1, True, 0.1)
    assert owner.log == ["prepare a", "prepare b"]
    attempts.prepared("b", GROUP, 1, True, 0.1)
    attempts.committed("a", GROUP, 1, True, 0.2)
    attempts.committed("b", GROUP, 1, True, 0.2)
    assert owner.log[2:] == ["commit a", "commit b", "settled {0: 'a', 1: 'b'}"]


def test_what_is_not_wanted_any_more_goes_back_before_any_node_is_told_to_keep_it() -> None:
    owner, attempts = begun()
    owner.is_wanted = False
    attempts.prepared("a", GROUP, 1, True, 0.1)
    attempts.prepared("b", GROUP, 1, True, 0.1)
    assert owner.log[2:] == ["free a", "free b", "refused"]
    assert attempts.get(GROUP) is None


def test_a_node_that_may_keep_its_bundles_is_asked_until_it_answers_wanted_or_not() -> None:
    owner, attempts = begun()
    attempts.prepared("a", GROUP, 1, True, 0.1)
    attempts.prepared("b", GROUP, 1, True, 0.1)
    owner.is_wanted = False
    owner.log.clear()
    attempts.tick(0.1 + RESEND_S)
    assert owner.log == ["commit a", "commit b"]
    attempts.committed("a", GROUP, 1, True, 1.5)
    attempts.committed("b", GROUP, 1, False, 1.5)
    assert owner.log[2:] == ["settled {0: 'a'}"]


def test_the_next_head_waits_for_the_answers_too() -> None:
    owner = Owner()
    owner.is_wanted = False
    attempts = Attempts(owner, GiveBacks(owner.free))
    attempts.resume(Attempt(group=GROUP, number=1, bundles={"a": [0]}), 0.0)
    attempts.tick(0.0)
    assert owner.log == ["commit a"]
    attempts.node_gone("a", 1.0)
    assert owner.log[1:] == ["settled {}"]


def test_a_node_without_room_ends_the_attempt_and_the_others_give_back() -> None:
    owner, attempts = begun()
    attempts.prepared("a", GROUP, 1, True, 0.1)
    attempts.prepared("b", GROUP, 1, False, 0.1)
    assert owner.log[2:] == ["free a", "refused"]
