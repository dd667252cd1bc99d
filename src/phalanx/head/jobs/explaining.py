"""Explains the states of jobs, flows and cron jobs that do not wait in a queue."""

from __future__ import annotations

from phalanx.head.jobs.crons import MISSED, REFUSED, SCHEDULED, following_time, latest
from phalanx.head.jobs.time_limits import HeldBack
from phalanx.manifests.cron import moment_text, parse_schedule
from phalanx.manifests.patching import job_name
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import CronRecord, FlowRecord, JobRecord
from phalanx.model.rows.explanation import Explanation, Reason
from phalanx.model.rows.work import JobDescription


def explain_job(job: JobRecord) -> Explanation:
    """Explain the state of a job that has no gang now."""
    return _settled("job", job.uid, _state(job.state, job.reason))


def explain_held(job: JobRecord, why: HeldBack) -> Explanation:
    """Explain why no member of a job may start yet."""
    reason = _reason(why.code, why.sentence, why.change)
    return Explanation(
        snapshot="",
        name=job.uid,
        kind="job",
        waits=True,
        queue=job.spec.queue,
        reasons=[reason],
        because=[reason],
    )


def explain_array_task(array_task: JobDescription) -> Explanation:
    """Explain an array task that has no job of its own."""
    uid = f"{array_task.namespace}/{array_task.name}"
    return _settled("element", uid, _state(array_task.state, array_task.reason))


def explain_flow(flow: FlowRecord) -> Explanation:
    """Explain a flow: the state of each step that has not completed, or what the step waits for."""
    reasons = []
    for step in flow.spec.steps:
        state = flow.steps[step.name].state
        if not state:
            targets = [name for name in step.targets if flow.steps[name].state != st.COMPLETED]
            probed = " and its probes" if step.probes else ""
            waits = f"step {step.name} has no job yet: it waits for {', '.join(targets)}{probed}"
            reasons.append(_reason("step_waits", waits))
        elif state in (st.PENDING, st.RUNNING):
            job = f"{flow.spec.namespace}/{job_name(flow.spec, step.name)}"
            has = f"step {step.name}: its job {job} is {state}"
            reasons.append(_reason("step_job", has, f"phalanx explain {_short(job)}"))
    is_over = flow.state not in (st.PENDING, st.RUNNING)
    state = _state(flow.state, flow.reason)
    return _settled("flow", flow.spec.uid, state, [] if is_over else reasons)


def explain_cron(cron: CronRecord, now: float) -> Explanation:
    """Explain when a cron job makes its next job, or why it makes none, and how its last job ended.
    `now`: the wall-clock time in seconds.
    """
    spec, zone = cron.spec, cron.spec.time_zone
    schedule = parse_schedule(spec.schedule)
    following = following_time(schedule, zone, cron.seen, now)
    reasons = []
    if spec.suspend:
        state = "is suspended"
        begun = next((one for one in reversed(cron.history) if one.new == "Suspended"), None)
        if begun is not None:
            by = "command" if begun.reason == "by command" else "its manifest"
            sentence = f"suspended by {by} at {moment_text(begun.at, zone)}"
            reasons.append(_reason("suspended", sentence, f"phalanx resume {_short(spec.uid)}"))
    elif following is None:
        state = f"has no next time: {spec.schedule!r} never comes"
    else:
        state = f"makes its next job at {moment_text(following, zone)}"
        waits = spec.concurrency == "Forbid" and cron.active
        if waits and latest(schedule, zone, cron.seen, now) is not None:
            active = ", ".join(cron.active)
            due = f"a job that is due waits until {active} has ended (concurrencyPolicy: Forbid)"
            reasons.append(_reason("forbidden", due))
    reasons.append(_last(cron))
    return _settled("cron job", spec.uid, state, reasons)


def _last(cron: CronRecord) -> Reason:
    acts = (SCHEDULED, MISSED, REFUSED)
    last = next((one for one in reversed(cron.history) if one.new in acts), None)
    if last is None:
        return _reason("none_made", "it has made no job yet")
    at = moment_text(last.at, cron.spec.time_zone)
    if last.new != SCHEDULED:
        return _reason(last.new.lower(), f"at {at}: {last.reason}")
    ends = ((cron.active, "has not finished"), (cron.succeeded, "completed"))
    became = next((word for names, word in ends if last.reason in names), "")
    became = became or ("failed" if last.reason in cron.failed else "is deleted")
    return _reason("last", f"it made its last job at {at}: {last.reason}, which {became}")


def _state(state: str, reason: str) -> str:
    said = f"is {state}" + (f" ({reason})" if reason else "")
    return said + ("; `phalanx resume` starts it again" if state == st.ABORTED else "")


def _short(uid: str) -> str:
    """Return a job's full name in the short form that commands accept."""
    return uid.removeprefix("default/")


def _reason(code: str, sentence: str, change: str = "") -> Reason:
    return Reason(reason=code, count=1, detail={}, sentence=sentence, change=change)


def _settled(kind: str, uid: str, state: str, reasons: list[Reason] | None = None) -> Explanation:
    return Explanation(
        snapshot="", name=uid, kind=kind, waits=False, reasons=reasons or [], state=state
    )
