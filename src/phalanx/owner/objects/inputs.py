"""Waits for the objects that work takes as top-level arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phalanx.errors import ObjectReconstructionFailedError
from phalanx.model.ids import INDEX_BITS, object_id_bytes
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.owner.objects.table import ObjectTable, is_in_file
from phalanx.owner.objects.unread import mark_read
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import FAILED, SHARED, Value


class Inputs:
    """Waits for arguments, and fetches lost arguments again."""

    def __init__(self, me: bytes, objects: ObjectTable) -> None:
        self._me = me
        self._objects = objects

    def wait(self, work: PendingWork, on_ready: Callable[[Any], None]) -> bool:
        """Call `on_ready(work)` when all inputs are here.

        If all inputs are here already, returns False and does not call `on_ready`. Nothing is
        fetched before `fetch` is called.
        """
        missing = [ref for ref in work.inputs or () if ref._value is None]
        work.on_ready = on_ready
        work.missing = len(missing)
        for ref in missing:
            self._objects.add_waiter(ref, work)
        return bool(missing)

    def fetch(self, work: PendingWork) -> None:
        """Fetch the missing inputs."""
        for ref in work.inputs or ():
            self._objects.fetch(ref)

    def lost(self, work: PendingWork, names: Sequence[str]) -> Value | None:
        """Fetch again the arguments whose files the work's process did not find.

        Arguments that were sent by value cannot be made again. If one of these is missing, returns
        the failure of the work.
        """
        for ref in work.inputs or ():
            for name in names:
                if is_in_file(ref, name):
                    self._objects.recover(ref, name)
        args = work.args
        if type(args) is Value and args.kind == SHARED and args.data.decode() in names:
            return _arguments_lost(self._me, work.number)
        return None


def _arguments_lost(owner: bytes, number: int) -> Value:
    name = object_id_bytes(owner, number << INDEX_BITS).hex()
    text = (
        f"The arguments of task {name[:48]} are lost: process {owner.hex()} kept them in shared "
        "memory, and arguments given by value cannot be made again."
    )
    return failures.failed(ObjectReconstructionFailedError(name, text))


def failed_input(inputs: Sequence[ObjectRef[Any]] | None) -> Value | None:
    """Return the first failure among the values of these references; None if no value is a
    failure.
    """
    for ref in inputs or ():
        value = ref._value
        if type(value) is Value and value.kind == FAILED:
            mark_read(ref)  # the failure becomes that of the work that takes the argument
            return value
    return None
