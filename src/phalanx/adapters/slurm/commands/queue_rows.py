"""Rows of long queues for `squeue`.

Most jobs of a long queue differ in nothing but their numbers and names. So the head is asked for
columns with only the needed fields. Jobs that differ only in number and name share the texts of all
other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from phalanx.adapters.slurm.commands.array_rows import with_array_tasks
from phalanx.adapters.slurm.commands.rows import Shown, shown_fields
from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.marks import NOTE
from phalanx.adapters.slurm.states import OUT_OF_MEMORY, state_of
from phalanx.cli.reach import ask
from phalanx.cli.times import clock
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.protocol.requests.jobs import CODE, HOSTS, JobColumns, ListJobColumns

_REASON = (
    "state", "is_held", "reason", "after", "begins", "reservation", "licenses", "position",
    CODE,
)  # fmt: skip
_CPUS = ("replicas", f"{NOTE}cpus")
_PLACES = ("state", *_CPUS, f"{NOTE}apart", HOSTS)
_START = ("state", "expected_start", "begins", "restarts", "finished", "ran_s", "started")
_USER = ("user", f"{NOTE}user")
_NAME = f"{NOTE}name"
READS: dict[str, tuple[str, ...]] = {
    "partition": ("queue",),
    "user": _USER,
    "account": (f"{NOTE}account",),
    "comment": (f"{NOTE}comment",),
    "wckey": (f"{NOTE}wckey",),
    "qos": (f"{NOTE}qos",),
    "nice": (f"{NOTE}nice",),
    "features": (f"{NOTE}constraint",),
    "state": ("state",),
    "short": ("state",),
    "time": ("ran_s",),
    "elapsed": ("ran_s",),
    "seconds": ("ran_s",),
    "limit": ("time_limit_s",),
    "timelimit": ("time_limit_s",),
    "left": ("time_limit_s", "ran_s"),
    "nodes": _PLACES,
    "nodelist": _PLACES,
    "batchhost": _PLACES,
    "cpus": _CPUS,
    "memory": (f"{NOTE}mem-per-cpu", f"{NOTE}memory"),
    "tres": (*_PLACES, f"{NOTE}memory", f"{NOTE}gpus"),
    "tres_node": (f"{NOTE}gpus",),
    "reservation": ("reservation",),
    "reason": _REASON,
    "dependency": _REASON,
    "where": (*_REASON, *_PLACES),
    "priority": ("state", "is_held", "priority"),
    "fraction": ("state", "is_held", "priority"),
    "start": _START,
    "end": (*_START, "time_limit_s", "ends"),
    "restarts": ("restarts",),
}
"""For each text of a row: the fields of JobInfo, and the annotations, on which the text depends."""
_OF_EACH = ("id", "array", "index", "name", "submit")
"""The texts that are made for each job, because they differ from job to job."""
_CHOICE = ("queue", *_USER, f"{NOTE}account", f"{NOTE}qos", "reservation", "licenses")
"""The fields of JobInfo by which options choose jobs."""
_PRIORITIES = frozenset({"priority", "fraction"})

Row = dict[str, str]


class Queue(NamedTuple):
    """The conditions that a job must meet to be listed."""

    ids: Sequence[str]
    """The requested ids; empty: all jobs."""
    names: Collection[str]
    """The requested names of jobs; empty: all jobs."""
    states: Collection[str]
    is_meant: Callable[[JobInfo], bool] | None
    """Whether other options choose a job; None: there are no such options."""
    has_row_each: bool
    """Whether each waiting array task has a row of its own."""


class Found(NamedTuple):
    """The rows of a listing."""

    rows: list[Row]
    is_known: bool
    """Whether any job has one of the requested ids and names, in whatever state."""


def quick_rows(fields: Collection[str], queue: Queue) -> Found | None:
    """Return rows with the columns `fields`; None if the listing needs whole rows of jobs."""
    if not can_be_quick(fields, queue.states):
        return None
    shown = _Columned([one for one in fields if one in READS])
    if not _PRIORITIES.isdisjoint(fields) and shown.totals:
        return None  # each job has a number of its own
    table = _Table(shown, Shown(fields), queue)
    return Found(table.rows([one for one in _OF_EACH if one in fields]), table.is_known)


def can_be_quick(fields: Collection[str], states: Collection[str]) -> bool:
    """Whether a listing of these columns needs only columns of jobs, and no whole rows. A listing
    of finished jobs needs whole rows, because results are read from the members.
    """
    known = READS.keys() | set(_OF_EACH)
    return {*st.FINISHED, OUT_OF_MEMORY}.isdisjoint(states) and all(
        one in known for one in shown_fields(fields)
    )


class _Columned(Shown):
    """Makes rows of jobs from a few fields of the jobs, which the head sent as columns. The columns
    include the names of the jobs' nodes.
    """

    def code(self, job: JobInfo) -> str:
        code: str = getattr(job, CODE)  # JobInfo lacks this field, but columns have it
        return code

    def places(self, job: JobInfo) -> tuple[str, str]:
        hosts: list[str] = getattr(job, HOSTS)  # JobInfo lacks this field, too
        return ",".join(dict.fromkeys(hosts)), str(len(hosts) or job.replicas)


class _Table:
    """The columns of the jobs, and the texts that jobs share."""

    def __init__(self, shown: _Columned, whole: Shown, queue: Queue) -> None:
        """`shown` makes the texts that jobs share. `whole` makes the rows of arrays."""
        self._shown = shown
        self._whole = whole
        self._queue = queue
        needed = [one for field in shown.fields for one in READS[field]]
        needed += [] if queue.is_meant is None else _CHOICE
        self._shared = list(dict.fromkeys([*needed, "state", "array"]))
        wanted = list(dict.fromkeys([*self._shared, "name", _NAME, "submitted"]))
        notes = [one for one in wanted if one.startswith(NOTE)]
        fields = [one for one in wanted if not one.startswith(NOTE)]
        request = ListJobColumns(
            fields,
            tuple(notes),
            () if queue.ids else tuple(queue.states),
            tuple(one.partition("_")[0].partition(".")[0] for one in queue.ids),
        )
        answer: JobColumns = ask(address(), request)
        self._columns = dict(zip([*fields, *notes], answer.columns, strict=True))
        self._arrays = iter(answer.arrays)
        self.is_known = False

    def rows(self, own: Sequence[str]) -> list[Row]:
        """Return the rows. `own`: the fields whose texts differ from job to job."""
        columns, names, states = self._columns, self._queue.names, set(self._queue.states)
        own_names = [
            note or name for note, name in zip(columns[_NAME], columns["name"], strict=True)
        ]
        texts = {
            "id": columns["name"],
            "array": columns["name"],
            "index": ["N/A"] * len(own_names),
            "name": own_names,
            "submit": [*map(clock, columns["submitted"])] if "submit" in own else own_names,
        }
        of_keys = [one for one in self._shared if one == "array" or not _is_one(columns[one])]
        alike = {
            one: next(iter(_hashable(one, columns[one][:1])))
            for one in self._shared
            if one not in of_keys
        }
        keys = zip(*(_hashable(one, columns[one]) for one in of_keys), strict=True)
        each = zip(*(texts[one] for one in own), strict=True) if own else ((),) * len(own_names)
        bases: dict[tuple[Any, ...], Row | None] = {}
        rows: list[Row] = []
        for name, key, mine in zip(own_names, keys, each, strict=True):
            array = next(self._arrays) if key[-1] else None
            if names and name not in names:
                continue
            self.is_known = True
            if array is not None:
                rows += self._rows_of(array, states)
                continue
            if key not in bases:
                bases[key] = self._base(alike | dict(zip(of_keys, key, strict=True)), states)
            base = bases[key]
            if base is not None:
                row = base.copy()
                row.update(zip(own, mine, strict=True))
                rows.append(row)
        return rows

    def _base(self, values: dict[str, Any], states: Collection[str]) -> Row | None:
        """Return the texts that jobs with these values share; None if the listing leaves them
        out.
        """
        if values["state"] not in states:
            return None
        notes = {one: values.pop(one) for one in self._shared if one.startswith(NOTE)}
        annotations = {one: text for one, text in notes.items() if text is not None}
        values = {one: _read(one, value) for one, value in values.items()}
        job = cast(JobInfo, SimpleNamespace(**values, annotations=annotations, name=""))
        if self._queue.is_meant is not None and not self._queue.is_meant(job):
            return None
        return self._shown.row(job)

    def _rows_of(self, array: JobInfo, states: Collection[str]) -> list[Row]:
        if self._queue.is_meant is not None and not self._queue.is_meant(array):
            return []
        jobs = with_array_tasks([array], self._queue.ids, self._queue.has_row_each)
        return [self._whole.row(job) for job in jobs if state_of(job.state, job.reason) in states]


def _is_one(column: list[Any]) -> bool:
    """Whether all jobs have the same value in this column. If so, the jobs' keys do not contain
    that value.
    """
    return bool(column) and column.count(column[0]) == len(column)


def _hashable(field: str, column: list[Any]) -> Iterable[Any]:
    """Return a column's values in a form that can be a part of a key."""
    if field == "position":  # only whether a job is the first is shown
        return [value if value is None else min(value, 2) for value in column]
    if field == "licenses":
        return [tuple(value.items()) if value else () for value in column]
    if field == HOSTS:
        return [tuple(value) for value in column]
    if field == "expected_start":
        return [None if value is None else value["at_s"] for value in column]
    return column


def _read(field: str, value: Any) -> Any:
    """Return a key's value in the form that the field of JobInfo has."""
    if field == "licenses":
        return dict(value)
    if field == "expected_start":
        return None if value is None else SimpleNamespace(at_s=value)
    return value
