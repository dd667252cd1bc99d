"""The output of jobs' members, as it grows."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Collection

from phalanx.cli.reach import FAILED, NOT_FOUND, ask, fail
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import GetJob, ListJobs, LogPart, ReadJobLog

_FOLLOW_S = 0.1
TIMED_OUT = 124
"""Exit code of a command whose job ran out of time."""
_STEP_BYTES = 1 << 20
"""Bytes that are read at a time, from the end backwards, to find the last lines."""


def code_of(job: JobDescription) -> int:
    """Return the exit code of the first member that failed, else that of the job.

    A job whose time limit or deadline has passed gives 124.
    """
    if job.state == st.COMPLETED:
        return 0
    if job.state in st.OUT_OF_TIME:
        return TIMED_OUT
    return next((m.exit_code for m in job.members if m.exit_code), FAILED)


def job_and_member(address: str | None, name: str) -> tuple[str, str]:
    """Return the job and the member that JOB or JOB.MEMBER names; "" for all members."""
    if "]." in name:
        job, _, member = name.rpartition(".")
        return job, member
    if "." in name:
        known = {f"{row.namespace}/{row.name}" for row in ask(address, ListJobs())}
        return _split(name, known)
    return name, ""


def _split(name: str, known: Collection[str]) -> tuple[str, str]:
    """Return the job and the member ("" for all) of a name; `known` has namespace/name of jobs.

    Names of jobs may have dots; names of members have none.
    """
    full = name if "/" in name else f"default/{name}"
    above, _, member = name.rpartition(".")
    if full in known or full.rpartition(".")[0] not in known:
        return name, ""
    return above, member


def follow(shown: JobOutput) -> JobDescription:
    """Print output until the job is over; return the job.

    For an array that `phalanx run` started, nothing is printed.
    """
    while True:
        found = shown.go_on()
        if found.state in st.SETTLED:
            return shown.go_on(is_last=True)
        time.sleep(_FOLLOW_S)


class JobOutput:
    """Prints the output of a job's members, and remembers how far each was printed."""

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
        """Print nothing yet.

        `is_previous`: print the attempt before the last one. `is_run`: this command runs the job.
        `tail`: the number of last lines of each member to begin with. `as_json`: print each line as
        an object.
        """
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
        """Print new output; return the job."""
        from phalanx.api.jobs import read_log

        found = ask(self._address, GetJob(self._job))
        if found.array and self._member is None and self._is_run:
            return found  # its array tasks have their own output
        if found.array:
            fail(
                f"Job {self._job} is an array: name an array task, such as '{self._job}[7]'.",
                NOT_FOUND,
            )
        if not found.members:
            return found  # the job has not begun
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
        """Return the offset at which the wanted last lines begin."""
        if self._tail is None:
            return 0
        end = size = max(self._ask(ReadJobLog(job, member, attempt, 1 << 62)).size, 0)
        missing = self._tail + 1  # one more: the end of the line before the wanted lines
        while end > 0:
            begin = max(end - _STEP_BYTES, 0)
            part = self._ask(ReadJobLog(job, member, attempt, begin))
            data = part.data[: max(end - begin - part.skipped, 0)]
            if end == size and data and not data.endswith(b"\n"):
                missing -= 1  # an unfinished last line counts as a line
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
        """Print whole lines; keep an unfinished line until its end comes."""
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
