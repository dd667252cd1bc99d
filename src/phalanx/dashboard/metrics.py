"""The metrics of a cluster for Prometheus: gauges from the last snapshot of the cluster, and the
counts of the head and its nodes.
"""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from phalanx.dashboard.scraped_metrics import UNBOUND, Families, ScrapedMetrics, node_names
from phalanx.dashboard.watch import ClusterSnapshot, Watch
from phalanx.errors import PhalanxError
from phalanx.model.jobs import states as st
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.work import JobInfo, QueueInfo
from phalanx.observe.metrics.definitions import COUNTER, HISTOGRAM, Numbers
from phalanx.observe.metrics.meter import Family, Meter
from phalanx.observe.stranded import stranded_in_all
from phalanx.observe.usage import is_silent, sums
from phalanx.protocol.requests.metrics import GetMetrics

CONTENT_TYPE: str = CONTENT_TYPE_LATEST
NODE_STATES = {"ALIVE": "up", "DRAINING": "draining", "DEAD": "down"}
UNITS = {"CPU": "core", "GPU": "device", "memory": "byte", "object_store_memory": "byte"}
OTHER_UNIT = "unit"
_OF_QUEUES = ("allocated", "requested", "deserved", "guarantee", "capability")


class Metrics(Collector):
    """The collector of all metrics."""

    def __init__(self, watch: Watch, version: str, asked: Callable[[], list[Numbers]]) -> None:
        """`asked`: a function that returns the counts of this page's requests."""
        self._asked = asked
        self._of_page = Meter()
        self._watch = watch
        self._version = version
        self._scraped = ScrapedMetrics()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def fetch(self) -> None:
        """Read the head's counts. If the head does not answer, the last counts are kept."""
        is_more = True
        try:
            while is_more:
                news = await self._watch.ask(GetMetrics(self._scraped.since))
                self._scraped.take(news)
                is_more = news.is_more
        except (OSError, PhalanxError, ValueError):
            return

    async def text(self) -> bytes:
        """Return all metrics as OpenMetrics text."""
        await self.fetch()
        # a copy, because requests go on counting while a thread writes the text
        self._of_page = Meter()
        for numbers in self._asked():
            self._of_page.take_in(numbers)
        return await asyncio.to_thread(self._written)

    def _written(self) -> bytes:
        text: bytes = generate_latest(self._registry)  # type: ignore[no-untyped-call]
        return text

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for the registry of prometheus_client."""
        build = InfoMetricFamily("phalanx_build", "This version")
        build.add_metric([], {"version": self._version, "python": platform.python_version()})
        yield build
        snapshot, meter = self._watch.snapshot, Meter(UNBOUND)
        meter.set("phalanx_head_up", float(snapshot is not None and not snapshot.trouble))
        meter.set("phalanx_dashboard_viewers", self._watch.viewers)
        names: dict[str, str] = {}
        if snapshot is not None:
            nodes = snapshot.status.nodes
            names = node_names((row.node_id, row.hostname) for row in nodes if row.state != "DEAD")
            put_picture(meter, snapshot, names)
        yield from written(meter.families)
        yield from written(self._of_page.families)
        yield from written(self._scraped.families(names))


def written(families: Families) -> Iterator[Metric]:
    """Yield metrics in prometheus_client's form."""
    for name, family in families.items():
        yield _metric(name, family)


def _metric(name: str, family: Family) -> Metric:
    definition = family.definition
    if definition.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(name, definition.help, labels=definition.labels)
        bounds = [*map(floatToGoString, definition.bounds), "+Inf"]
        for sample in family.samples.values():
            sums_up_to = accumulate(sample.counts or ())
            histogram.add_metric(
                sample.labels, list(zip(bounds, sums_up_to, strict=True)), sample.value
            )
        return histogram
    kind = CounterMetricFamily if definition.kind == COUNTER else GaugeMetricFamily
    metric = kind(name, definition.help, labels=definition.labels)
    for sample in family.samples.values():
        metric.add_metric(sample.labels, sample.value)
    return metric


def put_picture(meter: Meter, snapshot: ClusterSnapshot, names: dict[str, str]) -> None:
    """Set the gauges whose values are in a snapshot of the cluster. `names`: the names of living
    nodes by id.
    """
    _put_nodes(meter, snapshot.status.nodes, names)
    for name, amount in stranded_in_all(snapshot.status.stranded).items():
        meter.set("phalanx_resource_stranded", amount, name, _unit(name))
    for state, count in snapshot.status.actors.items():
        meter.set("phalanx_actors", count, state.lower())
    for kind, row in snapshot.status.defects.items():
        meter.set("phalanx_defects", row.count, kind)
    capacity = {name: total for name, (_, total) in sums(snapshot.status.nodes).items() if total}
    for queue in snapshot.queues:
        _put_queue(meter, queue, capacity)
    _put_jobs(meter, snapshot.jobs, snapshot)


def _unit(resource: str) -> str:
    return UNITS.get(resource, OTHER_UNIT)


def _put_nodes(meter: Meter, nodes: list[NodeInfo], names: dict[str, str]) -> None:
    states = Counter(NODE_STATES.get(row.state, "unknown") for row in nodes)
    for state in (*NODE_STATES.values(), "unknown"):
        meter.set("phalanx_nodes", states[state], state)
    for name, (used, total) in sums(nodes).items():
        if not name.startswith("node:"):
            meter.set("phalanx_resource_capacity", total, name, _unit(name))
            meter.set("phalanx_resource_allocated", used, name, _unit(name))
    for row in nodes:
        if row.node_id not in names or is_silent(row):
            continue
        for name, unit in UNITS.items():
            if name in row.total:
                labels = (names[row.node_id], name, unit)
                used = max(row.total[name] - row.available.get(name, 0.0), 0.0)
                meter.set("phalanx_node_resource_capacity", row.total[name], *labels)
                meter.set("phalanx_node_resource_allocated", used, *labels)


def _put_queue(meter: Meter, queue: QueueInfo, capacity: dict[str, float]) -> None:
    for what in _OF_QUEUES:
        for name, amount in queue[what].items():
            labels = (queue.name, name, _unit(name))
            meter.set(f"phalanx_queue_resource_{what}", amount, *labels)
    shares = [held / capacity[name] for name, held in queue.allocated.items() if name in capacity]
    meter.set("phalanx_queue_share_ratio", max(shares, default=0.0), queue.name)
    meter.set("phalanx_queue_weight", queue.weight, queue.name)
    meter.set("phalanx_queue_open", float(queue.state == "Open"), queue.name)


def _put_jobs(meter: Meter, jobs: Iterable[JobInfo], snapshot: ClusterSnapshot) -> None:
    oldest: dict[str, float] = {}
    reasons: Counter[tuple[str, str]] = Counter()
    states: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        states[job.queue, job.state.lower()] += 1
        if job.state == st.PENDING:
            oldest[job.queue] = max(oldest.get(job.queue, 0.0), snapshot.at - job.submitted)
            reasons[job.queue, _why(job, snapshot.waits)] += 1
    for (queue, state), count in states.items():
        meter.set("phalanx_jobs", count, queue, state)
    for (queue, reason), count in reasons.items():
        meter.set("phalanx_jobs_pending", count, queue, reason)
    for queue, seconds in oldest.items():
        meter.set("phalanx_queue_oldest_pending_seconds", seconds, queue)


def _why(job: JobInfo, waits: dict[str, str]) -> str:
    """Return the code of the reason why a job waits: the scheduler's code or, without such a code,
    a word.
    """
    if job.is_held:
        return "held"
    code = waits.get(f"{job.namespace}/{job.name}")
    if code is None and job.after:
        return "dependency"
    return code or "not-asked-yet"
