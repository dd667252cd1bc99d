"""Queues at the head: requests about queues, their stored records, and the amounts that they
deserve now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import JobCommandError, QueueUnavailableError
from phalanx.head.queues.deserved import with_deserved
from phalanx.head.queues.table import QueueRecord, QueueTable
from phalanx.head.state_store import StateStore
from phalanx.manifests.idle_rules import ANNOTATION, IdleRule, read_idle_rule
from phalanx.manifests.people_lists import ADMIN, SUBMIT
from phalanx.manifests.quantities import HOUSE, batch_amounts
from phalanx.manifests.queue_rules import ROOT, no_queue
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.queues import QueueFields
from phalanx.scheduler.cycle.specs import Amounts, QueueSpec

_AMOUNTS = ("capability", "deserved", "guarantee")

_ANNOTATED = {"idle_gpus": ANNOTATION, "submit": SUBMIT, "admin": ADMIN}
"""The fields of queues that are stored as annotations."""
_TIMES = ("default_time_s", "max_time_s")


class TimeLimits(NamedTuple):
    """The time limits of a queue's jobs in seconds: the default for jobs without a limit, and the
    maximum.
    """

    default_s: float | None
    max_s: float | None


Counts = Callable[[str], tuple[dict[str, int], int]]
"""Returns the podgroups of a queue by phase, and how many members hold resources in it."""
Uses = Callable[[str], tuple[dict[str, float], dict[str, float]]]
"""Returns two kinds of amounts, in the units of leases: the amounts that the gangs of a queue hold,
and the amounts for which the gangs wait.
"""


class Queues:
    """All queues, and their quotas as the scheduler sees them."""

    def __init__(
        self,
        state_store: StateStore,
        changed: Callable[[], None],
        counts: Counts,
        uses: Uses,
        wall: Callable[[], float],
    ) -> None:
        """`changed` is called when queues or their quotas have changed. `wall` returns the
        wall-clock time in seconds.
        """
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
        """Store a queue that is new or has changed."""
        self._state_store.keep("queues", queue.name.encode(), queue)
        self.on_publish(queue)

    def forget(self, queue: QueueRecord) -> None:
        """Delete a queue from the store."""
        self._state_store.keep("queues", queue.name.encode(), None)
        self.on_forget(queue)

    # ---- requests ----------------------------------------------------------------------------

    def create(self, name: str, fields: QueueFields, is_again: bool = False) -> QueueInfo:
        """Create a queue. `is_again`: whether the request is repeated. If so, an existing queue
        that equals the requested queue was created by this request.
        """
        self._count_all()
        known = self.table.get(name)
        if is_again and known is not None and _with(known.spec, fields) == known.spec:
            return self._row(known)
        record = self.table.create(_with(QueueSpec(name=name), fields), self._wall())
        self._changed()
        return self._row(record)

    def put(self, spec: QueueSpec) -> str:
        """Create or change the queue of a manifest, including its state. Returns what was done."""
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
        """Change a queue's quotas. Fields that are not given keep their values."""
        self._count_all()
        known = self._need(name)
        record = self.table.update(_with(known.spec, fields), self._wall())
        self._changed()
        return self._row(record)

    def annotate(self, name: str, key: str, text: str) -> None:
        """Set an annotation of a queue; an empty text removes it."""
        spec = self._need(name).spec
        others = tuple(one for one in spec.annotations if one[0] != key)
        annotations = (*others, (key, text)) if text else others
        changed = msgspec.structs.replace(spec, annotations=annotations)
        self.table.update(changed, self._wall())
        self._changed()

    def open(self, name: str) -> QueueInfo:
        """Open a queue to new work."""
        self._need(name)
        self.table.open(name, self._wall())
        self._changed()
        return self._row(self._need(name))

    def close(self, name: str) -> QueueInfo:
        """Close a queue to new work."""
        self._need(name)
        self._count_all()
        self.table.close(name, self._wall())
        return self._row(self._need(name))

    def delete(self, name: str, is_again: bool = False) -> None:
        """Delete a queue. `is_again`: whether the request is repeated. If so, a missing queue was
        deleted by this request.
        """
        if is_again and self.table.get(name) is None:
            return
        self._need(name)
        self._count_all()
        self.table.delete(name, self._wall())
        self._changed()

    def rows(self, name: str | None = None) -> list[QueueInfo]:
        """Return all queues, or one, for display."""
        self._count_all()
        found = self.table.all() if name is None else [self._need(name)]
        sums = self._sums()
        return [self._row(record, sums) for record in found]

    def require_open(self, name: str) -> QueueRecord:
        """Return the queue. Raises QueueUnavailableError if the queue does not take work."""
        try:
            self.table.require_open(name)
        except JobCommandError as error:
            raise QueueUnavailableError(str(error)) from None
        return self._need(name)

    def left(self, name: str) -> None:
        """Count a queue's work again after some of it has ended. A closing queue may become
        closed.
        """
        record = self.table.get(name)
        if record is not None and record.state == "Closing":
            self._count(record)

    def weights(self) -> dict[str, float]:
        """Return the weight of each queue."""
        return {q.name: float(q.spec.weight) for q in self.table.all()}

    # ---- scheduling --------------------------------------------------------------------------

    def specs(self, busy: Collection[str], total: Mapping[str, float]) -> list[QueueSpec]:
        """Return the queues with the amounts that they deserve now. A closing queue counts as open,
        so that its remaining work is scheduled. `busy`: the queues that have work. `total`: the
        cluster's resources.
        """
        known = [q.spec for q in self.table.all()]
        opened = [msgspec.structs.replace(q, state="Open") for q in known]
        return with_deserved(opened, busy, dict(batch_amounts(dict(total))))

    def capability(self, name: str) -> dict[str, float]:
        """Return the largest amounts that a queue may use, in the units of leases. The limits of
        its ancestors apply, too.
        """
        limits: dict[str, float] = {}
        record = self.table.get(name)
        while record is not None:
            for resource, amount in house_amounts(record.spec.capability).items():
                limits[resource] = min(amount, limits.get(resource, amount))
            record = self.table.get(record.spec.parent or ROOT) if record.name != ROOT else None
        return limits

    def time_limits(self, name: str) -> TimeLimits:
        """Return the time limits of jobs in a queue.

        The maximum is the smallest maximum of the queue and its ancestors. The default comes from
        the queue or, if the queue has none, from its nearest ancestor with a default. The default
        is at most the maximum. If none of these queues has a default, the maximum is the default.
        """
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
        """Return the rule by which the GPUs of a queue's jobs count as idle. The rule comes from
        the queue or, if the queue has none, from its nearest ancestor with a rule.
        """
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
        """Return two amounts for each queue, over the gangs of the queue and of the queues below
        it: the amounts that these gangs hold, and the amounts for which these gangs wait.
        """
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
            submit=dict(spec.annotations).get(SUBMIT, ""),
            admin=dict(spec.annotations).get(ADMIN, ""),
            default_time_s=limits.default_s,
            max_time_s=limits.max_s,
            pending=podgroups.get("pending", 0),
            inqueue=podgroups.get("inqueue", 0),
            running=podgroups.get("running", 0),
            unknown=podgroups.get("unknown", 0),
            completed=podgroups.get("completed", 0),
        )


def house_amounts(amounts: Amounts) -> dict[str, float]:
    """Return amounts under the resource names that leases use."""
    return {HOUSE.get(name, name.removeprefix("phalanx/")): amount for name, amount in amounts}


def _with(spec: QueueSpec, fields: QueueFields) -> QueueSpec:
    given = {
        name: _value(name, value)
        for name, value in msgspec.structs.asdict(fields).items()
        if value is not None and name not in _ANNOTATED
    }
    written = {key: getattr(fields, name) for name, key in _ANNOTATED.items()}
    if any(text is not None for text in written.values()):
        kept = {key: text for key, text in spec.annotations if written.get(key) is None}
        new = {key: text for key, text in written.items() if text is not None}
        lists = {key: text for key, text in new.items() if text or key == ANNOTATION}
        given["annotations"] = tuple((kept | lists).items())
    return msgspec.structs.replace(spec, **given)


def _value(name: str, value: Any) -> Any:
    if name in _AMOUNTS:
        return batch_amounts(value)
    return None if name in _TIMES and not value else value
