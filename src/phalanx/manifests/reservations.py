"""Reservation manifests: the reserved resources, the time, and the users.

Volcano has no such kind. The fields are read as strictly as the fields of other kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.manifests.cron import parse_schedule, zone_of
from phalanx.manifests.fields import Fields
from phalanx.manifests.names import MAX_SUBDOMAIN, shown
from phalanx.manifests.times import read_length, read_moment, written_moment
from phalanx.model.jobs.timing import LATEST_S, LONGEST_S, Moment
from phalanx.model.readable import length_text
from phalanx.model.reservations import MAX_COUNT, MAX_NAMED, Reservation

T = TypeVar("T")
WHAT = ("nodes", "labels", "nodeCount", "amounts")


def read_reservation(at: Fields, name: str) -> Reservation:
    """Return the reservation in a manifest, and report its faults."""
    made = Reservation(
        name=name,
        start=_read(at, "start", read_moment),
        end=_read(at, "end", read_moment),
        length_s=_read(at, "length", read_length),
        latest=_read(at, "latest", read_moment),
        schedule=at.text("schedule"),
        time_zone=at.text("timeZone"),
        users=at.texts("users"),
        queues=at.texts("queues"),
        nodes=at.texts("nodes"),
        labels=at.pairs("labels"),
        node_count=at.whole("nodeCount"),
        amounts=at.amounts("amounts"),
        maintenance=at.flag("maintenance"),
        ignores_jobs=at.flag("ignoreJobs"),
    )
    at.warn_unknown()
    for field, reason in reservation_faults(made):
        at.error(field, "reservation_invalid", f"{field}: {reason}")
    return made


def _read(at: Fields, key: str, read: Callable[[str], T]) -> T | None:
    value = at.raw(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # `length: 90` is 90 minutes
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ValueError(f"this must be text, not {type(value).__name__}")
        return read(value)
    except ValueError as error:
        at.error(key, "reservation_invalid", f"{key}: {error}")
        return None


def reservation_faults(made: Reservation) -> list[tuple[str, str]]:
    """Return the faults of a reservation that do not depend on the cluster, each with its field."""
    return [*_what_faults(made), *_time_faults(made), *_owner_faults(made)]


def _what_faults(made: Reservation) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    counts = bool(made.node_count) + bool(made.amounts)
    chosen = bool(made.nodes) + (counts or bool(made.labels))
    if chosen != 1:
        reason = (
            "say what to keep: nodes, or labels, or nodeCount, or amounts (of nodes with labels)"
        )
        found.append(("nodes", reason))
    if made.nodes and made.labels:
        found.append(("labels", "nodes are named already"))
    if not 0 <= made.node_count <= MAX_COUNT:
        found.append(("nodeCount", f"it must be 1 to {MAX_COUNT}, not {made.node_count}"))
    if len(made.amounts) > 1:
        names = ", ".join(shown(name) for name, _ in made.amounts[:5])
        reason = f"it must name one resource; all else is kept in proportion; not {names}"
        found.append(("amounts", reason))
    for name, amount in made.amounts[:1]:
        if not 0 < amount <= LONGEST_S or amount != int(amount):
            reason = f"{shown(name)} must be a whole number above 0: {amount:g}"
            found.append(("amounts", reason))
    for field, words in (("nodes", made.nodes), ("labels", [k for k, _ in made.labels])):
        found += _too_many(field, words)
    return found


def _time_faults(made: Reservation) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if made.schedule:
        named = [f for f in ("start", "end", "latest") if getattr(made, f) is not None]
        found += [(field, "a schedule says when it begins; give a length") for field in named]
        if made.length_s is None:
            found.append(("length", "a recurring reservation needs a length, like 2h"))
        try:
            if parse_schedule(made.schedule).every_s:
                reason = "it must name times of day, as '0 2 * * 1', not @every"
                found.append(("schedule", reason))
            zone_of(made.time_zone)
        except ValueError as error:
            found.append(("schedule", str(error)))
    elif made.time_zone:
        found.append(("timeZone", "it belongs to a schedule; a start names its own zone"))
    if made.end is not None and made.length_s is not None:
        found.append(("end", "give an end or a length, not both"))
    if made.length_s is not None and not 0 < made.length_s <= LONGEST_S:
        found.append(("length", f"it must be more than 0 and at most {LONGEST_S:g} s"))
    if made.latest is not None and made.end is not None:
        found.append(("latest", "a later begin means a later end: give a length instead of an end"))
    for field in ("start", "end", "latest"):
        moment: Moment | None = getattr(made, field)
        if moment is not None and not _is_moment(moment):
            found.append((field, "it must be one moment, up to the year 9999"))
    return found


def _is_moment(moment: Moment) -> bool:
    if (moment.at is None) == (moment.after_s is None):
        return False
    if moment.at is not None:
        return 0 <= moment.at <= LATEST_S
    return moment.after_s is not None and 0 <= moment.after_s <= LONGEST_S


def _owner_faults(made: Reservation) -> list[tuple[str, str]]:
    found = [*_too_many("users", made.users), *_too_many("queues", made.queues)]
    if made.maintenance and (made.users or made.queues):
        field = "users" if made.users else "queues"
        found.append((field, "no jobs run in a maintenance, so it has no users or queues"))
    return found


def _too_many(field: str, words: Any) -> list[tuple[str, str]]:
    if len(words) > MAX_NAMED:
        return [(field, f"at most {MAX_NAMED} are allowed, not {len(words)}")]
    return [
        (field, f"a name must have 1 to {MAX_SUBDOMAIN} printable characters, not {shown(word)}")
        for word in words
        if not word or len(word) > MAX_SUBDOMAIN or not word.isprintable()
    ][:1]


def written_reservation(made: Reservation) -> dict[str, Any]:
    """Return a reservation as fields for `read_reservation`."""
    fields: dict[str, Any] = {
        "start": None if made.start is None else written_moment(made.start),
        "end": None if made.end is None else written_moment(made.end),
        "length": None if made.length_s is None else length_text(made.length_s),
        "latest": None if made.latest is None else written_moment(made.latest),
        "schedule": made.schedule,
        "timeZone": made.time_zone,
        "users": list(made.users),
        "queues": list(made.queues),
        "nodes": list(made.nodes),
        "labels": dict(made.labels),
        "nodeCount": made.node_count,
        "amounts": dict(made.amounts),
        "maintenance": made.maintenance,
        "ignoreJobs": made.ignores_jobs,
    }
    return {key: value for key, value in fields.items() if value}
