"""Prints the output of jobs' members as it grows."""

from __future__ import annotations

import json as json_module
import os
import select
import stat
import sys
import time
from collections.abc import Collection

import msgspec

from phalanx.cli.reach import FAILED, NOT_FOUND, ask, fail
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.member_logs import MAY_BE_LOST
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import GetJob, ListJobs, LogPart, ReadJobLog
from phalanx.runtime.os.polling import wait_for

_FOLLOW_S = 0.1
TIMED_OUT = 124
"""The exit code of a command whose job ran out of time."""
_BEAT_S = 10.0
"""While the reader of the output reads nothing, the command tells the nodes every this many seconds
that it is still alive.
"""
_PARTS = 8
"""The number of parts of one member's output that are printed before another member's output is
printed.
"""
_LONGEST_LINE = 1 << 20
"""The most bytes of a line with a label; a longer line is split."""
_STEP_BYTES = 1 << 20
"""The number of bytes that are read at a time to find the last lines, backwards from the end."""


def code_of(job: JobDescription) -> int:
    """Return the exit code for an ended job: 0 if it completed, 124 if its time limit or deadline
    has passed, otherwise that of the first member that failed, or 1 if no member failed.
    """
    if job.state == st.COMPLETED:
        return 0
    if job.state in st.OUT_OF_TIME:
        return TIMED_OUT
    return next((m.exit_code for m in job.members if m.exit_code), FAILED)


def job_and_member(address: str | None, name: str) -> tuple[str, str]:
    """Return the job and the member that JOB.MEMBER names. For JOB alone, the member is "", which
    means all members.
    """
    if "]." in name:
        job, _, member = name.rpartition(".")
        return job, member
    if "." in name:
        known = {f"{row.namespace}/{row.name}" for row in ask(address, ListJobs())}
        return _split(name, known)
    return name, ""


def _split(name: str, known: Collection[str]) -> tuple[str, str]:
    """Split a name into the job and the member ("" for all members). `known` has namespace/name of
    jobs. Names of jobs may have dots; names of members have none.
    """
    full = name if "/" in name else f"default/{name}"
    above, _, member = name.rpartition(".")
    if full in known or full.rpartition(".")[0] not in known:
        return name, ""
    return above, member


def follow(shown: JobOutput) -> JobDescription:
    """Print output until the job is over, and return the job. Nothing is printed for an array that
    `phalanx run` started.
    """
    while True:
        found = shown.go_on()
        if found.state in st.SETTLED:
            return shown.go_on(is_last=True)
        if shown.is_at_end:
            time.sleep(_FOLLOW_S)


class _Reading(msgspec.Struct):
    """How far a member's output was printed."""

    attempt: int
    """The attempt of the member whose output is being printed. The first attempt is 0."""
    offset: int
    partial: list[bytes] = []
    """The beginning of a line whose end has not been read yet."""
    is_gone: bool = False
    """Whether a note that the log is gone was printed."""


class JobOutput:
    """Prints the output of a job's members, and remembers how far each member's output was printed.
    The output of a single member is printed byte for byte. With several members, or as JSON, output
    is printed in lines. All notes go to standard error.
    """

    def __init__(
        self,
        address: str | None,
        job: str,
        member: str | None,
        *,
        is_previous: bool = False,
        is_run: bool = False,
        is_quiet: bool = False,
        tail: int | None = None,
        as_json: bool = False,
        is_preparing: bool = False,
    ) -> None:
        """`is_previous`: print the attempt before the last one. `is_run`: this command runs the
        job, prints all attempts, and makes members wait for the reader of its output. Unless
        `is_quiet`, it says that the job was preempted. `tail`: the number of last lines of each
        member to begin with. `as_json`: print each line as an object. `is_preparing`: print the
        logs of the preparation of environments instead.
        """
        self._address = address
        self._job = job
        self._member = member
        self._last = -2 if is_previous else -1
        self._is_run = is_run
        self._tells_preemption = is_run and not is_quiet
        self._preempted = 0
        """How often members of the job were preempted, as far as a note says so."""
        self._tail = tail
        self._as_json = as_json
        self._is_preparing = is_preparing
        self._readings: dict[str, _Reading] = {}
        self._uid = job
        self.is_at_end = True
        """Whether all output that the members had at the last request was printed."""
        self._told: set[str] = set()
        """The members about whose lost output a note was printed."""

    @property
    def is_lost(self) -> bool:
        """Whether no output could be read, because the files of all members are gone."""
        readings = self._readings.values()
        return bool(readings) and not self._is_preparing and all(one.is_gone for one in readings)

    def go_on(self, is_last: bool = False) -> JobDescription:
        """Print new output. Returns the job. `is_last`: print all remaining output."""
        found = ask(self._address, GetJob(self._job))
        self.is_at_end = True
        self._tell_preemption(found)
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
        self._uid = f"{found.namespace}/{found.name}"
        is_alone = len(found.members) == 1
        for member in chosen:
            until = len(member.logs) + self._last
            if until < 0:
                continue
            reading = self._readings.get(member.name)
            if reading is None:
                attempt = 0 if self._is_run else until
                begin = self._beginning(self._uid, member.name, attempt)
                reading = self._readings[member.name] = _Reading(attempt, begin)
            self._print_new(member.name, reading, until, is_alone, is_last)
            if MAY_BE_LOST in member.reason and member.name not in self._told:
                self._told.add(member.name)
                sys.stdout.flush()
                print(f"{member.name}: {member.reason}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        return found

    def _tell_preemption(self, job: JobDescription) -> None:
        """Say that the job lost its places to other work, and starts again."""
        is_new, self._preempted = job.preempted > self._preempted, job.preempted
        if is_new and self._tells_preemption and job.state not in st.SETTLED:
            self._note(
                f"job {job.name} was preempted: other work got its places; it starts again from "
                "its beginning once there is room"
            )

    def _print_new(
        self, member: str, reading: _Reading, until: int, is_alone: bool, is_last: bool
    ) -> None:
        """Print a member's new output, up to the output of attempt `until`."""
        parts = 0
        while True:
            is_at_end = self._print_part(member, reading, is_alone)
            parts += 1
            if not is_at_end:
                if parts >= _PARTS and not is_last:
                    self.is_at_end = False  # the other members come first
                    return
            elif reading.attempt < until:
                self._finish_line(member, reading)
                reading.attempt, reading.offset = reading.attempt + 1, 0
            else:
                if is_last:
                    self._finish_line(member, reading)
                return

    def _print_part(self, member: str, reading: _Reading, is_alone: bool) -> bool:
        """Print the next part of a log. Returns whether this part was the last."""
        part = ask(
            self._address,
            ReadJobLog(
                self._uid,
                member,
                reading.attempt,
                reading.offset,
                is_followed=self._is_run,
                is_preparing=self._is_preparing,
            ),
        )
        if part.size < 0 and not reading.is_gone:
            reading.is_gone = True
            if self._is_preparing:
                self._note(f"there is no log of a preparation of {member}")
                return True
            self._note(f"the output of {member} cannot be read: its node or its file is gone")
        if part.skipped:
            self._note(f"{part.skipped} bytes of older output of {member} were dropped")
            reading.offset += part.skipped
        if part.data:
            self._print(member, reading, part.data, is_alone)
            reading.offset += len(part.data)
        return reading.offset >= part.size or not (part.data or part.skipped)

    def _note(self, text: str) -> None:
        sys.stdout.flush()
        say(f"phalanx: {text}", err=True)

    def _beginning(self, job: str, member: str, attempt: int) -> int:
        """Return the offset of the first of the requested last lines."""
        if self._tail is None:
            return 0
        end = size = max(
            self._ask(
                ReadJobLog(job, member, attempt, 1 << 62, is_preparing=self._is_preparing)
            ).size,
            0,
        )
        missing = self._tail + 1  # one more: the end of the line before the wanted lines
        while end > 0:
            begin = max(end - _STEP_BYTES, 0)
            part = self._ask(
                ReadJobLog(job, member, attempt, begin, is_preparing=self._is_preparing)
            )
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

    def _ask(self, request: ReadJobLog) -> LogPart:
        return ask(self._address, request)

    # ---- printing ----------------------------------------------------------------------------

    def _print(self, member: str, reading: _Reading, data: bytes, is_alone: bool) -> None:
        """Print output unchanged, or in whole lines. An unfinished line is kept until the rest
        arrives.
        """
        if is_alone and not self._as_json:
            self._write(data)
            return
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            lines = b"".join((*reading.partial, whole)).split(b"\n")
            reading.partial = []
            self._write(b"".join(self._line(member, one) for one in lines))
        if rest:
            reading.partial = [*reading.partial, rest]
        if sum(map(len, reading.partial)) > _LONGEST_LINE:
            self._finish_line(member, reading)

    def _finish_line(self, member: str, reading: _Reading) -> None:
        """Print an unfinished line, because the rest will never arrive."""
        if reading.partial:
            line = b"".join(reading.partial)
            reading.partial = []
            self._write(self._line(member, line))

    def _line(self, member: str, line: bytes) -> bytes:
        if self._as_json:
            text = line.decode(errors="replace")
            return json_module.dumps({"member": member, "text": text}).encode() + b"\n"
        return f"{member} | ".encode() + line + b"\n"

    def _write(self, data: bytes) -> None:
        """Write to standard output. While the reader does not read, report to the members' nodes
        that this command is still alive. A pager may read nothing for a long time. Without these
        reports, the nodes would regard this command as ended, and drop output.
        """
        if not self._is_run:
            sys.stdout.buffer.write(data)
            return
        sys.stdout.flush()
        fd = sys.stdout.fileno()
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        left = memoryview(data)
        while left:
            if not is_file and not wait_for(fd, select.POLLOUT, _BEAT_S):
                self._beat()
                continue
            # a pipe that is ready takes this many bytes without waiting
            left = left[os.write(fd, left if is_file else left[: select.PIPE_BUF]) :]

    def _beat(self) -> None:
        for member, reading in self._readings.items():
            about = (self._uid, member, reading.attempt, reading.offset)
            self._ask(ReadJobLog(*about, limit=0, is_followed=True))
