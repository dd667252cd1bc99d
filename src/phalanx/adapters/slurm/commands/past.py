"""Jobs of the history in `sacct`'s form: one row for all attempts of a job."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm.commands.numbers import slurm_id
from phalanx.adapters.slurm.commands.step_rows import Name, by_job
from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.commands.users import fields_of
from phalanx.adapters.slurm.options import parts
from phalanx.adapters.slurm.reasons import ended_reason
from phalanx.adapters.slurm.states import OUT_OF_MEMORY, attempt_state, code_of, state_of
from phalanx.cli.allocation import HOLDER
from phalanx.cli.history import ANSWER_S, uid_of
from phalanx.cli.periods import past_moment
from phalanx.cli.reach import ask, is_elsewhere
from phalanx.cli.times import clock, length
from phalanx.model import attempts as at
from phalanx.model.attempts import Attempt
from phalanx.model.jobs import states as st
from phalanx.model.steps import Step
from phalanx.observe.accounting.efficiency import Efficiency, efficiency
from phalanx.observe.accounting.questions import MAX_ATTEMPTS, AttemptQuery
from phalanx.protocol.requests.accounting import ListAttempts

NO_OWN_LIMIT = "Partition_Limit"
"""Slurm's word for a job without its own time limit. The word is shown for every job, because the
history does not record limits.
"""
_HOLDING = shlex.join(HOLDER)
"""The command of a member that only holds resources for steps."""
_OTHER_STATES = {at.PREEMPTED: st.FAILED, at.NODE_LOST: st.FAILED, at.RESTARTED: st.FAILED}
"""For each state that only attempts can have: the state of a job whose attempt ended in it."""


class PastJob:
    """One job of the history."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        """`attempts`: all known attempts of the job; at least one."""
        self._attempts = attempts
        self._last = max(attempts, key=lambda one: one.ended)
        self._sum: Efficiency = efficiency(attempts)
        reasons = [one.reason for one in attempts if one.state == self._sum.state]
        seen = {state_of(self._sum.state, reason) for reason in reasons}
        self._ended_as = OUT_OF_MEMORY if OUT_OF_MEMORY in seen else self._sum.state
        self.state = _OTHER_STATES.get(self._ended_as, self._ended_as)

    def is_named(self, ids: Sequence[str], name: str | None) -> bool:
        """Whether the job has one of these ids and this name. Empty `ids`, or an empty name, allow
        all jobs.
        """
        wanted = {one.partition(".")[0] for one in ids}
        own = self._id()
        is_it = not ids or own in wanted or own.partition("_")[0] in wanted
        return is_it and (not name or self._name in parts(name))

    def row(self) -> dict[str, str]:
        """Return the job's fields. The elapsed time runs from the job's first start to its last
        end.
        """
        last, whole = self._last, self._sum
        nodes = list(dict.fromkeys(one.node for one in self._attempts if one.node))
        started = min(one.started for one in self._attempts)
        cputime, cpuseconds = cpu_time(whole.cpus, whole.elapsed_s)
        return {
            "id": self._id(),
            "partition": last.queue,
            "name": self._name,
            "user": last.user,
            **fields_of(last.user),
            "state": attempt_state(self._ended_as),
            "elapsed": length(whole.elapsed_s),
            "seconds": str(int(whole.elapsed_s)),
            "timelimit": NO_OWN_LIMIT,
            "timelimit_raw": NO_OWN_LIMIT,
            "nodes": str(len(nodes)),
            "nodelist": ",".join(nodes),
            "cpus": f"{whole.cpus:g}",
            "tasks": str(len({one.member for one in self._attempts})),
            "reason": ended_reason(self.state, bool(whole.signal)),
            "submit": clock(last.submitted),
            "start": clock(started),
            "end": clock(last.ended),
            "code": code_of(whole.exit_code or 0, whole.signal),
            "restarts": str(max(one.attempt for one in self._attempts) - 1),
            "cputime": cputime,
            "cpuseconds": cpuseconds,
            **self.used(),
        }

    def used(self) -> dict[str, str]:
        """Return the fields of requested and used amounts."""
        whole = self._sum
        asked = [f"billing={whole.cpus:g}", f"cpu={whole.cpus:g}"]
        asked += [f"gres/gpu={whole.gpus:g}"] if whole.gpus else []
        asked += [f"mem={_mib(whole.memory)}"] if whole.memory else []
        return {
            "totalcpu": length(whole.cpu_s),
            "reqmem": _mib(whole.memory),
            "usercpu": length(whole.cpu_s),
            "tres": ",".join([*asked, f"node={max(whole.nodes, 1)}"]),
        }

    @property
    def has_script(self) -> bool:
        """Whether the job ran a script, and not only steps. The history may write a dollar sign of
        a command as two.
        """
        return any(one.command.replace("$$", "$") != _HOLDING for one in self._attempts)

    def batch(self, row: Mapping[str, str], steps: Sequence[Step]) -> dict[str, str]:
        """Return the row NUMBER.batch, which stands for the members' own commands. The CPU time in
        it does not include steps. The memory peak in it is that of the whole job, because the peak
        without steps is not known.
        """
        most = self._sum.memory_max
        means = [one.used.memory_mean for one in self._attempts if one.used and one.used.samples]
        kept = ("state", "elapsed", "seconds", "nodes", "nodelist", "cpus", "tasks", "submit",
                "start", "end", "code", "cputime", "cpuseconds", "totalcpu", "tres")  # fmt: skip
        return {
            **{name: row.get(name, "") for name in kept},
            "id": f"{row['id']}.batch",
            "name": "batch",
            "tasks": "1",
            "totalcpu": length(max(self._sum.cpu_s - sum(one.cpu_s for one in steps), 0.0)),
            "maxrss": "" if most is None else f"{most / 1024:.0f}K",
            "averss": f"{sum(means) / len(means) / 1024:.0f}K" if means else "",
        }

    @property
    def _name(self) -> str:
        return self._last.title or self._last.job

    def _id(self) -> str:
        return slurm_id(self._last.job)


def past_jobs(
    since: float | None, until: float | None, ids: Sequence[str]
) -> tuple[dict[Name, PastJob], dict[Name, list[Step]]]:
    """Return the jobs whose attempts ended in a period, oldest first, and their ended or running
    steps.

    If neither a beginning nor ids are given, the period is today.
    """
    if is_elsewhere(address()):
        return {}, {}  # the scheduler on Ray keeps no history
    begin = since or 0.0
    if since is None and not ids:
        begin = past_moment("today", time.time())
    names = sorted({one.partition("_")[0].partition(".")[0] for one in ids})
    questions = [uid_of(name) for name in names] or [""]
    found: dict[Name, list[Attempt]] = {}
    steps: list[Step] = []
    for job in questions:
        query = AttemptQuery(since=begin, until=until, job=job, limit=MAX_ATTEMPTS, has_steps=True)
        page = ask(address(), ListAttempts(query), ANSWER_S)
        for one in reversed(page.attempts):
            found.setdefault((one.namespace, one.job, one.submitted), []).append(one)
        steps += page.steps
    return {name: PastJob(attempts) for name, attempts in found.items()}, by_job(steps)


def cpu_time(cpus: float, seconds: float) -> tuple[str, str]:
    """Return the held CPU time as [D-]HH:MM:SS and in seconds."""
    return length(cpus * seconds), str(int(cpus * seconds))


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f}M" if size else "0"
