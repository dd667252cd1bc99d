"""Makes rows for listings of a process's tasks, calls, and the objects to which it refers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES, object_id_bytes, task_id_bytes
from phalanx.model.lifecycle import FINISHED, PENDING_ARGS, PENDING_NODE, RUNNING, SUBMITTED
from phalanx.objects.file_hold import FileHold
from phalanx.objects.reference import ObjectRef
from phalanx.observe.state.columns import Row
from phalanx.observe.state.finished_tasks import offer_finished
from phalanx.observe.state.query import Selection, StatePart, StateQuery
from phalanx.observe.state.task_rows import finished_task_row, milliseconds, task_row
from phalanx.observe.task_journal import Run, TaskJournal, run_of
from phalanx.owner.actors.calls import Calls
from phalanx.owner.actors.client import PendingCall
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.tasks.records import PendingTask
from phalanx.owner.tasks.submission import Submission
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import SHARED, Payload, Value

_WAITS_AT_ACTOR = "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"


class StateRows:
    """Makes rows for listings from the owner's machines, without a change to them."""

    def __init__(
        self,
        me: bytes,
        kind: str,
        tasks: Submission,
        calls: Calls,
        objects: ObjectTable,
        borrowers: Callable[[int], Sequence[bytes]],
        journal: TaskJournal,
    ) -> None:
        """`borrowers` returns the processes that hold an object of this process."""
        self._me = me
        self._type = kind.upper()
        self._tasks = tasks
        self._calls = calls
        self._objects = objects
        self._borrowers = borrowers
        self._journal = journal
        self.pid = 0
        self.living: Callable[[], Iterable[ObjectRef[Any]]] = objects.in_files.values
        """Returns the references that this process holds. Until the shell replaces this function,
        it returns only the references to objects in files.
        """
        self.living_holds: Callable[[], Iterable[FileHold]] = list
        """Returns the holds by which this process keeps files."""
        self.stacks: Callable[[], Iterable[tuple[str, str]]] = list
        """Returns (thread, stack) for each thread of this process."""
        self._begun: dict[int, frozenset[int]] = {}
        """The running calls, by the id of their actor's client. It is filled while tasks are
        listed.
        """
        self.call_site: Callable[[ObjectRef[Any]], str] = lambda ref: ""
        """Returns where a reference was made; "" if that is not recorded."""
        self.has_call_sites = False

    def part(self, query: StateQuery, ip: str = "") -> StatePart:
        """Return the rows of this process that a query selects."""
        selection = Selection(query)
        if query.kind == "tasks":
            self._select_tasks(selection)
        elif query.kind == "objects":
            self._select_objects(selection, ip)
        elif query.kind == "files":
            selection.offer_all(self._file_rows())
        elif query.kind == "stacks":
            for thread, stack in self.stacks():
                selection.offer({**self._process(), "thread": thread, "stack": stack})
        return selection.part()

    # ---- tasks -------------------------------------------------------------------------------

    def _select_tasks(self, selection: Selection) -> None:
        self._begun.clear()
        sites = self._sites()
        if not selection.takes_any:
            pending = (work for work in self._pending() if work.is_listed)
            selection.offer_all(self._row_of(work, sites) for work in pending)
        else:
            # Only the first rows are shown, so rows for perhaps 100,000 others need not be made.
            waiting = 0
            oldest: list[PendingTask | PendingCall] = []
            for unfinished in (self._tasks.machine.pending, self._calls.by_number):
                oldest += unfinished.oldest(selection.limit)
                waiting += unfinished.listed
            first = heapq.nsmallest(selection.limit, oldest, key=lambda work: work.number)
            selection.offer_all(self._row_of(work, sites) for work in first)
            selection.count_unseen(waiting - len(first))
        ended = ((self._me, run) for run in self._journal.fields())
        offer_finished(selection, ended, lambda _, run: self._ended(run_of(run), sites))

    def _pending(self) -> Iterator[PendingTask | PendingCall]:
        yield from self._tasks.machine.pending.values()
        yield from self._calls.by_number.values()

    def _row_of(self, work: PendingTask | PendingCall, sites: Mapping[int, str]) -> Row:
        row = self._task_row(work) if isinstance(work, PendingTask) else self._call_row(work)
        return {**row, "call_site": sites.get(work.number)}

    def _ended(self, run: Run, sites: Mapping[int, str]) -> Row:
        return {**finished_task_row(self._me, run), "call_site": sites.get(run.number)}

    def _sites(self) -> dict[int, str]:
        """Return where in the program each task was called, by task number. Only tasks whose
        results are still referenced are included.
        """
        if not self.has_call_sites:
            return {}
        own = (ref for ref in self.living() if ref._owner == self._me and ref._number >= 0)
        return {ref._number >> INDEX_BITS: self.call_site(ref) for ref in own}

    def _task_row(self, task: PendingTask) -> Row:
        worker = b"" if task.worker is None else task.worker.worker
        row = task_row(
            self._me,
            task.number,
            task.template.name,
            task.attempt,
            task.template.about,
            worker,
            _parent(task),
        )
        row["state"] = _task_state(task)
        row["creation_time_ms"] = milliseconds(task.created)
        return row

    def _call_row(self, call: PendingCall) -> Row:
        actor = call.actor
        name, about = actor.listed(call)
        worker = actor.worker if call.number in actor.inflight else b""
        row = task_row(self._me, call.number, name, call.attempt, about, worker, _parent(call))
        row["state"] = self._call_state(call)
        return row

    def _call_state(self, call: PendingCall) -> str:
        actor = call.actor
        if call.number not in actor.inflight:
            return PENDING_ARGS if call.missing else PENDING_NODE
        begun = self._begun.get(id(actor))
        if begun is None:
            begun = self._begun[id(actor)] = frozenset(actor.begun())
        return RUNNING if call.number in begun else _WAITS_AT_ACTOR

    # ---- objects -----------------------------------------------------------------------------

    def _select_objects(self, selection: Selection, ip: str) -> None:
        living = [ref for ref in self.living() if not ref.is_nil() and ref._number >= 0]
        first = living
        if selection.takes_any and len(living) > selection.limit:
            first = heapq.nsmallest(selection.limit, living, key=_largest_first)
        selection.offer_all(self._object_rows(first, living, ip))
        selection.offer_all(self._argument_rows(ip))
        selection.count_unseen(len(living) - len(first))

    def _object_rows(
        self, shown: list[ObjectRef[Any]], living: list[ObjectRef[Any]], ip: str
    ) -> Iterator[Row]:
        used = {
            id(ref)
            for work in self._pending()
            for ref in (*(work.inputs or ()), *_inside(work.pins))
        }
        self._begun.clear()
        inner = {id(one) for ref in living for one in ref._inner or ()}
        for ref in shown:
            number, is_own = ref._number, ref._owner == self._me
            status, attempt = self._making(ref) if is_own else ("NIL", 0)
            value = ref._value
            yield {
                "object_id": object_id_bytes(ref._owner, number).hex(),
                "object_size": _size(value),
                "task_status": status,
                "attempt_number": attempt,
                "reference_type": _reference_type(ref, used, inner),
                "call_site": self._created(ref),
                "type": self._type,
                "pid": self.pid,
                "ip": ip,
                "node_id": self._me[:PREFIX_BYTES].hex(),
                "process_id": self._me.hex(),
                "owner_id": ref._owner.hex(),
                "borrowers": [b.hex() for b in self._borrowers(number)] if is_own else [],
                "file": _file(value),
            }

    def _argument_rows(self, ip: str) -> Iterator[Row]:
        """Yield a row for each argument that was sent by value to the worker that runs the work
        now.

        Such a worker has a copy of the value, but no reference to the object.
        """
        self._begun.clear()
        for work in self._pending():
            if not work.inputs:
                continue
            worker, name = self._where(work)
            if not worker:
                continue
            is_here = worker[:PREFIX_BYTES] == self._me[:PREFIX_BYTES]
            site = f"(deserialize task arg) {name}" if self.has_call_sites else "disabled"
            for ref in work.inputs:
                yield {
                    "object_id": object_id_bytes(ref._owner, ref._number).hex(),
                    "object_size": _size(ref._value),
                    "task_status": "NIL",
                    "attempt_number": 0,
                    "reference_type": "PINNED_IN_MEMORY",
                    "call_site": site,
                    "type": "WORKER",
                    "pid": None,
                    "ip": ip if is_here else None,
                    "node_id": worker[:PREFIX_BYTES].hex(),
                    "process_id": worker.hex(),
                    "owner_id": ref._owner.hex(),
                    "borrowers": [],
                    "file": _file(ref._value),
                }

    def _where(self, work: PendingTask | PendingCall) -> tuple[bytes, str]:
        """Return (worker, name) of work that runs now. The worker is b"" if no worker runs it."""
        if isinstance(work, PendingTask):
            worker = work.worker
            runs = worker is not None and _task_state(work) == RUNNING
            return (worker.worker if worker and runs else b""), work.template.name
        runs = self._call_state(work) == RUNNING
        return (work.actor.worker if runs else b""), work.actor.listed(work)[0]

    def _file_rows(self) -> Iterator[Row]:
        """Yield rows for the files that this process keeps."""
        own = {hold.name: hold.size for hold in self.living_holds()}
        read = {name: 0 for ref in self.living() if (name := _file(ref._value)) is not None}
        for name, size in {**read, **own}.items():
            yield {"file": name, "object_size": size, **self._process()}

    def _process(self) -> Row:
        return {
            "process_id": self._me.hex(),
            "type": self._type,
            "pid": self.pid,
            "node_id": self._me[:PREFIX_BYTES].hex(),
        }

    def _making(self, ref: ObjectRef[Any]) -> tuple[str, int]:
        """Return the state and the attempt of the task that makes an object of this process.

        As in Ray, a task that runs counts as sent to a worker.
        """
        number = ref._number >> INDEX_BITS
        work = self._tasks.machine.pending.get(number) or self._calls.by_number.get(number)
        if work is None:
            return ("NIL" if ref._value is None else FINISHED), 0
        state = _task_state(work) if isinstance(work, PendingTask) else self._call_state(work)
        return (SUBMITTED if state in (RUNNING, _WAITS_AT_ACTOR) else state), work.attempt

    def _created(self, ref: ObjectRef[Any]) -> str:
        """Return where in the program an object was made, or "disabled" if that is not recorded."""
        found = self.call_site(ref)
        if found:
            return found
        return "disabled"


def _parent(work: PendingWork) -> bytes:
    return b"" if work.parent is None else task_id_bytes(*work.parent)


def _task_state(task: PendingTask) -> str:
    """Return the state of a task. Only the first task in a worker's pipeline runs; the others were
    sent ahead.
    """
    if task.state != SUBMITTED:
        return PENDING_NODE if task.state == "INFEASIBLE" else task.state
    worker = task.worker
    if worker is None or worker.inflight.first == task.number:
        return RUNNING
    return SUBMITTED


def _inside(pins: list[Any] | None) -> list[ObjectRef[Any]]:
    """Return the references inside the arguments of a task."""
    found: list[ObjectRef[Any]] = []
    for pin in pins or ():
        if isinstance(pin, ObjectRef):
            found.append(pin)
        elif isinstance(pin, list | tuple):
            found += [one for one in pin if isinstance(one, ObjectRef)]
    return found


def _reference_type(ref: ObjectRef[Any], used: set[int], inner: set[int]) -> str:
    if id(ref) in used:
        return "USED_BY_PENDING_TASK"
    if id(ref) in inner:
        return "CAPTURED_IN_OBJECT"
    return "LOCAL_REFERENCE"


def _size(value: Payload | None) -> int:
    """Return the size of a value in bytes; -1 for an object that has no value yet, as in Ray."""
    if value is None:
        return -1
    if isinstance(value, Value):
        return value.size if value.kind == SHARED else len(value.data)
    return len(value)


def _largest_first(ref: ObjectRef[Any]) -> tuple[int, bytes, int]:
    return (-_size(ref._value), ref._owner, ref._number)


def _file(value: Payload | None) -> str | None:
    is_shared = isinstance(value, Value) and value.kind == SHARED
    return value.data.decode() if is_shared and isinstance(value, Value) else None
