"""The commands `phalanx reserve`, `unreserve`, `reservations`, `set-license` and `licenses`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.layout import Column
from phalanx.cli.listing import NoHeaders, Output, show
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say, table
from phalanx.model.jobs.timing import Moment
from phalanx.model.readable import amount
from phalanx.model.reservations import Reservation
from phalanx.model.rows.reservations import LicenseInfo, ReservationInfo
from phalanx.protocol.requests.reservations import (
    DeleteReservation,
    ListLicenses,
    ListReservations,
    Reserve,
    SetLicense,
)

T = TypeVar("T")
_SHOWN = 4
"""The most names of a list that a table shows."""
Names = Annotated[list[str] | None, Option(help="Names; may be repeated, or separated by commas.")]


def reserve(
    name: Annotated[str, Argument(help="Name of the reservation.")],
    start: Annotated[
        str | None,
        Option(
            help="Beginning of the reservation: now, 18:00, now+2h or 2027-01-31T18:00. Default: "
            "now."
        ),
    ] = None,
    end: Annotated[
        str | None,
        Option(
            help="End of the reservation: 18:00, now+2h or 2027-01-31T18:00. Without --end "
            "and --for, the reservation lasts until `phalanx unreserve`."
        ),
    ] = None,
    length: Annotated[
        str | None,
        Option(
            "--for",
            help="Length of the reservation, instead of --end: 2h30m, 90s, 1-12:00 "
            "(days-hours:minutes) or 90 (minutes). Needed with --every.",
        ),
    ] = None,
    latest: Annotated[
        str | None,
        Option(
            help="Latest beginning, written like --start. The reservation begins at the first time "
            "between --start and --latest at which enough nodes are free."
        ),
    ] = None,
    every: Annotated[
        str | None,
        Option(
            help="Schedule of a reservation that recurs: @daily, @weekly or '0 2 * * 1' (cron)."
        ),
    ] = None,
    time_zone: Annotated[
        str | None, Option(help="Time zone of --every, such as Europe/Berlin. Default: UTC.")
    ] = None,
    user: Annotated[
        list[str] | None,
        Option("--user", "-u", help="Users whose jobs may use the reservation, such as ann,ben."),
    ] = None,
    queue: Annotated[
        list[str] | None,
        Option(
            "--queue", "-q", help="Queues whose jobs may use the reservation, such as lab,prod."
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        Option("--node", "-w", help="Nodes to reserve, by host name or id, such as gpu1,gpu2."),
    ] = None,
    label: Annotated[
        list[str] | None,
        Option(
            "--label",
            "-l",
            help="Label of the nodes to reserve, as KEY=VALUE, such as rack=r1; may be repeated.",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        Option("--nodes", "-N", min=1, help="Number of whole nodes to reserve."),
    ] = None,
    gpus: Annotated[
        int | None,
        Option("--gpus", "-G", min=1, help="Number of GPUs to reserve, on any nodes."),
    ] = None,
    cpus: Annotated[
        int | None, Option(min=1, help="Number of CPUs to reserve, on any nodes.")
    ] = None,
    maintenance: Annotated[
        bool,
        Option(
            "--maintenance",
            help="Reserve for maintenance: the nodes drain, and no job runs on them.",
        ),
    ] = False,
    ignore_jobs: Annotated[
        bool,
        Option(
            "--ignore-jobs",
            help="Reserve the nodes even if running jobs overlap the period. These jobs continue.",
        ),
    ] = False,
    change: Annotated[
        bool,
        Option(
            "--change",
            help="Change the existing reservation NAME. Options that are not given keep their "
            "values.",
        ),
    ] = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Reserve nodes, GPUs or CPUs for some users or queues over a period.

    Only jobs that name the reservation (`phalanx run --reservation`) run in it.
    With --user or --queue, only jobs of these users or queues may name it. Other
    jobs use what is reserved only if their time limit ends before the reservation
    begins.
    """
    given: dict[str, Any] = {
        "start": _moment("start", start),
        "end": _moment("end", end),
        "length_s": _read("for", length, _length),
        "latest": _moment("latest", latest),
        "schedule": every,
        "time_zone": time_zone,
        "users": _words(user),
        "queues": _words(queue),
        "nodes": _words(node),
        "labels": _labels(label),
        "node_count": nodes,
        "amounts": _amounts(gpus, cpus),
        "maintenance": maintenance or None,
        "ignores_jobs": ignore_jobs or None,
    }
    fields = {key: value for key, value in given.items() if value is not None}
    if change and not fields:
        fail("Nothing to change: give --end, --user or another field.", USAGE)
    row = ask(address, Reserve(Reservation(name=name, **fields), tuple(fields) if change else ()))
    if json:
        echo(rows_json(row))
    else:
        said = "is changed" if change else "is made"
        say(f"reservation {name} {said}: {_kept(row)}, {_when(row)}")


def unreserve(
    names: Annotated[list[str], Argument(help="Names of one or more reservations.")],
    address: Address = None,
) -> None:
    """Delete reservations. A reservation in which jobs run is not deleted."""
    for name in names:
        ask(address, DeleteReservation(name))
        say(f"reservation {name} is deleted")


def reservations(
    output: Output = "", no_headers: NoHeaders = False, address: Address = None, json: Json = False
) -> None:
    """List reservations with their periods, nodes and users."""
    rows = ask(address, ListReservations())
    if json:
        echo(rows_json(rows))
    elif rows or output:
        show(COLUMNS, rows, output, no_headers)
    else:
        say("There are no reservations.")


def set_license(
    name: Annotated[str, Argument(help="Name of the license, such as matlab.")],
    count: Annotated[int, Argument(help="Number of licenses of this name; 0 removes the license.")],
    address: Address = None,
) -> None:
    """Set how many licenses of one name the cluster has."""
    row = ask(address, SetLicense(name, count))
    say(f"licenses of {name}: {row.total}, of which {row.held} are held")


def licenses(address: Address = None, json: Json = False) -> None:
    """List licenses: how many exist, how many are held, and by which jobs."""
    rows = ask(address, ListLicenses())
    if json:
        echo(rows_json(rows))
        return
    if not rows:
        say("There are no licenses; set their number with `phalanx set-license NAME COUNT`.")
        return
    echo(licenses_text(rows))


# ---- words ---------------------------------------------------------------------------------------


def licenses_text(rows: Iterable[LicenseInfo]) -> str:
    """Return a table of licenses with their holders."""
    cells = [
        (
            row.name,
            str(row.total),
            str(row.held),
            str(row.waiting),
            _few([f"{job}:{count}" for job, count in row.holders.items()]),
        )
        for row in rows
    ]
    head = ("NAME", "TOTAL", "HELD", "ASKED", "HELD BY")
    return table(head, cells, right=("TOTAL", "HELD", "ASKED"))


def _when(row: ReservationInfo) -> str:
    from phalanx.manifests.cron import moment_text

    begin = moment_text(row.begin, row.time_zone)
    end = "until it is deleted" if row.end is None else f"to {moment_text(row.end, row.time_zone)}"
    again = f", again at {row.schedule}" if row.schedule else ""
    return f"{begin} {end}{again}"


def _kept(row: ReservationInfo) -> str:
    whole = [host for host, has in zip(row.hosts, row.nodes.values(), strict=True) if not has]
    parts = [
        f"{amount(has.get('GPU') or has.get('CPU', 0.0))} {'GPU' if has.get('GPU') else 'CPU'}"
        f" of {host}"
        for host, has in zip(row.hosts, row.nodes.values(), strict=True)
        if has
    ]
    lacks = f" (lacks {row.lacks})" if row.lacks else ""
    return (_few([*whole, *parts]) or "nothing") + lacks


def _whose(row: ReservationInfo) -> str:
    if row.is_maintenance:
        return "nobody"
    return _few([*row.users, *(f"queue {one}" for one in row.queues)]) or "anybody"


def _few(words: list[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _kind(row: ReservationInfo) -> str:
    return "maintenance" if row.is_maintenance else "recurring" if row.schedule else "once"


COLUMNS = (
    Column("name", lambda row: row.name),
    Column("state", lambda row: row.state),
    Column("kind", _kind, rank=5),
    Column("when", _when, rank=1, is_text=True),
    Column("what", _kept, rank=2, is_text=True),
    Column("for", _whose, rank=3, is_text=True),
    Column("running", lambda row: str(len(row.running)), rank=4, is_right=True),
    Column("waiting", lambda row: str(len(row.waiting)), rank=6, is_right=True),
)
"""The columns of the listing of reservations."""


# ---- reading -------------------------------------------------------------------------------------


def _read(option: str, text: str | None, read: Callable[[str], T]) -> T | None:
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as error:
        fail(f"--{option}: {error}", USAGE)


def _moment(option: str, text: str | None) -> Moment | None:
    from phalanx.manifests.times import read_moment

    def read(word: str) -> Moment:
        found = read_moment(word, time.time())
        return found if found.at is not None else Moment(at=time.time() + (found.after_s or 0.0))

    return _read(option, text, read)


def _length(text: str) -> float:
    from phalanx.manifests.times import read_length

    return read_length(text)


def _words(given: list[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return tuple(word for text in given for word in text.split(",") if word)


def _labels(given: list[str] | None) -> tuple[tuple[str, str], ...] | None:
    if given is None:
        return None
    pairs = [text.partition("=") for text in given]
    for text, (key, is_set, _) in zip(given, pairs, strict=True):
        if not (key and is_set):
            fail(f"--label takes KEY=VALUE, not {text!r}.", USAGE)
    return tuple(sorted((key, value) for key, _, value in pairs))


def _amounts(gpus: int | None, cpus: int | None) -> tuple[tuple[str, float], ...] | None:
    found = (("GPU", gpus), ("CPU", cpus))
    given = tuple((name, float(count)) for name, count in found if count is not None)
    return given or None
