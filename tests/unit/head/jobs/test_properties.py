"""Invariants of a job under any sequence of events."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as hs
from tests.effort import examples
from tests.unit.head.jobs.shell import J, Shell

from phalanx.head.jobs import events as ev
from phalanx.head.jobs import judging, time_limits
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobCommandError, JobRecord
from phalanx.model.jobs.spec import DependsOn, JobSpec, Policy, TaskGroup, Template
from phalanx.model.jobs.timing import REQUEUE_REASONS, Moment, Requeue, Timing, WarningSignal

EVENTS = [e for e in st.POLICY_EVENTS if e != st.ANY_EVENT]
POLICIES = hs.lists(
    hs.builds(
        Policy,
        action=hs.sampled_from(st.POLICY_ACTIONS),
        events=hs.lists(hs.sampled_from(EVENTS), min_size=1, max_size=2).map(tuple),
        timeout_s=hs.none() | hs.just(10.0),
    ),
    max_size=3,
).map(tuple)


REQUEUES = hs.builds(
    Requeue,
    reasons=hs.lists(hs.sampled_from(REQUEUE_REASONS), unique=True).map(tuple),
    exit_codes=hs.sampled_from([(), (3,)]),
    most=hs.integers(0, 2),
)
TIMINGS = hs.builds(
    Timing,
    limit_s=hs.none() | hs.just(20.0),
    begin=hs.none() | hs.just(Moment(after_s=10.0)),
    deadline=hs.none() | hs.just(Moment(after_s=60.0)),
    signal=hs.none() | hs.just(WarningSignal(name="USR1", before_s=5.0)),
    requeue=hs.none() | REQUEUES,
    is_held=hs.booleans(),
)


@hs.composite
def specs(draw: hs.DrawFn) -> JobSpec:
    groups: list[TaskGroup] = []
    for name in ["a", "b", "c"][: draw(hs.integers(1, 3))]:
        replicas = draw(hs.integers(0, 3))
        before = [g.name for g in groups]
        depends = None
        if len(before) > 0 and draw(hs.booleans()):
            names = tuple(draw(hs.lists(hs.sampled_from(before), min_size=1, unique=True)))
            depends = DependsOn(names=names, iteration=draw(hs.sampled_from(["any", "all"])))
        groups.append(
            TaskGroup(
                name=name,
                replicas=replicas,
                min_available=draw(hs.integers(0, replicas)),
                policies=draw(POLICIES),
                depends_on=depends,
                max_retry=draw(hs.integers(0, 2)),
                template=Template(restart=draw(hs.sampled_from(["Never", "OnFailure"]))),
            )
        )
    most = sum(g.replicas for g in groups)
    return JobSpec(
        name="j",
        groups=tuple(groups),
        min_available=draw(hs.integers(0, most)),
        min_success=draw(hs.none() | hs.integers(1, max(most, 1))),
        policies=draw(POLICIES),
        max_retry=draw(hs.integers(0, 2)),
        ttl_s=draw(hs.none() | hs.just(50.0)),
        timing=draw(hs.just(Timing()) | TIMINGS),
    )


STEPS = hs.lists(
    hs.tuples(
        hs.sampled_from(
            [
                *("run", "ok", "fail", "lose", "gone", "do", "tick", "strand", "resize", "late"),
                *("hold", "release", "change", "jump"),
            ]
        ),
        hs.integers(0, 8),
    ),
    max_size=30,
)


def take(shell: Shell, word: str, number: int) -> None:
    job = shell.job
    members = job.members
    if word == "tick":
        shell.now += number
        shell.table.tick(shell.wall, shell.now)
    elif word == "gone":
        shell.play("gone")
    elif word in ("strand", "hold", "release"):
        shell.play(word)
    elif word == "jump":
        shell.play(f"jump {10 * number - 40}")
    elif word == "change":
        shell.handle(ev.Changed(job=J, spec=msgspec.structs.replace(job.spec, priority=number)))
    elif word == "do":
        action = st.POLICY_ACTIONS[number % len(st.POLICY_ACTIONS)]
        shell.handle(ev.Commanded(job=J, action=action, group="a", index=0))
    elif word == "resize":
        groups = tuple(
            msgspec.structs.replace(g, replicas=number % 4, min_available=0)
            for g in job.spec.groups
        )
        spec = msgspec.structs.replace(job.spec, groups=groups, min_available=number % 4)
        shell.handle(ev.Resized(job=J, spec=spec))
    elif members:
        member = members[number % len(members)]
        attempt = member.attempt - (word == "late")
        news: dict[str, ev.MemberRan | ev.MemberExited | ev.MemberLost] = {}
        about: dict[str, Any] = {
            "job": J,
            "group": member.group,
            "index": member.index,
            "attempt": attempt,
        }
        news["run"] = ev.MemberRan(**about, node="n")
        news["ok"] = ev.MemberExited(**about, exit_code=0)
        news["fail"] = news["late"] = ev.MemberExited(**about, exit_code=3)
        news["lose"] = ev.MemberLost(**about)
        shell.handle(news[word])


def holds(shell: Shell) -> None:
    job = shell.table.get(J)
    if job is None:
        return
    for name, group in job.groups.items():
        counted = {s: sum(m.state == s for m in group) for s in st.MEMBER}
        assert {s: n for s, n in job.tally[name].items() if n} == {
            s: n for s, n in counted.items() if n
        }
        assert [m.index for m in group] == sorted({m.index for m in group})
    assert job.retries <= job.spec.max_retry
    assert job.restarts.keys() <= job.groups.keys()
    for group_spec in job.spec.groups:
        assert job.restarts.get(group_spec.name, 0) <= max(group_spec.max_retry, 0)
    assert (job.finished is not None) == job.is_finished
    if job.is_finished or job.state in (st.ABORTING, st.ABORTED):
        assert not job.count(st.PENDING, st.RUNNING, st.WAITING)
    if job.state == st.ABORTED or job.state in st.FINISHED - {st.FAILED, st.COMPLETED}:
        assert not job.count(*judging.LIVE)
    if job.state in st.ENDING:
        assert job.count(st.TERMINATING)
    if job.state == st.PENDING and job.is_held:
        assert not job.count(st.PENDING, st.RUNNING)
    if job.count(st.RUNNING) and not job.is_finished:
        assert job.run_started is not None
    timing = job.spec.timing
    assert job.requeues <= (timing.requeue.most if timing.requeue is not None else 0)
    assert job.state not in st.OUT_OF_TIME or timing.limit_s or timing.deadline
    assert job.ran_s >= 0
    if job.state == st.RUNNING:
        here = job.count(st.RUNNING, st.SUCCEEDED, st.FAILED, st.TERMINATING)
        assert here >= judging.gang_minimum(job)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=JobRecord)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(job)


@settings(max_examples=examples(300))
@given(spec=specs(), steps=STEPS)
def test_a_job_keeps_its_order_whatever_happens(spec, steps):
    shell = Shell(spec)
    holds(shell)
    for word, number in steps:
        if shell.table.get(J) is None:
            break
        was_finished = shell.job.is_finished
        asked = len(shell.asked)
        shell.table.clocks.keep(shell.job, shell.now)  # how long it ran is no change
        before = msgspec.msgpack.encode(shell.job)
        try:
            take(shell, word, number)
        except JobCommandError:
            assert msgspec.msgpack.encode(shell.job) == before
        holds(shell)
        if was_finished:
            assert len(shell.asked) == asked, "a finished job starts nothing"


@settings(max_examples=examples(150))
@given(spec=specs(), steps=STEPS)
def test_a_job_ends_once_its_troubles_do(spec, steps):
    """If members run and succeed from now on, the job finishes soon, and nothing is left of it."""
    shell = Shell(spec)
    for word, number in steps:
        if shell.table.get(J) is not None:
            with contextlib.suppress(JobCommandError):
                take(shell, word, number)
    for _ in range(40):
        job = shell.table.get(J)
        if job is None or (job.is_finished and not job.count(*judging.LIVE)) or not job.members:
            return
        if job.is_held:
            shell.play("release")
        elif job.state == st.ABORTED:
            shell.play("do ResumeJob")
        elif time_limits.is_held_back(job, shell.wall):
            shell.play(f"at {shell.now + 100}")
        else:
            shell.play("gone run ok" if job.count(st.TERMINATING) else "run ok")
    assert shell.job.count(*judging.LIVE) == 0, shell.story()
    # a policy that restarts whatever has succeeded never lets it end, and neither does ResumeJob
    assert any("Restart" in t.reason for t in shell.job.history), shell.story()
