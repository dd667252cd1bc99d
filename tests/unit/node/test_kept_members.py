"""How a node's process decides about the members of the node's earlier process."""

from __future__ import annotations

import pytest

from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.node.kept_members import (
    BEGIN,
    END,
    ENDED,
    GO_ON,
    REPORT,
    RUNS,
    UNBEGUN,
    KeptMember,
    begun,
    commands_left,
    decide,
)
from phalanx.node.member_runs import MemberRuns
from phalanx.protocol.bundle_messages import Command, ExtendRun, RunTask, StartMember

GROUP = GangId(GroupId(b"g" * 18))


def order(attempt=1, before=0, commands=1):
    made = [Command([f"b{at}"], {}) for at in range(before)]
    own = [Command([f"c{at}"], {}) for at in range(commands)]
    return StartMember(GROUP, 0, attempt, JobId("default/job"), "worker-0", made, own, {}, 1.0)


def member(attempt, *processes, **options):
    return KeptMember(
        order=order(attempt, **options),
        bundle=3,
        amounts={},
        devices={},
        log="log",
        began=0.0,
        processes=[process.encode() for process in processes],
    )


@pytest.mark.parametrize(
    ("states", "what"),
    [
        ({"a": RUNS}, GO_ON),
        ({"a": ENDED}, GO_ON),
        ({"a": UNBEGUN}, BEGIN),
        ({}, BEGIN),
        ({"a": ENDED, "b": UNBEGUN}, GO_ON),
        ({"a": ENDED, "b": RUNS}, GO_ON),
    ],
)
def test_a_member_goes_on_if_anything_of_it_has_begun(states, what):
    known = {name.encode(): state for name, state in states.items()}
    one = member(1, *states)
    assert decide([one], known) == [(one, what)]


@pytest.mark.parametrize(("first", "what"), [(ENDED, REPORT), (RUNS, END), (UNBEGUN, END)])
def test_of_two_attempts_in_one_place_only_the_last_goes_on(first, what):
    earlier, later = member(9, "a"), member(10, "b")
    states = {b"a": first, b"b": RUNS}
    assert decide([later, earlier], states) == [(earlier, what), (later, GO_ON)]


@pytest.mark.parametrize(
    ("states", "found"),
    [((RUNS,), 1), ((ENDED, RUNS), 2), ((ENDED, UNBEGUN), 1), ((UNBEGUN, UNBEGUN), 0)],
)
def test_commands_behind_the_first_unbegun_one_begin_again(states, found):
    names = ["a", "b"][: len(states)]
    one = member(1, *names)
    known = dict(zip((name.encode() for name in names), states, strict=True))
    assert begun(one, known) == [name.encode() for name in names[:found]]


@pytest.mark.parametrize(
    ("count", "before", "own"),
    [(0, ["b0", "b1"], ["c0", "c1"]), (1, ["b1"], ["c0", "c1"]), (3, [], ["c1"]), (4, [], [])],
)
def test_the_commands_that_are_left(count, before, own):
    left = commands_left(order(before=2, commands=2), count)
    assert [[one.argv[0] for one in some] for some in left] == [before, own]


@pytest.mark.parametrize(
    ("began", "begins"), [((), [2, 3, 4]), ((2,), [3, 4]), ((3, 2), [4]), ((4,), [])]
)
def test_tasks_of_a_run_that_an_earlier_process_began_do_not_begin_again(began, begins):
    """The head repeats the orders to which the earlier process did not answer."""
    runs = MemberRuns()
    for attempt in began:
        runs.began_before((GROUP, 0), attempt)
    tasks = [RunTask(JobId(f"default/a[{number}]"), ["work"], {}) for number in (2, 3, 4)]
    place = runs.extend(ExtendRun(2, tasks, order(1)))
    found = []
    while (one := runs.next(place)) is not None:
        found.append(one.attempt)
    assert found == begins
