"""Queues at the control store: kept in the state store, and what each deserves now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import JobCommandError, QueueUnavailableError
from phalanx.head.queues.deserved import with_deserved
from phalanx.head.queues.table import QueueRecord, QueueTable
from phalanx.head.state_store import StateStore
from phalanx.manifests.idle_rules import ANNOTATION, IdleRule, read_idle_rule
from phalanx.manifests.quantities import HOUSE, batch_amounts
from phalanx.manifests.queue_rules import ROOT, no_queue
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.queues import QueueFields
from phalanx.scheduler.cycle.specs import Amounts, QueueSpec

_AMOUNTS = ("capability", "deserved", "guarantee")

_TIMES = ("default_time_s", "max_time_s")


class TimeLimits(NamedTuple):
    """How long a queue's jobs may run that say nothing, and at most."""

    default_s: float | None
    max_s: float | None


Counts = Callable[[str], tuple[dict[str, int], int]]
"""The podgroups of a queue by phase, and how many members hold something in it."""
Uses = Callable[[str], tuple[dict[str, float], dict[str, float]]]
"""What the gangs of a queue hold, and what they wait for, as leases name it."""


class Queues:
    """All queues, and their quotas as scheduling sees them."""

    def __init__(
        self,
        state_store: StateStore,
        changed: Callable[[], None],
        counts: Counts,
        uses: Uses,
        wall: Callable[[], float],
    ) -> None:
        """`changed` is called when there are other queues, or they have other quotas. `wall`: the
        time of day in seconds."""
        self._wall = wall
        self.table = QueueTable(self)
        self._state_store = state_store
        self._changed = changed
        self._counts = counts
        self._uses = uses
        self.on_publish: Callable[[QueueRecord], None] = lambda queue: None
        self.on_forget: Callable[[QueueRecord], None] = lambda queue: None

    # ---- effects -----------------------------------------------------------------------------

    def publish(self, queue: QueueRecord) -> None:
        """See QueueEffects."""
        self._state_store.keep("queues", queue.name.encode(), queue)
        self.on_publish(queue)

    def forget(self, queue: QueueRecord) -> None:
        """See QueueEffects."""
        self._state_store.keep("queues", queue.name.encode(), None)
        self.on_forget(queue)

    # ---- what people ask for -----------------------------------------------------------------

    def create(self, name: str, fields: QueueFields, is_again: bool = False) -> QueueInfo:
        """A new queue. `is_again`: one that has all that is asked was made by this request."""
        self._count_all()
        known = self.table.get(name)
        if is_again and known is not None and _with(known.spec, fields) == known.spec:
            return self._row(known)
        record = self.table.create(_with(QueueSpec(name=name), fields), self._wall())
        self._changed()
        return self._row(record)

    def put(self, spec: QueueSpec) -> str:
        """A queue of a manifest: made, or changed; whether it is open too. What was done."""
        self._count_all()
        known = self.table.get(spec.name)
        if known is None:
            self.table.create(spec, self._wall())
            self._changed()
            return "created"
        self.table.update(spec, self._wall())
        if spec.state and spec.state != known.state:
            change = self.table.open if spec.state == "Open" else self.table.close
            change(spec.name, self._wall())
        self._changed()
        return "updated"

    def update(self, name: str, fields: QueueFields) -> QueueInfo:
        """Other quotas; what is not named stays."""
        self._count_all()
        known = self._need(name)
        record = self.table.update(_with(known.spec, fields), self._wall())
        self._changed()
        return self._row(record)

    def open(self, name: str) -> QueueInfo:
        """Let work in."""
        self._need(name)
        self.table.open(name, self._wall())
        self._changed()
        return self._row(self._need(name))

    def close(self, name: str) -> QueueInfo:
        """Let no more work in."""
        self._need(name)
        self._count_all()
        self.table.close(name, self._wall())
        return self._row(self._need(name))

    def delete(self, name: str, is_again: bool = False) -> None:
        """Forget it. `is_again`: where it is gone, this request did it."""
        if is_again and self.table.get(name) is None:
            return
        self._need(name)
        self._count_all()
        self.table.delete(name, self._wall())
        self._changed()

    def rows(self, name: str | None = None) -> list[QueueInfo]:
        """For people: all queues, or one."""
        self._count_all()
        found = self.table.all() if name is None else [self._need(name)]
        sums = self._sums()
        return [self._row(record, sums) for record in found]

    def require_open(self, name: str) -> QueueRecord:
        """The queue, if it takes work. Raises QueueUnavailableError."""
        try:
            self.table.require_open(name)
        except JobCommandError as error:
            raise QueueUnavailableError(str(error)) from None
        return self._need(name)

    def left(self, name: str) -> None:
        """Something of this queue is over: one that is closing may be closed now."""
        record = self.table.get(name)
        if record is not None and record.state == "Closing":
            self._count(record)

    def weights(self) -> dict[str, float]:
        """What each queue weighs."""
        return {q.name: float(q.spec.weight) for q in self.table.all()}

    # ---- scheduling --------------------------------------------------------------------------

    def specs(self, busy: Collection[str], total: Mapping[str, float]) -> list[QueueSpec]:
        """The queues with what they deserve now. Closing ones let those in that they have."""
        known = [q.spec for q in self.table.all()]
        opened = [msgspec.structs.replace(q, state="Open") for q in known]
        return with_deserved(opened, busy, dict(batch_amounts(dict(total))))

    def capability(self, name: str) -> dict[str, float]:
        """What a queue may use at most, also by those above it, under the names of leases."""
        limits: dict[str, float] = {}
        record = self.table.get(name)
        while record is not None:
            for resource, amount in house_amounts(record.spec.capability).items():
                limits[resource] = min(amount, limits.get(resource, amount))
            record = self.table.get(record.spec.parent or ROOT) if record.name != ROOT else None
        return limits

    def time_limits(self, name: str) -> TimeLimits:
        """How long jobs of a queue may run, also by those above it: the nearest default, and the
        least of all maxima, which is the default where there is none."""
        default_s = max_s = None
        record = self.table.get(name)
        while record is not None:
            spec = record.spec
            default_s = spec.default_time_s if default_s is None else default_s
            if spec.max_time_s is not None:
                max_s = spec.max_time_s if max_s is None else min(max_s, spec.max_time_s)
            record = self.table.get(spec.parent or ROOT) if record.name != ROOT else None
        if max_s is not None:
            default_s = max_s if default_s is None else min(default_s, max_s)
        return TimeLimits(default_s, max_s)

    def idle_rule(self, name: str) -> IdleRule | None:
        """When GPUs that jobs of a queue hold count as idle: by its own rule, or the nearest above
        it."""
        record = self.table.get(name)
        while record is not None:
            written = dict(record.spec.annotations).get(ANNOTATION)
            if written is not None:
                return read_idle_rule(written)
            record = self.table.get(record.spec.parent or ROOT) if record.name != ROOT else None
        return None

    def _need(self, name: str) -> QueueRecord:
        record = self.table.get(name)
        if record is None:
            raise QueueUnavailableError(no_queue(name, [q.name for q in self.table.all()]))
        return record

    def _count_all(self) -> None:
        for record in self.table.all():
            self._count(record)

    def _count(self, record: QueueRecord) -> None:
        podgroups, members = self._counts(record.name)
        self.table.counted(record.name, podgroups, members, self._wall())

    def _sums(self) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
        """What the gangs of each queue hold and wait for, with those of the queues below it."""
        sums: dict[str, tuple[dict[str, float], dict[str, float]]] = {
            record.name: ({}, {}) for record in self.table.all()
        }
        for record in self.table.all():
            own = self._uses(record.name)
            at: str | None = record.name
            while at in sums:
                for into, amounts in zip(sums[at], own, strict=True):
                    for name, amount in amounts.items():
                        into[name] = round(into.get(name, 0.0) + amount, 4)
                at = None if at == ROOT else self._need(at).spec.parent or ROOT
        return sums

    def _row(
        self,
        record: QueueRecord,
        sums: dict[str, tuple[dict[str, float], dict[str, float]]] | None = None,
    ) -> QueueInfo:
        allocated, requested = (sums or self._sums())[record.name]
        spec, podgroups = record.spec, record.podgroups
        limits = self.time_limits(record.name)
        return QueueInfo(
            name=record.name,
            state=record.state,
            weight=spec.weight,
            priority=spec.priority,
            parent=spec.parent or ("" if record.name == ROOT else ROOT),
            reclaimable=spec.reclaimable,
            members=record.members,
            capability=house_amounts(spec.capability),
            deserved=house_amounts(spec.deserved),
            guarantee=house_amounts(spec.guarantee),
            allocated=allocated,
            requested=requested,
            default_time_s=limits.default_s,
            max_time_s=limits.max_s,
            pending=podgroups.get("pending", 0),
            inqueue=podgroups.get("inqueue", 0),
            running=podgroups.get("running", 0),
            unknown=podgroups.get("unknown", 0),
            completed=podgroups.get("completed", 0),
        )


def house_amounts(amounts: Amounts) -> dict[str, float]:
    """Amounts under the names that leases use."""
    return {HOUSE.get(name, name.removeprefix("phalanx/")): amount for name, amount in amounts}


def _with(spec: QueueSpec, fields: QueueFields) -> QueueSpec:
    given = {
        name: _value(name, value)
        for name, value in msgspec.structs.asdict(fields).items()
        if value is not None and name != "idle_gpus"
    }
    if fields.idle_gpus is not None:
        others = tuple(one for one in spec.annotations if one[0] != ANNOTATION)
        given["annotations"] = (*others, (ANNOTATION, fields.idle_gpus))
    return msgspec.structs.replace(spec, **given)


def _value(name: str, value: Any) -> Any:
    if name in _AMOUNTS:
        return batch_amounts(value)
    return None if name in _TIMES and not value else value
