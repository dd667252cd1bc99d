"""The users of a lab, the times at which they submit, and the shares of their teams."""

from __future__ import annotations

import math
import random

import msgspec

from phalanx.protocol.requests.queues import QueueFields

GPUS_PER_NODE = 8
NODE: dict[str, float] = {"CPU": 96.0, "GPU": float(GPUS_PER_NODE), "memory": 768e9}
CORE_NODE: dict[str, float] = {"CPU": 128.0, "memory": 512e9}
"""The resources of every eighth machine; these machines have no GPUs."""
TEAMS = ("vision", "language", "robots", "theory")
WEIGHTS = (3, 3, 2, 1)
DESKS = "interactive"
"""The queue of interactive work."""
HOUR_S = 3_600.0
_PROFILE = (
    (0, 0.25), (7, 0.6), (9, 1.6), (12, 1.1), (13, 1.7), (18, 0.9), (21, 0.5), (24, 0.5),
)  # fmt: skip
"""The rates at which users submit from given hours on, as multiples of the mean rate."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the lab. `hours`: the hours during which users submit work. Work that still waits
    afterwards also runs.
    """

    users: int = 120
    nodes: int = 32
    hours: float = 24.0

    @property
    def gpus(self) -> int:
        return GPUS_PER_NODE * sum("GPU" in total for total in machines(self))

    def count(self, of_a_day: float) -> int:
        """Scale a number per day from a lab with 224 GPUs to this lab. The result is at
        least one.
        """
        return max(1, round(of_a_day * self.gpus / 224 * self.hours / 24))


def machines(size: Size) -> list[dict[str, float]]:
    """Return the resources of each machine."""
    return [CORE_NODE if i % 8 == 7 else NODE for i in range(size.nodes)]


def queues(size: Size) -> list[tuple[str, QueueFields]]:
    """Return a queue for each team, and the queue of interactive work, which has a few GPUs for
    itself.
    """
    teams = [
        (team, QueueFields(weight=weight, max_time_s=48 * HOUR_S))
        for team, weight in zip(TEAMS, WEIGHTS, strict=True)
    ]
    kept = {"GPU": float(max(1, size.gpus // 16)), "CPU": float(max(4, size.gpus // 4))}
    desks = QueueFields(
        weight=1, guarantee=kept, deserved=kept, default_time_s=2 * HOUR_S, max_time_s=8 * HOUR_S
    )
    return [*teams, (DESKS, desks)]


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """One user: the user's team, and the user's scripts, as pairs of script and median seconds."""

    name: str
    team: str
    scripts: tuple[tuple[str, float], ...]


def people(size: Size, draw: random.Random) -> list[Person]:
    """Return the users of the lab. Each team has its scripts, and each user works with three of
    them.
    """
    scripts = {
        team: [
            (f"{team}-{k}.py", draw.lognormvariate(math.log(1.6 * HOUR_S), 0.8)) for k in range(6)
        ]
        for team in TEAMS
    }
    found = []
    for i in range(size.users):
        team = draw.choices(TEAMS, WEIGHTS)[0]
        found.append(
            Person(name=f"u{i:03d}", team=team, scripts=tuple(draw.sample(scripts[team], 3)))
        )
    return found


def moment(draw: random.Random, hours: float, first: float = 0.0, last: float = 24.0) -> float:
    """Draw the time at which a user submits, in seconds. It is between these hours of the day. A
    day shorter than 24 hours has the same profile, compressed.
    """
    while True:
        hour = draw.uniform(first, last)
        if draw.random() * 1.7 <= next(part for at, part in reversed(_PROFILE) if at <= hour):
            return float(int(hour / 24 * hours * HOUR_S))
