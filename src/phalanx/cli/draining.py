"""`phalanx drain NODE --at TIME`: a maintenance of one node, which `undrain` takes back."""

from __future__ import annotations

import time

from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.reservations import Reservation
from phalanx.protocol.requests.reservations import DeleteReservation, ListReservations, Reserve

_ID_CHARS = 12


def _name(node_id: str) -> str:
    return f"drain-{node_id[:_ID_CHARS]}"


def drain_at(address: str | None, node_id: str, at: str | None, length: str | None) -> None:
    """Have a node drain from a time on, for a length of time or until it is undrained."""
    from phalanx.manifests.cron import moment_text
    from phalanx.manifests.times import read_length, read_moment

    if at is None:
        fail("--for says how long it drains that drains --at a time: give both.", USAGE)
    try:
        start = read_moment(at, time.time())
        length_s = None if length is None else read_length(length)
    except ValueError as error:
        fail(str(error), USAGE)
    name = _name(node_id)
    known = {row.name for row in ask(address, ListReservations())}
    spec = Reservation(
        name=name,
        start=start,
        length_s=length_s,
        nodes=(node_id,),
        maintenance=True,
        ignores_jobs=True,
    )
    fields = ("start", "length_s") if name in known else ()
    row = ask(address, Reserve(spec, fields))
    until = "until it is undrained" if row.end is None else f"until {moment_text(row.end)}"
    say(f"Node {node_id} drains from {moment_text(row.begin)} {until} (reservation {name}).")


def undrained(address: str | None, node_id: str) -> bool:
    """Forget that a node was to drain; whether it was. Ends the command where another maintenance
    keeps it."""
    name, is_there = _name(node_id), False
    for row in ask(address, ListReservations()):
        if row.name == name:
            ask(address, DeleteReservation(name))
            is_there = True
        elif row.is_maintenance and row.state == "active" and node_id in row.nodes:
            fail(f"Node {node_id} is in reservation {row.name}: phalanx unreserve {row.name}")
    return is_there
