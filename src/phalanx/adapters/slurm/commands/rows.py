"""The rows of the cluster's jobs in Slurm's listings."""

from __future__ import annotations

import math
import os
import pwd
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from phalanx.adapters.slurm.commands.hostlists import name_of
from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.commands.users import account_of, group_name
from phalanx.adapters.slurm.marks import CLUSTER, NOTE
from phalanx.adapters.slurm.options import OptionError, parts
from phalanx.adapters.slurm.reasons import (
    NEVER_KNOWN,
    dependency_text,
    ended_reason,
    waiting_reason,
)
from phalanx.adapters.slurm.script import file_name
from phalanx.adapters.slurm.states import (
    JOB,
    OUT_OF_MEMORY,
    OUT_OF_MEMORY_CODE,
    code_of,
    elapsed,
    state_of,
)
from phalanx.cli.reach import ask
from phalanx.cli.times import clock, length
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import split_element
from phalanx.model.rows.cluster import NodeInfo, current_nodes
from phalanx.model.rows.work import JobDescription, JobInfo
from phalanx.protocol.requests.jobs import GetJob, ListJobs
from phalanx.runtime.os.accounts import user_name

PLACES = frozenset({"where", "nodelist", "nodes", "batchhost", "tres"})
"""The fields whose values depend on a job's places."""
_MULTIFACTOR = "multifactor"
"""The plugin that computes one number for each job, and orders jobs by it."""
_WITH_REASON = (st.FAILED, st.TIMED_OUT, st.DEADLINE)
"""The states of finished jobs for which a listing shows the reason instead of the nodes."""
_SIGTERM = 15
_BY_TERM = (st.TERMINATED, st.TIMED_OUT)
"""The states of jobs whose members were ended by SIGTERM."""


def jobs_wanted(ids: Sequence[str], name: str | None) -> list[JobInfo]:
    """Return the jobs with these ids and this name; without ids or name, all jobs. Parts such as
    `.batch` of ids are ignored.
    """
    wanted = {one.partition("_")[0].partition(".")[0] for one in ids}
    rows = ask(address(), ListJobs())
    rows = [row for row in rows if not ids or row.name in wanted]
    names = set(parts(name or ""))
    return [row for row in rows if not names or job_name(row) in names]


def ids_in(asked: Mapping[str, str]) -> list[str]:
    """Return the ids of the option --jobs; an empty list without the option. Raises OptionError for
    an empty list.
    """
    ids = parts(asked.get("jobs", ""))
    if "jobs" in asked and not ids:
        raise OptionError(f"--jobs={asked['jobs']}: Invalid job id specified")
    return ids


def job_name(row: JobInfo) -> str:
    """Return the name under which a job was submitted."""
    return row.annotations.get(f"{NOTE}name", row.name)


def user_of(row: JobInfo) -> str:
    """Return the owner of a job: the user that the head knows, or else the user in the job's note,
    which its submitter wrote, or else this user.
    """
    return row.user or row.annotations.get(f"{NOTE}user") or user_name()


T = TypeVar("T")


class Once(Generic[T]):
    """An attribute that is computed when it is first read. functools.cached_property is not used,
    because it takes a lock before Python 3.12, and queues may be long.
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, one: Any, owner: type) -> T:
        found = one.__dict__[self._name] = self._find(one)
        return found


class _One:
    """A job in a listing. Values that several fields need are computed once."""

    def __init__(self, job: JobInfo, shown: Shown, now: float) -> None:
        self.job = job
        self.shown = shown
        self.now = now

    @Once
    def notes(self) -> dict[str, str]:
        return {key.removeprefix(NOTE): v for key, v in self.job.annotations.items()}

    @Once
    def element(self) -> tuple[str, str]:
        return split_element(self.job.name) or (self.job.name, "N/A")

    @Once
    def state(self) -> str:
        """The job's state as Slurm tells states apart."""
        is_failed = self.job.state == st.FAILED  # only then is the reason read, if it is known
        return state_of(st.FAILED, self.job.reason) if is_failed else self.job.state

    @Once
    def is_waiting(self) -> bool:
        return self.job.state == st.PENDING

    @Once
    def places(self) -> tuple[str, str]:
        """The hosts of the job, and the number of its nodes, if the listing needs them."""
        if self.is_waiting:
            return "", str(self.least_nodes)
        if not self.shown.needs_places:
            return "", str(self.job.replicas)
        return self.shown.places(self.job)

    @Once
    def priority(self) -> int:
        """Slurm's priority of the job: 0 if it is held, and otherwise at least 1."""
        if self.job.is_held:
            return 0
        own, totals = self.job.priority, self.shown.totals if self.is_waiting else {}
        return max(int(totals.get(self.job.name, totals.get(self.element[0], own))), 1)

    @Once
    def least_nodes(self) -> int:
        """The least number of nodes that the waiting job needs, in Slurm's form."""
        members = self.job.replicas
        if members <= 1 or "apart" in self.notes or not self.cpus.isdecimal():
            return members
        return min(members, math.ceil(int(self.cpus) / self.shown.most_cpus))

    @Once
    def code(self) -> str:
        return self.shown.exit_code(self.job)

    @Once
    def reason(self) -> str:
        if self.is_waiting:
            return waiting_reason(self.job, self.now, self.shown.code(self.job))
        if self.job.state not in st.FINISHED or self.job.state == st.COMPLETED:
            return NEVER_KNOWN
        return ended_reason(self.state, not self.code.endswith(":0"))

    @Once
    def where(self) -> str:
        has_reason = self.is_waiting or self.job.state in _WITH_REASON
        return f"({self.reason})" if has_reason else self.places[0]

    @Once
    def start(self) -> float | None:
        job = self.job
        if self.is_waiting:  # the job may have run before
            expected = job.expected_start
            begins = job.begins if job.begins is not None and job.begins > self.now else None
            return begins if expected is None else expected.at_s
        if job.restarts and job.finished is None:
            return self.now - job.ran_s
        return job.started

    @Once
    def eligible(self) -> float | None:
        return self.job.queued

    @Once
    def end(self) -> float | None:
        job = self.job
        if self.is_waiting and self.start is not None and job.time_limit_s:
            return self.start + job.time_limit_s
        return job.finished if job.finished is not None else job.ends

    @property
    def no_end(self) -> str:
        """Slurm's word for the end of a job with a known start but no time limit; "" for other
        jobs.
        """
        has_start = self.job.state == st.RUNNING or (self.is_waiting and self.start is not None)
        return "NONE" if has_start and not self.job.time_limit_s else ""

    @Once
    def account(self) -> pwd.struct_passwd | None:
        return account_of(user_of(self.job))

    def file(self, option: str, otherwise: str) -> str:
        """Return the path of a file of the batch script; "" for a job without such a file."""
        if "script" not in self.notes:
            return ""
        array, index = self.element
        values = {
            "A": array, "j": array, "J": array, "a": index if index.isdecimal() else "4294967294",
            "x": job_name(self.job), "u": user_of(self.job), "b": "4294967294", "n": "0", "t": "0",
            "s": "batch", "N": self.places[0].partition(",")[0],
        }  # fmt: skip
        if index.isdecimal():
            values["j"] = values["J"] = f"{array}_{index}"
        name = file_name(self.notes.get(option, otherwise), values)
        return os.path.join(self.notes.get("directory", ""), name)

    @Once
    def stdout(self) -> str:
        is_array = self.job.array or self.element[1] != "N/A"
        return self.file("output", "slurm-%A_%a.out" if is_array else "slurm-%j.out")

    @Once
    def memory(self) -> str:
        each = self.notes.get("mem-per-cpu", "")
        if each.isdecimal():
            return f"{each}M"
        return each or (f"{self.notes['memory']}M" if "memory" in self.notes else "")

    @Once
    def tres(self) -> str:
        cpus, members = self.cpus, self.job.replicas
        memory, gpus = self.notes.get("memory", ""), self.notes.get("gpus", "")
        parts = [f"cpu={cpus}"]
        parts += [f"mem={int(memory) * members}M"] if memory.isdecimal() else []
        parts += [f"node={self.places[1]}", f"billing={cpus}"]
        parts += [f"gres/gpu={float(gpus) * members:g}"] if gpus else []
        return ",".join(parts)

    @Once
    def cpus(self) -> str:
        return self.notes.get("cpus", str(self.job.replicas))

    @Once
    def nodes(self) -> str:
        return self.places[1]


_FIELDS: dict[str, Callable[[_One], str]] = {
    "id": lambda one: _row_id(one.job.name),
    "array": lambda one: one.element[0],
    "index": lambda one: one.element[1],
    "partition": lambda one: one.job.queue,
    "name": lambda one: job_name(one.job),
    "user": lambda one: user_of(one.job),
    "uid": lambda one: str(one.account.pw_uid) if one.account else "",
    "gid": lambda one: str(one.account.pw_gid) if one.account else "",
    "group": lambda one: group_name(one.account.pw_gid) if one.account else "",
    "account": lambda one: one.notes.get("account", ""),
    "comment": lambda one: one.notes.get("comment", ""),
    "wckey": lambda one: one.notes.get("wckey", ""),
    "qos": lambda one: one.notes.get("qos", ""),
    "nice": lambda one: one.notes.get("nice", ""),
    "features": lambda one: one.notes.get("constraint", ""),
    "wanted_nodes": lambda one: one.notes.get("nodelist", ""),
    "unwanted_nodes": lambda one: one.notes.get("exclude", ""),
    "command": lambda one: one.notes.get("command", ""),
    "submit_line": lambda one: one.notes.get("line", ""),
    "directory": lambda one: one.notes.get("directory", ""),
    "mail": lambda one: one.notes.get("mail-user", ""),
    "cluster": lambda _: CLUSTER,
    "state": lambda one: JOB[one.state][0],
    "short": lambda one: JOB[one.state][1],
    "time": lambda one: elapsed(one.job.ran_s),
    "elapsed": lambda one: length(one.job.ran_s),
    "seconds": lambda one: str(int(one.job.ran_s)),
    "limit": lambda one: elapsed(one.job.time_limit_s),
    "timelimit": lambda one: length(one.job.time_limit_s) if one.job.time_limit_s else "UNLIMITED",
    "timelimit_raw": lambda one: (
        str(math.ceil(one.job.time_limit_s / 60)) if one.job.time_limit_s else "UNLIMITED"
    ),
    "left": lambda one: elapsed(
        None if one.job.time_limit_s is None else one.job.time_limit_s - one.job.ran_s
    ),
    "nodes": lambda one: one.nodes,
    "nodelist": lambda one: one.places[0],
    "batchhost": lambda one: one.places[0].partition(",")[0],
    "batchflag": lambda one: str(int("script" in one.notes)),
    "cpus": lambda one: one.cpus,
    "mincpus": lambda one: str(int(one.cpus) // max(one.job.replicas, 1)),
    "cpus_task": lambda one: one.notes.get("cpus-per-task", ""),
    "tasks": lambda one: one.notes.get("tasks", str(one.job.replicas)),
    "tasks_node": lambda one: one.notes.get("ntasks-per-node", ""),
    "memory": lambda one: one.memory,
    "tres": lambda one: one.tres,
    "tres_node": lambda one: f"gres:gpu:{one.notes['gpus']}" if "gpus" in one.notes else "",
    "reservation": lambda one: one.job.reservation,
    "licenses": lambda one: ",".join(f"{name}:{n}" for name, n in one.job.licenses.items()),
    "reason": lambda one: one.reason,
    "dependency": lambda one: dependency_text(one.job, one.reason),
    "where": lambda one: one.where,
    "priority": lambda one: str(one.priority),
    "fraction": lambda one: f"{one.priority / 2**32:.14f}",
    "submit": lambda one: clock(one.job.submitted),
    "eligible": lambda one: clock(one.eligible, ""),
    "start": lambda one: clock(one.start, "N/A" if one.is_waiting else "Unknown"),
    "end": lambda one: clock(one.end, one.no_end),
    "deadline": lambda one: clock(one.job.deadline, ""),
    "waited": lambda one: str(int((one.job.started or one.now) - one.job.submitted)),
    "code": lambda one: one.code,
    "returned": lambda one: one.code.partition(":")[0],
    "restarts": lambda one: str(one.job.restarts),
    "stdout": lambda one: one.stdout,
    "stderr": lambda one: (
        one.file("error", "") if "error" in one.notes else one.stdout
    ),
    "stdin": lambda one: one.file("input", "/dev/null"),
}  # fmt: skip
"""The functions that compute a row's fields. Only the shown fields are computed, because queues may
be long.
"""


def shown_fields(fields: Collection[str]) -> list[str]:
    """Return those fields of columns that rows of jobs have."""
    return [one for one in fields if one in _FIELDS]


class Shown:
    """Makes rows of jobs. The head is asked for a job's places only if a row needs them."""

    def __init__(
        self, fields: Collection[str] | None = None, needs_places: bool | None = None
    ) -> None:
        """`fields`: the fields to show; None for all fields. `needs_places`: whether to ask the
        head where each job runs; None: only if a field needs it.
        """
        self.fields = list(_FIELDS) if fields is None else shown_fields(fields)
        found = fields is None or not PLACES.isdisjoint(fields)
        self.needs_places = found if needs_places is None else needs_places
        self._totals: Mapping[str, float] | None = None
        self._nodes: list[NodeInfo] | None = None
        self._codes: dict[str, str] | None = None
        self._hosts: dict[str, str] = {}
        self._now = time.time()

    @property
    def nodes(self) -> list[NodeInfo]:
        """The nodes of the cluster, for which the head is asked once."""
        if self._nodes is None:
            from phalanx.protocol.requests.cluster import ListNodes

            self._nodes = ask(address(), ListNodes())
        return self._nodes

    @property
    def totals(self) -> Mapping[str, float]:
        """The priorities that the plugin `multifactor` computes, by job; empty if another plugin
        decides the order.
        """
        if self._totals is None:
            from phalanx.protocol.requests.gangs import GetRules

            self._totals = {}
            if _MULTIFACTOR in ask(address(), GetRules()).plugins:
                # the scheduler's modules take long to import, and few clusters have these rules
                from phalanx.adapters.slurm.commands.priorities import totals

                self._totals = totals()
        return self._totals

    @property
    def most_cpus(self) -> float:
        """The number of CPUs of the largest node; at least one."""
        return max([1.0, *(row.total.get("CPU", 0.0) for row in current_nodes(self.nodes))])

    def row(self, job: JobInfo) -> dict[str, str]:
        """Return the fields of a job."""
        one = _One(job, self, self._now)
        return {name: _FIELDS[name](one) for name in self.fields}

    def code(self, job: JobInfo) -> str:
        """Return the code of the reason why a job waits; "" if the reason has no code. The head is
        asked once for the codes of all jobs.
        """
        if self._codes is None:
            from phalanx.protocol.requests.news import ListWaiting

            self._codes = {one.reason: one.code for one in ask(address(), ListWaiting())}
        return self._codes.get(job.reason, "")

    def places(self, job: JobInfo) -> tuple[str, str]:
        """Return the hosts of a job and its number of nodes."""
        if not self._hosts:
            self._hosts = {row.node_id: name_of(row) for row in self.nodes}
        found = ask(address(), GetJob(f"{job.namespace}/{job.name}"))
        nodes = dict.fromkeys(member.node for member in found.members if member.node)
        hosts = dict.fromkeys(self._hosts.get(node, node[:8]) for node in nodes)
        return ",".join(hosts), str(len(nodes) or found.replicas)

    def exit_code(self, job: JobInfo) -> str:
        """Return Slurm's CODE:SIGNAL of a job. A failed job has the exit code of its first failed
        member.
        """
        if job.state in _BY_TERM and job.started is not None:
            return f"0:{_SIGTERM}"
        if job.state != st.FAILED:
            return "0:0"
        if state_of(job.state, job.reason) == OUT_OF_MEMORY:
            return OUT_OF_MEMORY_CODE
        found = ask(address(), GetJob(f"{job.namespace}/{job.name}"))
        return code_text(found)


def planned(job: JobInfo, now: float) -> dict[str, str]:
    """Return how long a job has waited, in sacct's form."""
    begun = job.started or job.finished or now
    waited = max(begun - (job.submitted if job.queued is None else job.queued), 0.0)
    cpus = float(job.annotations.get(f"{NOTE}cpus", job.replicas))
    return {
        "planned": length(waited),
        "planned_cpu": length(cpus * waited),
        "planned_cpu_raw": str(int(cpus * waited)),
    }


def accounted_tres(tres: str) -> str:
    """Return TRES in sacct's order."""
    return ",".join(sorted(tres.split(",")))


def _row_id(name: str) -> str:
    """Return the id of a row: 12_7 for one array task, and 12_[3-5%2] for several waiting array
    tasks.
    """
    array, index = split_element(name) or (name, "")
    if not index:
        return name
    return f"{array}_{index}" if index.isdecimal() else f"{array}_[{index}]"


def code_text(job: JobDescription) -> str:
    """Return Slurm's CODE:SIGNAL of a job's first failed member."""
    failed = ((m.exit_code, m.signal) for m in job.members if m.exit_code)
    return code_of(*next(failed, (0, 0)))
