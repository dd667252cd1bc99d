"""Three kinds of `phalanx drain`: immediate, with a deadline, and planned with `--at` as a
reservation.
"""

from __future__ import annotations

import socket
import time

from phalanx.cli.node_names import SHORT, FoundNode
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.reservations import Reservation
from phalanx.protocol.requests.cluster import DrainNode, GetStatus
from phalanx.protocol.requests.reservations import DeleteReservation, ListReservations, Reserve


def _reservation(node_id: str) -> str:
    return f"drain-{node_id[:SHORT]}"


def drain_now(
    address: str | None, node: FoundNode, reason: str | None, deadline: str | None
) -> None:
    """Drain a node immediately. Work that still runs after the duration `deadline` is ended."""
    from phalanx.manifests.times import read_length

    try:
        within_s = 0.0 if deadline is None else read_length(deadline)
    except ValueError as error:
        fail(f"--deadline: {error}", USAGE)
    why = reason or "it was asked to drain"
    is_new = ask(address, DrainNode(node.node_id, why, asker(), within_s))
    ends = "" if deadline is None else f"; work that still runs there is ended in {deadline}"
    say(f"Node {node.name} {'drains' if is_new else 'drains already'}{ends}.")


def after_release(address: str | None, node: FoundNode, said: str) -> str:
    """Return the line to print about a node when one reason to keep new work away from it has
    ended. `said`: the words for a node that takes work again. The line names the reasons that
    remain, if any.
    """
    row = next((r for r in ask(address, GetStatus()).nodes if r.node_id == node.node_id), None)
    left = [] if row is None else [kind for kind, *_ in row.holds]
    if not left or row is None:
        return f"Node {node.name} {said}."
    return f"Node {node.name} still takes no new work ({', '.join(left)}): {row.reason}."


def asker() -> str:
    """Return USER@HOST of this process. Users see this text as the name of the person who closed a
    node.
    """
    from phalanx.runtime.os.accounts import user_name

    return f"{user_name() or 'somebody'}@{socket.gethostname()}"


def drain_at(address: str | None, node: FoundNode, at: str | None, length: str | None) -> None:
    """Drain a node from the time `at` on, for the duration `length` or until it is undrained."""
    from phalanx.manifests.cron import moment_text
    from phalanx.manifests.times import read_length, read_moment

    if at is None:
        fail("--for needs --at: it is the length of a planned drain.", USAGE)
    try:
        start = read_moment(at, time.time())
        length_s = None if length is None else read_length(length)
    except ValueError as error:
        fail(str(error), USAGE)
    name = _reservation(node.node_id)
    known = {row.name for row in ask(address, ListReservations())}
    spec = Reservation(
        name=name,
        start=start,
        length_s=length_s,
        nodes=(node.node_id,),
        maintenance=True,
        ignores_jobs=True,
    )
    fields = ("start", "length_s") if name in known else ()
    row = ask(address, Reserve(spec, fields))
    until = "until it is undrained" if row.end is None else f"until {moment_text(row.end)}"
    say(f"Node {node.name} drains from {moment_text(row.begin)} {until} (reservation {name}).")


def undrained(address: str | None, node: FoundNode) -> bool:
    """Delete a node's planned drain.

    Returns whether the node had one. Ends the command if the node is in another reservation for
    maintenance.
    """
    name, is_there = _reservation(node.node_id), False
    for row in ask(address, ListReservations()):
        if row.name == name:
            ask(address, DeleteReservation(name))
            is_there = True
        elif row.is_maintenance and row.state == "active" and node.node_id in row.nodes:
            fail(f"Node {node.name} is in reservation {row.name}: phalanx unreserve {row.name}")
    return is_there
