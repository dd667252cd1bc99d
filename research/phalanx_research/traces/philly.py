"""Reads the job log of Microsoft's Philly clusters (philly-traces, cluster_job_log: a JSON
array).
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from phalanx.scheduler.placement.fragmentation.shape import WHOLE
from phalanx_research.traces.fields import text_of
from phalanx_research.traces.records import TraceError, TraceJob

FIELDS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")


def read_jobs(path: Path) -> list[TraceJob]:
    """Return jobs by time of submission, in seconds since the first submission. The virtual cluster
    is the queue. Start and GPUs come from the first attempt that has them, and the end from the
    last attempt; the duration is the sum over attempts. Each machine of an attempt is a member, and
    all members have as many GPUs as the largest. Jobs that were never placed have no start, GPUs,
    end and duration. Raises TraceError.
    """
    source = str(path)
    text = text_of(path)
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(source, error.lineno, f"not JSON: {error.msg}") from None
    if not isinstance(entries, list):
        raise TraceError(source, 1, "an array of jobs is needed")
    lines = _lines_of(text, len(entries))
    read = [_Entry(source, line, entry) for line, entry in zip(lines, entries, strict=True)]
    submitted = [entry.time(entry.fields, "submitted_time") for entry in read]
    known = [time for time in submitted if time is not None]
    first = min(known, default=None)
    jobs = []
    for entry, time in zip(read, submitted, strict=True):
        if time is None or first is None:
            raise entry.error("submitted_time is empty")
        jobs.append(entry.job(time, first))
    return sorted(jobs, key=lambda job: (job.submitted_s or 0.0, job.name))


class _Entry:
    def __init__(self, source: str, line: int, entry: Any) -> None:
        self._source = source
        self._line = line
        if not isinstance(entry, dict):
            raise self.error("a job must be an object")
        for name in FIELDS:
            if name not in entry:
                raise self.error(f"the job lacks {name!r}; it has: {', '.join(entry)}")
        self.fields: dict[str, Any] = entry

    def error(self, reason: str) -> TraceError:
        return TraceError(self._source, self._line, reason)

    def time(self, fields: dict[str, Any], name: str) -> datetime | None:
        text = fields.get(name)
        if text in (None, "", "None"):
            return None
        try:
            return datetime.strptime(str(text), "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise self.error(f"{name} is {text!r}; wanted: 2017-10-07 01:12:09") from None

    def job(self, submitted: datetime, first: datetime) -> TraceJob:
        members, gpus = 1, 0
        start: datetime | None = None
        last, last_name = submitted, "submitted_time"
        ran_s: float | None = None
        for attempt in self.fields["attempts"] or ():
            if not isinstance(attempt, dict):
                raise self.error("an attempt must be an object")
            begun, ended = self.time(attempt, "start_time"), self.time(attempt, "end_time")
            for name, time in (("start_time", begun), ("end_time", ended)):
                if time is not None and time < last:
                    raise self.error(
                        f"{name} ({time}) is before {last_name} ({last}): time runs backwards"
                    )
                if time is not None:
                    last, last_name = time, name
            if start is None and begun is not None:
                start = begun
                members, gpus = self._places(attempt)
            if begun is not None and ended is not None:
                ran_s = (ran_s or 0.0) + (ended - begun).total_seconds()
        done = ran_s is not None
        return TraceJob(
            name=str(self.fields["jobid"]),
            num_gpu=gpus,
            gpu_milli=WHOLE if gpus else 0,
            members=members,
            submitted_s=(submitted - first).total_seconds(),
            started_s=None if start is None else (start - first).total_seconds(),
            ended_s=(last - first).total_seconds() if done else None,
            duration_s=ran_s,
            queue=str(self.fields["vc"]),
            outcome=str(self.fields["status"]),
        )

    def _places(self, attempt: dict[str, Any]) -> tuple[int, int]:
        """Return the number of machines of an attempt, and the largest number of GPUs on one of
        them.
        """
        places = attempt.get("detail") or []
        try:
            counts = [len(place["gpus"]) for place in places]
        except (TypeError, KeyError):
            raise self.error("detail needs an ip and gpus for each machine") from None
        return max(1, len(counts)), max(counts, default=0)


def _lines_of(text: str, count: int) -> list[int]:
    """Return the line on which each entry of the JSON array begins."""
    decoder = json.JSONDecoder()
    lines, at, line, seen = [], text.index("[") + 1, 1, 0
    for _ in range(count):
        while text[at] in " \t\r\n,":
            at += 1
        line += text.count("\n", seen, at)
        seen = at
        lines.append(line)
        _, at = decoder.raw_decode(text, at)
    return lines
