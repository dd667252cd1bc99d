"""Commands of users that change a job: actions, a new size, hold and release, other terms."""

from __future__ import annotations

from phalanx.head.jobs import events as ev
from phalanx.head.jobs import judging, resting
from phalanx.head.jobs.actions import TARGETED, JobActions
from phalanx.head.jobs.policies import JobPolicies
from phalanx.head.jobs.resizing import fit_members
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobCommandError, JobRecord
from phalanx.model.jobs.spec import JobSpec


class JobCommands:
    """Carries out commands about jobs. Each method raises JobCommandError for a command that is not
    possible; the job is then unchanged.
    """

    def __init__(self, actions: JobActions, policies: JobPolicies) -> None:
        self._actions = actions
        self._policies = policies

    def act(self, job: JobRecord, event: ev.Commanded, now: float) -> None:
        """Take the action that a user has requested."""
        allowed = judging.ALLOWED[job.state]
        if event.action not in allowed:
            can = f"; allowed: {', '.join(sorted(allowed))}" if allowed else " any more"
            raise JobCommandError(
                f"job {job.uid} is {job.state}: {event.action} is not allowed{can}"
            )
        chosen = judging.targets(job, event.action, event.group, event.index)
        if event.action in TARGETED and not chosen:
            raise JobCommandError(f"job {job.uid} has no member {event.group}-{event.index}")
        resting.clear(job)
        self._actions.act(
            job, event.action, event.reason, now, group=event.group, index=event.index
        )

    def resize(self, job: JobRecord, spec: JobSpec, now: float) -> None:
        """Change the size of a job, unless the job is ending or over."""
        if job.is_finished or job.state in (st.TERMINATING, st.COMPLETING):
            raise JobCommandError(
                f"job {job.uid} is {job.state}: its size can no longer be changed"
            )
        surplus = fit_members(job, spec)
        job.note(now, job.state, job.state, "its size was changed")
        self._actions.end(job, surplus, "the job became smaller", comes_back=False)
        self._policies.follow(job, None, st.JOB_UPDATED, "the job was changed", now)

    def hold(self, job: JobRecord, is_held: bool, now: float) -> None:
        """Hold a waiting job until it is released, or release it. The running tasks of an array
        that is held continue.
        """
        if job.is_finished or job.state in (st.TERMINATING, st.COMPLETING):
            does = "held" if is_held else "released"
            raise JobCommandError(f"job {job.uid} is {job.state}: only a waiting job can be {does}")
        if is_held == job.is_held:
            return
        runs = job.spec.array is None and job.count(st.RUNNING)
        waits = (st.PENDING, st.RESTARTING, *((st.RUNNING,) if job.spec.array is not None else ()))
        if is_held and (job.state not in waits or runs):
            raise JobCommandError(f"job {job.uid} {_does(job)}: only a waiting job can be held")
        job.is_held = is_held
        job.note(now, job.state, job.state, "held" if is_held else "released")
        if is_held:
            self._actions.withdraw(job, "the job is held")
        else:
            job.released = now

    def change(self, job: JobRecord, spec: JobSpec, now: float) -> None:
        """Give a waiting job changed terms, such as another queue, priority or time limit. The job
        then requests its places again.
        """
        if job.state != st.PENDING or job.count(st.RUNNING):
            raise JobCommandError(
                f"job {job.uid} {_does(job)}: its queue, priority and time can only be "
                "changed while it waits"
            )
        job.spec = spec
        job.revision += 1
        job.note(now, job.state, job.state, "changed by command")
        self._actions.withdraw(job, "the job was changed")


def _does(job: JobRecord) -> str:
    """Return a verb phrase that says what the job does, such as "runs" or "is Pending"."""
    return "runs" if job.count(st.RUNNING) else f"is {job.state}"
