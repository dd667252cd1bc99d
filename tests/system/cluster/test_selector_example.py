"""examples/selector.py on twelve nodes: the node, the GPUs and the ports of each member."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from phalanx.scheduler.devices.ports import parse_ports

FILE = Path(__file__).parents[3] / "examples" / "selector.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example_selector", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(example):
    with example.twelve_nodes() as names:
        yield list(example.show(names).values())


def test_tasks_and_actors(example, found):
    plain, vision, three, four, two, pair, eight, one = found[:8]
    assert plain[0] in ("plain-1", "plain-2"), "not where GPUs are"
    assert vision[0] in ("vision-1", "vision-2")
    assert [gpus for _, gpus in (three, four, two)] == [[0, 1, 2], [0, 1, 2, 3], [0, 1]]
    nodes = [node for node, _ in (three, four, two)]
    assert len(set(nodes)) == 3
    assert all(node.startswith("k80-") for node in nodes)
    assert one in [(three[0], [3]), (two[0], [2])], "the fullest two with room"
    assert pair[1] == [0, 3], "wired by two NVLinks"
    racks = {name: options["labels"]["rack"] for name, options in example.NODES.items()
             if "rack" in options.get("labels", {})}  # fmt: skip
    assert racks[eight[0]] == racks[pair[0]]
    assert eight[0] != pair[0]


def test_the_gang_has_ports_that_its_nodes_have_in_common(example, found):
    members, ports = found[8:10]
    nodes = {node for node, _ in members}
    assert len(nodes) == 3
    assert all(len(gpus) == 3 for _, gpus in members)
    assert len(set(ports)) == 2
    for node in nodes:
        offered = parse_ports(example.NODES[node]["ports"])
        assert all(port in offered for port in ports)


def test_explain_says_what_each_filter_turned_away(found):
    task, actor, gang = found[10:]
    assert "8 nodes without GPUs of the requested type" in task
    assert "4 nodes with at most 8 GPU in total, 9 asked" in task
    assert "12 nodes without GPUs of the requested type" in actor
    assert "8 nodes have no GPU of the type it asks for" in gang
    assert "2 of 4 tasks would find room, so none starts" in gang
