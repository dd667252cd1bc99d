"""Compares what the same history of short jobs left behind on real Slurm and on Phalanx, as
`sshare -l -a` and `sprio -l` print it on both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from phalanx.scheduler.plugin_parts.fair_tree import Member, standings
from phalanx_benchmarks.beside.histories import Accounts, Key
from phalanx_benchmarks.beside.rows import DIFFERS, MENDED, ON_PURPOSE, SAME, Row

WEIGHT = 10_000
"""The weight of FairShare in the priority, on both sides."""
OTHER_TIMES = "the same jobs ran for other times on the two sides, and this use has another order"


class Listed(NamedTuple):
    """A user's line of `sshare -l -a -P -n`, as far as both sides print it."""

    shares: str
    norm_shares: str
    use: float
    norm_use: float
    part: float
    """EffectvUsage: the user's part of the use of the account."""
    fairshare: float
    level: float


Users = dict[Key, Listed]


def listed(text: str) -> Users:
    """Read the lines of users; root's own line is left out, because Phalanx has no such user."""
    found = {}
    for line in text.splitlines():
        account, user, shares, norm_shares, *numbers = line.split("|")[:9]
        if user and user != "root":
            values = [float(one or "nan") for one in numbers]
            found[account.strip(), user] = Listed(shares, norm_shares, *values)
    return found


def same(name: str, theirs: str, ours: str) -> Row:
    """Return a row of two texts that must be equal."""
    return Row(name, SAME if theirs == ours else DIFFERS, theirs, ours)


def shares_of(users: Users) -> str:
    """Return RawShares and NormShares of all users."""
    rows = sorted(users.items())
    return "\n".join(f"{a}/{user} {one.shares} {one.norm_shares}" for (a, user), one in rows)


def order_of_users(users: Users) -> str:
    """Return the users of each account in the order of FairShare, tied ones joined by `=`."""
    return ordered({key: one.fairshare for key, one in users.items()})


def order_of_use(accounts: Accounts, used: Mapping[Key, float]) -> str:
    """Return the order that Phalanx's rule gives to users with this use."""
    ranks = {}
    for account, (_, users) in accounts.items():
        members = [
            Member(user, shares, used.get((account, user), 0.0)) for user, shares in users.items()
        ]
        ranks.update({(account, user): one.rank for user, one in standings(members).items()})
    return ordered(ranks)


def ordered(ranks: Mapping[Key, float]) -> str:
    """Return the users of each account, the highest rank first, tied ones joined by `=`."""
    lines = []
    for account in sorted({account for account, _ in ranks}):
        places: dict[float, list[str]] = {}
        for (where, user), rank in sorted(ranks.items()):
            if where == account:
                places.setdefault(-rank, []).append(user)
        words = ("=".join(tied) for _, tied in sorted(places.items()))
        lines.append(f"{account}: {' '.join(words)}")
    return "\n".join(lines)


def order_row(name: str, orders: tuple[str, str], by_times: tuple[str, str]) -> Row:
    """Compare the orders of users of both sides. `by_times`: the orders that Phalanx's rule gives
    to the times of each side's `sacct`. They explain orders that differ because a busy machine
    delayed jobs.
    """
    theirs, ours = orders
    if theirs != ours and orders == by_times:
        return Row(name, ON_PURPOSE, theirs, ours, OTHER_TIMES)
    return same(name, theirs, ours)


def total_of(text: str) -> float:
    """Return the use of the root of the tree. The root keeps the use of deleted accounts."""
    return float(text.splitlines()[0].split("|")[4])


class Counted(NamedTuple):
    """The use of each user, computed from the times in each side's own `sacct`."""

    theirs: Mapping[Key, float]
    least: Mapping[Key, float]
    """The least and the most use on Phalanx. They differ because Phalanx's `sacct` shows only whole
    seconds.
    """
    most: Mapping[Key, float]


def use_row(name: str, theirs: Users, ours: Users, counted: Counted, their_total: float) -> Row:
    """Compare both sides' use with the times of their own jobs, and the parts with each other.
    `their_total`: the use that Slurm's NormUsage is a part of.

    Slurm counts the seconds of its `sacct`. Phalanx counts fractions of a second, but its `sacct`
    shows whole seconds. So the parts may differ. The name of the row states the largest allowed
    difference, and the actual one.
    """
    faults: dict[str, list[str]] = {"theirs": [], "ours": []}
    exact, least, most = counted
    allowed = seen = 0.0
    for key, one in theirs.items():
        mine, who = ours[key], "/".join(key)
        siblings = [other for other in theirs if other[0] == key[0]]
        part = _part(exact, exact, key, siblings)
        low, high = _part(least, most, key, siblings), _part(most, least, key, siblings)
        if not (_near(one.use, exact.get(key, 0.0)) and abs(one.part - part) < 1e-4):
            faults["theirs"].append(
                f"{who} {one.use:.0f} {one.part:.6f}, of sacct {exact.get(key, 0.0):.0f} {part:.6f}"
            )
        if abs(one.norm_use - exact.get(key, 0.0) / their_total) > 1e-4:
            faults["theirs"].append(f"{who} NormUsage {one.norm_use:.6f}")
        use = least.get(key, 0.0), most.get(key, 0.0)
        is_counted = use[0] <= mine.use <= use[1] or any(_near(mine.use, end) for end in use)
        if not (is_counted and low - 1e-4 <= mine.part <= high + 1e-4):
            faults["ours"].append(
                f"{who} {mine.use:.0f} {mine.part:.6f}, of sacct {use[0]:.0f} to {use[1]:.0f},"
                f" {low:.6f} to {high:.6f}"
            )
        norm = _part(least, most, key, theirs), _part(most, least, key, theirs)
        if not norm[0] - 1e-4 <= mine.norm_use <= norm[1] + 1e-4:
            faults["ours"].append(
                f"{who} NormUsage {mine.norm_use:.6f}, of sacct {norm[0]:.6f} to {norm[1]:.6f}"
            )
        allowed = max(allowed, abs(low - part), abs(high - part))
        seen = max(seen, abs(one.part - mine.part))
        for side, line in (("theirs", one), ("ours", mine)):
            if not _is_level(line):
                faults[side].append(f"{who} LevelFS {line.level:.6f}")
    kind = DIFFERS if any(faults.values()) else MENDED  # NormUsage was once relative to the queue
    stated = f"{name}: parts differ by up to {seen:.3f}, explained {allowed:.3f}"
    return Row(stated, kind, "\n".join(faults["theirs"]), "\n".join(faults["ours"]))


def _part(
    mine: Mapping[Key, float],
    others: Mapping[Key, float],
    key: Key,
    siblings: Collection[Key],
) -> float:
    own = mine.get(key, 0.0)
    total = own + sum(others.get(one, 0.0) for one in siblings if one != key)
    return own / total if total else 0.0


def _near(one: float, other: float) -> bool:
    """Whether two uses are equal, except for the decay of a minute or two at a half-life of seven
    days.
    """
    return abs(one - other) <= max(2.0, 5e-4 * other)


def _is_level(line: Listed) -> bool:
    """Whether LevelFS is NormShares divided by EffectvUsage, in all digits that these determine."""
    shares = float(line.norm_shares)
    if not shares:
        return line.level == 0.0
    if not line.part:
        return line.level == float("inf")
    expected = shares / line.part
    error = expected * (1e-6 / shares + 1e-6 / line.part)
    return abs(line.level - expected) <= 1e-6 + error


def order_of_jobs(text: str, accounts: Accounts) -> str:
    """Return the users of each account's waiting jobs, the next job first, given the lines of
    `sprio -l -h`: job, partition, user, priority and more. Slurm sorts them by job.
    """
    rows = [line.split() for line in text.splitlines()]
    rows.sort(key=lambda row: -int(row[3]))
    lines = []
    for account, (_, users) in accounts.items():
        mine = " ".join(row[2] for row in rows if row[2] in users)
        lines.append(f"{account}: {mine}")
    return "\n".join(lines)


def priority_faults(text: str, users: Users) -> str:
    """Return the lines of `sprio -l -h` in which FAIRSHARE is not the weighted FairShare, rounded,
    or PRIORITY is not the weighted FairShare without its fraction.
    """
    found = {user: one.fairshare * WEIGHT for (_, user), one in users.items()}
    lines = []
    for line in text.splitlines():
        row = line.split()
        expected = found[row[2]]
        if (int(row[3]), row[7]) != (max(int(expected + 0.01), 1), f"{expected:.0f}"):
            lines.append(f"{row[2]}: PRIORITY {row[3]}, FAIRSHARE {row[7]}, not {expected:.2f}")
    return "\n".join(lines)


def priority_row(name: str, theirs: str, ours: str) -> Row:
    """Return the row of both sides' faults of `priority_faults`."""
    kind = DIFFERS if theirs or ours else MENDED  # PRIORITY was once rounded
    return Row(name, kind, theirs, ours)
