"""The selector's chain, in one line a node: `"a 4gpu 2used 9cpu 9mem ports=5-9 label=K80"`."""

from __future__ import annotations

import random
import re

import pytest
from phalanx.policies.selector.node import Amounts, SelectorNode, choose_mask
from phalanx.policies.selector.request import (
    NotSelected,
    Selection,
    SelectorConfig,
    SelectorRequest,
)

from phalanx.policies.selector.chain import pick_one, select
from phalanx.resources.devices import LowestIndex
from phalanx.resources.machines import machine
from phalanx.resources.ports import Ports


def ports(text: str) -> Ports:
    pairs = [part.partition("-") for part in text.split(",") if part]
    return Ports.of((int(low), int(high or low)) for low, _, high in pairs)


def gpus(mask: int) -> Amounts:
    return Amounts(gpus=mask.bit_count(), mask=mask)


def node(line: str) -> SelectorNode:
    name, *words = line.split()
    counts = {"gpu": 0, "used": 0, "cpu": 9, "mem": 9}
    said: dict[str, str] = {}
    for word in words:
        found = re.fullmatch(r"(\d+)([a-z]+)", word)
        if found:
            counts[found[2]] = int(found[1])
        else:
            key, _, said[key] = word.partition("=")
    total = Amounts(
        memory_mb=counts["mem"],
        cpu=counts["cpu"],
        gpus=counts["gpu"],
        mask=(1 << counts["gpu"]) - 1,
    )
    return SelectorNode(
        name=name,
        total=total,
        used=gpus((1 << counts["used"]) - 1),
        ports=ports(said.get("ports", "")),
        used_ports=ports(said.get("busy", "")),
        labels=(said["label"],) if "label" in said else (),
        gpu_type=said.get("type"),
        rack=said.get("rack"),
        tried=gpus(int(said.get("tried", "0"), 2)),
    )


def run(nodes: str, config: SelectorConfig | None = None, **asked: object) -> str:
    """Candidates in packing order with their masks in binary, or what is lacking."""
    found = outcome(nodes, config, **asked)
    if isinstance(found, NotSelected):
        return f"lacks {found.lacking}"
    return " ".join(f"{one.node}:{one.mask:b}" for one in found.candidates)


def outcome(
    nodes: str, config: SelectorConfig | None = None, **asked: object
) -> Selection | NotSelected:
    asked.setdefault("amounts", Amounts(gpus=1))
    request = SelectorRequest(**asked)  # type: ignore[arg-type]
    listed = [node(line) for line in nodes.split(";") if line.strip()]
    return select(listed, request, config or SelectorConfig(), random.Random(5))


# nodes | what is asked | candidates
CHAIN = [
    ("", {}, ""),
    ("a 2gpu", {}, "a:1"),
    ("a 2gpu 1used", {}, "a:10"),
    ("a 2gpu 2used", {}, ""),
    ("a 4gpu 2used; b 4gpu 1used", {}, "a:100 b:10"),  # the fullest first
    ("a 4gpu 2used; b 2gpu", {}, "b:1 a:100"),  # as full: the smaller machine first
    ("a 2gpu 9cpu; b 2gpu 5cpu", {}, "b:1 a:1"),
    ("a 2gpu 9mem; b 2gpu 5mem", {}, "b:1 a:1"),
    ("b 2gpu; a 2gpu", {}, "a:1 b:1"),  # as full in all: by name
    ("a 8gpu; b 8gpu; c 8gpu", {}, "a:1 b:1"),  # two for each waiting task
    ("a 8gpu; b 8gpu; c 8gpu", {"waiting": 2}, "a:1 b:1 c:1"),
    ("a 8gpu", {"amounts": Amounts(gpus=3)}, "a:111"),
    ("a 8gpu", {"amounts": gpus(0b1010)}, "a:1010"),
    ("a 8gpu 2used", {"amounts": gpus(0b1010)}, ""),
    ("a 2gpu 1cpu", {"amounts": Amounts(gpus=1, cpu=2)}, ""),
    ("a 2gpu 1mem", {"amounts": Amounts(gpus=1, memory_mb=2)}, ""),
    ("a 2gpu label=K80; b 2gpu", {"label": "K80"}, "a:1"),
    ("a 2gpu label=K80; b 2gpu", {"label": " K80 "}, "a:1"),
    ("a 2gpu label=K80; b 2gpu", {"label": "M40"}, ""),
    ("a 2gpu label=K80; b 2gpu", {}, "a:1 b:1"),
    ("a 2gpu type=A; b 2gpu type=B; c 2gpu", {"gpu_type": "A"}, "a:1"),
    ("a 2gpu type=A; b 2gpu type=B; c 2gpu", {"gpu_type": "B,A"}, "a:1 b:1"),
    ("a 2gpu type=A; b 2gpu", {"gpu_type": "C"}, "lacks gpu_type"),
    ("a 2gpu; b 2gpu", {"gpu_type": "C"}, "a:1 b:1"),  # nothing is configured: not asked
    ("a 2gpu 2used type=A", {"gpu_type": "A"}, "lacks gpu_type"),
    ("a 2gpu ports=5000-5009", {"dynamic_ports": 10}, "a:1"),
    ("a 2gpu ports=5000-5009", {"dynamic_ports": 11}, "lacks ports"),
    ("a 2gpu ports=100-199", {"dynamic_ports": 1}, "lacks ports"),  # below the least
    ("a 2gpu ports=5000; b 2gpu ports=6000", {"dynamic_ports": 1}, "lacks ports"),
    ("a 2gpu ports=5000; b 2gpu ports=6000", {"static_ports": ports("6000")}, "b:1"),
    ("a 2gpu ports=80-90 busy=85", {"static_ports": ports("80-85")}, ""),
    ("a 2gpu ports=80-90 busy=85", {"static_ports": ports("80-84")}, "a:1"),
    ("a 2gpu ports=5000; b 2gpu", {"reused_ports": ports("5000"), "dynamic_ports": 1}, "a:1"),
    ("a 4gpu tried=1", {}, "a:10"),  # never the devices that were tried in vain
    ("a 2gpu tried=11", {}, ""),
    ("a 4gpu tried=11; b 4gpu", {"amounts": Amounts(gpus=3)}, "b:111"),
]


@pytest.mark.parametrize(("nodes", "asked", "expected"), CHAIN)
def test_the_chain(nodes: str, asked: dict[str, object], expected: str) -> None:
    assert run(nodes, **asked) == expected


@pytest.mark.parametrize(
    ("allowed", "job_gpus", "expected"),
    [(True, 0, "c:0 g:0"), (False, 0, "c:0"), (False, 4, "c:0 g:0"), (False, None, "c:0")],
)
def test_jobs_without_gpus_on_gpu_nodes(allowed: bool, job_gpus: int | None, expected: str) -> None:
    config = SelectorConfig(allow_cpu_jobs_on_gpu_nodes=allowed)
    found = run("g 4gpu; c 0gpu", config, amounts=Amounts(cpu=1), job_gpus=job_gpus)
    assert found == expected


@pytest.mark.parametrize(
    ("policy", "racks", "expected"),
    [
        ("ignore", {"r2"}, "a:1 b:1"),
        ("prefer", {"r2"}, "b:1"),
        ("prefer", {"r9"}, "a:1 b:1"),
        ("prefer", set(), "a:1 b:1"),
        ("require", {"r9"}, ""),
        ("require", {"r1"}, "a:1"),
    ],
)
def test_racks(policy: str, racks: set[str], expected: str) -> None:
    config = SelectorConfig(same_rack=policy)  # type: ignore[arg-type]
    nodes = "a 2gpu rack=r1; b 2gpu rack=r2"
    assert run(nodes, config, racks=frozenset(racks)) == expected


def test_places_tried_before_may_be_tried_again() -> None:
    assert run("a 2gpu tried=11", SelectorConfig(skip_tried=False)) == "a:1"


def test_ports_that_all_nodes_share_bind_no_choice() -> None:
    found = outcome("a 2gpu ports=5000-5009; b 2gpu ports=5005-5020", dynamic_ports=2, waiting=2)
    assert isinstance(found, Selection)
    assert [one.node for one in found.candidates] == ["a", "b"]
    assert found.overlap == ports("5005-5009")
    assert len(found.ports) == 2 and found.ports <= found.overlap


def test_ports_that_only_the_candidates_share_are_found_in_the_second_round() -> None:
    found = outcome("a 2gpu ports=5000-5009; b 2gpu 2used ports=7000-7001", dynamic_ports=3)
    assert isinstance(found, Selection)
    assert [one.node for one in found.candidates] == ["a"]
    assert len(found.ports) == 3 and found.ports <= ports("5000-5009")


def test_static_ports_are_never_picked_as_dynamic_ones() -> None:
    found = outcome("a 2gpu ports=5000-5002", dynamic_ports=2, static_ports=ports("5001"))
    assert isinstance(found, Selection)
    assert found.ports == ports("5000-5002")


def test_each_filter_tells_how_many_nodes_it_turned_away() -> None:
    found = outcome(
        "a 2gpu label=x type=A; b 2gpu 2used label=x type=A; c 2gpu label=x; d 2gpu;"
        "e 2gpu label=x type=A tried=11; f 2gpu label=x type=A ports=80",
        label="x",
        gpu_type="A",
        static_ports=ports("80"),
    )
    assert isinstance(found, Selection)
    assert found.turned_away == {"label": 1, "gpu_type": 1, "resources": 1, "ports": 2}
    lacking = outcome("a 2gpu 2used type=A", gpu_type="A")
    assert str(lacking) == "not enough nodes of the GPU type; nodes turned away: resources 1"


def test_one_of_the_candidates() -> None:
    found = outcome("a 2gpu; b 2gpu")
    assert isinstance(found, Selection)
    best = pick_one(found)
    assert best is not None and best.node == "a"
    rng = random.Random(1)
    drawn = {one.node for one in (pick_one(found, rng) for _ in range(40)) if one is not None}
    assert drawn == {"a", "b"}
    assert pick_one(Selection()) is None


def test_a_topology_chooses_the_devices() -> None:
    wired = SelectorNode(name="a", total=gpus(0xFF), used=gpus(0b1), chooser=machine("k80x8"))
    assert wired.choose_mask(2) == 0b1100
    assert choose_mask(0xFE, 2, LowestIndex()) == 0b110


@pytest.mark.parametrize(
    ("left", "right", "summed", "difference"),
    [
        (gpus(0b0011), gpus(0b0110), gpus(0b0111), gpus(0b0001)),
        (gpus(0b0011), Amounts(gpus=1), Amounts(gpus=3, mask=0b11), Amounts(gpus=1, mask=0b11)),
        (Amounts(gpus=4), Amounts(gpus=1), Amounts(gpus=5), Amounts(gpus=3)),
        (Amounts(cpu=4, memory_mb=8), Amounts(cpu=1, memory_mb=9),
         Amounts(cpu=5, memory_mb=17), Amounts(cpu=3, memory_mb=-1)),
    ],
)  # fmt: skip
def test_masks_are_added_bit_by_bit_and_counts_plainly(
    left: Amounts, right: Amounts, summed: Amounts, difference: Amounts
) -> None:
    assert left + right == summed
    assert left - right == difference


def test_a_report_keeps_reservations_and_tried_places() -> None:
    known = node("a 4gpu tried=1").reserve(gpus(0b10))
    again = known.reported(node("a 8gpu 1used"))
    assert again.available().mask == 0b1111_1100
    assert again.tried == gpus(0b1)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"label": "a b"}, "a label is at most 256 characters without spaces"),
        ({"gpu_type": "x" * 257}, "a GPU type is at most 256"),
        ({"amounts": Amounts(gpus=2, mask=0b1)}, "2 GPUs are asked for, but the mask 0x1 names 1"),
        ({"amounts": Amounts(cpu=-1)}, "amounts are 0 or more"),
        ({"waiting": 0}, "at least one task waits"),
    ],
)
def test_requests_that_cannot_be(asked: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SelectorRequest(**asked)  # type: ignore[arg-type]
