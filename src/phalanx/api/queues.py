"""Queues, in which gangs and jobs wait, and which divide the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from phalanx.api.session import engine_or_start
from phalanx.model.options import LARGEST_NUMBER
from phalanx.model.rows.row import Rows
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.queues import (
    CloseQueue,
    CreateQueue,
    DeleteQueue,
    ListQueues,
    OpenQueue,
    QueueFields,
    UpdateQueue,
)
from phalanx.protocol.requests.request import Request

R = TypeVar("R")
Amounts = Mapping[str, float]
Length = str | timedelta


def create_queue(
    name: str,
    *,
    weight: int | None = None,
    capability: Amounts | None = None,
    deserved: Amounts | None = None,
    guarantee: Amounts | None = None,
    parent: str | None = None,
    priority: int | None = None,
    reclaimable: bool | None = None,
    default_time: Length | None = None,
    max_time: Length | None = None,
    idle_gpus: str | None = None,
    submit: str | None = None,
    admin: str | None = None,
) -> QueueInfo:
    """Create a queue. Returns its row, as `queues()` has it.

    `weight` (default 1) sets the queue's deserved share among busy sibling queues, unless
    `deserved` gives amounts. A queue may borrow idle resources up to its `capability`; other queues
    may reclaim them if the queue is `reclaimable`. The amounts of `guarantee` are always kept for
    the queue. Amounts are like {"CPU": 8, "GPU": 2}. `default_time` is the time limit of jobs
    submitted without one, and `max_time` the longest limit of any job: "2h30m", "1-12:00" or a
    timedelta. `idle_gpus` is the rule for jobs with idle GPUs: with "below 5% for 30m" their users
    are warned, and with "below 5% for 30m, end" the jobs are ended. Raises ValueError for a value
    that is not allowed, and JobCommandError with all reasons when the head refuses the queue.

    Example:
        phalanx.create_queue("research", weight=2, capability={"GPU": 8}, max_time="1-00:00")
    """
    given = locals()
    fields = _fields(given)
    return _ask(CreateQueue(_named(name), fields))


def update_queue(
    name: str,
    *,
    weight: int | None = None,
    capability: Amounts | None = None,
    deserved: Amounts | None = None,
    guarantee: Amounts | None = None,
    parent: str | None = None,
    priority: int | None = None,
    reclaimable: bool | None = None,
    default_time: Length | None = None,
    max_time: Length | None = None,
    idle_gpus: str | None = None,
    submit: str | None = None,
    admin: str | None = None,
) -> QueueInfo:
    """Change a queue; settings that are None keep their values. Returns the queue's row.

    The time "none" removes a limit. Raises QueueUnavailableError when there is no such queue, and
    JobCommandError with all reasons when the head refuses the change.

    Example:
        phalanx.update_queue("research", weight=3, default_time="none")
    """
    given = locals()
    fields = _fields(given)
    return _ask(UpdateQueue(_named(name), fields))


def open_queue(name: str) -> QueueInfo:
    """Open a queue for work again, together with the queues below it that were closed with it.

    Returns its row. Raises QueueUnavailableError when there is no such queue, and JobCommandError
    when the parent queue is not open.
    """
    return _ask(OpenQueue(_named(name)))


def close_queue(name: str) -> QueueInfo:
    """Close a queue and the queues below it: the queues take no more work, but work in them
    continues. Returns the queue's row.

    The queue's state is Closing until it is empty, and then Closed. Raises QueueUnavailableError
    when there is no such queue, and JobCommandError for the root.

    Example:
        phalanx.close_queue("research")
    """
    return _ask(CloseQueue(_named(name)))


def delete_queue(name: str) -> None:
    """Delete an empty queue that has no queue below it. Raises JobCommandError otherwise."""
    _ask(DeleteQueue(_named(name)))


def queues() -> Rows[QueueInfo]:
    """Return the rows of all queues: state, weight, amounts, and the number of gangs in each phase.

    Example:
        weights = {row.name: row.weight for row in phalanx.queues()}
    """
    rows = engine_or_start().ask(ListQueues())
    return Rows(rows)


def _seconds(length: Length | None) -> float | None:
    from phalanx.manifests.times import read_limit

    if isinstance(length, timedelta):
        return length.total_seconds()
    return None if length is None else read_limit(length)


_KINDS = {
    "`int | null`": "a whole number", "`int`": "a whole number", "`float`": "a number",
    "`str`": "a text", "`bool`": "True or False", "`object | null`": "amounts by resource",
    "`str | null`": "a text", "`bool | null`": "True or False",
}  # fmt: skip
"""The words for types of values in messages to users, by the names of the types in msgspec's
errors.
"""


def queue_fields(**given: Any) -> QueueFields:
    """Return a queue's fields from those arguments that are not None. Raises ValueError for a value
    that is not allowed.
    """
    fields = {name: value for name, value in given.items() if value is not None}
    try:
        known = msgspec.convert(fields, QueueFields)
        msgspec.msgpack.encode(known)  # Raises OverflowError for a number of more than 64 bits.
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$.")
        name = where.strip("`") or "it"
        for kind, words in _KINDS.items():
            said = said.replace(kind, words)
        raise ValueError(f"a queue's {name}: {said[0].lower()}{said[1:]}") from None
    except OverflowError:
        at_most = f"is at most {LARGEST_NUMBER}"
        raise ValueError(f"a queue's weight or priority {at_most}") from None
    return known


def _fields(given: dict[str, Any]) -> QueueFields:
    """Return a queue's fields from the arguments of a public function."""
    fields = {name: value for name, value in given.items() if name != "name"}
    for name in ("default_time", "max_time"):
        fields[f"{name}_s"] = _seconds(fields.pop(name))
    return queue_fields(**fields)


def _ask(request: Request[R]) -> R:
    """Send a request to the head. Its arguments were checked before, since a wrong argument must
    not start a runtime.
    """
    return engine_or_start().ask(request)


def _named(name: str) -> str:
    from phalanx.manifests.names import subdomain_fault

    if not isinstance(name, str) or not name:
        raise ValueError(f"a queue's name is a string that is not empty, not {name!r}")
    if fault := subdomain_fault(name):
        raise ValueError(f"a queue's name: {fault}")
    return name
