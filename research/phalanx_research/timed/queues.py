"""Reads the file of `--queues`. Its rows have the keys of a snapshot's queues, or are Volcano's
Queue objects.
"""

from __future__ import annotations

from phalanx.scheduler.cycle.documents import Document, Place
from phalanx.scheduler.cycle.reading import amounts_of, queue_of
from phalanx.scheduler.cycle.specs import QueueSpec
from phalanx.scheduler.plugin_parts.quota_tree import ROOT


def read_queues(text: str, file: str = "") -> tuple[QueueSpec, ...]:
    """Return the queues in a YAML or JSON text: a list of rows, or a mapping whose `queues` is such
    a list.

    A row is `{name, weight, priority, capability, deserved, guarantee, reclaimable, parent, ...}`
    or an object of kind Queue (`metadata.name`, `spec`). Raises BatchFileError with file, line and
    reason.
    """
    root = Document(text, file).root
    rows = root if root.is_list() else root.keys("queues").need("queues")
    found: dict[str, QueueSpec] = {}
    for row in rows.items():
        queue = _object(row) if row.has("kind") else queue_of(row)
        if queue.name in found:
            row.fail(f"queues holds {queue.name!r} twice")
        found[queue.name] = queue
    if not found:
        root.fail("the file lists no queue; a simulation needs at least one")
    for row, queue in zip(rows.items(), found.values(), strict=True):
        if queue.parent not in ("", ROOT) and queue.parent not in found:
            row.fail(f"queue {queue.name} has the parent {queue.parent!r}, which is not listed")
    return tuple(found.values())


def _object(at: Place) -> QueueSpec:
    if at.get("kind").text() != "Queue":
        at.get("kind").fail(f"a row's kind must be Queue, not {at.get('kind').value!r}")
    spec = at.get("spec").keys(
        "weight", "priority", "capability", "deserved", "guarantee", "reclaimable", "parent"
    )
    return QueueSpec(
        name=at.need("metadata").need("name").text(),
        weight=spec.get("weight").whole(1),
        priority=spec.get("priority").whole(0),
        capability=amounts_of(spec.get("capability")),
        deserved=amounts_of(spec.get("deserved")),
        guarantee=amounts_of(spec.get("guarantee").keys("resource").get("resource")),
        reclaimable=spec.get("reclaimable").flag(True),
        parent=spec.get("parent").text(""),
    )
