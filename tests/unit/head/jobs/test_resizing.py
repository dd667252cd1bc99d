"""Jobs that get another size: how their minimums change, and what is refused."""

from __future__ import annotations

import pytest

from phalanx.errors import JobCommandError
from phalanx.head.jobs.resizing import resized
from phalanx.model.jobs.spec import MAX_REPLICAS, JobSpec, Partition, TaskGroup


def job(*groups: TaskGroup, minimum: int) -> JobSpec:
    return JobSpec(name="j", groups=groups, min_available=minimum)


ONE = job(TaskGroup(name="a", replicas=4, min_available=3), minimum=3)
TWO = job(
    TaskGroup(name="a", replicas=2, min_available=2),
    TaskGroup(name="b", replicas=2, min_available=1),
    minimum=3,
)
CUT = job(
    TaskGroup(
        name="a", replicas=4, min_available=4, partition=Partition(total=2, size=2, minimum=2)
    ),
    minimum=4,
)


@pytest.mark.parametrize(
    ("spec", "replicas", "minimum", "sizes", "minimums"),
    [
        (ONE, {"": 6}, None, [6], [3, 3]),
        (ONE, {"a": 2}, None, [2], [2, 2]),
        (TWO, {"a": 0}, None, [0, 2], [1, 0, 1]),
        (ONE, {"": 6}, 5, [6], [5, 5]),
        (ONE, {}, 1, [4], [1, 1]),
        (TWO, {"a": 1}, None, [1, 2], [2, 1, 1]),
        (TWO, {"b": 9}, None, [2, 9], [3, 2, 1]),
        (CUT, {"a": 4}, None, [4], [4, 4]),
    ],
)
def test_minimums_come_down_with_the_size_and_stay_when_it_grows(
    spec, replicas, minimum, sizes, minimums
):
    made = resized(spec, replicas, minimum)
    assert [group.replicas for group in made.groups] == sizes
    assert [made.min_available, *(group.min_available for group in made.groups)] == minimums


@pytest.mark.parametrize(
    ("spec", "replicas", "minimum", "words"),
    [
        (TWO, {"": 3}, None, "has the groups a, b: name the group"),
        (TWO, {"c": 3}, None, "no group 'c'; it has a, b"),
        (ONE, {"": -1}, None, "not -1"),
        (ONE, {"": 0}, None, "at least 1 member: cancel the job to end it, or suspend"),
        (TWO, {"a": 0, "b": 0}, None, "at least 1 member"),
        (ONE, {"": MAX_REPLICAS + 1}, None, f"not {MAX_REPLICAS + 1}"),
        (ONE, {"": 2}, 3, "of 2 members cannot need 3"),
        (ONE, {}, -1, "cannot need -1"),
        (CUT, {"a": 6}, None, "cut into 2 partitions of 2"),
    ],
)
def test_what_cannot_be_is_refused(spec, replicas, minimum, words):
    with pytest.raises(JobCommandError, match=words):
        resized(spec, replicas, minimum)
