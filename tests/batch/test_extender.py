"""A server that filters and ranks; one that fails costs a call and a warning, never the cycle."""

from __future__ import annotations

from typing import Any

import pytest
from tests.batch.lines import cases
from tests.batch.test_tables import snapshot_of

from phalanx.batch.cycle import run_cycle
from phalanx.batch.plan import Plan

WANTS = "extender.predicateVerb=filter; extender.prioritizeVerb=rank"
TABLE = f"""
use allocate | gang | predicates, nodeorder, extender(extender.urlPrefix=http://x; {WANTS})
case with a server
node a 4c 4G
node b 4c 4G
queue q
gang g q min=1
task t g 1c 1G x2
"""


def decide(send: Any, table: str = TABLE) -> Plan:
    return run_cycle(snapshot_of(cases(table)[0]), shells={"extender": send} if send else None)


def test_it_filters_and_ranks() -> None:
    asked: list[str] = []

    def send(url: str, payload: dict[str, Any], timeout_s: float) -> Any:
        asked.append(url)
        assert (payload["nodes"], timeout_s) == (["a", "b"], 1.0)
        return {"nodes": ["a", "b"]} if url.endswith("filter") else {"scores": {"b": 1e6}}

    plan = decide(send)
    assert set(plan.binds.values()) == {"b"}
    assert sorted(set(asked)) == ["http://x/filter", "http://x/rank"]
    assert plan.warnings == ()


def test_a_node_that_it_does_not_name_is_refused() -> None:
    plan = decide(lambda url, payload, timeout_s: {"nodes": ["b"], "scores": {}})
    assert set(plan.binds.values()) == {"b"}


NONSENSE: list[Any] = [
    [],
    "no",
    {"nodes": 7, "scores": []},
    {"nodes": [{}, "a", "b"], "scores": {"a": "high"}},
    {"nodes": ["a", "b"], "scores": {"a": float("nan"), "b": 10**400}},
    {"nodes": ["a", "b"], "scores": {"a": float("inf")}},
]


@pytest.mark.parametrize("answer", NONSENSE)
def test_nonsense_does_not_cost_the_cycle(answer: Any) -> None:
    assert len(decide(lambda url, payload, timeout_s: answer).binds) == 2


def test_a_server_that_hangs_is_asked_once() -> None:
    calls = []

    def send(url: str, payload: Any, timeout_s: float) -> Any:
        calls.append(url)
        raise TimeoutError("no answer within 1 s")

    plan = decide(send)
    assert len(plan.binds) == 2
    assert len(calls) == 1
    assert "no answer within 1 s" in plan.warnings[0]


def test_where_an_answer_is_required_silence_is_a_no() -> None:
    table = TABLE.replace("extender.urlPrefix", "extender.ignorable=false; extender.urlPrefix")
    assert decide(lambda url, payload, timeout_s: None, table).binds == {}


def test_without_a_connection_it_warns() -> None:
    plan = decide(None)
    assert len(plan.binds) == 2
    assert plan.warnings
