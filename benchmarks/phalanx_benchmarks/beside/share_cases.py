"""Compares ranks in random trees of shares with random usage: real Slurm's ranks, and those of
Phalanx's rule for trees. Real Slurm runs short jobs of each user, so that `sshare` shows usage.
Phalanx's rule gets the shares and the usage that real Slurm shows, so every digit of its result can
be compared.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, starmap
from typing import NamedTuple

from phalanx.scheduler.plugin_parts.billing import HALF_LIFE_S, PENALTY_S, Terms
from phalanx.scheduler.plugin_parts.fair_tree import Member, level_fairshares, standings
from phalanx_benchmarks.beside.processes import wait_until
from phalanx_benchmarks.beside.rows import DIFFERS, ON_PURPOSE, SAME, Row
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

USERS = (
    "bin",
    "daemon",
    "games",
    "irc",
    "list",
    "lp",
    "mail",
    "man",
    "news",
    "proxy",
    "sys",
    "uucp",
)
"""Users that every Debian has, because real jobs need real users."""
DIGITS = 1e-6
"""The precision with which LevelFS and FairShare are printed."""
TIED_ACCOUNTS = (
    "accounts with equal level fairshare are ranked as one account, and those that are equal in all"
    " digits of the use by digits that are not shown"
)
SETTINGS = {
    "PriorityWeightFairshare": "10000",
    "AccountingStorageEnforce": "associations,limits",
    "PriorityFlags": "MAX_TRES",
    "PriorityCalcPeriod": "1",
}
PARTITION = (
    "PartitionName=primary Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    ' TRESBillingWeights="CPU=100000,Mem=100000G"'
)
"""The settings of the partition. Its weights are large, so that RawUsage, a whole number, has
enough digits.
"""


TERMS = Terms(HALF_LIFE_S, PENALTY_S, {"cpu": 100_000.0, "memory": 100_000.0 / 2**30})
"""The billing weights of that partition in Phalanx's units: for a core, and for a byte."""
_BILLING = re.compile(r"billing=([0-9]+)")


class Shown(NamedTuple):
    """A line of `sshare -l -a`."""

    account: str
    user: str
    shares: float
    use: float
    fairshare: float
    level: float


def compare(real: SlurmCluster, seed: int, trees: int) -> Iterator[Row]:
    """Yield a row for each random tree, with the differences in it."""
    draw = random.Random(f"shares {seed}")
    before: list[str] = []
    for number in range(trees):
        accounts = _drawn(draw)
        make_accounts(real, accounts, before)
        before = list(accounts)
        _use(real, draw, accounts)
        real.restart_controller()  # then ranks are computed at once, not at the next period
        found = shown(
            real.done("sshare -l -a -P -n -o Account,User,RawShares,RawUsage,FairShare,LevelFS")
        )
        yield row_of(f"tree {seed}.{number}", found)
    delete_accounts(real, before)


def compare_billing(real: SlurmCluster, seed: int, requests: int = 12) -> Iterator[Row]:
    """Yield a row for each random request, with its billing units, rounded down as in Slurm."""
    draw = random.Random(f"billing {seed}")
    for _ in range(requests):
        cpus, mib = draw.randint(1, 4), draw.randint(10, 3000)
        line = f"sbatch --parsable -H -N1 -n{cpus} --mem={mib} --wrap true"
        number = real.done(line).strip()
        found = _BILLING.search(real.done(f"scontrol show job {number}; scancel {number}"))
        ours = int(TERMS.rate([("cpu", cpus), ("memory", mib * 2**20)]))
        theirs_text, ours_text = found[1] if found else "", str(ours)
        kind = SAME if theirs_text == ours_text else DIFFERS
        yield Row(f"billing of {cpus} CPUs and {mib} MiB", kind, theirs_text, ours_text)


def shown(text: str) -> list[Shown]:
    """Read the lines of accounts and users in a text, in the order of the tree."""
    lines = []
    for line in text.splitlines():
        account, user, shares, use, fairshare, level = line.split("|")
        if not shares:
            continue  # the root of the tree
        numbers = [float(one or "nan") for one in (shares, use, fairshare, level)]
        lines.append(Shown(account.strip(), user, *numbers))
    return lines


def tree_in(text: str) -> str:
    """Return those columns of the output of `sshare -l -a -P -n` that `shown` reads."""
    lines = [line.split("|") for line in text.splitlines()]
    return "\n".join("|".join([c[0], c[1], c[2], c[4], c[7], c[8]]) for c in lines)


def row_of(name: str, lines: Sequence[Shown]) -> Row:
    """Compare the printed lines of one tree with Phalanx's rule."""
    users = {line.account + "/" + line.user: line for line in lines if line.user}
    accounts = [line for line in lines if not line.user]
    members = [_member(one, users) for one in accounts]
    members += [
        Member(key, one.shares, one.use) for key, one in users.items() if one.account == "root"
    ]
    ours = standings(members)
    count = len(users)
    theirs_text, ours_text = [], []
    for key, line in users.items():
        mine = ours[key]
        fairshare = mine.rank / count
        is_same_level = _close(mine.level_fairshare, line.level)
        if abs(fairshare - line.fairshare) > DIGITS or not is_same_level:
            theirs_text.append(f"{key} {line.fairshare:.6f} {line.level:.6f}")
            ours_text.append(f"{key} {fairshare:.6f} {mine.level_fairshare:.6f}")
    if not theirs_text:
        return Row(name, SAME, f"{count} users", f"{count} users")
    levels = level_fairshares(members)
    tied = [level for one, level in zip(members, levels, strict=True) if one.members is not None]
    is_tied = any(starmap(_close, pairwise(sorted(tied))))
    kind, why = (ON_PURPOSE, TIED_ACCOUNTS) if is_tied else (DIFFERS, "")
    return Row(name, kind, "\n".join(theirs_text), "\n".join(ours_text), why)


def _close(one: float, other: float) -> bool:
    """Whether two values of LevelFS agree in all printed digits that the usage determines."""
    return one == other or abs(one - other) <= max(DIGITS, 2e-5 * abs(other))


def _member(account: Shown, users: Mapping[str, Shown]) -> Member:
    mine = [(key, one) for key, one in users.items() if one.account == account.account]
    below = tuple(Member(key, one.shares, one.use) for key, one in mine)
    return Member(account.account, account.shares, sum(one.use for one in below), below)


def _drawn(draw: random.Random) -> dict[str, tuple[int, dict[str, int]]]:
    """Draw accounts with their shares, and the users of each account with their shares."""
    left = list(USERS)
    draw.shuffle(left)
    accounts = {}
    for number in range(draw.randint(2, 4)):
        size = min(len(left), draw.randint(1, 4))
        users = {left.pop(): draw.choice((0, 1, 1, 1, 2, 3, 5)) for _ in range(size)}
        if users:
            accounts[f"a{number}"] = (draw.choice((1, 1, 2, 4)), users)
    return accounts


def delete_accounts(real: SlurmCluster, names: Sequence[str]) -> None:
    """Delete these accounts and their users from Slurm."""
    for name in names:
        real.run(f"sacctmgr -i delete user where account={name}")
        real.run(f"sacctmgr -i delete account {name}")


def make_accounts(
    real: SlurmCluster, accounts: Mapping[str, tuple[int, Mapping[str, int]]], before: Sequence[str]
) -> None:
    """Make these accounts and their users in place of the accounts `before`."""
    delete_accounts(real, before)
    lines = []
    for account, (shares, users) in accounts.items():
        lines.append(f"sacctmgr -i add account {account} fairshare={shares}")
        for user, own in users.items():
            lines.append(f"sacctmgr -i add user {user} account={account} fairshare={own}")
    real.done(" && ".join(lines))


def _use(
    real: SlurmCluster, draw: random.Random, accounts: Mapping[str, tuple[int, Mapping[str, int]]]
) -> None:
    lines = []
    for account, (_, users) in accounts.items():
        for user in users:
            if draw.random() < 0.3:
                continue  # without any usage
            cpus, seconds = draw.randint(1, 4), draw.randint(1, 3)
            lines.append(
                f"sbatch --uid={user} -A {account} -N1 -n{cpus} --mem=1 -o /dev/null"
                f" --wrap 'sleep {seconds}'"
            )
    real.done("cd /tmp; " + "; ".join(lines))
    wait_until(lambda: not real.run("squeue -h").stdout.strip(), "the end of drawn jobs")
