"""Values that enter and leave a task: its arguments and its results, with the references in
them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pickle import dumps
from typing import Any

from phalanx.errors import (
    NotPicklableError,
    ObjectReconstructionFailedError,
    PhalanxError,
    TaskError,
)
from phalanx.objects.serialization import NONE_PICKLE, blame, deserialize, is_plain
from phalanx.owner.objects.references import References
from phalanx.owner.objects.table import ObjectTable
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import Call, Payload, Task, Value
from phalanx.runtime.driver.values import FileGone, Packed, Values
from phalanx.runtime.driver.waiting import Waiting
from phalanx.runtime.os.connection import Connection
from phalanx.worker.assigned import PlainCall, PlainTask
from phalanx.worker.context import TaskContext
from phalanx.worker.references import TaskReferences

_SMALL_BYTES = 4096
"""The largest size in bytes of a value that is always sent in a message, whatever the cluster's
settings are.
"""


class InputsLost(Exception):
    """Raised if values of the arguments are lost. The caller must ask their owners to make them
    again.
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"the files {', '.join(names)} are gone")
        self.names = names


class TaskValues:
    """Reads arguments and packs results."""

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        waiting: Waiting,
        values: Values,
        pack: Callable[[Any], Packed],
        objects: ObjectTable,
        references: References,
        task_references: TaskReferences,
    ) -> None:
        self._lock = lock
        self._waiting = waiting
        self._values = values
        self._pack = pack
        self._objects = objects
        self._references = references
        self._task_references = task_references

    def of(self, work: Task | Call, context: TaskContext) -> tuple[Any, Any]:
        """Return (args, kwargs) of a task or call. Raises InputsLost."""
        kind = type(work)
        if kind is PlainTask or kind is PlainCall:
            return work.plain, {}  # type: ignore[union-attr]
        return self.arguments(work.args, work.inputs, context)

    def arguments(
        self, payload: Payload, inputs: list[Payload], context: TaskContext
    ) -> tuple[Any, Any]:
        """Return (args, kwargs) of a task or call. Raises InputsLost."""
        if payload == b"":
            return (), {}
        lost: list[str] = []
        try:
            parts = self._load_value(payload, context)
        except FileGone as gone:
            raise InputsLost([gone.name]) from None
        if len(parts) == 2:
            return parts  # type: ignore[no-any-return]
        args, kwargs, places = parts
        args = list(args)
        for place, value in zip(places, inputs, strict=True):
            try:
                loaded = self._load_value(value, context)
            except FileGone as gone:
                lost.append(gone.name)
                continue
            if isinstance(place, int):
                args[place] = loaded
            else:
                kwargs[place] = loaded
        if lost:
            raise InputsLost(lost)
        return args, kwargs

    def _load_value(self, payload: Payload, context: TaskContext) -> Any:
        if type(payload) is bytes:
            return deserialize(payload)
        assert isinstance(payload, Value)
        refs = []
        if payload.refs:
            with self._lock:
                refs = self._task_references.adopt(payload.refs, context)
        return self._values.read_payload(payload, inner=refs)

    def constructor_arguments(self, creation: Creation, context: TaskContext) -> tuple[Any, Any]:
        """Return (args, kwargs) of an actor's constructor.

        The node has sent the arguments, but does not own their values. So a lost value is requested
        from its owner, and this method waits for it. Raises the value's error.
        """
        while True:
            try:
                return self.arguments(creation.args, creation.inputs, context)
            except InputsLost as lost:
                if not self._recover(creation, lost.names):
                    raise ObjectReconstructionFailedError(
                        "",
                        f"The arguments of {creation.class_name}() are lost: its creator kept them "
                        "in shared memory, and arguments given by value cannot be made again.",
                    ) from None

    def _recover(self, creation: Creation, names: list[str]) -> bool:
        found = False
        for place, payload in enumerate(creation.inputs):
            name = payload.data.decode() if type(payload) is Value else ""
            if name not in names:
                continue
            found = True
            with self._lock:
                ref = self._references.adopt_for_task(*creation.sources[place])
                if ref._value is None:
                    ref._value = payload
                self._objects.recover(ref, name)
            self._waiting.wait_for(ref)
            with self._lock:
                creation.inputs[place] = self._objects.for_sending(ref)
        return found

    def keep_arguments(self, context: TaskContext) -> None:
        """Make this process a borrower of the arguments to which the actor's instance still refers,
        after its constructor has ended.
        """
        with self._lock:
            for owner, number in context.adopted or ():
                ref = self._references.still_borrowed(owner, number)
                if ref is not None:
                    self._references.keep(ref)

    def pack(self, result: Any, connection: Connection, number: int, name: str) -> Payload:
        """Return the payload of a result. The owner of the result gets the references in it."""
        if result is None:
            return NONE_PICKLE
        if is_plain(result) and len(data := dumps(result, 5)) <= _SMALL_BYTES:
            return data
        if isinstance(result, TaskError):
            raise result  # as in Ray, a failure that is returned is raised for the reader
        try:
            payload, hold, refs = self._pack(result)
        except PhalanxError:
            raise
        except Exception as error:
            raise NotPicklableError(
                f"The result of {name} cannot leave its worker: {blame(result, error)}"
            ) from None
        if hold is not None:
            hold.hand_over()
        if refs:
            with self._lock:
                self._task_references.hand_over(refs, connection.peer, number)
        return payload

    def settle_borrows(self, context: TaskContext, connection: Connection) -> None:
        """Register this process, at the end of a task, as a borrower of those references in the
        task's arguments that it still holds. Wait until the owners, except for the caller, have
        handled the registrations.

        This must happen before the caller releases the references.
        """
        with self._lock:
            third = self._task_references.settle(context, connection.peer)
        if third:
            self._waiting.wait_synced(third)
