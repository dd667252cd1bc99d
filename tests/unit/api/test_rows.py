"""Rows have typed fields, can be used as mappings, and are shown as tables in a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest

from phalanx.api.explaining import Sentences
from phalanx.model.rows.cluster import DriverInfo, HyperNodeInfo, NodeInfo, StatusInfo
from phalanx.model.rows.explanation import (
    AlikeTasks,
    ExpectedStart,
    Explanation,
    Holder,
    Holders,
    Reason,
)
from phalanx.model.rows.plan import Basis, Place, PlannedStart, TimePlan
from phalanx.model.rows.row import Row, Rows, cells_html
from phalanx.model.rows.work import CronInfo, FlowInfo, GangInfo, JobInfo, MemberInfo, QueueInfo

DRIVER = DriverInfo(job_id="01000000", number=1, start_time=2.5)


class Small(Row, frozen=True):
    job_id: str
    number: int
    start_time: float


SMALL = Small(job_id="01000000", number=1, start_time=2.5)
NODE = NodeInfo(
    node_id="ab", state="ALIVE", reason="", host="h", port=1, hostname="<host>", total={"CPU": 2.0},
    available={"CPU": 1.0}, labels={}, running=1, waiting=0,
    devices={},
)  # fmt: skip
STATUS = StatusInfo(
    address="h:1",
    store="memory",
    nodes=[NODE],
    actors={},
    groups=[],
    jobs=[DRIVER],
    gangs={},
    troubles=[],
    defects={},
)


def test_a_row_is_a_mapping() -> None:
    assert isinstance(SMALL, Mapping)
    assert (SMALL["number"], SMALL.number) == (1, 1)
    assert dict(SMALL) == {"job_id": "01000000", "number": 1, "start_time": 2.5}
    assert dict(SMALL) == {**SMALL}
    assert list(SMALL) == ["job_id", "number", "start_time"]
    assert list(SMALL.values()) == ["01000000", 1, 2.5]
    assert len(SMALL) == 3
    assert "number" in SMALL
    assert "get" not in SMALL
    assert (SMALL.get("number"), SMALL.get("none", 7)) == (1, 7)
    with pytest.raises(KeyError, match="none"):
        SMALL["none"]
    with pytest.raises(KeyError, match="keys"):
        SMALL["keys"]


def test_a_row_does_not_change() -> None:
    with pytest.raises(AttributeError):
        DRIVER.number = 2  # type: ignore[misc]
    assert msgspec.structs.replace(DRIVER) == DRIVER


def test_a_row_becomes_json_with_all_that_is_in_it() -> None:
    data = json.loads(json.dumps(STATUS.as_dict()))
    assert data["nodes"][0]["total"] == {"CPU": 2.0}
    assert data["jobs"] == [dict(DRIVER)]


def test_a_row_travels_without_the_names_of_its_fields() -> None:
    data = msgspec.msgpack.encode(STATUS)
    assert b"node_id" not in data
    assert msgspec.msgpack.decode(data, type=StatusInfo) == STATUS


def test_rows_show_as_a_table_and_nothing_in_them_is_taken_for_html() -> None:
    shown = Rows([NODE])._repr_html_()
    assert "<th>hostname</th>" in shown
    assert "<td>&lt;host&gt;</td>" in shown
    assert "<td>CPU: 2.0</td>" in shown
    assert "<th>store</th><td>memory</td>" in STATUS._repr_html_()
    assert STATUS._repr_html_().count("<table>") == 3, "its own, nodes, drivers"
    assert Rows()._repr_html_() == "<i>nothing</i>"


@pytest.mark.parametrize(
    "kind",
    [NodeInfo, QueueInfo, JobInfo, GangInfo, MemberInfo, FlowInfo, CronInfo, HyperNodeInfo],
    ids=lambda kind: kind.__name__,
)
def test_no_field_hides_what_a_mapping_can_do(kind: type[Row]) -> None:
    assert issubclass(kind, Row)
    assert not {"keys", "values", "items", "get"} & set(kind.__struct_fields__)


def test_an_explanation_in_words() -> None:
    full = Reason(
        reason="resource", count=2, detail={}, sentence="2 nodes lack GPU", change="add a node"
    )
    behind = Reason(
        reason="behind", count=1, detail={}, sentence="1 is ahead of it in queue lab", change=""
    )
    held = Holders(
        most=[
            Holder(podgroup="default/b", queue="lab", resource="GPU", amount=8.0, ends_in_s=90.0),
            Holder(podgroup="x/c", queue="lab", resource="memory", amount=64.0 * 2**30),
        ],
        others=3,
    )
    answer = Explanation(
        snapshot="", name="default/a", kind="podgroup", waits=True, reasons=[full, behind],
        queue="lab", because=[full], holders=held,
        expected_start=ExpectedStart(
            at_s=100.0, in_s=90.0, after_tasks=1, basis=Basis(by_limit=1), is_promised=False
        ),
        tasks=[AlikeTasks(names=[f"t{n}" for n in range(5)], reasons=[full, behind])], position=2,
    )  # fmt: skip
    assert str(answer) == (
        "podgroup default/a of queue lab waits: 2 nodes lack GPU\n"
        "  to change that: add a node\n"
        "  held by b (8 GPU, for 1m30s at most), x/c (64.0 GiB memory), and 3 more\n"
        "  expected to start in 1m30s (at 100), once 1 task has ended, if run times hold "
        "(time limits of 1 job), if no other job fills its places before\n"
        "  it is number 2 of those that wait in its queue\n"
        "  - 1 is ahead of it in queue lab\n"
        "  tasks t0, t1, t2 and 2 more\n"
        "    - 1 is ahead of it in queue lab"
    )
    by_clock = ExpectedStart(
        at_s=1.8e9, in_s=90.4, after_tasks=1, basis=Basis(by_limit=1), is_promised=True
    )
    words = str(msgspec.structs.replace(answer, expected_start=by_clock))
    assert "start in 1m30s, once" in words
    data = msgspec.to_builtins(answer)
    assert "node" not in data
    assert data["position"] == 2
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Explanation) == answer


def test_texts_in_a_notebook_are_text() -> None:
    assert "&lt;script&gt;" in Sentences("<script>")._repr_html_()
    assert Sentences("a\nb") == "a\nb"
    assert "<td>&lt;b&gt;</td>" in cells_html(["x"], [["<b>"]])


def test_a_plan_is_a_table() -> None:
    start = PlannedStart(
        podgroup="<job>", queue="lab", at_s=160.0, ends_s=220.0, after_tasks=1,
        basis=Basis(by_limit=1), is_promised=True, fills=False,
        places=(Place(node="n1", tasks=2, devices={}),),
    )  # fmt: skip
    plan = TimePlan(now=100.0, starts=(start,), unknown=("other",), running=())
    shown = plan._repr_html_()
    for words in ("&lt;job&gt;", "in 1m", "in 2m", "promised", "2 on n1", "time limits of 1 job"):
        assert f"<td>{words}</td>" in shown
    assert "start unknown: other" in shown
    nothing = TimePlan(now=0.0, starts=(), unknown=(), running=())
    assert "nothing waits" in nothing._repr_html_()
