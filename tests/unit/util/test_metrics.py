"""Counters, gauges and histograms of programs have Ray's semantics and errors. The values of
drivers, tasks and actors are reported.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.polling import eventually

from phalanx.adapters.ray.modules import metrics as ray_metrics
from phalanx.api.session import running_engine
from phalanx.observe.metrics.definitions import decode_numbers
from phalanx.protocol.requests.metrics import GetMetrics, MetricsSince
from phalanx.runtime.engine.program_metrics import PROGRAM
from phalanx.util.metrics import Counter, Gauge, Histogram


def counted(name):
    """Return the counts of a metric in this process since the last call."""
    return {
        sample.labels: sample.value if sample.counts is None else sample.counts
        for one in PROGRAM.drain()
        if one.name == name
        for sample in one.samples
    }


@pytest.mark.parametrize("module", [ray_metrics, None])
def test_values_by_tags(module):
    kind = Counter if module is None else module.Counter
    counter = kind("requests", tag_keys=("route", "who")).set_default_tags({"who": "all"})
    counter.inc(tags={"route": "/"})
    counter.inc(2, tags={"route": "/", "who": "me"})
    counter.inc(0.5, tags={"route": "/", "undeclared": "x"})
    name = "requests" if module is None else "ray_requests"
    assert counted(name) == {("/", "all"): 1.5, ("/", "me"): 2}


def test_gauges_and_histograms():
    gauge = Gauge("size")
    gauge.set(3)
    gauge.set(None)
    gauge.set(float("nan"))
    gauge.set(2)
    assert counted("size") == {(): 2}
    latency = Histogram("latency", boundaries=[1, 10], tag_keys=("route",))
    for value in (0.5, 1, 5, 50):
        latency.observe(value, tags={"route": "/"})
    assert counted("latency") == {("/",): [2, 1, 1]}


def test_info_and_pickles():
    histogram = Histogram("h1", "said", boundaries=[1.0, 2.0], tag_keys=("a",))
    assert histogram.info == {
        "name": "h1", "description": "said", "tag_keys": ("a",), "default_tags": {},
        "boundaries": [1.0, 2.0],
    }  # fmt: skip
    again = pickle.loads(pickle.dumps(histogram))
    assert again.info == histogram.info
    counter = pickle.loads(pickle.dumps(ray_metrics.Counter("c1")))
    assert type(counter) is ray_metrics.Counter


# Calls that a type checker refuses, too.
COUNT: Any = Counter
LEVEL: Any = Gauge
TIMES: Any = Histogram


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: COUNT(""), ValueError, "Empty name"),
        (lambda: COUNT("c", tag_keys="a"), TypeError, "tuple"),
        (lambda: COUNT("c", tag_keys=(1,)), TypeError, "Tag keys must be str"),
        (lambda: COUNT("c2").set_default_tags({"a": "b"}), ValueError, "Unrecognized tag key a"),
        (lambda: COUNT("c3", tag_keys=("a",)).set_default_tags({"a": 1}), TypeError, "be str"),
        (lambda: COUNT("c3", tag_keys=("a",)).inc(), ValueError, "Missing value for tag key"),
        (lambda: COUNT("c3", tag_keys=("a",)).inc(tags={"a": 1}), TypeError, "must be str"),
        (lambda: COUNT("c2").inc("1"), TypeError, "value must be int or float"),
        (lambda: COUNT("c2").inc(0), ValueError, "value must be >0"),
        (lambda: COUNT("c2").inc(-1), ValueError, "value must be >0"),
        (lambda: COUNT("c2").inc(float("inf")), ValueError, "finite"),
        (lambda: LEVEL("g2").set("1"), TypeError, "value must be int or float"),
        (lambda: TIMES("h2"), ValueError, "boundaries argument should be provided"),
        (lambda: TIMES("h2", boundaries=[]), ValueError, "boundaries argument"),
        (lambda: TIMES("h2", boundaries=[0.0, 1.0]), ValueError, "at index 0"),
        (lambda: TIMES("h3", boundaries=[1.0]).observe(float("nan")), ValueError, "finite"),
        (lambda: COUNT("phalanx_mine"), ValueError, "cluster itself"),
        (lambda: COUNT("c4", tag_keys=("le",)), ValueError, "none of le"),
        (lambda: [COUNT("c5"), LEVEL("c5")], ValueError, "take another name"),
        (lambda: COUNT("c3", tag_keys=("a",)).inc(tags={"a": "x" * 300}), ValueError, "256"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_a_name_that_cannot_be_is_a_warning_and_counts_nothing():
    with pytest.warns(UserWarning, match="Invalid metric name: a-b"):
        counter = Counter("a-b")
    counter.inc()
    assert counted("a-b") == {}


def test_what_ray_takes_ends_no_program():
    ray_metrics.Counter("twice").inc()
    with pytest.warns(UserWarning, match="take another name"):
        gauge = ray_metrics.Gauge("twice")
    gauge.set(5)
    with pytest.raises(TypeError, match="Tag values must be str"):
        gauge.set(5, {"a": 1})  # type: ignore[dict-item]
    ray_metrics.Counter("long", tag_keys=("a",)).inc(tags={"a": "x" * 300})
    ray_metrics.Histogram("odd", boundaries=[1.0]).observe(float("nan"))
    found = {one.name: one.samples[0] for one in PROGRAM.drain()}
    assert found["ray_twice"].value == 1
    assert found["ray_long"].labels == ("x" * 256,)
    assert "ray_odd" not in found


def test_drivers_tasks_and_actors_are_heard(ray):
    told = Counter("told", tag_keys=("who",))

    @ray.remote
    def task():
        Counter("told", tag_keys=("who",)).inc(2, tags={"who": "task"})
        told.inc(tags={"who": "pickled"})

    class Actor:
        def count(self):
            Gauge("level").set(7)
            return True

    actor = ray.remote(num_cpus=0)(Actor).remote()
    ray.get([task.remote(), task.remote(), actor.count.remote()])
    told.inc(5, tags={"who": "driver"})

    def heard():
        news = running_engine().ask(GetMetrics(MetricsSince()))
        return {
            (one.name, *sample.labels): sample.value
            for node in news.nodes
            for one in decode_numbers(node.numbers)
            for sample in one.samples
        }

    wanted = {
        ("told", "task"): 4, ("told", "pickled"): 2, ("told", "driver"): 5, ("level",): 7,
        ("phalanx_worker_starts_total", "started"): None,
    }  # fmt: skip

    def is_all():
        found = heard()
        return all(key in found and value in (None, found[key]) for key, value in wanted.items())

    eventually(is_all)
    done = heard()
    assert done["phalanx_tasks_finished_total", "finished", "Actor.count"] == 1
    assert any(key[0] == "phalanx_object_store_capacity_bytes" for key in done)
    ray.kill(actor)
    eventually(lambda: ("level",) not in heard())
