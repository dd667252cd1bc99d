"""Parsing of the output of `nvidia-smi topo -m`."""

from __future__ import annotations

import pytest

from phalanx.scheduler.devices.topology import from_rows, parse_topo

BRIDGED = """
\x1b[4m\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV4\tNODE\tSYS\tPIX\t0-15\t0\t\tN/A
GPU1\tNV4\t X \tNODE\tSYS\tPIX\t0-15\t0\t\tN/A
GPU2\tNODE\tNODE\t X \tSYS\tSYS\t0-15\t0\t\tN/A
GPU3\tSYS\tSYS\tSYS\t X \tNODE\t16-31\t1\t\tN/A
NIC0\tPIX\tPIX\tSYS\tNODE\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def test_a_table_with_network_cards_escapes_and_a_legend() -> None:
    wiring = parse_topo(BRIDGED)
    assert wiring.numa == (0, 0, 0, 1)
    assert wiring.weights == (
        (0, 420, 20, 10),
        (420, 0, 20, 10),
        (20, 20, 0, 10),
        (10, 10, 10, 0),
    )


def test_spaces_in_place_of_tabs() -> None:
    spaced = "\n".join(" ".join(line.split()) for line in BRIDGED.splitlines())
    assert parse_topo(spaced) == parse_topo(BRIDGED)


def test_the_level_beneath_nvlinks_comes_from_the_second_table() -> None:
    head = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
    links = head + "GPU0\tX\tNV2\t0-7\t0\nGPU1\tNV2\tX\t0-7\t0\n"
    pcie = head + "GPU0\tX\tPIX\t0-7\t0\nGPU1\tPIX\tX\t0-7\t0\n"
    assert parse_topo(links).weights[0][1] == 220
    assert parse_topo(links, pcie).weights[0][1] == 250


def test_without_numa_nothing_is_taken_for_near() -> None:
    wiring = parse_topo("  GPU0 GPU1\nGPU0 X NV1\nGPU1 NV1 X\n")
    assert (wiring.numa, wiring.weights[0][1]) == ((-1, -1), 110)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no header line"),
        ("no such command: nvidia-smi", "no header line"),
        ("GPU0 X NV1\nGPU1 NV1 X", "no header line"),
        ("  GPU0 GPU1\nGPU0 X NV1", "2 GPUs in the header, 1 lines"),
        ("  GPU0 GPU1\nGPU0 X\nGPU1 NV1 X", "GPU0 has 1 links and needs 2"),
        ("  GPU0 GPU1\nGPU0 X WIFI\nGPU1 WIFI X", "unknown link 'WIFI'"),
        ("  GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X", "the same from both ends"),
        ("  GPU0 GPU1\nGPU0 PIX X\nGPU1 X PIX", "the link of GPU0 to itself must be X"),
    ],
)
def test_text_that_is_no_such_table(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_topo(text)


def test_rows_and_numa_nodes_go_together() -> None:
    with pytest.raises(ValueError, match="2 devices need 2 NUMA nodes, not 1"):
        from_rows([["X", "SYS"], ["SYS", "X"]], [0])
    with pytest.raises(ValueError, match="at least one device"):
        from_rows([])
    with pytest.raises(ValueError, match="GPU1 has 1 links and needs 2"):
        from_rows([["X", "SYS"], ["X"]])


def test_machines_of_one_type_share_their_tables() -> None:
    flat = [["X" if i == j else "NODE" for j in range(3)] for i in range(3)]
    first, second = from_rows(flat, [0] * 3), from_rows(flat, [0] * 3)
    assert first.tables is second.tables
    assert first.tables is not from_rows(flat, [0, 0, 1]).tables
