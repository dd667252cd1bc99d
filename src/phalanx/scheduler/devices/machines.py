"""Known types of machines: the switches, sockets and bridges of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from phalanx.scheduler.devices.topology import Topology, from_rows

Groups = Sequence[Sequence[int]]


@cache
def machine(name: str) -> Topology:
    """Return the wiring of a known type of machine. Raises ValueError with the list of known
    types.
    """
    if name not in _MACHINES:
        raise ValueError(f"unknown machine {name!r}; known: {', '.join(sorted(_MACHINES))}")
    return _MACHINES[name]()


def known_machines() -> tuple[str, ...]:
    """Return the types of machines that `machine` knows, in order."""
    return tuple(sorted(_MACHINES))


def _build(
    *,
    sockets: Groups,
    switches: Groups = (),
    inside_socket: str = "NODE",
    numa: Sequence[int] | None = None,
    nvlinks: Mapping[tuple[int, int], int] | None = None,
) -> Topology:
    """Return the wiring of devices on sockets. Devices may share a switch, or be joined by NVLinks.

    `numa` has the NUMA node of each device; without it, a device's NUMA node is its socket's
    number. The PCIe level beneath NVLinks comes from `switches` if there are any, and otherwise
    from the NUMA nodes.
    """
    count = sum(len(socket) for socket in sockets)
    socket_of = {index: at for at, socket in enumerate(sockets) for index in socket}
    switch_of = {index: at for at, group in enumerate(switches) for index in group}

    def pcie(i: int, j: int) -> str:
        if i == j:
            return "X"
        if socket_of[i] != socket_of[j]:
            return "SYS"
        if i in switch_of and switch_of[i] == switch_of.get(j):
            return "PIX"
        return inside_socket

    levels = [[pcie(i, j) for j in range(count)] for i in range(count)]
    links = [list(row) for row in levels]
    for (i, j), lanes in (nvlinks or {}).items():
        links[i][j] = links[j][i] = f"NV{lanes}"
    nodes = numa if numa is not None else [socket_of[index] for index in range(count)]
    return from_rows(links, nodes, levels if switches else None)


def _all_linked(count: int, lanes: int) -> dict[tuple[int, int], int]:
    return {(i, j): lanes for j in range(count) for i in range(j)}


def _dgx1(lanes: Mapping[tuple[int, int], int], switches: Groups) -> Topology:
    """Return the wiring of two groups of four devices. Both groups are wired alike, and each device
    is joined to its twin in the other group.
    """
    links: dict[tuple[int, int], int] = {}
    for (i, j), number in lanes.items():
        if j < 4:
            links[i, j] = links[i + 4, j + 4] = number
        else:
            links[i, j] = number
    return _build(
        sockets=(range(4), range(4, 8)), switches=switches, inside_socket="PHB", nvlinks=links
    )


def _dgx1v() -> Topology:
    quad = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2}
    twins = {(0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1}
    return _dgx1({**quad, **twins}, ((0, 1), (2, 3), (4, 5), (6, 7)))


def _dgx1p() -> Topology:
    twins = {(i, i + 4): 1 for i in range(4)}
    return _dgx1({**_all_linked(4, 1), **twins}, ((0, 2), (1, 3), (4, 6), (5, 7)))


def _two_sockets_of_eight(lanes: int) -> Topology:
    return _build(sockets=(range(4), range(4, 8)), nvlinks=_all_linked(8, lanes))


def _pairs(count: int) -> Groups:
    return [(i, i + 1) for i in range(0, count, 2)]


_MACHINES: Mapping[str, Callable[[], Topology]] = {
    "dgx1p": _dgx1p,
    "dgx1v": _dgx1v,
    "dgx2": lambda: _build(sockets=(range(8), range(8, 16)), nvlinks=_all_linked(16, 6)),
    "dgx_a100": lambda: _build(
        sockets=_pairs(8), numa=[3, 3, 1, 1, 7, 7, 5, 5], nvlinks=_all_linked(8, 12)
    ),
    "dgx_h100": lambda: _two_sockets_of_eight(18),
    "dgx_h200": lambda: _two_sockets_of_eight(18),
    "dgx_b200": lambda: _two_sockets_of_eight(18),
    "a100pcie_bridges": lambda: _build(
        sockets=(range(8),),
        numa=[0, 0, 0, 0, 1, 1, 1, 1],
        nvlinks={(i, i + 1): 12 for i in range(0, 8, 2)},
    ),
    "k80x4_flat": lambda: _build(sockets=(range(4),)),
    "k80x6": lambda: _build(
        sockets=(range(2), range(2, 6)), switches=_pairs(6), inside_socket="PHB"
    ),
    "k80x8": lambda: _build(
        sockets=(range(4), range(4, 8)), switches=_pairs(8), inside_socket="PHB"
    ),
    "k80x16": lambda: _build(
        sockets=(range(8), range(8, 16)), switches=_pairs(16), inside_socket="PHB"
    ),
    "pcie8_1socket_2switch": lambda: _build(sockets=(range(8),), switches=(range(4), range(4, 8))),
    "pcie8_2socket": lambda: _build(sockets=(range(4), range(4, 8)), switches=_pairs(8)),
    "rtx4090_allsys": lambda: _build(
        sockets=[(i,) for i in range(8)], numa=[0, 0, 0, 0, 1, 1, 1, 1]
    ),
}
