"""Times of jobs: limits by a clock that never goes back, deadlines, signals, requeues, and
holding.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from tests.effort import examples
from tests.unit.head.jobs.shell import J, Shell, job_spec

from phalanx.head.jobs import events as ev
from phalanx.head.jobs.admission import check_moments, with_time_limit
from phalanx.head.jobs.podgroup import kind_of, podgroup_of
from phalanx.head.jobs.rows import job_row
from phalanx.head.jobs.time_limits import why_held_back
from phalanx.head.queues.control import TimeLimits
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobCommandError, JobRecord

TWO = "tasks: [{name: a, replicas: 2}]"
DAY_S = 86_400.0

LIVES = [
    # what is added to the spec; a script -> the states gone through
    ("time: 60s", "run at 59", "Pending Running"),
    ("time: 60s", "run at 60", "Pending Running Terminating"),
    ("time: 60s", "run at 60 gone", "Pending Running Terminating TimeOut"),
    ("time: 60s", "run at 60 ok a-0 ok a-1", "Pending Running Terminating TimeOut"),
    ("time: 60s", "run at 59 ok", "Pending Running Completed"),
    ("time: 60s", "at 1000 run at 1059", "Pending Running"),
    ("time: 60s", "at 1000 run at 1060 gone", "Pending Running Terminating TimeOut"),
    ("time: 60s", "run at 60 do TerminateJob", JobCommandError),
    # what ends before its time is over ends as it would
    ("time: 60s", "run at 50 do TerminateJob at 60 gone", "Pending Running Terminating Terminated"),
    ("time: 60s", "run at 50 fail a-0 fail a-1 at 60", "Pending Running Failed"),
    # each start has the whole time
    ("time: 60s", "run at 50 lose a-0 lose a-1 run at 100", "Pending Running Pending Running"),
    (
        "time: 60s",
        "run at 50 lose a-0 lose a-1 run at 110",
        "Pending Running Pending Running Terminating",
    ),
    ("time: 60s", "run at 50 do RestartJob gone at 90 run at 149",
     "Pending Running Restarting Pending Running"),
    ("time: 60s", "run at 50 do AbortJob gone at 90 do ResumeJob run at 149",
     "Pending Running Aborting Aborted Restarting Pending Running"),
    # but while one member runs the gang does
    ("time: 60s", "run at 50 lose a-0 at 60", "Pending Running Pending Terminating"),
    # the wall-clock time does not matter
    ("time: 60s", "run jump 3600 at 59", "Pending Running"),
    ("time: 60s", "run jump -3600 at 60", "Pending Running Terminating"),
    # what nobody can hear of may be over: the clock stands
    ("time: 60s", "run at 50 away at 500 ok", "Pending Running Completed"),
    ("time: 60s", "run at 50 away at 500 back at 509", "Pending Running"),
    ("time: 60s", "run at 50 away at 500 back at 510", "Pending Running Terminating"),
    # deadlines
    ("deadline: now+100", "at 99", "Pending"),
    ("deadline: now+100", "at 100 gone", "Pending Terminating Deadline"),
    ("deadline: now+100", "run at 100 gone", "Pending Running Terminating Deadline"),
    ("deadline: now+100, time: 60s", "at 39", "Pending"),
    ("deadline: now+100, time: 60s", "at 40 gone", "Pending Terminating Deadline"),
    ("deadline: now+100, time: 60s", "at 39 run at 98", "Pending Running"),
    ("deadline: now+100, time: 60s", "at 39 run at 99 gone",
     "Pending Running Terminating TimeOut"),
    ("deadline: now+100, time: 60s", "run at 41 lose a-0 lose a-1 gone",
     "Pending Running Pending Terminating Deadline"),
    ("deadline: now+100", "run do AbortJob gone at 100",
     "Pending Running Aborting Aborted Terminating Deadline"),
    ("deadline: now+100", "run jump 3600 at 99", "Pending Running"),
    ("deadline: now+100", "jump 3600 at 99", "Pending"),
    ("deadline: now+100", "jump 3600 at 100 gone", "Pending Terminating Deadline"),
    ("deadline: now+100", "run jump -50 at 99", "Pending Running"),
    ("deadline: now+100", "run jump -50 at 100", "Pending Running Terminating"),
    ("deadline: now+100", "jump 4e7 at 30 jump -4e7 at 100 gone",
     "Pending Terminating Deadline"),
    ("deadline: 1970-01-01T00:01:40Z", "jump 3600 at 99", "Pending"),
    ("deadline: 1970-01-01T00:01:40Z", "jump 3600 at 100 gone", "Pending Terminating Deadline"),
    ("deadline: 1970-01-01T00:01:40Z", "jump 4e7 at 30 jump -4e7 at 100 gone",
     "Pending Terminating Deadline"),
    # beginning
    ("begin: now+100", "at 99", "Pending"),
    ("begin: now+100", "at 100 run", "Pending Running"),
    ("begin: now+100", "at 100 jump -1000 run ok", "Pending Running Completed"),
    # a clock that was wrong, and is set back
    ("begin: now+100", "jump -1000 at 100 run", "Pending Running"),
    ("begin: now+100", "jump 1000 at 99", "Pending"),
    ("begin: now+100", "jump 50 at 99 jump -80 at 100 run", "Pending Running"),
    ("begin: 1970-01-01T00:01:40Z", "jump 50 at 50 run", "Pending Running"),
    ("deadline: now+100", "jump -1000 at 100 gone", "Pending Terminating Deadline"),
    # requeueing
    ("time: 60s, requeue: {reasons: [timeout], max: 1}", "run at 60 gone run at 119",
     "Pending Running Restarting Pending Running"),
    ("time: 60s, requeue: {reasons: [timeout], max: 1}", "run at 60 gone run at 120 gone",
     "Pending Running Restarting Pending Running Terminating TimeOut"),
    ("requeue: {exitCodes: [75], max: 1}", "run fail a-0:75 gone run",
     "Pending Running Restarting Pending Running"),
    ("requeue: {exitCodes: [75], max: 1}", "run fail a-0:75 gone run fail a-0:75 ok",
     "Pending Running Restarting Pending Running Failed"),
    ("requeue: {exitCodes: [75]}", "run fail a-0:1 ok", "Pending Running Failed"),
    # as often as DEFAULT_REQUEUES says
    ("time: 60s, requeue: {reasons: [timeout]}",
     "run at 60 gone run at 120 gone run at 180 gone run at 240 gone",
     f"Pending Running {'Restarting Pending Running ' * 3}Terminating TimeOut"),
    ("requeue: {exitCodes: [75]}", "run lose a-0 run ok",
     "Pending Running Pending Running Completed"),
    ("requeue: {reasons: [timeout]}", "run lose a-0", "Pending Running Failed"),
    ("requeue: {reasons: []}", "lose a-0 run", "Pending Running"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "script", "story"), LIVES)
def test_lives(fields, script, story):
    shell = Shell(f"{TWO}, {fields}")
    if not isinstance(story, str):
        with pytest.raises(story):
            shell.play(script)
        return
    shell.play(script)
    assert shell.story() == story
    assert shell.job.is_finished == (shell.job.state in st.FINISHED)


def test_the_reason_says_what_ran_out():
    shell = Shell(f"{TWO}, time: 90m").play(f"run at {90 * 60} gone")
    assert shell.job.reason == "its gang has run for 1h30m, its limit (time)"
    shell = Shell(f"{TWO}, time: 90m, deadline: now+2h").play("at 1800 gone")
    assert shell.job.reason.startswith("it may run for 1h30m (time), and can no longer end by ")


def test_members_get_their_grace_and_nothing_starts_again():
    shell = Shell("tasks: [{name: a, template: {spec: {restartPolicy: OnFailure}}}], time: 60s")
    shell.play("run at 60")
    assert shell.ended == ["a-0"]
    shell.play("gone")
    assert (shell.restarted, shell.asked) == ([], ["a-0"])


# ---- the signal before the end -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "script", "warned"),
    [
        ("time: 100s, signal: USR1@30", "run at 69", []),
        ("time: 100s, signal: USR1@30", "run at 70 at 80 at 99", ["USR1 at 70"]),
        ("time: 100s, signal: USR1", "run at 40", ["USR1 at 40"]),
        ("time: 100s, signal: USR1@300", "run", ["USR1 at 0"]),
        ("time: 100s, signal: USR1@30", "run jump 1000 at 69", []),
        ("deadline: now+100, signal: TERM@10", "run at 89 at 90", ["TERM at 90"]),
        ("deadline: now+100, time: 95s, signal: TERM@10", "at 1 run at 86", ["TERM at 86"]),
        # there is nobody to get it
        ("deadline: now+100, signal: TERM@10", "at 95", []),
        ("deadline: now+100, signal: TERM@10", "at 95 run", ["TERM at 95"]),
        # each start once
        (
            "time: 100s, signal: USR1@30, requeue: {reasons: [timeout]}",
            "run at 70 at 100 gone run at 170 at 200",
            ["USR1 at 70", "USR1 at 170"],
        ),
    ],
)
def test_members_are_warned(fields, script, warned):
    assert Shell(f"{TWO}, {fields}").play(script).warned == warned


# ---- a head that comes back ----------------------------------------------------------------------


def restarted(shell: Shell, away_s: float, reports: bool = True) -> Shell:
    """Return the shell of the next head. Its steady clock starts from another value, as on another
    machine, and nodes report how long members ran.
    """
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(shell.job), type=JobRecord)
    began = {m.name: shell.now for m in shell.job.members}
    later = Shell(shell.job.spec)
    later.table = type(later.table)(later)
    later.now, later.jumped_s = 5.0, shell.wall + away_s - 5.0
    later.table.restore([kept], later.wall, later.now)
    for member in kept.members if reports else ():
        if member.state == st.RUNNING:
            ran_s = began[member.name] - RAN_FROM + away_s
            later.tell(ev.MemberRan, member.name, node="n", ran_s=ran_s)
    return later


RAN_FROM = 10.0


def test_a_clock_that_was_set_back_while_there_was_no_head_holds_nobody_back():
    """The head does not know how long the job has waited, so the job waits for the whole time
    again.
    """
    shell = Shell(f"{TWO}, begin: now+100").play("at 50")
    later = restarted(shell, away_s=-5000.0)
    assert later.play("at 104").asked == []
    assert later.play("at 105").asked == ["a-0", "a-1"]


def test_what_ended_while_there_was_no_head_did_not_run_on():
    shell = Shell(f"{TWO}, time: 100s").play(f"at {RAN_FROM:g} run at 40")
    later = restarted(shell, away_s=60.0, reports=False)
    later.is_away = True
    later.table.connections_changed(J, later.wall, later.now)
    assert later.play("at 500 ok").job.state == st.COMPLETED


def test_what_ran_while_there_was_no_head_counts():
    """Nothing was written since the member began, but its node knows how long it ran."""
    shell = Shell(f"{TWO}, time: 100s").play(f"at {RAN_FROM:g} run at 40")
    later = restarted(shell, away_s=60.0)
    assert later.play("at 14").job.state == st.RUNNING
    assert later.play("at 15 gone").job.state == st.TIMED_OUT


def test_a_jump_of_the_time_of_day_while_there_was_no_head_counts_for_nothing():
    shell = Shell(f"{TWO}, time: 100s").play(f"at {RAN_FROM:g} run at 40")
    shell.jumped_s = DAY_S
    later = restarted(shell, away_s=0.0)
    assert later.play("at 74").job.state == st.RUNNING
    assert later.play("at 75 gone").job.state == st.TIMED_OUT


def test_what_was_written_counts_where_nobody_says_more():
    shell = Shell(f"{TWO}, time: 100s").play(
        f"at {RAN_FROM:g} run at 40 lose a-1"
    )  # which is written
    later = restarted(shell, away_s=60.0, reports=False)
    assert later.play("at 74").job.state == st.PENDING
    assert later.play("at 75 gone").job.state == st.TIMED_OUT


def test_a_start_after_a_head_was_away_does_not_count_from_its_news():
    """A member began while there was no head. The next head heard of it 30 s later."""
    shell = Shell(f"{TWO}, time: 100s").play("at 10 run a-0")
    shell.now = 40.0
    shell.tell(ev.MemberRan, "a-1", node="n", ran_s=30.0)
    assert shell.play("at 109").job.state == st.RUNNING
    assert shell.play("at 110").job.state == st.TERMINATING


def test_a_late_member_does_not_make_the_gang_older():
    shell = Shell("tasks: [{name: a, replicas: 2, minAvailable: 1}], time: 100s")
    shell.play("run a-0 at 50 run a-1")
    later = restarted(shell, away_s=0.0, reports=False)
    later.tell(ev.MemberRan, "a-1", node="n", ran_s=0.0)
    later.tell(ev.MemberRan, "a-0", node="n", ran_s=50.0)
    assert later.job.ran_s == 50
    assert later.play("at 54").job.state == st.RUNNING
    assert later.play("at 55").job.state == st.TERMINATING


@pytest.mark.parametrize("script", ["hold", "run at 70", "at 20", "hold at 30 release"])
def test_what_is_held_or_warned_stays_so(script):
    fields = "time: 100s, signal: USR1@30, begin: now+50, deadline: now+10d"
    if "run" in script:
        fields = fields.replace("begin: now+50, ", "")
    fields = fields.replace("10d", "10days")
    shell = Shell(f"{TWO}, {fields}").play(script)
    later = restarted(shell, away_s=0.0, reports=False)
    rows = [job_row(one.job, 0, one.wall).as_dict() for one in (shell, later)]
    assert rows[0] == rows[1]
    assert later.warned == []
    assert later.play("at 6").warned == []


def test_a_deadline_survives_as_a_time_of_day():
    shell = Shell(f"{TWO}, deadline: now+100").play("at 40")
    later = restarted(shell, away_s=30.0)
    assert later.play("at 34").job.state == st.PENDING
    assert later.play("at 35 gone").job.state == st.DEADLINE


# ---- holding, changing ---------------------------------------------------------------------------


def test_a_held_job_asks_for_nothing_until_it_is_released():
    shell = Shell(f"{TWO}, hold: true")
    assert (shell.asked, shell.job.state) == ([], st.PENDING)
    why = why_held_back(shell.job, shell.wall)
    assert why is not None
    assert (why.code, why.sentence, why.change) == ("held", "it is held", "phalanx release j")
    shell.play("release run ok")
    assert shell.job.state == st.COMPLETED


def test_one_that_waits_gives_up_its_turn_when_it_is_held():
    shell = Shell(TWO).play("hold")
    assert shell.ended == ["a-0", "a-1"]
    shell.play("gone at 99")
    assert shell.job.count(st.WAITING) == 2
    assert shell.play("release").asked == ["a-0", "a-1"] * 2
    assert shell.play("run").job.state == st.RUNNING


def test_one_that_is_released_before_its_beginning_waits_for_that():
    shell = Shell(f"{TWO}, hold: true, begin: now+50").play("release at 49")
    why = why_held_back(shell.job, shell.wall)
    assert why is not None
    assert why.sentence == "it begins at 1970-01-01 00:00:50 UTC at the earliest (begin)"
    assert shell.asked == []
    assert shell.play("at 50").asked == ["a-0", "a-1"]


@pytest.mark.parametrize("script", ["run", "run ok", "run do AbortJob gone", "run do TerminateJob"])
def test_only_what_waits_is_held_or_changed(script):
    shell = Shell(TWO).play(script)
    before = msgspec.msgpack.encode(shell.job)
    with pytest.raises(JobCommandError, match="only a waiting job"):
        shell.play("hold")
    with pytest.raises(JobCommandError, match="while it waits"):
        shell.handle(ev.Changed(job=J, spec=shell.job.spec))
    assert msgspec.msgpack.encode(shell.job) == before


@pytest.mark.parametrize("script", ["run ok", "hold do TerminateJob", "do TerminateJob gone"])
@pytest.mark.parametrize("command", ["hold", "release"])
def test_what_is_over_is_neither_held_nor_released(script, command):
    shell = Shell(TWO).play(script)
    before = msgspec.msgpack.encode(shell.job)
    with pytest.raises(JobCommandError, match=r"only a waiting job can be (held|released)"):
        shell.play(command)
    assert msgspec.msgpack.encode(shell.job) == before


def test_holding_twice_and_releasing_what_is_not_held_do_nothing():
    shell = Shell(TWO).play("hold gone hold release release run")
    assert shell.job.state == st.RUNNING
    assert [one.reason for one in shell.job.history].count("held") == 1


def test_a_pending_timeout_does_not_run_while_it_is_held():
    policy = "policies: [{event: PodPending, timeout: 10s, action: AbortJob}]"
    shell = Shell(f"{TWO}, {policy}").play("hold gone at 60 release")
    assert shell.play("at 69").job.state == st.PENDING
    assert shell.play("at 70").job.state == st.ABORTING


def test_one_that_waits_asks_anew_when_it_is_changed():
    shell = Shell(TWO)
    spec = msgspec.structs.replace(shell.job.spec, queue="other", priority=7)
    shell.handle(ev.Changed(job=J, spec=spec))
    assert (shell.ended, shell.job.revision) == (["a-0", "a-1"], 1)
    shell.play("gone")
    assert shell.asked == ["a-0", "a-1"] * 2
    assert podgroup_of(shell.job).queue == "other"


def test_a_deadline_ends_what_is_held():
    shell = Shell(f"{TWO}, hold: true, deadline: now+100").play("at 100")
    assert shell.job.state == st.DEADLINE


# ---- what scheduling is told ---------------------------------------------------------------------


def test_the_podgroup_tells_its_limit_and_since_when_it_runs():
    shell = Shell(f"{TWO}, time: 60s").play("at 10 run")
    asked = podgroup_of(shell.job)
    assert (asked.run_time_s, asked.started) == (60, 10)
    shell.play("at 30 lose a-0 lose a-1")
    assert podgroup_of(shell.job).started is None
    shell.play("at 50 run")
    assert podgroup_of(shell.job).started == 50
    assert podgroup_of(Shell(TWO).job).run_time_s is None


def test_jobs_of_other_limits_are_not_alike():
    short, long = (job_spec(f"{TWO}, time: {time}") for time in ("1h", "2h"))
    assert kind_of(short, 0, []) != kind_of(long, 0, [])


def test_the_row_says_how_long_it_ran_and_when_it_ends():
    shell = Shell(f"{TWO}, time: 60s").play("at 10 run at 30 lose a-0 lose a-1 at 40 run at 50")
    shell.table.clocks.keep(shell.job, shell.now)
    row = job_row(shell.job, 0, shell.wall)
    assert (row.time_limit_s, row.ran_s, row.ends, row.restarts) == (60, 10, 100, 1)


# ---- what a queue says ---------------------------------------------------------------------------


def test_a_queue_has_a_default_and_a_maximum():
    spec = job_spec(TWO)
    assert with_time_limit(spec, TimeLimits(None, None), None) == spec
    assert with_time_limit(spec, TimeLimits(60.0, None), None).timing.limit_s == 60
    longer = job_spec(f"{TWO}, time: 2h")
    assert with_time_limit(longer, TimeLimits(60.0, 7200.0), None) == longer
    with pytest.raises(JobCommandError) as refused:
        with_time_limit(longer, TimeLimits(60.0, 7199.0), None)
    said = "job default/j: time=2h: queue default allows at most 1h59m59s (maxTime)"
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            "deadline: 1970-01-01T00:01Z",
            "deadline=1970-01-01 00:01:00 UTC: it cannot end",
        ),
        ("deadline: now+1h, time: 1h", "and may run for 1h"),
        ("deadline: now+1h, begin: now+2h", "begins at 1970-01-01 02:16:40 UTC at the earliest"),
    ],
)
def test_times_that_cannot_all_be_kept_are_refused(fields, said):
    with pytest.raises(JobCommandError) as refused:
        check_moments(job_spec(f"{TWO}, {fields}"), 1000.0, 1000.0)
    assert said in str(refused.value)


def test_a_signal_without_an_end_is_for_when_the_place_is_taken():
    check_moments(job_spec(f"{TWO}, signal: USR2"), 1000.0, 1000.0)


# ---- whatever happens ----------------------------------------------------------------------------

STEP: Any = hs.one_of(
    hs.tuples(hs.just("at"), hs.floats(0.1, 40)),
    hs.tuples(hs.just("jump"), hs.floats(-200, 200)),
    hs.tuples(hs.sampled_from(["run", "gone", "lose", "fail", "restart"]), hs.just(0.0)),
)


@settings(max_examples=examples(300))
@given(hs.lists(STEP, max_size=25), hs.booleans())
def test_nothing_ends_early_or_late_however_the_time_of_day_jumps(steps, requeues):
    """A gang is ended when the head first looks after the gang's limit is over, and at no other
    moment.
    """
    rule = ", requeue: {reasons: [timeout, preempted, node], max: 2}" if requeues else ""
    shell = Shell(f"tasks: [{{name: a}}], time: 60s{rule}")
    ran_s, was_running = 0.0, False
    for word, number in steps:
        if shell.job.is_finished:
            break
        before = shell.now
        if word == "at":
            shell.play(f"at {shell.now + number!r}")
        elif word == "jump":
            shell.play(f"jump {number!r}")
        elif word == "restart":
            kept = msgspec.msgpack.decode(msgspec.msgpack.encode(shell.job), type=JobRecord)
            shell.table = type(shell.table)(shell)
            shell.table.restore([kept], shell.wall, shell.now)
            if was_running:
                shell.tell(ev.MemberRan, "a-0", node="n", ran_s=ran_s)
        elif word in ("run", "gone") or shell.of("a-0").state == st.RUNNING:
            shell.play(word if word in ("run", "gone") else f"{word} a-0")
        ran_s += shell.now - before if was_running else 0.0
        is_running = shell.of("a-0").state == st.RUNNING
        if was_running and not is_running and word in ("at", "jump", "restart"):
            assert ran_s >= 60 - 1e-6, "it was ended early"
        assert not is_running or ran_s < 60 + 1e-6, "it runs for too long"
        ran_s, was_running = ran_s if is_running else 0.0, is_running


@pytest.mark.parametrize(
    ("more", "script", "since"),
    [
        ("", "at 20", 0.0),
        ("", "at 5 hold at 20", None),
        ("", "at 5 hold at 20 release at 30", 20.0),
        ("hold: true", "at 20 release at 30", 20.0),
        ("begin: now+50", "at 60", 50.0),
        ("begin: now+50", "at 5 hold at 20 release", 50.0),
        ("begin: now+50", "at 55 hold at 70 release", 70.0),
    ],
)
def test_time_in_which_a_job_could_not_start_is_no_age(more, script, since) -> None:
    """Slurm 22.05.8 counts a job's age (AccrueTime) from the same moments, as was observed."""
    shell = Shell(f"{TWO}, {more}" if more else TWO).play(script)
    row = job_row(shell.job, 0, shell.wall)
    assert row.queued == since
    if since is not None:
        assert podgroup_of(shell.job).created == row.queued
