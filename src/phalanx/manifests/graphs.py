"""The search for things that wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Graph = Mapping[str, Sequence[str]]


def find_cycle(graph: Graph) -> list[str]:
    """Return the names of a cycle, with the first one repeated at the end; an empty list if there
    is no cycle.
    """
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        on_trail: dict[str, int] = {}
        stack = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                on_trail.pop(trail.pop())
                done.add(name)
            elif name in on_trail:
                return [*trail[on_trail[name] :], name]
            elif name not in done and name in graph:
                on_trail[name] = len(trail)
                trail.append(name)
                stack.append((name, True))
                stack += [(t, False) for t in reversed(graph[name])]
    return []
