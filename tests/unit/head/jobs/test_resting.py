"""How long jobs and members that crash repeatedly rest before they start again, and that people see
until when.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.head.jobs.shell import J, Shell

from phalanx.head.jobs import resting
from phalanx.head.jobs.lifecycle import JobTable
from phalanx.head.jobs.rows import job_description, job_row
from phalanx.head.jobs.time_limits import why_held_back
from phalanx.model.crash_pauses import LONGEST_PAUSE_S, STEADY_S
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord

PAUSES = [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[LONGEST_PAUSE_S] * 5]
IN_PLACE = "tasks: [{name: a, maxRetry: 100, template: {spec: {restartPolicy: OnFailure}}}]"
POLICY = "tasks: [{name: a, replicas: 2}], policies: [{event: PodFailed, action: %s}], maxRetry: 99"
RULE = "tasks: [{name: a}], requeue: {max: 50, exitCodes: [1]}"


def left_s(shell: Shell) -> float:
    """Return how long the first member or its job still rests, whichever is longer."""
    return max(resting.left_s(one, shell.wall) for one in (shell.job, shell.of("a-0")))


def left_s_of_job(shell: Shell) -> float:
    """Return how long the job still rests."""
    return resting.left_s(shell.job, shell.wall)


@pytest.mark.parametrize(
    "spec",
    [
        IN_PLACE,
        RULE,
        *[POLICY % f"Restart{what}" for what in ("Job", "Task", "Pod", "Partition")],
    ],
)
def test_pauses_grow_from_crash_to_crash(spec):
    shell = Shell(spec)
    rests = []
    for _ in PAUSES:
        shell.play("run fail a-0 gone")
        rests.append(left_s(shell))
        shell.play(f"at {shell.now + rests[-1]}")
    assert rests == pytest.approx(PAUSES)


@pytest.mark.parametrize(
    ("away_s", "jumped_s"),
    [(0.0, 0.0), (60.0, 0.0), (0.0, -900_000.0), (60.0, -900_000.0)],
    ids=["before its end", "after its end", "the clock is behind", "the clock is behind later"],
)
def test_a_job_rests_no_longer_because_the_head_restarts(away_s, jumped_s):
    before = Shell(POLICY % "RestartJob").play("run fail a-0 gone run fail a-0 gone")
    assert left_s_of_job(before) == pytest.approx(0.1)
    later = Shell(POLICY % "RestartJob")
    later.now = before.now + away_s
    later.jumped_s = before.jumped_s + jumped_s
    later.table = JobTable(later)
    row = msgspec.msgpack.decode(msgspec.msgpack.encode(before.job), type=JobRecord)
    later.table.restore([row], later.wall, later.now)
    later.play(f"at {later.now + 0.2}")
    assert later.of("a-0").state == st.PENDING


def test_a_member_in_its_place_that_lived_for_long_counts_anew():
    shell = Shell(IN_PLACE).play("run fail a-0 fail a-0 fail a-0")
    assert left_s(shell) == pytest.approx(0.2)
    began = 0.2
    shell.play(f"at {began + STEADY_S - 0.01} fail a-0")
    assert left_s(shell) == pytest.approx(0.4), "its life began after its rest"
    shell.play(f"at {shell.now + 0.4 + STEADY_S} fail a-0")
    assert left_s(shell) == 0
    shell.play("fail a-0")
    assert left_s(shell) == pytest.approx(0.1)


@pytest.mark.parametrize("word", ["lose a-0", "do RestartJob gone", "do RestartPod:a:0 gone"])
def test_the_ends_that_are_no_crashes_have_nothing_rest(word):
    shell = Shell(IN_PLACE)
    for _ in range(5):
        shell.play(f"run {word}")
        assert left_s(shell) == 0
        assert shell.of("a-0").state == st.PENDING, "it is asked for at once"


def test_a_person_ends_the_count():
    shell = Shell(IN_PLACE).play("run" + " fail a-0" * 9)
    assert left_s(shell) == LONGEST_PAUSE_S
    shell.play("do RestartPod:a:0 gone run fail a-0")
    assert left_s(shell) == 0


def test_an_eviction_is_no_crash_and_does_not_end_the_count():
    shell = Shell(IN_PLACE).play("run fail a-0 fail a-0 lose a-0")
    assert left_s(shell) == 0
    shell.play("run fail a-0")
    assert left_s(shell) == pytest.approx(0.2)


def test_what_has_no_place_yet_waits_for_those_that_rest():
    """A gang's minimum does not count waiting members, so without this rule the others would begin
    without the resting ones.
    """
    shell = Shell(
        "tasks: [{name: a}, {name: b}], policies: [{event: PodFailed, action: RestartPod}]"
    )
    shell.play("run fail a-0 run a-0 fail b-0 gone")
    assert left_s_of_job(shell) == pytest.approx(0.1)
    assert shell.of("b-0").state == st.WAITING
    shell.play("fail a-0 gone")
    assert [member.state for member in shell.job.members] == [st.WAITING, st.WAITING]
    shell.play(f"at {shell.now + 0.2}")
    assert [member.state for member in shell.job.members] == [st.PENDING, st.PENDING]


def test_people_see_until_when_a_job_rests():
    shell = Shell(POLICY % "RestartJob").play("run fail a-0 gone run fail a-0 gone")
    held = why_held_back(shell.job, shell.wall)
    assert held is not None
    assert held.code == "rests"
    assert held.sentence.startswith("it crashed 2 times in a row, and rests until 1970-01-01 00:00")
    assert "a-0: exit code 1" in held.sentence
    assert job_row(shell.job, 0, shell.wall).reason == held.sentence
    assert why_held_back(shell.job, shell.wall + 0.2) is None


def test_people_see_until_when_a_member_rests():
    shell = Shell(IN_PLACE).play("run fail a-0 fail a-0")
    seen = job_description(shell.job, 0, shell.wall, None, {})
    said = "exit code 1; it crashed 2 times in a row, and rests until 1970-01-01 00:00:00 UTC"
    assert [member.reason for member in seen.members] == [said]
    assert seen.reason == f"a-0: {said}"
    later = job_description(shell.job, 0, shell.wall + 0.2, None, {})
    assert [member.reason for member in later.members] == ["exit code 1"]


def test_a_rest_goes_on_under_another_head():
    shell = Shell(POLICY % "RestartJob").play("run fail a-0 gone run fail a-0 gone")
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(shell.job), type=JobRecord)
    asked = list(shell.asked)
    shell.table = JobTable(shell)
    shell.table.restore([kept], shell.wall, shell.now)
    shell.play("at 0.09")
    assert shell.asked == asked
    shell.play("at 0.1")
    assert shell.asked == [*asked, "a-0", "a-1"]
    assert shell.table.get(J) is kept


ONE = "tasks: [{name: a}], policies: [{event: PodFailed, action: RestartJob}], maxRetry: 99"
STEPS = "tasks: [{name: a}, {name: b, dependsOn: {name: [a]}}], maxRetry: 99, " + (
    "policies: [{event: PodFailed, action: RestartJob}]"
)


@pytest.mark.parametrize(
    ("spec", "script", "state"),
    [
        (ONE, "run ok", "Completed"),
        (ONE, "run fail a-0 gone", "Pending"),
        (RULE, "run ok", "Completed"),
        (ONE, "run", "Running"),
        (STEPS, "run ok then run ok", "Completed"),
    ],
)
def test_a_clock_that_is_behind_gives_no_rest_to_what_was_asked_for(spec, script, state):
    shell = Shell(spec)
    for _ in range(4):
        shell.play("run fail a-0 gone")
        rest_s = left_s_of_job(shell)
        shell.play(f"at {shell.now + rest_s}")
    asked = list(shell.asked)
    shell.jumped_s -= rest_s / 2  # as under the next head, whose clock is a little behind
    assert left_s_of_job(shell)
    shell.play(f"at {shell.now}")
    assert shell.asked == asked
    for word in script.split(" then "):
        shell.play(word)
        shell.play(f"at {shell.now + rest_s}")  # the rest is over by this clock, too
    assert shell.job.state == state
