"""Invariants about members of gangs, checked on the events that the head recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]
Member = tuple[str, int]


def of_gangs(rows: Iterable[Row]) -> list[Row]:
    """Return the events about members of gangs."""
    return [
        row for row in rows if row["event"] in ("MembersPlaced", "MembersEvicted", "MembersFreed")
    ]


def merged(known: list[Row], rows: list[Row]) -> list[Row]:
    """Return the known rows followed by those of `rows` that are new. Both lists are in order. They
    overlap unless more events happened in between than the head keeps.
    """
    if not known:
        return rows
    assert known[-1] in rows, "events were lost between two looks"
    return known + rows[len(rows) - rows[::-1].index(known[-1]) :]


def faults(rows: Iterable[Row]) -> Iterator[str]:
    """Yield each case in which two members have a device or a port at the same time, and each gang
    that begins with a part of its members.
    """
    devices: dict[tuple[str, str, int], Member] = {}
    holding: dict[Member, list[tuple[str, str, int]]] = {}
    ports: dict[int, str] = {}
    members_of: dict[str, set[int]] = {}
    for row in rows:
        gang = row["gang"]
        held = members_of.setdefault(gang, set())
        if row["event"] == "MembersFreed":
            for index in row["members"]:
                for device in holding.pop((gang, index), ()):
                    if devices.get(device) == (gang, index):
                        del devices[device]
            held.difference_update(row["members"])
            if not held:
                for port in [port for port, of in ports.items() if of == gang]:
                    del ports[port]
        elif row["event"] == "MembersPlaced":
            if row["held"] < row["min_members"]:
                yield f"{gang} begins with {row['held']} of the {row['min_members']} that it needs"
            for port in row["ports"]:
                if ports.setdefault(port, gang) != gang:
                    yield f"port {port} of {ports[port]} is given to {gang}"
            for index, node, found in row["places"]:
                member = (gang, index)
                if member in holding:
                    yield f"{member} is placed where it has a place"
                mine = [(node, kind, number) for kind in found for number in found[kind]]
                for device in mine:
                    if device in devices:
                        yield f"{device} of {devices[device]} is given to {member}"
                    devices[device] = member
                holding[member] = mine
                held.add(index)


def left(rows: Iterable[Row]) -> set[Member]:
    """Return the members that still hold a place after all these events."""
    held: set[Member] = set()
    for row in rows:
        if row["event"] == "MembersPlaced":
            held |= {(row["gang"], index) for index, _, _ in row["places"]}
        elif row["event"] == "MembersFreed":
            held -= {(row["gang"], index) for index in row["members"]}
    return held
