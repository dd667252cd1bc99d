"""The data of the table of actors: where each one lives, since when, whose it is, why it died."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from phalanx.dashboard.pages.lists import Asked, Listed, asked, cut
from phalanx.model.ids import task_id_bytes
from phalanx.model.lifecycle import (
    ALIVE,
    DEAD,
    DEPENDENCIES_UNREADY,
    PENDING_CREATION,
    RESTARTING,
)
from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import StateAnswer, StateQuery, with_names

MOST = 1_000
"""The number of actors that the page asks for, the living ones first. More would cost the head too
much.
"""
STATES: dict[str, str] = {"living": "!=", "dead": "="}
"""The values of the filter by state, each with the predicate that compares a state with DEAD."""
ACTORS = StateQuery("actors", [], MOST, True, timeout_s=3.0)
DRIVERS = StateQuery("drivers", [], MOST, timeout_s=3.0)
QUERIES = (ACTORS, DRIVERS)
_LONGEST = 100
"""The number of characters of a program that are shown."""
_ORDER = (ALIVE, RESTARTING, PENDING_CREATION, DEPENDENCIES_UNREADY, DEAD)


class ActorLine(msgspec.Struct, frozen=True, kw_only=True):
    """An actor. Times are in seconds since the epoch; unknown times are None."""

    actor: str
    name: str
    """The actor's name; "" for an actor without a name."""
    class_name: str
    state: str
    node: str
    """The id of the actor's node; "" while the actor is on no node."""
    node_name: str
    pid: int | None
    restarts: int
    began: float | None
    """The time at which the actor's present life began; for a dead actor, the beginning of its last
    life.
    """
    ended: float | None
    up_s: float | None
    """The length of the present life so far, or of the last life."""
    program: str
    """The program whose actor this is, or the number of its job."""
    reason: str
    """Why the actor died or restarts."""
    creation: str
    """The id of the task that creates the actor."""

    @property
    def waits(self) -> bool:
        """Whether the actor waits for a node or for the arguments of its constructor."""
        return self.state not in (ALIVE, DEAD)


class ActorList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of actors."""

    listed: Listed[ActorLine]
    unseen: int
    """The number of actors in the chosen state that the head did not list."""


COLUMNS: dict[str, Callable[[ActorLine], Any]] = {
    "name": lambda one: (one.name or one.class_name, one.actor),
    "state": lambda one: (_place(one.state), -(one.ended or 0.0), one.class_name, one.actor),
    "node": lambda one: (not one.node, one.node_name, one.pid or 0),
    "restarts": lambda one: (one.restarts, one.actor),
    "uptime": lambda one: -1.0 if one.up_s is None else one.up_s,
    "program": lambda one: (one.program, one.actor),
}
_USUAL = "state"
"""The default order: the living first, then those that died last."""


def asked_for(words: Mapping[str, str]) -> Asked:
    """Return the sort order and filters that an address asks for. The filter `range` is the time
    range of the stream of tasks.
    """
    return asked(words, ("q", "state", "range"), _USUAL)


def query(words: Mapping[str, str]) -> StateQuery:
    """Return the query for the actors in the state that an address names. If the address names no
    state, the query is for all actors.
    """
    predicate = STATES.get(words.get("state", ""))
    if predicate is None:
        return ACTORS
    return msgspec.structs.replace(ACTORS, filters=[("state", predicate, DEAD)])


def actors(
    answer: StateAnswer,
    drivers: StateAnswer,
    names: Mapping[str, str],
    now: float,
    words: Mapping[str, str],
) -> ActorList:
    """Return the actors that an address selects: by state, and by words in anything that the table
    shows. `names` has the nodes' names by id; `now` is in seconds since the epoch.
    """
    wanted = asked_for(words)
    programs = {
        str(row.get("job_id")): str(row.get("entrypoint") or "") for row in drivers.part.rows
    }
    rows = [_line(row, programs, names, now) for row in answer.part.rows]
    if state := wanted.filters.get("state"):
        rows = [
            one for one in rows if state not in STATES or (one.state == DEAD) == (state == "dead")
        ]
    given = wanted.filters.get("q", "").lower().split()
    found = [one for one in rows if _has(one, given)] if given else rows
    return ActorList(
        listed=cut(found, answer.part.total, wanted, COLUMNS, _USUAL),
        unseen=max(answer.part.matched - len(answer.part.rows), 0),
    )


def _line(row: Row, programs: Mapping[str, str], names: Mapping[str, str], now: float) -> ActorLine:
    actor, state, node = _text(row, "actor_id"), _text(row, "state"), _text(row, "node_id")
    began, ended = _seconds(row.get("start_time_ms")), _seconds(row.get("end_time_ms"))
    until = ended if state == DEAD else now
    job = _text(row, "job_id")
    cause = row.get("death_cause") or {}
    return ActorLine(
        actor=actor,
        name=_text(row, "name"),
        class_name=_text(row, "class_name"),
        state=state,
        node=node,
        node_name=names.get(node, node[:12]),
        pid=row.get("pid"),
        restarts=int(row.get("num_restarts") or 0),
        began=began,
        ended=ended,
        up_s=None if began is None or until is None else max(until - began, 0.0),
        program=_short(programs.get(job, "")) or f"job {job}",
        reason=with_names(str(cause.get("error_message") or ""), names),
        creation=_creation(actor),
    )


def _creation(actor: str) -> str:
    try:
        return task_id_bytes(bytes.fromhex(actor), 0).hex()
    except ValueError:
        return ""


def _has(one: ActorLine, words: list[str]) -> bool:
    said = (
        one.name, one.class_name, one.node_name, str(one.pid or ""), one.program, one.reason,
        one.actor,
    )  # fmt: skip
    text = " ".join(said).lower()
    return all(word in text for word in words)


def _place(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value)


def _seconds(value: Any) -> float | None:
    return value / 1000 if isinstance(value, int) else None
