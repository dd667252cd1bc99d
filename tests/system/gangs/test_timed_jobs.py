"""Jobs of commands whose time is limited, on a real node: how they end, the signal before the end,
and when they start.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.errors import JobCommandError

from .conftest import none_left


@pytest.fixture(autouse=True)
def nothing_left(machine):
    yield
    for row in phalanx.jobs():
        phalanx.JobHandle(row["name"], row["namespace"]).delete()
    eventually(none_left)


def run(command, **options):
    return phalanx.submit(phalanx.Job(command, **options))


def test_a_job_ends_when_its_time_is_over_and_has_its_grace(machine, room):
    program = f"trap 'touch {room.path}/term; exit 0' TERM; while :; do sleep 0.05; done"
    job = run(program, time="1s", members=2, grace_s=PATIENCE_S)
    assert job.wait(PATIENCE_S) == "TimeOut"
    assert room.hears("term")
    row = job.status()
    assert row.reason == "its gang has run for 1s, its limit (time)"
    assert row.ran_s >= row.time_limit_s == 1
    assert {member["state"] for member in job.describe()["members"]} == {"Ended"}


def test_members_know_of_their_end_and_how_often_they_ran(machine, room):
    program = (
        f"echo $PHALANX_RESTART $PHALANX_END_AT > {room.path}/$PHALANX_RESTART; "
        f"touch {room.path}/wrote$PHALANX_RESTART; [ $PHALANX_RESTART = 1 ] || exit 75"
    )
    rule = {"exitCodes": [75], "max": 1}
    job = run(program, time=timedelta(hours=1), requeue=rule)
    assert job.wait(PATIENCE_S) == "Completed"
    row = job.status()
    assert (row.restarts, row.retries) == (1, 0)
    for restart in ("0", "1"):
        count, end = (room.path / restart).read_text().split()
        assert count == restart
        assert row.submitted + 3600 - 1 <= int(end) <= row.finished + 3600


def test_without_a_limit_there_is_no_end(machine):
    job = run("echo ${PHALANX_END_AT-none} $PHALANX_RESTART")
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.logs() == "none 0\n"


def test_a_signal_comes_before_the_end(machine):
    """The signal is due immediately, and the command does not handle it."""
    job = run(["sleep", "1000"], time="1h", signal="USR1@7200")
    assert job.wait(PATIENCE_S) == "Failed"
    assert "SIGUSR1" in job.status().reason


def test_a_held_job_runs_when_it_is_released(machine, room):
    job = run(f"touch {room.path}/runs", hold=True)
    row = job.status()
    assert (row.state, row.is_held, row.reason) == ("Pending", True, "it is held")
    assert "phalanx release" in job.explain()
    job.update(priority=5, time="10m")
    assert not room.hears("runs")
    job.release()
    assert job.wait(PATIENCE_S) == "Completed"
    assert (job.status().priority, job.status().time_limit_s) == (5, 600)
    with pytest.raises(JobCommandError, match="is Completed"):
        job.hold()


def test_a_job_waits_for_its_beginning(machine, room):
    begin = datetime.now(UTC) + timedelta(days=1)
    job = run(f"touch {room.path}/runs", begin=begin, deadline="now+3days")
    row = job.status()
    assert row.begins == pytest.approx(begin.timestamp(), abs=1)
    assert "it begins at" in row.reason
    soon = run(f"touch {room.path}/soon", begin="now+1s")
    assert soon.wait(PATIENCE_S) == "Completed"
    assert not room.hears("runs")


def test_what_waits_past_its_deadline_says_so_and_ends(machine, room):
    first = run(f"touch {room.path}/runs; sleep 1000", num_cpus=4)
    room.wait("runs")
    job = run("true", num_cpus=4, deadline="now+1s")
    assert job.wait(PATIENCE_S) == "Deadline"
    assert job.status().reason.startswith("its deadline was ")
    assert first.state == "Running"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"time": "soon"}, ValueError, "Job: time='soon': a length of time is"),
        ({"time": 60}, TypeError, "Job: time=60: it must be a text like 2h30m, or a timedelta"),
        ({"time": timedelta(0)}, ValueError, "more than 0"),
        ({"begin": 5}, TypeError, "Job: begin=5: it must be a text like now[+]1h, or a datetime"),
        ({"deadline": "25:00"}, ValueError, "Job: deadline='25:00': a moment is"),
        ({"signal": "KILL@5"}, ValueError, "Job: signal='KILL@5': a signal before the end"),
        ({"requeue": {"reasons": ["x"]}}, ValueError, "'x' is not one of timeout, preempted, node"),
        ({"requeue": 3}, TypeError, "Job: requeue=3: it must be a mapping"),
        ({"hold": 1}, TypeError, "Job: hold=1: it must be True or False"),
    ],
)
def test_what_is_no_time_is_refused_with_its_field(options, error, said):
    with pytest.raises(error, match=said):
        phalanx.Job("true", **options)
