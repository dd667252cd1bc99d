"""The reading of files that list the existing queues. The queues are given as Queue manifests, or
as a plain list of their fields.
"""

from __future__ import annotations

from phalanx.manifests.fields import Fields
from phalanx.manifests.findings import ManifestError, Report
from phalanx.manifests.queue_rules import KnownQueue, QueueTree
from phalanx.manifests.queues import read_queue
from phalanx.manifests.text import load
from phalanx.scheduler.cycle.specs import QueueSpec

LISTS = ("queues", "items", "existing_queues")


def read_known_queues(text: str | bytes, file: str = "") -> QueueTree:
    """Return the queues in a file.

    The file contains manifests, or a list `[{name, state, parent, capability, ...}]`, alone or
    under the key `queues`. `allocated_pods` of a queue in the list is the number of members that
    hold resources. Raises ManifestError.
    """
    report = Report()
    known: list[KnownQueue] = []
    for document in load(text, file):
        if isinstance(document.value, list):
            found = Fields(document, (), {"": document.value}, report).items("")
        else:
            top = Fields(document, (), document.value, report)
            listed = "items" if top.known.get("kind") == "List" else _list_in(top)
            found = top.items(listed) if listed else [top]
        known += [_known(item) for item in found if item.known.get("kind", "Queue") == "Queue"]
    if not report.ok:
        raise ManifestError(report.errors, file)
    return QueueTree(known)


def _list_in(top: Fields) -> str:
    return next((k for k in LISTS if k in top.known and "kind" not in top.known), "")


def _known(at: Fields) -> KnownQueue:
    metadata, status = at.fields("metadata"), at.fields("status")
    spec = at.fields("spec") if at.has("spec") else at
    name = metadata.text("name") or at.text("name") or spec.text("name")
    if not name:
        at.error("name", "name_missing", "a queue needs a name")
    state = status.text("state") or "Open"
    pods = dict(status.amounts("allocated") or at.amounts("allocated")).get("pods", 0.0)
    members = at.whole("allocated_pods", int(pods))
    queue: QueueSpec = read_queue(spec, name, metadata.pairs("annotations"), state)
    return KnownQueue(spec=queue, members=members)
