"""The wiring of a node's devices, and the choice of devices that are well connected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from phalanx.scheduler.devices.pack import EXACT_UP_TO, PackTables, grow, tables_for

PCIE_LEVELS = {"PSB": 60, "PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10}
"""The weight of a connection between two devices, by its word in `nvidia-smi topo -m`. In order:
one board, one switch, several switches, one host bridge, one NUMA node, the link between sockets.
"""

NVLINK_WEIGHT = 100
"""The weight of one NVLink."""

_NUMA_TIE = 1_000_000
"""Link weights are multiplied by this factor. A common NUMA node then counts only between sets with
equal link weights.
"""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NVLINK = re.compile(r"NV([1-9]\d*)")
_GPU = re.compile(r"GPU(\d+)")

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Pairwise link weights of one node's devices, with the NUMA node of each.

    `weights[i][j]`: 100 for each NVLink plus the weight of the PCIe level; 0 on the diagonal.
    `numa[i]`: the NUMA node of device i, or -1 if it is unknown.
    """

    weights: Matrix
    numa: tuple[int, ...]
    _numbers: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", frozenset(range(len(self.weights))))

    @property
    def device_count(self) -> int:
        return len(self.weights)

    def pick(
        self,
        free: Sequence[int],
        count: int,
        required: Sequence[int] = (),
        min_link: str | None = None,
    ) -> tuple[int, ...]:
        """Return `count` of the `free` devices by the exact rule of `PackTables.pick`, ascending.

        They include the `required` devices, and no pair of them has a weaker link than `min_link`
        ("NV1", "PIX" …). The result is empty if this is impossible. Devices that this topology does
        not know do not count as free.

        Raises ValueError for a link that is not a word of `nvidia-smi topo -m`.
        """
        known = [index for index in free if index in self._numbers]
        least = 0 if min_link is None else link_weight(min_link)
        if self.device_count > EXACT_UP_TO:
            return self._grow(known, count, required, least)
        found = self.tables.pick(_mask(known), count, _mask(required), least)
        return _numbers(found)

    def prepare(self) -> None:
        """Compute the tables now, so that no pick waits for them."""
        if self.device_count <= EXACT_UP_TO:
            for count in range(1, self.device_count + 1):
                self.tables.prepare(count)

    @cached_property
    def tables(self) -> PackTables:
        """The values of all subsets of devices, shared by all nodes of this machine type."""
        return tables_for(self.affinity, self.weights)

    @cached_property
    def affinity(self) -> Matrix:
        """The value of having each pair of devices together: the link weight, and a small addition
        for a common NUMA node.
        """
        return tuple(
            tuple(
                _NUMA_TIE * weight + (weight if self._same_numa(i, j) else 0)
                for j, weight in enumerate(row)
            )
            for i, row in enumerate(self.weights)
        )

    def _same_numa(self, i: int, j: int) -> bool:
        return self.numa[i] == self.numa[j] >= 0

    def _grow(
        self, free: list[int], count: int, required: Sequence[int], least: int
    ) -> tuple[int, ...]:
        if required or least:
            raise ValueError(
                f"required devices and least links are decided exactly, for up to {EXACT_UP_TO} "
                f"devices; this node has {self.device_count}"
            )
        return grow(self.affinity, sorted(free), count) if 0 < count <= len(free) else ()


def link_weight(word: str) -> int:
    """Return the weight of a word of `nvidia-smi topo -m`. For NVLinks, the PCIe level beneath them
    is not included.
    """
    nvlink = _NVLINK.fullmatch(word)
    if nvlink:
        return NVLINK_WEIGHT * int(nvlink[1])
    if word in PCIE_LEVELS:
        return PCIE_LEVELS[word]
    allowed = ", ".join(PCIE_LEVELS)
    raise ValueError(f"unknown link {word!r}; allowed: {allowed}, or NV and a number of NVLinks")


def from_rows(
    rows: Sequence[Sequence[str]],
    numa: Sequence[int] | None = None,
    pcie_rows: Sequence[Sequence[str]] | None = None,
) -> Topology:
    """Return a topology from the cells of `topo -m`: a square of words with X on the diagonal.

    `pcie_rows`: the cells of `topo -mp`, which show the PCIe level beneath NVLinks. Without them,
    the level is NODE between devices of one NUMA node, and SYS otherwise. The tables for picks are
    computed here, once for all nodes with the same wiring.

    Raises ValueError for a table that is not square or not symmetric, and for unknown words.
    """
    count = len(rows)
    nodes = tuple(numa) if numa is not None else (-1,) * count
    if len(nodes) != count:
        raise ValueError(f"{count} devices need {count} NUMA nodes, not {len(nodes)}")
    for table in (rows, pcie_rows) if pcie_rows is not None else (rows,):
        _check_square(table, count)
    weights = tuple(
        tuple(_pair_weight(rows, nodes, pcie_rows, i, j) for j in range(count))
        for i in range(count)
    )
    for i in range(count):
        for j in range(i):
            if weights[i][j] != weights[j][i]:
                raise ValueError(
                    f"a link is the same from both ends, but GPU{i} to GPU{j} is {rows[i][j]} "
                    f"and GPU{j} to GPU{i} is {rows[j][i]}"
                )
    topology = Topology(weights=weights, numa=nodes)
    topology.prepare()
    return topology


def parse_topo(text: str, pcie_text: str | None = None) -> Topology:
    """Return the topology that `nvidia-smi topo -m` printed; `pcie_text` is the output of `topo
    -mp`.

    Raises ValueError, with the line, for text that is not such a table.
    """
    rows, numa = _read_table(text)
    pcie_rows = _read_table(pcie_text)[0] if pcie_text is not None else None
    return from_rows(rows, numa, pcie_rows)


def _pair_weight(
    rows: Sequence[Sequence[str]],
    numa: tuple[int, ...],
    pcie_rows: Sequence[Sequence[str]] | None,
    i: int,
    j: int,
) -> int:
    if i == j:
        return 0
    weight = link_weight(rows[i][j])
    if not rows[i][j].startswith("NV"):
        return weight
    if pcie_rows is not None:
        return weight + link_weight(pcie_rows[i][j])
    return weight + PCIE_LEVELS["NODE" if numa[i] == numa[j] >= 0 else "SYS"]


def _check_square(rows: Sequence[Sequence[str]], count: int) -> None:
    if not rows:
        raise ValueError("a topology needs at least one device")
    for i, row in enumerate(rows):
        if len(row) != count:
            raise ValueError(f"GPU{i} has {len(row)} links and needs {count}: {' '.join(row)}")
        if row[i] != "X":
            raise ValueError(f"the link of GPU{i} to itself must be X, not {row[i]!r}")


def _read_table(text: str) -> tuple[list[list[str]], list[int]]:
    """Return the cells between GPUs, and the NUMA node of each GPU (-1 if the text has none)."""
    lines = [line for line in _ESCAPE.sub("", text).splitlines() if line.strip()]
    head = next((at for at, line in enumerate(lines) if _GPU.match(line.split()[0])), None)
    if head is None or "X" in lines[head].split():
        raise ValueError("no header line that starts with GPU0; give the whole text of `topo -m`")
    columns = lines[head].split("CPU Affinity")[0].split()
    gpus = [at for at, name in enumerate(columns) if _GPU.fullmatch(name)]
    tells_numa = "NUMA Affinity" in lines[head]
    rows: list[list[str]] = []
    numa: list[int] = []
    for line in lines[head + 1 :]:
        label, *cells = [cell.strip() for cell in _split(line)]
        if not _GPU.fullmatch(label):
            continue
        if len(cells) < len(columns):
            raise ValueError(f"{label} has {len(cells)} links and needs {len(columns)}: {line}")
        rows.append([cells[at] for at in gpus])
        beyond = cells[len(columns) :]
        numa.append(_numa_node(beyond[1]) if tells_numa and len(beyond) > 1 else -1)
    if len(rows) != len(gpus):
        raise ValueError(f"{len(gpus)} GPUs in the header, {len(rows)} lines for them")
    return rows, numa


def _split(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _numa_node(cell: str) -> int:
    return int(cell) if cell.isdigit() else -1


def _mask(devices: Iterable[int]) -> int:
    mask = 0
    for index in devices:
        mask |= 1 << index
    return mask


def _numbers(mask: int) -> tuple[int, ...]:
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)
