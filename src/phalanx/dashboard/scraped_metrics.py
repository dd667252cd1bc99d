"""Combines the metrics of the head and its nodes, and labels them with nodes' names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from phalanx.observe.metrics.catalogue import CATALOGUE, NODE
from phalanx.observe.metrics.definitions import (
    COUNTER,
    HISTOGRAM,
    Definition,
    Numbers,
    Sample,
    decode_numbers,
)
from phalanx.observe.metrics.meter import Family, merge
from phalanx.observe.metrics.program_metrics import check_definition
from phalanx.protocol.requests.metrics import MetricsNews, MetricsSince, NodeMetrics

Families = dict[str, Family]
UNBOUND_SETS = 1 << 30
UNBOUND = {name: msgspec.structs.replace(one, most=UNBOUND_SETS) for name, one in CATALOGUE.items()}
"""The definitions without limits on the number of label sets, because each process has limited its
own.
"""
EXPORTED_NODE = "exported_node"
"""The label that a program's own tag `node` gets, because the label `node` names the node that was
scraped. Prometheus renames such a label in the same way.
"""


class ScrapedMetrics:
    """The last metrics of the head and of each node."""

    def __init__(self) -> None:
        self.since = MetricsSince()
        self._own: list[Numbers] = []
        self._nodes: dict[str, NodeMetrics] = {}

    def take(self, news: MetricsNews) -> None:
        """Replace the metrics by those in the head's answer."""
        if news.is_new:
            self._nodes.clear()
        self.since, self._own = news.since, news.own
        self._nodes |= {row.node_id: row for row in news.nodes}
        for node in news.gone_nodes:
            self._nodes.pop(node, None)

    def families(self, names: Mapping[str, str]) -> Families:
        """Return all metrics by name. `names`: the names of nodes by id."""
        found: Families = {}
        for numbers in self._own:
            _add(found, numbers, "")
        own = node_names((node_id, row.hostname) for node_id, row in self._nodes.items())
        for node_id, row in self._nodes.items():
            name = names.get(node_id) or own[node_id]
            for numbers in decode_numbers(row.numbers):
                if numbers.definition is None:
                    _add(found, numbers, name)
                else:
                    _add_program(found, numbers, numbers.definition, name)
        return found


def node_names(nodes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return names of nodes by id. `nodes`: pairs (id, host name). If several nodes share a host
    name, the name is the host name and a part of the id.
    """
    known = list(nodes)
    counts = Counter(hostname for _, hostname in known)
    return {
        node_id: (
            hostname
            if hostname and counts[hostname] == 1
            else f"{hostname}-{node_id[:8]}".lstrip("-")
        )
        for node_id, hostname in known
    }


def _add(found: Families, numbers: Numbers, node: str) -> None:
    known = UNBOUND.get(numbers.name)
    if known is None:
        return
    if numbers.name not in found:
        found[numbers.name] = Family(known)
    family, of_node = found[numbers.name], NODE in known.labels and bool(node)
    for sample in numbers.samples:
        labels = (node, *sample.labels) if of_node else sample.labels
        merge(family, Sample(labels, sample.value, sample.counts), adds_gauges=not of_node)


def _add_program(found: Families, numbers: Numbers, definition: Definition, node: str) -> None:
    """Add a metric of a program on a node. The metric is left out if its name, or the name of one
    of its lines, belongs to another metric.
    """
    name = numbers.name
    if name not in found:
        try:
            check_definition(name, definition)
        except ValueError:
            return
        taken = {one for known, family in found.items() for one in _sample_names(known, family)}
        own = Family(
            Definition(
                definition.kind,
                definition.help,
                (NODE, *(EXPORTED_NODE if tag == NODE else tag for tag in definition.labels)),
                definition.bounds,
                UNBOUND_SETS,
            )
        )
        if not taken.isdisjoint(_sample_names(name, own)):
            return
        found[name] = own
    for sample in numbers.samples:
        merge(found[name], Sample((node, *sample.labels), sample.value, sample.counts))


def _sample_names(name: str, family: Family) -> set[str]:
    """Return the names of a metric's lines, and other names that readers could mistake for them."""
    kind = family.definition.kind
    if kind == COUNTER:
        base = name.removesuffix("_total")
        return {base, f"{base}_total", f"{base}_created"}
    if kind == HISTOGRAM:
        return {name, *(f"{name}_{end}" for end in ("bucket", "sum", "count", "created"))}
    return {name}
