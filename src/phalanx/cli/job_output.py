"""What members of jobs have printed, as it comes."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Collection

from phalanx.api.jobs import SETTLED, read_log
from phalanx.cli.reach import NOT_FOUND, ask, fail
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import GetJob, ListJobs, LogPart, ReadJobLog

_FOLLOW_S = 0.1
_STEP_BYTES = 1 << 20
"""So much is looked at at a time for the last lines."""


def job_and_member(address: str | None, name: str) -> tuple[str, str]:
    """The job that JOB or JOB.MEMBER names, and the member ("" for all)."""
    if "]." in name:
        job, _, member = name.rpartition(".")
        return job, member
    if "." in name:
        known = {f"{row.namespace}/{row.name}" for row in ask(address, ListJobs())}
        return _split(name, known)
    return name, ""


def _split(name: str, known: Collection[str]) -> tuple[str, str]:
    """The job that JOB or JOB.MEMBER means, and the member ("" for all), where these jobs are known
    (namespace/name). Names of jobs may have dots; names of members have none."""
    full = name if "/" in name else f"default/{name}"
    above, _, member = name.rpartition(".")
    if full in known or full.rpartition(".")[0] not in known:
        return name, ""
    return above, member


def follow(shown: JobOutput) -> JobDescription:
    """Print what comes until the job is over; the job. Of an array that is run nothing comes."""
    while True:
        found = shown.go_on()
        if found.state in SETTLED:
            return shown.go_on(is_last=True)
        time.sleep(_FOLLOW_S)


class JobOutput:
    """What was printed of the output of a job's members so far."""

    def __init__(
        self,
        address: str | None,
        job: str,
        member: str | None,
        *,
        is_previous: bool = False,
        is_run: bool = False,
        tail: int | None = None,
        as_json: bool = False,
    ) -> None:
        """`is_previous`: of the start before the last one. `is_run`: the job is run by this
        command. `tail`: so many lines of each member, and what comes behind them. `as_json`: each
        line is an object."""
        self._address = address
        self._job = job
        self._member = member
        self._attempt = -2 if is_previous else -1
        self._is_run = is_run
        self._tail = tail
        self._as_json = as_json
        self._read: dict[tuple[str, int], int] = {}
        self._partial: dict[str, list[bytes]] = {}

    def go_on(self, is_last: bool = False) -> JobDescription:
        """Print what is new; the job."""
        found = ask(self._address, GetJob(self._job))
        if found.array and self._member is None and self._is_run:
            return found  # its elements have their output
        if found.array:
            fail(f"Job {self._job} is an array: name an element, as '{self._job}[7]'.", NOT_FOUND)
        if not found.members:
            return found  # it has not begun
        chosen = [m for m in found.members if self._member in (None, m.name)]
        if not chosen:
            there = ", ".join(m.name for m in found.members)
            fail(f"Job {self._job} has no member {self._member!r}; it has {there}.", NOT_FOUND)
        uid = f"{found.namespace}/{found.name}"
        for member in chosen:
            starts = len(member.logs)
            attempt = starts + self._attempt
            if attempt < 0:
                continue
            key = (member.name, attempt)
            if key not in self._read:
                self._read[key] = self._beginning(uid, member.name, attempt)
            is_alone = len(found.members) == 1
            for data, end in read_log(self._ask, uid, member.name, attempt, self._read[key]):
                self._read[key] = end
                self._print(member.name, data, is_alone)
            if is_last and self._partial.get(member.name):
                self._print(member.name, b"\n", is_alone)
        sys.stdout.flush()
        return found

    def _ask(self, request: ReadJobLog) -> LogPart:
        return ask(self._address, request)

    def _beginning(self, job: str, member: str, attempt: int) -> int:
        """Where the last lines begin that are wanted."""
        if self._tail is None:
            return 0
        end = size = max(self._ask(ReadJobLog(job, member, attempt, 1 << 62)).size, 0)
        missing = self._tail + 1  # the end of the line before them
        while end > 0:
            begin = max(end - _STEP_BYTES, 0)
            part = self._ask(ReadJobLog(job, member, attempt, begin))
            data = part.data[: max(end - begin - part.skipped, 0)]
            if end == size and data and not data.endswith(b"\n"):
                missing -= 1  # the last line is not whole yet, and counts
            while missing and (at := data.rfind(b"\n")) >= 0:
                missing -= 1
                if not missing:
                    return begin + part.skipped + at + 1
                data = data[:at]
            if part.skipped:
                return begin + part.skipped
            end = begin
        return 0

    def _print(self, member: str, data: bytes, is_alone: bool) -> None:
        """Print whole lines; the rest waits for its end."""
        partial = self._partial.setdefault(member, [])
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            lines = b"".join((*partial, whole)).split(b"\n")
            partial.clear()
            sys.stdout.buffer.write(b"".join(self._line(member, one, is_alone) for one in lines))
        if rest:
            partial.append(rest)

    def _line(self, member: str, line: bytes, is_alone: bool) -> bytes:
        if self._as_json:
            text = line.decode(errors="replace")
            return json_module.dumps({"member": member, "text": text}).encode() + b"\n"
        return line + b"\n" if is_alone else f"{member} | ".encode() + line + b"\n"
