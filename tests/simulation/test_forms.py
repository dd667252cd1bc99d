"""How well policies allocate traces with several mixes of pods, and published traces if a folder
has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.scheduler.placement.fragmentation import scarcity
from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.published import BestFit, DotProd
from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_research.arrival import forms
from phalanx_research.arrival.synthetic import FORMS
from phalanx_research.traces.reading import read_nodes

TRACES = Path(__file__).parents[2] / "examples" / "traces"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\na,8000,100,2,T4\nb,8000,100,2,A10\n"
    )
    for name, milli in (("default", 500), ("large", 1000), ("small", 250)):
        (tmp_path / f"openb_pod_list_{name}.csv").write_text(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
            + "".join(f"p{i},100,1,1,{milli}\n" for i in range(8))
        )
    return tmp_path


def test_published_traces_are_read_and_others_are_made(folder):
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    assert list(forms.traces_in(folder, nodes)) == ["default", "large", "small"]
    made = forms.traces_in(TRACES, read_nodes(TRACES / "openb_node_list_gpu_node.csv.gz"))
    assert list(made) == ["default", *FORMS]


def test_a_row_for_each_trace_of_a_half(folder, capsys):
    options = [str(folder), "--seeds", "42-43", "--policies", "fgd,scarcity"]
    # Both fill four GPUs with anything that comes, so neither is ahead.
    assert forms.main(options) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| trace | fgd | scarcity | ahead by |"
    assert lines[2] == "| default | 100.00 ± 0.00 | 100.00 ± 0.00 | +0.00 ± 0.00 |"
    rows = []
    for half in forms.HALVES:
        forms.main([*options, "--half", half])
        rows += capsys.readouterr().out.splitlines()[2:]
    assert sorted(rows) == lines[2:]


def test_a_name_is_in_one_half_by_its_hash_alone():
    names = ["default", *FORMS]
    choosing, judging = (forms.half_of(names, half) for half in forms.HALVES)
    assert sorted(choosing + judging) == sorted(names)
    assert len(choosing) - len(judging) in (0, 1)
    assert forms.half_of(names[::-1], "judging") == judging


def test_the_policy_can_be_tried_with_other_constants(monkeypatch):
    monkeypatch.setattr(scarcity, "POWER", scarcity.POWER)
    forms.with_constants("POWER=0.5")
    assert scarcity.POWER == 0.5
    with pytest.raises(ValueError, match="scarcity has no constant 'WIDTH'"):
        forms.with_constants("WIDTH=1")


@pytest.mark.parametrize("policy", [BestFit, DotProd])
def test_amounts_are_measured_against_the_largest_node_at_hand(policy):
    """If nodes and pods are ten times as large, their scores stay the same."""
    scores = []
    for times in (1, 10):
        nodes = GpuNodes([9000 * times, 5000 * times], [0, 0], [2, 2], ["A", "A"])
        shape = Shape(2000 * times, 0, 1, 500)
        scores.append(policy(nodes).score(nodes.accepting(()).nonzero()[0], shape).tolist())
    assert scores[0] == scores[1]
    assert scores[0][0] != scores[0][1]
