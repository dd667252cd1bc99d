"""Which of several lost results are made again in the same step."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from phalanx.objects.reference import make_ref
from phalanx.owner.objects.lost_together import LostTogether, note_lost, take_others


@dataclass(eq=False)
class Task:
    """A task whose result was made of the results of others (`parents`), to which nobody has a
    reference any more.
    """

    parents: list[Task] = field(default_factory=list)
    lost_together: LostTogether | None = None
    asked: int = 0

    def gone_parents(self):
        self.asked += 1
        return self.parents


@st.composite
def lineages(draw):
    """Draw (tasks, those whose results are lost). Each task depends on some of the earlier ones."""
    count = draw(st.integers(1, 12))
    tasks = [Task()]
    for _ in range(count):
        tasks.append(Task(draw(st.lists(st.sampled_from(tasks), max_size=3, unique_by=id))))
    made_of = {id(parent) for task in tasks for parent in task.parents}
    lost = [task for task in tasks if id(task) not in made_of]
    return tasks, draw(st.permutations(lost))


def together(tasks, one):
    """Return the tasks that are connected with `one` by arguments, in either direction, directly or
    over other tasks.
    """
    found, todo = [], [one]
    while todo:
        task = todo.pop()
        if task not in found:
            found.append(task)
            todo += task.parents
            todo += [each for each in tasks if task in each.parents]
    return found


@given(lineages())
def test_what_shares_an_argument_at_any_distance_is_taken_together_and_once(drawn):
    tasks, lost = drawn
    refs = [make_ref(b"me" * 8, number) for number in range(len(lost))]
    for ref, task in zip(refs, lost, strict=True):
        note_lost(ref, task)
    taken: list[int] = []
    for task in lost:
        numbers = sorted(ref._number for ref in take_others(task))
        family = sorted(n for n, each in enumerate(lost) if each in together(tasks, task))
        assert numbers == (family if task.parents and family[0] not in taken else [])
        taken += numbers


def test_what_nobody_holds_any_more_is_not_taken():
    root = Task()
    first, second = Task([root]), Task([root])
    kept, gone = (make_ref(b"me" * 8, number) for number in (1, 2))
    note_lost(kept, first)
    note_lost(gone, second)
    del gone
    assert take_others(first) == [kept]


def test_each_task_of_a_long_lineage_is_walked_once_for_all_that_was_made_of_it():
    tasks = [Task()]
    for _ in range(1000):
        tasks.append(Task([tasks[-1]]))
    lost = [Task([task]) for task in tasks]
    refs = [make_ref(b"me" * 8, number) for number in range(len(lost))]
    for ref, task in reversed(list(zip(refs, lost, strict=True))):
        note_lost(ref, task)
    assert sum(task.asked for task in tasks) == len(tasks)
    assert len(take_others(lost[0])) == len(lost)
