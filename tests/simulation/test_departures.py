"""Pods that arrive and end: how long each waits, and the best result that any policy could
reach.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from phalanx.scheduler.placement.fragmentation.mix import Mix
from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_research.departures.__main__ import main
from phalanx_research.departures.bound import bound_pct
from phalanx_research.departures.clusters import POOLED, cluster_of
from phalanx_research.departures.foreseen import Foreseen
from phalanx_research.departures.picture import picture
from phalanx_research.departures.replay import run_replay
from phalanx_research.departures.workload import Replay, Unit, draw_replay
from phalanx_research.traces.records import TraceJob, TraceNode

HALF = Shape(1000, 1024, 1, 500)
CARD = Shape(1000, 1024, 1, 1000)
BOTH = Shape(2000, 2048, 2, 1000)


def replay(units: list[Unit], nodes: int = 2, gpus: int = 2) -> Replay:
    return Replay(
        nodes=tuple(
            TraceNode(name=f"n{i}", cpu_milli=64_000, memory_mib=65_536, gpus=gpus, model="T4")
            for i in range(nodes)
        ),
        units=tuple(units),
        past=tuple(unit.shape for unit in units),
        draws=np.random.default_rng(1),
        end_s=units[-1].at_s,
    )


def unit(shape: Shape, at_s: float, runs_s: float, members: int = 1) -> Unit:
    return Unit(shape=shape, members=members, at_s=at_s, runs_s=runs_s)


def test_units_wait_for_departures_and_pass_those_without_room() -> None:
    found = run_replay(
        replay(
            [
                unit(BOTH, 0, 100),
                unit(CARD, 0, 50),
                unit(BOTH, 10, 10, members=2),  # needs both nodes
                unit(CARD, 20, 500),  # passes the gang
                unit(CARD, 30, 5),
                unit(HALF, 1000, 1),
            ]
        ),
        "firstfit",
    )
    assert list(found.waits_s) == [0, 0, 510, 0, 20, 0]
    assert list(found.gang_waits_s) == [0, 510]


def test_a_unit_that_never_starts_counts_until_the_end() -> None:
    found = run_replay(replay([unit(BOTH, 0, 10, members=3), unit(CARD, 100, 1)]), "fgd")
    assert list(found.waits_s) == [200, 0]


@pytest.mark.parametrize(
    "policy",
    [
        "bestfit",
        "scarcity",
        POOLED,
        "fgd+demand",
        "fgd+foreseen",
        "fgd+moves",
        "scarcity+steady+moves",
    ],
)
def test_nothing_uses_more_than_the_bound(policy: str) -> None:
    for seed in range(4):
        drawn = np.random.default_rng(seed)
        times = np.sort(drawn.integers(0, 1000, size=40))
        units = [
            unit(
                (HALF, CARD, BOTH)[int(drawn.integers(3))],
                float(at),
                float(drawn.integers(1, 400)),
                members=int(drawn.integers(1, 3)),
            )
            for at in times
        ]
        found = run_replay(replay(units), policy)
        assert found.alloc_pct <= bound_pct(replay(units), steps=20) + 1e-6


def test_a_pod_moves_for_a_unit_that_has_waited() -> None:
    units = [
        unit(BOTH, 0, 50),
        unit(HALF, 0, 5000),  # the other node
        unit(HALF, 60, 5000),  # the first node
        unit(BOTH, 700, 10),
        unit(HALF, 710, 100),  # its end is the next chance
        unit(HALF, 3000, 1),
    ]
    stay, moved = (run_replay(replay(units), policy) for policy in ("firstfit", "firstfit+moves"))
    assert (list(stay.gang_waits_s), stay.moves) == ([0, 4300], 0)
    assert (list(moved.gang_waits_s), moved.moves) == ([0, 110], 1)


@pytest.mark.parametrize(("runs_s", "row"), [(300, 0), (50_000, 1)])
def test_long_pods_keep_off_the_node_that_will_be_free(runs_s: float, row: int) -> None:
    def fresh() -> GpuNodes:
        return GpuNodes([64_000] * 2, [65_536] * 2, [4] * 2, ["T4"] * 2)

    nodes = fresh()
    foreseen = Foreseen(nodes, fresh, Mix({CARD: 1, Shape(4000, 4096, 4, 1000): 1}))
    for number, node, cards, shape, end_s in (
        (1, 0, (0, 1), BOTH, 1200),
        (2, 0, (2,), CARD, 1200),
        (3, 1, (0, 1), BOTH, 50_000),
    ):
        nodes.take(node, cards, shape)
        foreseen.take(number, (node, cards), shape, 0, end_s)
    assert foreseen.choose(CARD, np.array([True, True]), 0, runs_s)[0] == row


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("fgd+luck", "there is no way 'luck'"),
        ("bestfit+demand", "demand is a way of fgd"),
        ("scarcity+foreseen", "foreseen is a way of fgd"),
        ("fgd+foreseen+moves", "leave out moves"),
    ],
)
def test_unknown_ways_are_refused(policy: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        cluster_of(replay([unit(CARD, 0, 1)]), policy)


def test_the_bound_is_the_optimum_where_it_is_plain() -> None:
    """Four cards. One is requested during the whole time, and three more during the second half."""
    units = [unit(CARD, 0, 1000), unit(CARD, 500, 1000, members=3), unit(HALF, 1000, 1)]
    assert bound_pct(replay(units), steps=10) == pytest.approx(100 * (500 + 4 * 500) / 4000)


def test_a_drawn_workload_asks_for_what_was_wanted() -> None:
    jobs = [
        TraceJob(
            name=f"p{i:03}",
            cpu_milli=1000,
            num_gpu=1,
            gpu_milli=(500, 1000)[i % 2],
            submitted_s=100.0 * i,
            started_s=100.0 * i,
            ended_s=100.0 * i + 700,
            duration_s=700.0,
        )
        for i in range(200)
    ]
    nodes = [
        TraceNode(name=f"n{i}", cpu_milli=64_000, memory_mib=65_536, gpus=8, model="T4")
        for i in range(10)
    ]
    made = draw_replay(nodes, jobs, seed=1, part=0.4, load=1.2, gangs=0.3)
    asked = sum(u.milli * min(u.runs_s, made.end_s - u.at_s) for u in made.units)
    assert asked == pytest.approx(1.2 * made.capacity_milli * made.end_s, rel=1e-3)
    gangs = sum(u.milli * u.runs_s for u in made.units if u.is_gang)
    assert gangs == pytest.approx(0.3 * sum(u.milli * u.runs_s for u in made.units), rel=0.1)
    again = draw_replay(nodes, jobs, seed=1, part=0.4, load=1.2, gangs=0.3)
    assert again.units == made.units
    assert len(made.nodes) == 4


def test_the_picture_has_a_line_for_each_policy() -> None:
    drawn = picture({"fgd": [90.0] * 4, "scarcity": [95.0] * 4}, 99.0)
    assert drawn.count("<polyline") == 2
    assert drawn.startswith("<svg") and drawn.endswith("</svg>\n")


NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{i},64000,65536,4,T4\n" for i in range(8)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"  # fmt: skip  # noqa: E501


def test_the_command_prints_a_row_for_each_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    pods = "".join(
        f"p{i:03},1000,1024,1,{milli},,LS,Running,{50 * i},{50 * i + 900},{50 * i}\n"
        for i, milli in enumerate((300, 700, 1000) * 30)
    )
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS + pods)
    drawn = tmp_path / "drawn.svg"
    options = ["--seeds", "1-2", "--part", "0.5", "--picture", str(drawn)]
    assert main([str(tmp_path), *options, "--policies", "fgd,scarcity"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [row[0].strip("| ") for row in rows[2:]] == ["fgd", "scarcity", "bound"]
    assert "<polyline" in drawn.read_text()
