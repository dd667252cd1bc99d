"""The section of a node's page whose data the node itself sends: curves of its use, and its
processes.
"""

from __future__ import annotations

import pytest

from phalanx.dashboard.pages.node_use import MOST_PROCESSES, node_use, span_of
from phalanx.model.node_use import NodeUse, NumberOfNode, ProcessOfNode
from phalanx.model.readable import amount

NOW = 1_000.0


def process(kind: str, pid: int, memory: float | None = None, age_s: float = 5.0) -> ProcessOfNode:
    return ProcessOfNode(kind=kind, name="", pid=pid, age_s=age_s, memory=memory)


def number(what: str, of: str, *points: tuple[float, float]) -> NumberOfNode:
    return NumberOfNode(what=what, of=of, points=list(points))


def test_each_resource_has_one_chart_with_its_lines_in_one_order():
    use = NodeUse(
        numbers=[
            number("used", "CPU", (10.0, 2.0)),
            number("total", "memory", (10.0, 8.0)),
            number("allocated", "CPU", (10.0, 3.0)),
            number("total", "CPU", (10.0, 4.0)),
        ]
    )
    page = node_use(use, NOW, "24h")
    assert [(one.name, [line.name for line in one.lines]) for one in page.charts] == [
        ("CPU", ["total", "allocated", "used"]),
        ("memory", ["total"]),
    ]
    cpu = page.charts[0]
    assert cpu.top > 4.0 and cpu.at == NOW and amount(cpu.span_s) == "86400"


@pytest.mark.parametrize(("asked", "span"), [("", "15m"), ("24h", "24h"), ("9y", "15m")])
def test_an_address_may_ask_for_a_span(asked: str, span: str):
    assert span_of({"span": asked} if asked else {}) == span


def test_members_come_first_and_the_largest_of_them_before_the_others():
    use = NodeUse(
        processes=[
            process("worker", 1),
            process("member", 2, 5.0),
            process("driver", 3),
            process("member", 4, 9.0),
        ]
    )
    page = node_use(use, NOW, "15m")
    assert [one.pid for one in page.processes] == [4, 2, 3, 1]
    assert {one.began for one in page.processes} == {NOW - 5.0}


def test_a_page_names_at_most_so_many_processes():
    use = NodeUse(processes=[process("worker", pid) for pid in range(MOST_PROCESSES + 5)])
    page = node_use(use, NOW, "15m")
    assert len(page.processes) == MOST_PROCESSES
    assert page.processes_in_all == MOST_PROCESSES + 5
