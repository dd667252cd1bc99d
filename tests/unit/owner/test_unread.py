"""Failures whose results nobody reads: which are printed, when, and how equal ones are joined."""

from __future__ import annotations

import gc

import pytest

from phalanx.errors import ActorDiedError, ObjectLostError, WorkerCrashedError
from phalanx.objects import failures
from phalanx.objects.reference import make_ref
from phalanx.owner.objects.unread import UnreadFailures, mark_read
from phalanx.protocol.messages import FAILED, Value

ME = b"x" * 16


def raised(error, name="f"):
    return Value(FAILED, failures.describe(error, name, 7))


class World:
    def __init__(self):
        self.told: list[str] = []
        self.unread = UnreadFailures(self.told.append)

    def drop(self, failure, count=1, read=()):
        """Drop `count` references to work that failed in this way. Those at the positions `read`
        were read before.
        """
        refs = [make_ref(ME, number) for number in range(count)]
        self.unread.watch(refs, failure)
        for place in read:
            mark_read(refs[place])
        refs.clear()
        gc.collect()


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(("count", "read", "told"), [(1, (), 1), (3, (), 1), (3, (1,), 0)])
def test_work_is_told_once_unless_one_of_its_references_was_read(world, count, read, told):
    world.drop(raised(KeyError("why")), count, read)
    world.unread.report(0.0)
    assert len(world.told) == told
    assert all("KeyError: 'why'" in text for text in world.told)


def test_nothing_is_told_while_a_reference_is_there(world):
    refs = [make_ref(ME, number) for number in range(2)]
    world.unread.watch(refs, raised(KeyError("why")))
    del refs[0]
    world.unread.report(0.0)
    assert world.told == []
    refs.clear()
    world.unread.report(1.0)
    assert len(world.told) == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (WorkerCrashedError("died"), 1),
        (ActorDiedError("died"), 0),
        (ObjectLostError("", "gone"), 0),
    ],
)
def test_of_failures_of_the_system_crashes_are_told(world, error, told):
    world.drop(failures.failed(error))
    world.unread.report(0.0)
    assert len(world.told) == told


def test_alike_failures_are_one_text_and_others_wait_a_second(world):
    for word in ("same", "same", "same", "other"):
        world.drop(raised(KeyError(word)))
    world.unread.report(10.0)
    assert [text.rpartition("\n")[2] for text in world.told] == [
        "... and 2 more like it",
        "KeyError: 'other'",
    ]
    world.drop(raised(KeyError("later")))
    world.unread.report(10.5)
    assert len(world.told) == 2
    world.unread.report(11.0)
    assert len(world.told) == 3
    world.drop(raised(KeyError("last")))
    world.unread.report()
    assert len(world.told) == 4, "whoever leaves waits for nothing"


@pytest.mark.parametrize(("retries", "left"), [(2, "2 retries"), (-1, "any number of retries")])
def test_an_attempt_that_is_tried_again_is_told(world, retries, left):
    world.unread.retried("Task f", raised(KeyError("first")).data, retries)
    world.unread.report(0.0)
    (text,) = world.told
    assert text.startswith(f"Task f raised and is tried again ({left} are left): ")
    assert "KeyError: 'first'" in text
