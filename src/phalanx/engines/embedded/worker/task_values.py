"""Values that cross a task's border: its arguments in, its results out, and their references."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded.client.registration import Creation
from phalanx.engines.embedded.client.values import FileGone
from phalanx.engines.embedded.client.waiting import wait_for
from phalanx.errors import ObjectReconstructionFailedError, PhalanxError, TaskError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.names import prefix_of_name
from phalanx.objects.serialization import NONE_PICKLE, blame, deserialize
from phalanx.owner.redialling import GIVE_UP_S
from phalanx.protocol.cluster_messages import Prefetch
from phalanx.protocol.messages import SHARED, Payload, Value
from phalanx.worker.context import TaskContext

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection


class InputsLost(Exception):
    """Values of the arguments are not where they were: the caller is to have them made again."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"the files {', '.join(names)} are gone")
        self.names = names


class TaskValues:
    """Reads arguments, packs results, and keeps what a reader has not registered for yet."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._handoffs: dict[tuple[bytes, int], Any] = {}
        self._cut_off: deque[tuple[float, tuple[bytes, int]]] = deque()
        """What is kept for readers to which the way ended, and until when: they may live, and be
        about to register with the owners of the references in it."""

    def prefetch(self, inputs: list[Payload]) -> None:
        """Have the large arguments of other nodes on their way here before they are read."""
        here = self._runtime.process_id[:PREFIX_BYTES]
        wanted = [
            (value.data.decode(), value.size)
            for value in inputs
            if type(value) is Value and value.kind == SHARED
        ]
        if any(prefix_of_name(name) != here for name, _ in wanted):
            self._runtime.post(self._runtime.node, Prefetch(wanted))

    def arguments(
        self, payload: Payload, inputs: list[Payload], context: TaskContext
    ) -> tuple[Any, Any]:
        """(args, kwargs) of a task or call. Raises InputsLost."""
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

    def constructor_arguments(self, creation: Creation, context: TaskContext) -> tuple[Any, Any]:
        """(args, kwargs) of an actor's constructor. The node sent them, which has no values of its
        own: what is lost is asked for at its owner, and waited for. Raises its error."""
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
        runtime = self._runtime
        values = runtime.values
        found = False
        for place, payload in enumerate(creation.inputs):
            name = payload.data.decode() if type(payload) is Value else ""
            if name not in names:
                continue
            found = True
            with runtime.lock:
                ref = runtime.references.adopt_for_task(*creation.sources[place])
                if ref._value is None:
                    ref._value = payload
                values.recover(ref, name)
            wait_for(runtime, ref)
            with runtime.lock:
                creation.inputs[place] = values.for_sending(ref)
        return found

    def _load_value(self, payload: Payload, context: TaskContext) -> Any:
        if type(payload) is bytes:
            return deserialize(payload)
        assert isinstance(payload, Value)
        values = self._runtime.values
        refs = []
        if payload.refs:
            if context.adopted is None:
                context.adopted = []
            with self._runtime.lock:
                for owner, number in payload.refs:
                    refs.append(self._runtime.references.adopt_for_task(owner, number))
                    context.adopted.append((owner, number))
        return values.read_payload(payload, None, refs)

    def pack(self, result: Any, connection: Connection, number: int, name: str) -> Payload:
        """A result's payload, handed over to its owner."""
        if result is None:
            return NONE_PICKLE
        if isinstance(result, TaskError):
            raise result  # as Ray: a failure that is returned is raised at the reader
        values = self._runtime.values
        try:
            payload, hold, refs = values.pack(result)
        except PhalanxError:
            raise
        except Exception as error:
            raise TypeError(
                f"The result of {name} cannot leave its worker: {blame(result, error)}"
            ) from None
        if hold is not None:
            hold.hand_over()
        if refs:
            with self._runtime.lock:
                self._runtime.references.lend_to(refs, connection.peer)
            mine = self._runtime.process_id
            if any(r._owner not in (mine, connection.peer) for r in refs):
                with self._runtime.lock:
                    kept = self._handoffs.setdefault((connection.peer, number), [0])
                    kept[0] += 1
                    kept.append(refs)
        return payload

    def taken(self, peer: bytes, number: int) -> None:
        """The reader of a result has registered with the owners of the references in it."""
        # A task may give many results, and their readers' registrations end in any order: all
        # references are kept until each result has been taken.
        kept = self._handoffs.get((peer, number))
        if kept is None:
            return
        kept[0] -= 1
        if not kept[0]:
            del self._handoffs[(peer, number)]

    def peer_lost(self, peer: bytes) -> None:
        """A reader is gone, or cannot be reached for now: nothing is kept for it, now or soon."""
        is_gone = self._runtime.is_here(peer)
        for key in [k for k in self._handoffs if k[0] == peer]:
            if is_gone:
                del self._handoffs[key]
            else:
                self._cut_off.append((time.monotonic() + GIVE_UP_S, key))

    def tick(self, now: float) -> None:
        """Time has passed."""
        while self._cut_off and now >= self._cut_off[0][0]:
            self._handoffs.pop(self._cut_off.popleft()[1], None)

    def settle_borrows(self, context: TaskContext, connection: Connection) -> None:
        """Register for references of the arguments that are still held here, before the caller
        stops keeping them."""
        references = self._runtime.references
        third: set[bytes] = set()
        with self._runtime.lock:
            for owner, number in context.adopted or ():
                ref = references.still_borrowed(owner, number)
                if ref is not None:
                    references.keep(ref)
                    if owner != connection.peer:
                        third.add(owner)
        context.adopted = None
        if third:
            references.syncs.wait(third)
