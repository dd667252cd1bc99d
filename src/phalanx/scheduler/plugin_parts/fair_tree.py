"""Ranks the users in a tree of shares, by the rule that Slurm documents as Fair Tree.

The level fairshare of a member is S / U, where S is the member's fraction of all its siblings'
shares, and U its fraction of all their usage. The tree is walked depth first, by descending level
fairshare, so that all users of a better account come before all users of a worse one. The first
user's rank is the number of users, and ranks descend from there. Users without usage are ranked,
too. Without shares, the level fairshare is 0. With shares and without usage, it is infinite.

Ties: equal users share a rank. A user whose level fairshare equals that of an account has the same
rank as the best user of the account. The members of equal accounts are ranked as if they belonged
to one account. Source: Slurm's page "Fair Tree Fairshare Algorithm".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple


class Member(NamedTuple):
    """A user or, with `members`, an account. The usage of an account is the sum of its members'
    usage.
    """

    name: str
    shares: float
    use: float
    members: tuple[Member, ...] | None = None


class Standing(NamedTuple):
    """A user's rank. The highest rank comes first, and equal users have equal ranks."""

    level_fairshare: float
    rank: int


def level_fairshares(siblings: Sequence[Member]) -> list[float]:
    """Return the level fairshare S / U of each sibling: 0 without shares, and infinite with shares
    and without usage.
    """
    shares = sum(one.shares for one in siblings)
    used = sum(one.use for one in siblings)

    def of(one: Member) -> float:
        if one.shares <= 0:
            return 0.0
        part = one.use / used if used > 0 else 0.0
        return one.shares / shares / part if part > 0 else math.inf

    return [of(one) for one in siblings]


def standings(siblings: Sequence[Member]) -> dict[str, Standing]:
    """Return the standing of every user among `siblings` and below them. The names of users must
    differ.
    """
    if all(one.members is None for one in siblings):
        return _of_users(siblings)
    out: dict[str, Standing] = {}
    _walk(_with_level(siblings), _count(siblings), None, out)
    return out


def _of_users(siblings: Sequence[Member]) -> dict[str, Standing]:
    """Return the standings of siblings that are all users. This is faster, and there may be
    thousands of them.
    """
    levels = level_fairshares(siblings)
    order = sorted(range(len(levels)), key=levels.__getitem__, reverse=True)
    out: dict[str, Standing] = {}
    rank, last = len(order), math.nan
    for place, at in enumerate(order):
        if levels[at] != last:
            rank, last = len(order) - place, levels[at]
        out[siblings[at].name] = Standing(last, rank)
    return out


def _with_level(siblings: Sequence[Member]) -> list[tuple[float, Member]]:
    return list(zip(level_fairshares(siblings), siblings, strict=True))


def _count(siblings: Iterable[Member]) -> int:
    return sum(1 if one.members is None else _count(one.members) for one in siblings)


def _walk(
    level: list[tuple[float, Member]], rank: int, best: int | None, out: dict[str, Standing]
) -> None:
    """Assign ranks from `rank` downwards. `best`: the rank that the siblings with the highest level
    fairshare get instead; None if they get the rank `rank`.
    """
    level.sort(key=lambda row: -row[0])
    for fairshare, equals in groupby(level, key=lambda row: row[0]):
        tied = [one for _, one in equals]
        users = [one for one in tied if one.members is None]
        below = [row for one in tied if one.members is not None for row in _with_level(one.members)]
        count = len(users) + _count(member for _, member in below)
        shared = rank if best is None else best
        out.update((one.name, Standing(fairshare, shared)) for one in users)
        if below:
            first = shared if users or best is not None else None
            _walk(below, rank - len(users), first, out)
        rank -= count
        best = best if count == 0 else None
