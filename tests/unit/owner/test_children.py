"""A parent task knows its child tasks until they have ended, at a cost that does not grow with
their number.
"""

from __future__ import annotations

from phalanx.owner.children import Children

PARENT = (b"owner", 1)


class Pending:
    """Answers which task numbers are pending, and counts how often it is asked."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.questions = 0

    def __call__(self, number: int) -> bool:
        self.questions += 1
        return number not in self.ended


def test_each_child_is_asked_about_a_few_times_however_many_there_are():
    pending = Pending()
    children = Children(pending)
    for number in range(50_000):
        children.add(PARENT, number)
    assert children.of(PARENT) == list(range(50_000))
    assert pending.questions < 2 * 50_000


def test_a_steady_number_of_pending_children_is_not_looked_through_for_each_new_one():
    pending = Pending()
    children = Children(pending)
    for number in range(50_000):
        children.add(PARENT, number)
        pending.ended.add(number - 1_023)
    assert pending.questions < 4 * 50_000
    assert len(children.of(PARENT)) < 4 * 1_024


def test_children_that_have_ended_are_dropped_in_the_end():
    pending = Pending()
    children = Children(pending)
    for number in range(10_000):
        children.add(PARENT, number)
    pending.ended.update(range(10_000))
    for number in range(10_000, 40_000):
        children.add(PARENT, number)
        pending.ended.add(number)
    assert len(children.of(PARENT)) < 2 * 1_024


def test_a_parent_that_has_ended_is_forgotten():
    children = Children(Pending())
    children.add(PARENT, 1)
    children.forget(PARENT)
    assert children.of(PARENT) == []
    assert len(children) == 0
