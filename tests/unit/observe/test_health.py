"""The findings about a head, from its own reports."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.dashboard.world import EVENTS, EVIL, NOW, NUMBERS
from tests.world.cluster import World
from tests.world.head import ask

from phalanx.cli.health import health_text
from phalanx.model.rows.cluster import DefectInfo, StatusInfo
from phalanx.model.rows.work import RulesInfo
from phalanx.observe.health import BAD, LOOK, WELL, HeadReport, Health, health
from phalanx.observe.metrics.definitions import Numbers, Sample
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.cluster import GetHealth, GetStatus
from phalanx.protocol.requests.gangs import GetRules


def said(
    numbers: Any = NUMBERS,
    *,
    defects: Any = None,
    troubles: Any = (),
    trouble: str = "",
    protocol: int = 7,
    refused: Any = (),
    lost_nodes: Any = (),
) -> Health:
    status = StatusInfo(
        address="", store="memory", nodes=[], actors={}, groups=[], jobs=[], gangs={},
        troubles=list(troubles), defects=defects or {}, lost_nodes=list(lost_nodes),
    )  # fmt: skip
    rules = RulesInfo(
        text="", file="own.yaml", is_own=True, actions=["allocate"], plugins=[], trouble=trouble
    )
    report = HeadReport(began=NOW - 60, protocol=7, known={"nodes": 2}, numbers=list(numbers))
    return health(report, status, rules, refused, now=NOW, version="1", protocol=protocol)


def states(found: Health) -> dict[str, str]:
    return {one.what: one.state for one in found.findings}


def test_a_head_that_is_well_says_how_large_and_how_quick_it_is() -> None:
    found = said()
    assert found.state == WELL and set(states(found).values()) == {WELL}
    text = health_text(found)
    for part in (
        "was 2.0 ms", "4.0 KiB in files", "512 B wait", "100 times, 5.0 ms each",
        "250, 4.00 ms each", "set from own.yaml: allocate", "for 1m",
    ):  # fmt: skip
        assert part in text, part
    assert [name for name, _, _ in found.requests] == ["GetNews", EVIL]
    assert "\x1b" not in text


def lag(seconds: float) -> list[Numbers]:
    return [Numbers("phalanx_loop_lag_seconds", [Sample(("", "head"), seconds)])]


@pytest.mark.parametrize(
    ("fields", "what", "state"),
    [
        ({"numbers": lag(0.6)}, "loop", LOOK),
        ({"numbers": lag(6.0)}, "loop", BAD),
        ({"numbers": [Numbers("phalanx_journal_bytes", [Sample((), 1e9)])]}, "store", LOOK),
        ({"protocol": 6}, "versions", BAD),
        ({"trouble": "plugin x is not there any more"}, "rules", BAD),
        ({"defects": {"tick": DefectInfo(count=2, last=EVIL, at=NOW - 5)}}, "defects", LOOK),
        ({"lost_nodes": ["node n1 died: its fork server was killed"]}, "nodes", LOOK),
        ({"troubles": ["no new work is taken: its disk is full"]}, "head", BAD),
    ],
)
def test_what_is_amiss_is_said_and_makes_the_whole_so(
    fields: dict[str, Any], what: str, state: str
) -> None:
    found = said(**fields)
    assert states(found)[what] == state == found.state


def test_failed_cycles_and_the_last_refused_rules_are_told() -> None:
    failed = Numbers(
        "phalanx_schedule_cycles_total", [Sample(("placed",), 1.0), Sample(("failed",), 2.0)]
    )
    found = said([failed, *(one for one in NUMBERS if one.name != failed.name)])
    assert states(found)["cycles"] == LOOK
    refused = [one for one in EVENTS if one.kind == "rules-refused"]
    assert said(refused=refused).refused is refused[-1]
    assert "the last: " in health_text(said(refused=refused))


def test_a_head_answers() -> None:
    world = World()
    world.add("n1")
    report = ask(world.head, GetHealth())
    status, rules = ask(world.head, GetStatus(is_brief=True)), ask(world.head, GetRules())
    assert report is not None and status is not None and rules is not None
    found = health(report, status, rules, [], now=world.now, version="1", protocol=PROTOCOL_VERSION)
    assert found.state == WELL and report.known["nodes"] == 1 and report.known["events"] == 2
