"""Jobs of the history as `sacct` shows them: all attempts of a job are one row."""

from __future__ import annotations

import time
from collections.abc import Sequence

from phalanx.cli.accounting_view import length
from phalanx.cli.history import ANSWER_S, uid_of
from phalanx.cli.periods import past_moment
from phalanx.cli.reach import RAY, ask
from phalanx.cli.slurm.usage import address
from phalanx.compat.slurm.states import JOB, clock, elapsed
from phalanx.model import attempts as at
from phalanx.model.attempts import Attempt
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import split_element
from phalanx.observe.accounting.efficiency import Efficiency, efficiency
from phalanx.observe.accounting.questions import MAX_ATTEMPTS, AttemptQuery
from phalanx.protocol.requests.accounting import ListAttempts

_SIGNALLED = 128
_STATES = {
    at.PREEMPTED: ("PREEMPTED", st.FAILED),
    at.NODE_LOST: ("NODE_FAIL", st.FAILED),
    at.RESTARTED: ("REQUEUED", st.FAILED),
    st.ABORTED: ("SUSPENDED", st.ABORTED),
}
"""Slurm's name, and the state of jobs that it is listed with, where it is no state of jobs."""


class PastJob:
    """One job of the history."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        """`attempts`: all that are known of it, at least one."""
        self._attempts = attempts
        self._last = max(attempts, key=lambda one: one.ended)
        self._sum: Efficiency = efficiency(attempts)
        self.state = _STATES.get(self._sum.state, ("", self._sum.state))[1]

    def is_named(self, ids: Sequence[str], name: str | None) -> bool:
        """Whether it is one of these ids (any, if none are given), and has one of these names."""
        wanted = {one.partition(".")[0] for one in ids}
        own = self._id()
        is_it = not ids or own in wanted or own.partition("_")[0] in wanted
        return is_it and (not name or self._name in name.split(","))

    def row(self) -> dict[str, str]:
        """Its fields; of several attempts the time from the first start to the last end."""
        last, whole = self._last, self._sum
        long = _STATES.get(whole.state, JOB.get(whole.state, (whole.state.upper(), "")))[0]
        code = whole.exit_code or 0
        nodes = list(dict.fromkeys(one.node for one in self._attempts if one.node))
        started = min(one.started for one in self._attempts)
        cputime, cpuseconds = cpu_time(whole.cpus, whole.elapsed_s)
        return {
            "id": self._id(),
            "partition": last.queue,
            "name": self._name,
            "user": last.user,
            "state": long,
            "elapsed": length(whole.elapsed_s),
            "seconds": str(int(whole.elapsed_s)),
            "limit": elapsed(None, "Unknown"),
            "nodes": str(len(nodes)),
            "nodelist": ",".join(nodes),
            "cpus": f"{whole.cpus:g}",
            "tasks": str(len({one.member for one in self._attempts})),
            "reason": last.reason or "None",
            "submit": clock(last.submitted),
            "start": clock(started),
            "end": clock(last.ended),
            "code": f"0:{code - _SIGNALLED}" if code > _SIGNALLED else f"{code}:0",
            "restarts": str(max(one.attempt for one in self._attempts) - 1),
            "cputime": cputime,
            "cpuseconds": cpuseconds,
            **self.used(),
        }

    def used(self) -> dict[str, str]:
        """The fields that tell what was asked for and used."""
        whole = self._sum
        asked = [f"cpu={whole.cpus:g}", f"mem={_mib(whole.memory)}"]
        asked += [f"gres/gpu={whole.gpus:g}"] if whole.gpus else []
        return {
            "totalcpu": length(whole.cpu_s),
            "reqmem": _mib(whole.memory),
            "tres": ",".join([*asked, f"node={max(whole.nodes, 1)}"]),
        }

    def batch(self, row: dict[str, str]) -> dict[str, str]:
        """The row of its one step: all that its members ran."""
        most = self._sum.memory_max
        means = [one.used.memory_mean for one in self._attempts if one.used and one.used.samples]
        kept = ("state", "elapsed", "seconds", "nodes", "nodelist", "cpus", "tasks", "submit",
                "start", "end", "code", "cputime", "cpuseconds", "totalcpu", "tres")  # fmt: skip
        return {
            **{name: row.get(name, "") for name in kept},
            "id": f"{row['id']}.batch",
            "name": "batch",
            "maxrss": "" if most is None else f"{most / 1024:.0f}K",
            "averss": f"{sum(means) / len(means) / 1024:.0f}K" if means else "",
        }

    def json(self, row: dict[str, str]) -> dict[str, object]:
        """The fields of Slurm's JSON that are known of it."""
        code, _, signal = row["code"].partition(":")
        return {
            "job_id": int(row["id"]) if row["id"].isdecimal() else row["id"],
            "name": row["name"],
            "partition": row["partition"],
            "user_name": row["user"],
            "job_state": [row["state"]],
            "nodes": row["nodelist"],
            "exit_code": {
                "return_code": _number(int(code)),
                "signal": {"id": _number(int(signal))},
            },
            "submit_time": _number(int(self._last.submitted)),
            "start_time": _number(int(min(one.started for one in self._attempts))),
            "end_time": _number(int(self._last.ended)),
        }

    @property
    def _name(self) -> str:
        return self._last.title or self._last.job

    def _id(self) -> str:
        element = split_element(self._last.job)
        return self._last.job if element is None else "_".join(element)


Name = tuple[str, str, float]
"""A job's namespace, its name and when it was submitted: names are given again."""


def past_jobs(since: float | None, until: float | None, ids: Sequence[str]) -> dict[Name, PastJob]:
    """Those whose attempts ended in that time, oldest first. Without a beginning and ids: today."""
    if (address() or "").startswith(RAY):
        return {}  # its scheduler keeps no history
    begin = since or 0.0
    if since is None and not ids:
        begin = past_moment("today", time.time())
    names = sorted({one.partition("_")[0].partition(".")[0] for one in ids})
    questions = [uid_of(name) for name in names] or [""]
    found: dict[Name, list[Attempt]] = {}
    for job in questions:
        query = AttemptQuery(since=begin, until=until, job=job, limit=MAX_ATTEMPTS)
        for one in reversed(ask(address(), ListAttempts(query), ANSWER_S).attempts):
            found.setdefault((one.namespace, one.job, one.submitted), []).append(one)
    return {name: PastJob(attempts) for name, attempts in found.items()}


def cpu_time(cpus: float, seconds: float) -> tuple[str, str]:
    """What is held of CPUs, as [D-]HH:MM:SS and in seconds."""
    return length(cpus * seconds), str(int(cpus * seconds))


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f}M"


def _number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}
