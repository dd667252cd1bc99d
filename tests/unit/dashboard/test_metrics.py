"""Metrics are in OpenMetrics format, bounded, and counted once; dashboards and alerts for other
programs use only these metrics.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import msgspec
import promql_parser
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from phalanx.dashboard import monitoring
from phalanx.dashboard.metrics import Metrics
from phalanx.dashboard.scraped_metrics import node_names
from phalanx.dashboard.watch import Watch
from phalanx.observe.metrics.catalogue import CATALOGUE
from phalanx.observe.metrics.definitions import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Definition,
    Numbers,
    Sample,
)
from phalanx.protocol.requests.metrics import MetricsNews, MetricsSince, NodeMetrics

from .test_app import served
from .world import EVIL, NOW, Head


def text(metrics):
    return asyncio.run(metrics.text()).decode()


def families(metrics):
    return {one.name: one for one in text_string_to_metric_families(text(metrics))}


def values(metrics, name):
    return {
        (one.name, *(one.labels[key] for key in sorted(one.labels))): one.value
        for one in families(metrics)[name].samples
        if not one.name.endswith("_created")
    }


def look(watch):
    """Make the watch ask the head once."""
    asyncio.run(watch._look())


@pytest.fixture
def head():
    return Head()


@pytest.fixture
def metrics(head):
    watch = Watch(head.ask, wall=lambda: NOW)
    metrics = Metrics(watch, "1.2.3", list)
    look(watch)
    return metrics


def test_gauges_say_what_the_picture_says(metrics):
    assert values(metrics, "phalanx_nodes") == {
        ("phalanx_nodes", "up"): 2, ("phalanx_nodes", "down"): 1,
        ("phalanx_nodes", "draining"): 0, ("phalanx_nodes", "unknown"): 0,
    }  # fmt: skip
    held = values(metrics, "phalanx_resource_allocated")
    assert held["phalanx_resource_allocated", "GPU", "device"] == 1.5
    assert held["phalanx_resource_allocated", "CPU", "core"] == 16
    stranded = values(metrics, "phalanx_resource_stranded")
    assert stranded == {("phalanx_resource_stranded", "GPU", "device"): 0.5}
    jobs = values(metrics, "phalanx_jobs")
    assert jobs["phalanx_jobs", "lab", "running"] == 1
    oldest = values(metrics, "phalanx_queue_oldest_pending_seconds")
    assert oldest["phalanx_queue_oldest_pending_seconds", "lab"] == 90
    deserved = values(metrics, "phalanx_queue_resource_deserved")
    assert deserved == {("phalanx_queue_resource_deserved", "lab", "GPU", "device"): 1}
    assert EVIL in {one.labels.get("queue") for one in families(metrics)["phalanx_jobs"].samples}


def test_no_label_names_a_job_or_a_user(metrics):
    labels = {name for one in families(metrics).values() for s in one.samples for name in s.labels}
    assert labels <= {
        "queue", "resource", "unit", "state", "node", "kind", "result", "le", "version", "python",
        "reason",
    }  # fmt: skip


def told(*own, nodes=(), version=1, is_new=True, gone=()):
    """Return metrics with the counts of a head, and with those of each of these nodes: (id, name of
    its machine).
    """
    rows = [
        NodeMetrics(node_id, host, msgspec.msgpack.encode(numbers))
        for node_id, host, numbers in nodes
    ]
    since = MetricsSince(1.0, version)
    return MetricsNews(since, is_new, False, list(own), rows, list(gone))


def test_what_the_head_has_counted_is_exported(head, metrics):
    finished = Numbers("phalanx_jobs_finished_total", [Sample(("lab", "failed"), 3.0)])
    counts = [1.0] + [0.0] * 17 + [2.0, 4.0]
    waited = Numbers("phalanx_job_wait_seconds", [Sample(("lab",), 7.5, counts)])
    head.metrics = told(finished, waited, Numbers("phalanx_of_a_later_version", [Sample((), 1.0)]))
    assert values(metrics, "phalanx_jobs_finished") == {
        ("phalanx_jobs_finished_total", "lab", "failed"): 3
    }
    waits = values(metrics, "phalanx_job_wait_seconds")
    assert waits["phalanx_job_wait_seconds_count", "lab"] == 7
    assert waits["phalanx_job_wait_seconds_sum", "lab"] == 7.5
    assert waits["phalanx_job_wait_seconds_bucket", "1.0", "lab"] == 1
    assert waits["phalanx_job_wait_seconds_bucket", "+Inf", "lab"] == 7


TASKS = "phalanx_tasks_finished_total"
MINE = Definition(COUNTER, "counted by a program", ("who",))
NODES = ("a" * 56, "b" * 56)


def test_what_nodes_say_is_summed_up_or_told_by_node(head, metrics):
    def said(count):
        return [
            Numbers(TASKS, [Sample(("finished", "f"), count)]),
            Numbers("phalanx_tasks", [Sample(("queued",), count)]),
            Numbers("phalanx_leases", [Sample((), count)]),
        ]

    head.metrics = told(nodes=[(node, "big", said(at + 1.0)) for at, node in enumerate(NODES)])
    assert values(metrics, "phalanx_tasks_finished") == {(TASKS, "f", "finished"): 3}
    assert values(metrics, "phalanx_tasks") == {("phalanx_tasks", "queued"): 3}
    assert values(metrics, "phalanx_leases") == {
        ("phalanx_leases", "big-aaaaaaaa"): 1, ("phalanx_leases", "big-bbbbbbbb"): 2,
    }  # fmt: skip
    head.metrics = told(is_new=False, version=2, gone=NODES[:1])
    assert values(metrics, "phalanx_tasks") == {("phalanx_tasks", "queued"): 2}


def test_what_programs_count_has_their_tags_and_the_node(head, metrics):
    own_node = Definition(GAUGE, "", ("node",))
    head.metrics = told(
        nodes=[
            (
                NODES[0],
                "big",
                [
                    Numbers("requests_total", [Sample((EVIL,), 2.0)], MINE),
                    Numbers("level", [Sample(("theirs",), 1.0)], own_node),
                    Numbers("times", [Sample((), 3.0, [1.0, 2.0])], TIMES),
                ],
            )
        ]
    )
    found = families(metrics)
    [sample] = [one for one in found["requests"].samples if one.name == "requests_total"]
    assert sample.labels == {"node": "big", "who": EVIL}
    assert found["level"].samples[0].labels == {"node": "big", "exported_node": "theirs"}
    assert values(metrics, "times")["times_count", "big"] == 3


TIMES = Definition(HISTOGRAM, "", (), (1.0,))


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("phalanx_nodes", Definition(GAUGE, "")),
        ("phalanx_mine", Definition(GAUGE, "")),
        ("times_count", Definition(GAUGE, "")),
        ("times_bucket", Definition(COUNTER, "")),
        ("a b", Definition(GAUGE, "")),
        ("a", Definition(GAUGE, "", ("le",))),
        ("a", Definition("x", "")),
    ],
)
def test_what_would_make_the_page_wrong_is_left_out(head, metrics, name, definition):
    bad = Numbers(name, [Sample(("x",) * len(definition.labels), 1.0)], definition)
    good = Numbers("times", [Sample((), 3.0, [1.0, 2.0])], TIMES)
    before = text(metrics)
    head.metrics = told(nodes=[(NODES[0], "big", [good, bad])])
    assert "times_sum" in text(metrics)
    without = [line for line in text(metrics).splitlines() if "times" not in line]
    assert without == before.splitlines()


def test_a_head_that_has_stopped_answering_has_still_counted_what_it_said(head, metrics):
    head.metrics = told(Numbers("phalanx_placements_total", [Sample((), 2.0)]))
    look(metrics._watch)
    before = values(metrics, "phalanx_placements")
    head.error = ConnectionError("away")
    assert values(metrics, "phalanx_placements") == before


def test_nodes_of_one_machine_have_names_of_their_own():
    names = node_names([("a" * 56, "big"), ("b" * 56, "big"), ("c" * 56, "small"), ("d" * 56, "")])
    assert list(names.values()) == ["big-aaaaaaaa", "big-bbbbbbbb", "small", "dddddddd"]


def test_jobs_that_wait_are_counted_by_what_for(metrics):
    waiting = values(metrics, "phalanx_jobs_pending")
    assert waiting["phalanx_jobs_pending", "lab", "queue-quota"] == 1


def test_a_head_that_does_not_answer_is_told(head):
    watch = Watch(head.ask)
    metrics = Metrics(watch, "1", list)
    assert values(metrics, "phalanx_head_up") == {("phalanx_head_up",): 0}
    look(watch)
    assert values(metrics, "phalanx_head_up") == {("phalanx_head_up",): 1}
    head.error = ConnectionError("away")
    look(watch)
    assert values(metrics, "phalanx_head_up") == {("phalanx_head_up",): 0}


def named(expression):
    """Return the metrics that an expression reads. Raises an error if the expression does not
    parse.
    """
    promql_parser.parse(re.sub(r"\$queue|\$resource|\$node", "x", expression))
    return set(re.findall(r"phalanx_\w+", expression))


EXPORTED = {"phalanx_build_info"} | {
    f"{name}{end}"
    for name, one in CATALOGUE.items()
    for end in (("_bucket", "_sum", "_count") if one.kind == HISTOGRAM else ("",))
}
"""All names of metrics that an expression may use."""


def test_every_expression_of_alerts_and_board_parses_and_names_what_is_exported():
    names = EXPORTED
    board = json.loads(json.dumps(monitoring.board()))
    written = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = yaml.safe_load(yaml.safe_dump(monitoring.alerts()))
    written += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(written) > 15
    for expression in written:
        assert named(expression) <= names, expression
        assert named(expression)
    for variable in board["templating"]["list"]:
        assert set(re.findall(r"phalanx_\w+", variable["query"])) <= names
    with pytest.raises(ValueError, match="unclosed"):
        named("sum(phalanx_jobs")


def test_who_bears_the_token_may_scrape_and_nothing_else():
    async def look():
        async with served(Head(), is_in=False, scrape_token="phx_t") as (client, _):
            bearing = {"authorization": "Bearer phx_t"}
            answer = await client.get("/metrics", headers=bearing)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            assert answer.text.endswith("# EOF\n")
            for path in ("/", "/jobs"):
                assert (await client.get(path, headers=bearing)).status_code == 303
            for wrong in ("Bearer x", "Bearer ", "Basic phx_t", "phx_t", ""):
                refused = await client.get("/metrics", headers={"authorization": wrong})
                assert refused.status_code == 401
        async with served(Head(), is_in=False) as (client, _):
            refused = await client.get("/metrics", headers={"authorization": "Bearer "})
            assert refused.status_code == 401
        async with served(Head()) as (client, _):
            assert (await client.get("/metrics")).status_code == 200

    asyncio.run(asyncio.wait_for(look(), 60))


def test_every_metric_is_documented_and_has_a_name_of_its_kind(metrics):
    page = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
    documented = set(re.findall(r"phalanx_\w+", page.read_text()))
    assert set(CATALOGUE) - documented == set()
    assert set(families(metrics)) <= {name.removesuffix("_total") for name in CATALOGUE} | {
        "phalanx_build"
    }
    for name, one in CATALOGUE.items():
        assert (one.kind == COUNTER) == name.endswith("_total")
        assert not set(one.labels) & {"job", "task", "user", "actor", "pid", "worker"}
        assert one.labels[:1] == ("node",) or "node" not in one.labels
