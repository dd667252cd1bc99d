"""The data of the page Objects: objects in nodes' memory and on disk, and the code that makes
objects.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import StateAnswer, StateQuery

SHOWN = 100
_OFF = "disabled"
"""The place of objects of a program that does not record where it makes objects."""
OBJECTS = StateQuery("objects", [], SHOWN, True, timeout_s=3.0)
STORES = StateQuery("stores", [], 1_000, False, timeout_s=3.0)
SITES = StateQuery(
    "objects", [], 0, True, count_by=["call_site"], sum_of="object_size", timeout_s=3.0
)
QUERIES = (OBJECTS, STORES, SITES)


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a node in shared memory and, if memory was short, on disk. Sizes are in
    bytes.
    """

    node: str
    objects: int
    bytes: float
    pinned_bytes: float
    """The bytes of copies that are pinned until the requesting process has mapped them."""
    capacity_bytes: float
    spilled: int
    spilled_bytes: float

    @property
    def percent(self) -> float:
        """The used part of the capacity, in percent."""
        return 100 * self.bytes / self.capacity_bytes if self.capacity_bytes else 0.0


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The references to objects that were made in one line of a program."""

    call_site: str
    references: int
    bytes: float


class ObjectsPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page: the nodes, the lines of programs that make objects, and the largest objects."""

    stores: list[Store]
    """The nodes' stores, the fullest first."""
    stores_in_all: int
    sites: list[Site]
    unplaced: Site
    """The references of programs that do not record where they make objects."""
    objects: list[Row]
    references: int
    silent: list[str]


def objects(listed: StateAnswer, stores: StateAnswer, sites: StateAnswer) -> ObjectsPage:
    """Return the page from the answers to `OBJECTS`, `STORES` and `SITES`."""
    found = [
        Site(call_site=_text(values[0]), references=rows, bytes=total)
        for values, rows, total in sites.part.counts
    ]
    unplaced = [one for one in found if one.call_site in ("", _OFF)]
    placed = [one for one in found if one.call_site not in ("", _OFF)]
    return ObjectsPage(
        stores=sorted((_store(row) for row in stores.part.rows), key=lambda one: -one.percent)[
            :SHOWN
        ],
        stores_in_all=len(stores.part.rows),
        sites=sorted(placed, key=lambda one: (-one.bytes, one.call_site))[:SHOWN],
        unplaced=Site(
            call_site="",
            references=sum(one.references for one in unplaced),
            bytes=sum(one.bytes for one in unplaced),
        ),
        objects=listed.part.rows,
        references=listed.part.total,
        silent=sorted({*listed.silent, *stores.silent, *sites.silent}),
    )


def _store(row: Row) -> Store:
    return Store(
        node=str(row["node_id"]),
        objects=int(row["objects"]),
        bytes=float(row["shared_bytes"]),
        pinned_bytes=float(row.get("pinned_bytes") or 0),
        capacity_bytes=float(row["capacity_bytes"]),
        spilled=int(row["spilled_objects"]),
        spilled_bytes=float(row["spilled_bytes"]),
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)
