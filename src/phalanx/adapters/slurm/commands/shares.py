"""The commands `sshare` and `sprio`: users' shares, and the factors of the order in queues."""

from __future__ import annotations

import getpass
import json
from collections.abc import Collection, Mapping, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.columns import SPRIO_LETTERS, SSHARE_NAMES
from phalanx.adapters.slurm.commands.usage import address, complain, read, refuse
from phalanx.adapters.slurm.options import Option, OptionError, flag, parts
from phalanx.cli.reach import ask
from phalanx.cli.snapshots import one_snapshot
from phalanx.cli.table import say
from phalanx.model.rows.shares import ShareInfo
from phalanx.protocol.requests.queues import ListQueues
from phalanx.protocol.requests.shares import GetShares
from phalanx.scheduler.cycle.waiting import WaitingGroup, waiting_groups

SSHARE = (
    Option("accounts", "A", note="queues"),
    flag("all", "a", note="the default without --users"),
    flag("Users", "U", note="this user's row in each queue"),
    Option("clusters", "M", refused="there is one cluster"),
    Option("format", "o"),
    flag("help"),
    flag("json"),
    flag("long", "l", refused="use --format"),
    Option("noheader", "n", takes=False, note="also -h", also="h"),
    flag("parsable", "p"),
    flag("parsable2", "P"),
    Option("partition", refused="accounts are the queues: use --accounts"),
    Option("users", "u"),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
)
SPRIO = (
    Option("clusters", "M", refused="there is one cluster"),
    Option("format", "o"),
    flag("help"),
    Option("jobs", "j"),
    flag("json"),
    flag("long", "l"),
    flag("noheader", "h"),
    flag("norm", "n", refused="use `phalanx priority`"),
    Option("partition", "p"),
    Option("sort", "S", refused="rows are in the order of starts"),
    Option("user", "u"),
    flag("version", "V"),
    flag("weights", "w", refused="use `phalanx scheduler show`"),
    flag("yaml", refused="use --json"),
)
_SSHARE = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
_SPRIO = "%.15i %9r %.10Y %.10A %.10F %.10J"
_SPRIO_LONG = "%.15i %9r %.8u %.10Y %.10A %.10F %.10J"
_WIDTH = 14


def sshare(words: Sequence[str]) -> None:
    """List the users of queues with their shares; queues are the accounts."""
    asked, rest = read("sshare", SSHARE, words)
    if rest:
        refuse("sshare", f"{rest[0]}: only options are taken")
    try:
        columns = formats.sacct_names(asked.get("format", _SSHARE), SSHARE_NAMES, "sshare", _WIDTH)
    except OptionError as error:
        refuse("sshare", str(error))
    queues, users = _words(asked, "accounts"), _words(asked, "users")
    found = [
        row
        for row in ask(address(), GetShares())
        if (not queues or row.queue in queues) and (not users or row.user in users)
    ]
    ranks: dict[str, int] = {}
    for row in found:
        ranks[row.queue] = max(ranks.get(row.queue, 0), row.rank)
    rows = [_share(row, ranks[row.queue]) for row in found]
    if "Users" in asked:  # each queue is an account of every user
        mine = [row for row in rows if row["user"] == getpass.getuser()]
        rows = mine or [_no_use(queue) for queue in open_queues(queues)]
    if "json" in asked:
        say(json.dumps({"shares": rows, "errors": []}, indent=1))
        return
    separator = "|" if asked.keys() & {"parsable", "parsable2"} else ""
    for line in formats.listed(columns, rows, "noheader" not in asked, separator):
        say(line + ("|" if "parsable" in asked else ""))


def sprio(words: Sequence[str]) -> None:
    """List waiting jobs in their order, with the factors that decide it."""
    asked, rest = read("sprio", SPRIO, words)
    if rest:
        refuse("sprio", f"{rest[0]}: only options are taken")
    usual = _SPRIO_LONG if "long" in asked else _SPRIO
    columns, complaints = formats.letters(asked.get("format", usual), SPRIO_LETTERS)
    complain("sprio", complaints)
    jobs, queues, users = (_words(asked, name) for name in ("jobs", "partition", "user"))
    found = [
        one
        for one in waiting_groups(one_snapshot(None, address()))
        if (not jobs or _name(one) in jobs)
        and (not queues or one.queue in queues)
        and (not users or one.user in users)
    ]
    if jobs and not found:
        refuse("sprio", "Invalid job id specified: none of these jobs waits")
    rows = [_factors(one) for one in found]
    if "json" in asked:
        say(json.dumps({"jobs": rows, "errors": []}, indent=1))
        return
    for line in formats.listed(columns, rows, "noheader" not in asked):
        say(line)


def _words(asked: Mapping[str, str], option: str) -> set[str]:
    return set(parts(asked.get(option, "")))


def _share(row: ShareInfo, most: int) -> dict[str, str]:
    level = row.level_fairshare
    return {
        "account": row.queue,
        "user": row.user,
        "shares": f"{row.shares:g}",
        "part": f"{row.part:.6f}",
        "use": f"{row.use:.0f}",
        "use_part": f"{row.use_part:.6f}",
        "fairshare": f"{row.rank / most:.6f}",
        "level": "inf" if level is None else f"{level:.6f}",
    }


def open_queues(wanted: Collection[str] = ()) -> list[str]:
    """Return the names of queues that users can use, the default one first."""
    names = sorted(row.name for row in ask(address(), ListQueues()) if row.name != "root")
    names.sort(key=lambda name: name != "default")
    return [name for name in names if not wanted or name in wanted]


def _no_use(queue: str) -> dict[str, str]:
    return {"account": queue, "user": getpass.getuser(), "shares": "1", "use": "0"}


def _factors(one: WaitingGroup) -> dict[str, str]:
    """Return a job's factors.

    With `multifactor` these are its weighted factors; otherwise its priority, the seconds that it
    has waited, and its rank divided by the number of places.
    """
    found = one.factors
    if "total" in found:
        total, age = found["total"], found["age"]
        fairshare, size = f"{found['fairshare']:.0f}", f"{found['size']:.0f}"
    else:
        total, age, size = float(one.priority), one.waited_s or 0.0, "0"
        fairshare = f"{found['rank'] / found['of']:.6f}" if found.get("of") else "0"
    return {
        "id": _name(one),
        "partition": one.queue,
        "user": one.user or getpass.getuser(),
        "priority": f"{total:.0f}",
        "age": f"{age:.0f}",
        "fairshare": fairshare,
        "size": size,
    }


def _name(one: WaitingGroup) -> str:
    return one.podgroup.rpartition("/")[2]
