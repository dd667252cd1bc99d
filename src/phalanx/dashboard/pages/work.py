"""The data of the page Tasks and actors: counts of the work of running programs."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.observe.state.query import StateAnswer, StateQuery

SHOWN = 200


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a function, or actors of a class, by state."""

    name: str
    states: dict[str, int]

    @property
    def all(self) -> int:
        """The number in all states together."""
        return sum(self.states.values())


class WorkPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page: counts of tasks and actors, and the processes that gave no answer."""

    tasks: list[Count]
    actors: list[Count]
    silent: list[str]


TASKS = StateQuery("tasks", [], 0, count_by=["func_or_class_name", "name", "state"], timeout_s=3.0)
ACTORS = StateQuery("actors", [], 0, count_by=["class_name", "state"], timeout_s=3.0)


def work(tasks: StateAnswer, actors: StateAnswer) -> WorkPage:
    """Return the page from the answers to `TASKS` and `ACTORS`."""
    return WorkPage(
        tasks=_counted(tasks, 1),
        actors=_counted(actors, 0),
        silent=sorted({*tasks.silent, *actors.silent}),
    )


def _counted(answer: StateAnswer, name_at: int) -> list[Count]:
    found: dict[str, dict[str, int]] = {}
    for values, rows, _ in answer.part.counts:
        name, state = _text(values[name_at]), _text(values[-1])
        states = found.setdefault(name, {})
        states[state] = states.get(state, 0) + rows
    counts = [Count(name=name, states=states) for name, states in found.items()]
    return sorted(counts, key=lambda one: (-one.all, one.name))[:SHOWN]


def _text(value: Any) -> str:
    return "?" if value is None else str(value)
