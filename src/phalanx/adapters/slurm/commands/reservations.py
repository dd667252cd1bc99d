"""The `scontrol` commands `create`, `show`, `update` and `delete` for reservations."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.usage import address, refuse
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.cli.times import length
from phalanx.manifests.times import read_length, read_moment
from phalanx.model.jobs.timing import Moment
from phalanx.model.reservations import Reservation
from phalanx.model.rows.reservations import ReservationInfo
from phalanx.protocol.requests.reservations import DeleteReservation, ListReservations, Reserve

RECURRING = {
    "DAILY": "{minute} {hour} * * *",
    "HOURLY": "{minute} * * * *",
    "WEEKDAY": "{minute} {hour} * * 1-5",
    "WEEKEND": "{minute} {hour} * * 0,6",
    "WEEKLY": "{minute} {hour} * * {day}",
}
FLAGS = ("MAINT", "IGNORE_JOBS", *RECURRING)
FIELDS = (
    "reservationname", "reservation", "starttime", "endtime", "duration", "users", "nodes",
    "nodecnt", "tres", "flags",
)  # fmt: skip
_NO_END = ("infinite", "unlimited")


def create(words: Sequence[str]) -> None:
    """Create a reservation from NAME=VALUE arguments."""
    pairs = pairs_of("create", words)
    taken = {row.name for row in ask(address(), ListReservations())}
    name = pairs.get("reservationname", pairs.get("reservation", ""))
    if not name:
        base = pairs.get("users", "").partition(",")[0].lower() or "maint"
        name = next(f"{base}-{i}" for i in range(1, len(taken) + 2) if f"{base}-{i}" not in taken)
    ask(address(), Reserve(Reservation(name=name, **reservation_fields(pairs))))
    say(f"Reservation created: {name}")


def update(words: Sequence[str]) -> None:
    """Change the named reservation."""
    pairs = pairs_of("update", words)
    name = pairs.get("reservationname", pairs.get("reservation", ""))
    fields = reservation_fields(pairs)
    if not fields:
        refuse("scontrol", "update: give a value to change, such as EndTime or Users")
    ask(address(), Reserve(Reservation(name=name, **fields), tuple(fields)))
    say("Reservation updated.")


def delete(words: Sequence[str]) -> None:
    """Delete the named reservation."""
    pairs = pairs_of("delete", words)
    name = pairs.get("reservationname", pairs.get("reservation", ""))
    if not name:
        refuse("scontrol", "delete: give ReservationName=NAME; `phalanx queue` deletes queues")
    ask(address(), DeleteReservation(name))


def records(names: Sequence[str]) -> list[list[str]]:
    """Return the records of `scontrol show reservation`."""
    rows = [r for r in ask(address(), ListReservations()) if not names or r.name in names]
    if names and not rows:
        refuse("scontrol", f"Reservation {names[0]} not found")
    return [_record(row) for row in rows] or [["No reservations in the system"]]


def _record(row: ReservationInfo) -> list[str]:
    duration = "UNLIMITED" if row.end is None else length(round(row.end - row.begin))
    flags = [*(["MAINT"] if row.is_maintenance else []), *(["RECURRING"] if row.schedule else [])]
    gpus = sum(has.get("GPU", 0.0) for has in row.nodes.values())
    return [
        f"ReservationName={row.name} StartTime={_time(row.begin)}"
        f" EndTime={'Unknown' if row.end is None else _time(row.end)} Duration={duration}",
        f"Nodes={','.join(row.hosts) or '(null)'} NodeCnt={len(row.nodes)}"
        f" TRES={f'gres/gpu={gpus:g}' if gpus else '(null)'} Flags={','.join(flags)}",
        f"Users={','.join(row.users) or '(null)'} Partitions={','.join(row.queues) or '(null)'}"
        f" State={'ACTIVE' if row.state == 'active' else 'INACTIVE'}",
    ]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%dT%H:%M:%S")


def pairs_of(command: str, words: Sequence[str]) -> dict[str, str]:
    """Return the values of NAME=VALUE arguments, by the names in lower case. Ends the command for
    an unknown name, and for an argument in another form.
    """
    pairs = {}
    for word in words:
        name, is_set, value = word.partition("=")
        if name.lower() == "reservation" and not is_set:
            continue  # `scontrol create reservation ...`
        if not is_set or name.lower() not in FIELDS:
            there = (
                "ReservationName, StartTime, EndTime, Duration, Users, Nodes, NodeCnt, TRES, Flags"
            )
            refuse("scontrol", f"{command} {word}: the names are {there}")
        pairs[name.lower()] = value
    return pairs


def reservation_fields(pairs: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a reservation. Ends the command for a wrong value."""
    try:
        return _read(pairs)
    except ValueError as error:
        refuse("scontrol", str(error))


def _read(pairs: Mapping[str, str]) -> dict[str, Any]:
    flags = [flag.upper() for flag in pairs.get("flags", "").split(",") if flag]
    for flag in flags:
        if flag not in FLAGS:
            raise ValueError(f"Flags={flag}: the flags are {', '.join(FLAGS)}")
    found = _when(pairs, [RECURRING[flag] for flag in flags if flag in RECURRING])
    found |= _what(pairs)
    if "users" in pairs:
        found["users"] = tuple(filter(None, pairs["users"].split(",")))
    if "MAINT" in flags:
        found["maintenance"] = True
    if "IGNORE_JOBS" in flags:
        found["ignores_jobs"] = True
    return found


def _when(pairs: Mapping[str, str], recurring: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "starttime" in pairs:
        moment = read_moment(pairs["starttime"], time.time())
        at = moment.at if moment.at is not None else time.time() + (moment.after_s or 0.0)
        first = datetime.fromtimestamp(at, UTC)
        times = {"minute": first.minute, "hour": first.hour, "day": first.isoweekday() % 7}
        if recurring:
            found["schedule"] = recurring[0].format(**times)
        else:
            found["start"] = Moment(at=at)
    if "endtime" in pairs:
        found["end"] = read_moment(pairs["endtime"], time.time())
    if "duration" in pairs and pairs["duration"].lower() not in _NO_END:
        found["length_s"] = read_length(pairs["duration"])
    return found


def _what(pairs: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if pairs.get("nodes", "").upper() == "ALL":
        raise ValueError("Nodes=ALL: name the nodes, or give NodeCnt")
    if "nodes" in pairs:
        found["nodes"] = tuple(expanded(pairs["nodes"]))
    if "nodecnt" in pairs:
        if not pairs["nodecnt"].isdecimal():
            raise ValueError(f"NodeCnt={pairs['nodecnt']}: it takes a number")
        found["node_count"] = int(pairs["nodecnt"])
    if "tres" in pairs:
        kind, _, count = pairs["tres"].rpartition("=")
        if kind.lower() not in ("gres/gpu", "cpu") or not count.isdecimal():
            raise ValueError(f"TRES={pairs['tres']}: it takes gres/gpu=N or cpu=N")
        found["amounts"] = (("GPU" if "gpu" in kind.lower() else "CPU", float(count)),)
    return found
