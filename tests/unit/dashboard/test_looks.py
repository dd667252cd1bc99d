"""How jobs look on maps: people can tell the colours apart, and no two jobs look the same."""

from __future__ import annotations

import itertools
import math
import random
import re
from importlib import resources

import pytest

from phalanx.dashboard.pages.device_map import DeviceMaps
from phalanx.dashboard.pages.styles import COLOURS, LOOKS, Looks

from .world import gang, node, snapshot

APART = 0.12
"""The smallest distance of two colours in OKLab. People see distances from 0.02 on."""
CONTRAST = 3.0
"""The least contrast between a colour and its background."""
CSS = (resources.files("phalanx.dashboard") / "static" / "page.css").read_text()
LIGHT, DARK = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]


def colours(block: str, names: list[str]) -> list[tuple[float, ...]]:
    found = dict(re.findall(r"--(\w+): #([0-9a-f]{3,6});", block))
    said = [found[name] if len(found[name]) == 6 else found[name] * 2 for name in names]
    return [tuple(int(one[at : at + 2], 16) / 255 for at in (0, 2, 4)) for one in said]


def linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def oklab(colour: tuple[float, ...]) -> tuple[float, ...]:
    r, g, b = map(linear, colour)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def light(colour: tuple[float, ...]) -> float:
    r, g, b = map(linear, colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("block", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_of_jobs_can_be_told_apart_and_seen(block: str) -> None:
    of_jobs = colours(block, [f"j{number}" for number in range(COLOURS)])
    for one, other in itertools.combinations(of_jobs, 2):
        assert math.dist(oklab(one), oklab(other)) >= APART, (one, other)
    for back in colours(block, ["paper", "rest"]):
        for one in of_jobs:
            low, high = sorted((light(one), light(back)))
            assert (high + 0.05) / (low + 0.05) >= CONTRAST, (one, back)


@pytest.mark.parametrize("seed", range(200))
def test_no_two_jobs_of_a_drawn_set_look_alike(seed: int) -> None:
    """Jobs come and go. Those that stay keep their looks, and no two jobs share one."""
    rng = random.Random(seed)
    names = [f"{rng.choice('abc')}-{number}" for number in range(rng.randint(1, LOOKS))]
    looks = Looks()
    before: dict[str, int] = {}
    for _ in range(5):
        now = looks.of(names, {})
        assert len(set(now.values())) == len(names)
        assert {name: now[name] for name in names if name in before} == {
            name: before[name] for name in names if name in before
        }
        if len(names) <= COLOURS and not before:
            assert all(look < COLOURS for look in now.values())
        before = now
        kept = [name for name in names if rng.random() < 0.7]
        names = [*kept, *(f"new-{rng.random()}" for _ in range(LOOKS - len(kept)))]


def test_neighbours_differ_where_there_are_more_jobs_than_looks() -> None:
    nodes = [node(number, [0] * 8) for number in range(60)]
    gangs = [
        gang(8 * at + number, [row], [[number]])
        for at, row in enumerate(nodes)
        for number in range(8)
    ]
    status = snapshot().status
    status = type(status)(**{name: getattr(status, name) for name in status.__struct_fields__})
    status.nodes[:] = nodes
    found = DeviceMaps().grid(snapshot(status=status, gangs=gangs))
    looks = [found.holders[at].look for at in found.holder]
    for first in range(0, len(looks) - 8, 8):
        assert len(set(looks[first : first + 16])) == 16
