"""Metrics are OpenMetrics, bounded, counted once; what is written for others names only these."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from phalanx.dashboard import monitoring
from phalanx.dashboard.metrics import Metrics
from phalanx.dashboard.watch import Watch
from phalanx.model.jobs import states as st

from .test_app import served
from .world import EVIL, NOW, Head, job, picture


def families(metrics):
    return {one.name: one for one in text_string_to_metric_families(metrics.text().decode())}


def values(metrics, name):
    return {
        (one.name, *(one.labels[key] for key in sorted(one.labels))): one.value
        for one in families(metrics)[name].samples
        if not one.name.endswith("_created")
    }


def look(watch):
    """Have the watch look once."""
    asyncio.run(watch._look())


@pytest.fixture
def head():
    return Head()


@pytest.fixture
def metrics(head):
    watch = Watch(head.ask, wall=lambda: NOW)
    metrics = Metrics(watch, "1.2.3")
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
        "queue", "resource", "unit", "state", "node", "kind", "result", "le", "version", "python"
    }  # fmt: skip


def test_jobs_that_end_are_counted_once_and_those_that_had_ended_never(head, metrics):
    watch = metrics._watch
    first = [job("runs", started=NOW - 50), job("next", st.PENDING), *head.picture.jobs[3:]]
    head.picture = picture(jobs=first)
    look(watch)
    done = job("runs", st.COMPLETED, started=NOW - 50, finished=NOW, ran_s=50.0)
    short = job("short", st.FAILED, started=NOW - 59, finished=NOW - 58, ran_s=1.0)
    for _ in range(3):  # another head each time, which tells all anew
        head.picture = picture(jobs=[done, short, *first[1:]])
        look(watch)
    assert values(metrics, "phalanx_jobs_finished") == {
        ("phalanx_jobs_finished_total", "lab", "completed"): 1,
        ("phalanx_jobs_finished_total", "lab", "failed"): 1,
    }
    waits = values(metrics, "phalanx_job_wait_seconds")
    assert waits["phalanx_job_wait_seconds_count", "lab"] == 2
    runs = values(metrics, "phalanx_job_run_seconds")
    assert runs["phalanx_job_run_seconds_sum", "lab"] == 51


def test_a_head_that_does_not_answer_is_told(head):
    watch = Watch(head.ask)
    metrics = Metrics(watch, "1")
    assert values(metrics, "phalanx_head_up") == {("phalanx_head_up",): 0}
    look(watch)
    assert values(metrics, "phalanx_head_up") == {("phalanx_head_up",): 1}
    head.error = ConnectionError("away")
    look(watch)
    assert values(metrics, "phalanx_head_up") == {("phalanx_head_up",): 0}


def named(expression):
    """The metrics that an expression reads; raises where it is none."""
    promql_parser.parse(re.sub(r"\$queue|\$resource", "x", expression))
    return set(re.findall(r"phalanx_\w+", expression))


def exported(metrics):
    """Every name under which a sample is exported, now or once there is one."""
    found = {name for one in families(metrics).values() for name in [one.name]}
    histograms = {"phalanx_job_wait_seconds", "phalanx_job_run_seconds"}
    return found | {f"{name}_bucket" for name in histograms} | {"phalanx_jobs_finished_total"}


def test_every_expression_of_alerts_and_board_parses_and_names_what_is_exported(metrics):
    names = exported(metrics)
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


def test_every_metric_is_documented():
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    documented = set(re.findall(r"phalanx_\w+", page.read_text()))
    watch = Watch(Head().ask)
    metrics = Metrics(watch, "1")
    look(watch)
    assert set(families(metrics)) <= {
        name.removesuffix("_total").removesuffix("_info") for name in documented
    }
