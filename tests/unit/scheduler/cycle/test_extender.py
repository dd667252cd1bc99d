"""A plugin that asks a server to filter and to score nodes. A server that fails costs a call and a
warning, never the cycle.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.plan import Plan

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


@pytest.mark.parametrize(("ignorable", "bound"), [("true", 1), ("false", 0)])
def test_silence_about_a_queue_is_a_no_where_an_answer_is_required(
    ignorable: str, bound: int
) -> None:
    text = table("queueOverused").replace("@b", "")
    text = text.replace("extender.urlPrefix", f"extender.ignorable={ignorable}; extender.urlPrefix")
    assert len(decide(lambda url, payload, timeout_s: None, text).binds) == bound


def test_without_a_connection_it_warns() -> None:
    plan = decide(None)
    assert len(plan.binds) == 2
    assert plan.warnings


def table(verb: str, use: str = "allocate") -> str:
    """Return a table with a waiting task, a running one, and a server that is asked for one hook
    only.
    """
    return f"""
use {use} | priority, extender(extender.urlPrefix=http://x/; extender.{verb}Verb=v) | predicates
case c
node a 1c 1G
node b 1c 1G
queue q
queue r
gang low q prio=1 phase=Running
gang g q min=1 prio=9 res=1c,1G phase={"Pending" if "enqueue" in use else "Inqueue"}
task x low 1c 1G @a
task y low 1c 1G @b
task t g 1c 1G
"""


ANSWERS: list[tuple[str, str, Any, tuple[int, int]]] = [
    ("queueOverused", "allocate", {"overused": True}, (0, 0)),
    ("jobReady", "allocate", {"ready": False}, (0, 0)),
    ("jobEnqueueable", "enqueue, allocate", {"status": -1}, (0, 0)),
    ("jobEnqueueable", "enqueue, allocate", {"status": 1}, (1, 0)),
    ("jobEnqueueable", "enqueue, allocate", None, (1, 0)),
    ("preemptable", "preempt", {"victims": []}, (0, 0)),
    ("preemptable", "preempt", {"victims": ["default/y"]}, (0, 1)),
    ("preemptable", "preempt", {"victims": [], "status": 0}, (0, 1)),
    ("preemptable", "preempt", None, (0, 1)),
]


@pytest.mark.parametrize(("verb", "use", "answer", "done"), ANSWERS)
def test_each_point(verb: str, use: str, answer: Any, done: tuple[int, int]) -> None:
    text = table(verb, use)
    if use != "preempt":
        text = "\n".join(x for x in text.splitlines() if not x.startswith("task y"))
    plan = decide(lambda url, payload, timeout_s: answer, text)
    assert (len(plan.binds), len(plan.evicted)) == done


def test_victims_of_another_queue() -> None:
    text = table("reclaimable", "reclaim").replace("gang g q", "gang g r")
    text = text.replace("priority, extender", "gang(on=[jobStarving]), extender")
    plan = decide(lambda url, payload, timeout_s: {"victims": ["default/y"]}, text)
    assert plan.evicted == ("default/y",)


def test_it_hears_of_the_session() -> None:
    heard: list[tuple[str, float, list[str]]] = []

    def send(url: str, payload: Any, timeout_s: float) -> None:
        heard.append((url, timeout_s, sorted(payload)))

    verbs = "onSessionOpenVerb=open; extender.onSessionClose"
    text = table("jobReady").replace("jobReady", verbs)
    text = text.replace("Verb=v", "Verb=close; extender.httpTimeout=100ms")
    decide(send, text)
    assert heard == [
        ("http://x/open", 0.1, ["jobs", "nodes", "queues"]),
        ("http://x/close", 0.1, []),
    ]


def test_a_server_that_must_hear_of_the_session_and_does_not_has_no_say() -> None:
    text = table("queueOverused").replace(
        "extender.queueOverused",
        "extender.ignorable=false; extender.onSessionOpenVerb=open; extender.queueOverused",
    )

    def send(url: str, payload: Any, timeout_s: float) -> Any:
        if url.endswith("open"):
            raise OSError("refused")
        return {"overused": True}

    assert len(decide(send, text.replace("@b", "")).binds) == 1
