"""What the page's process knows, for Prometheus.

Gauges are read of the last picture when somebody scrapes. Jobs that end are counted as they are
heard of: a job is told of until it is forgotten, so none is missed, and none is counted that had
ended before this process began.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client import Counter as Total
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from phalanx.dashboard.watch import Watch
from phalanx.model.jobs import states as st
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.work import JobInfo
from phalanx.observe.usage import is_silent, sums

CONTENT_TYPE: str = CONTENT_TYPE_LATEST
NODE_STATES = {"ALIVE": "up", "DRAINING": "draining", "DEAD": "down"}
UNITS = {"CPU": "core", "GPU": "device", "memory": "byte", "object_store_memory": "byte"}
OTHER_UNIT = "unit"
SECONDS = tuple(float(2**power) for power in range(19))
"""The bounds of histograms: 1 s to three days."""
_QUEUE_AMOUNTS = {
    "allocated": "What gangs and jobs of a queue hold, those of the queues below it included",
    "requested": "What they wait for, beside that",
    "deserved": "What a queue deserves, where somebody said so",
    "guarantee": "What is kept free for a queue",
    "capability": "What a queue may use at most",
}
RESULTS = {
    st.COMPLETED: "completed", st.FAILED: "failed", st.TERMINATED: "terminated",
    st.TIMED_OUT: "timed_out", st.DEADLINE: "deadline",
    st.DEPENDENCY_FAILED: "dependency_failed",
}  # fmt: skip


class Metrics(Collector):
    """Everything under its name; labels are bounded: no job, user or process is one."""

    def __init__(self, watch: Watch, version: str) -> None:
        self._watch = watch
        self._version = version
        self._registry = CollectorRegistry()
        self._finished = Total(
            "phalanx_jobs_finished", "Jobs that ended", ("queue", "result"),
            registry=self._registry,
        )  # fmt: skip
        self._waited = Histogram(
            "phalanx_job_wait_seconds", "From the submission of a job to its first start",
            ("queue",), buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._ran = Histogram(
            "phalanx_job_run_seconds", "How long a job that ended ran, the last time", ("queue",),
            buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._registry.register(self)
        watch.on_jobs = self.jobs_heard

    def jobs_heard(self, rows: list[tuple[JobInfo | None, JobInfo]]) -> None:
        """Rows of jobs that have changed, each with what it was; None: it was not there."""
        for known, row in rows:
            if row.started is not None and (known is None or known.started is None):
                self._waited.labels(row.queue).observe(max(row.started - row.submitted, 0.0))
            if row.state in RESULTS and (known is None or known.state not in RESULTS):
                self._finished.labels(row.queue, RESULTS[row.state]).inc()
                if row.started is not None:
                    self._ran.labels(row.queue).observe(row.ran_s)

    def text(self) -> bytes:
        """All of it, in OpenMetrics' text."""
        text: bytes = generate_latest(self._registry)  # type: ignore[no-untyped-call]
        return text

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client's Collector."""
        build = InfoMetricFamily("phalanx_build", "This version")
        build.add_metric([], {"version": self._version, "python": platform.python_version()})
        yield build
        picture = self._watch.picture
        up = GaugeMetricFamily("phalanx_head_up", "Whether the head answers")
        up.add_metric([], float(picture is not None and not picture.trouble))
        yield up
        viewers = GaugeMetricFamily("phalanx_dashboard_viewers", "Pages that are open")
        viewers.add_metric([], self._watch.viewers)
        yield viewers
        if picture is None:
            return
        yield from _of_nodes(picture.status.nodes)
        actors = GaugeMetricFamily("phalanx_actors", "Actors", labels=("state",))
        for state, count in sorted(picture.status.actors.items()):
            actors.add_metric([state.lower()], count)
        yield actors
        defects = GaugeMetricFamily(
            "phalanx_defects", "Errors of the head's own since it started", labels=("kind",)
        )
        for kind, row in sorted(picture.status.defects.items()):
            defects.add_metric([kind], row.count)
        yield defects
        for what, said in _QUEUE_AMOUNTS.items():
            family = GaugeMetricFamily(
                f"phalanx_queue_resource_{what}", said, labels=("queue", "resource", "unit")
            )
            for queue in picture.queues:
                for name, amount in sorted(queue[what].items()):
                    family.add_metric([queue.name, name, UNITS.get(name, OTHER_UNIT)], amount)
            yield family
        weight = GaugeMetricFamily("phalanx_queue_weight", "Its weight", labels=("queue",))
        is_open = GaugeMetricFamily(
            "phalanx_queue_open", "Whether it takes work", labels=("queue",)
        )
        for queue in picture.queues:
            weight.add_metric([queue.name], queue.weight)
            is_open.add_metric([queue.name], float(queue.state == "Open"))
        yield from (weight, is_open)
        yield from _of_jobs(picture.jobs, picture.at)


def _of_nodes(nodes: list[NodeInfo]) -> Iterator[Metric]:
    states = Counter(NODE_STATES.get(row.state, "unknown") for row in nodes)
    family = GaugeMetricFamily("phalanx_nodes", "Nodes", labels=("state",))
    for state in (*NODE_STATES.values(), "unknown"):
        family.add_metric([state], states[state])
    yield family
    whole = GaugeMetricFamily(
        "phalanx_resource_capacity", "What living nodes have", labels=("resource", "unit")
    )
    held = GaugeMetricFamily(
        "phalanx_resource_allocated", "What is allocated of it", labels=("resource", "unit")
    )
    for name, (used, total) in sorted(sums(nodes).items()):
        if name.startswith("node:"):
            continue
        whole.add_metric([name, UNITS.get(name, OTHER_UNIT)], total)
        held.add_metric([name, UNITS.get(name, OTHER_UNIT)], used)
    yield from (whole, held)
    of_node = ("node", "resource", "unit")
    whole = GaugeMetricFamily("phalanx_node_resource_capacity", "What a node has", labels=of_node)
    held = GaugeMetricFamily(
        "phalanx_node_resource_allocated", "What is allocated of a node", labels=of_node
    )
    for row in nodes:
        if row.state == "DEAD" or is_silent(row):
            continue
        for name, unit in UNITS.items():
            if name in row.total:
                labels = [row.hostname or row.node_id[:12], name, unit]
                whole.add_metric(labels, row.total[name])
                held.add_metric(labels, max(row.total[name] - row.available.get(name, 0.0), 0.0))
    yield from (whole, held)


def _of_jobs(jobs: list[JobInfo], now: float) -> Iterator[Metric]:
    family = GaugeMetricFamily("phalanx_jobs", "Jobs", labels=("queue", "state"))
    counts = Counter((job.queue, job.state) for job in jobs)
    for (queue, state), count in sorted(counts.items()):
        family.add_metric([queue, state.lower()], count)
    yield family
    oldest: dict[str, float] = {}
    for job in jobs:
        if job.state == st.PENDING:
            oldest[job.queue] = max(oldest.get(job.queue, 0.0), now - job.submitted)
    family = GaugeMetricFamily(
        "phalanx_queue_oldest_pending_seconds", "How long the first of a queue waits",
        labels=("queue",),
    )  # fmt: skip
    for queue, seconds in sorted(oldest.items()):
        family.add_metric([queue], seconds)
    yield family
