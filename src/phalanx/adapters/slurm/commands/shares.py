"""The command `sshare`: users' shares of queues."""

from __future__ import annotations

import getpass
import json
from collections.abc import Collection, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.accounting_columns import SSHARE_NAMES
from phalanx.adapters.slurm.commands.usage import address, read, refuse, words_of
from phalanx.adapters.slurm.options import Option, OptionError, flag
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.model.rows.shares import ShareInfo
from phalanx.protocol.requests.queues import ListQueues
from phalanx.protocol.requests.shares import GetShares

SSHARE = (
    Option("accounts", "A", note="names of queues: sshare lists the queues as accounts"),
    flag("all", "a", note="lists all users, as sshare also does without --users"),
    flag("Users", "U", note="lists, for each queue, only the user who runs sshare"),
    Option("clusters", "M", refused="there is one cluster"),
    Option("format", "o"),
    flag("help"),
    flag("json"),
    flag("long", "l"),
    Option("noheader", "n", takes_value=False, note="-h is another name of this option", also="h"),
    flag("parsable", "p"),
    flag("parsable2", "P"),
    Option("partition", refused="accounts are the queues: use --accounts"),
    Option("users", "u"),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
)
_SSHARE = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
_SSHARE_LONG = (
    "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,"
    "GrpTRESMins,TRESRunMins"
)


def sshare(words: Sequence[str]) -> None:
    """List the users of queues with their shares. Accounts are the queues."""
    asked, rest = read("sshare", SSHARE, words)
    if rest:
        refuse("sshare", f"{rest[0]}: only options are taken")
    try:
        usual = _SSHARE_LONG if "long" in asked else _SSHARE
        columns = formats.sacct_names(asked.get("format", usual), SSHARE_NAMES, "sshare")
    except OptionError as error:
        refuse("sshare", str(error))
    queues, users = words_of(asked, "accounts"), words_of(asked, "users")
    shares = ask(address(), GetShares())
    rows = [
        row
        for row in share_rows(shares)
        if (not queues or row["account"] in queues) and (not users or row["user"] in users)
    ]
    if "Users" in asked:  # each queue is an account of every user
        mine = [row for row in rows if row["user"] == getpass.getuser()]
        rows = mine or [_no_use(queue) for queue in open_queues(queues)]
    if "json" in asked:
        say(json.dumps({"shares": rows, "errors": []}, indent=1))
        return
    separator = "|" if asked.keys() & {"parsable", "parsable2"} else ""
    for line in formats.listed(columns, rows, "noheader" not in asked, separator):
        say(line + ("|" if "parsable" in asked else ""))


def share_rows(shares: Sequence[ShareInfo]) -> list[dict[str, str]]:
    """Return the rows of all users. The rows of all users are needed, even if only some are listed:
    FairShare is a rank among all users of a queue, and NormUsage is a part of the use of all
    queues.
    """
    ranks: dict[str, int] = {}
    for row in shares:
        ranks[row.queue] = max(ranks.get(row.queue, 0), row.rank)
    used = sum(row.use for row in shares)
    return [_share(row, ranks[row.queue], used) for row in shares]


def _share(row: ShareInfo, most: int, used: float) -> dict[str, str]:
    level = row.level_fairshare
    return {
        "account": row.queue,
        "user": row.user,
        "shares": f"{row.shares:g}",
        "part": f"{row.part:.6f}",
        "use": str(int(row.use)),  # without a fraction, as in Slurm
        "norm_use": f"{row.use / used if used else 0.0:.6f}",
        "use_part": f"{row.use_part:.6f}",
        "fairshare": f"{row.rank / most:.6f}",
        "level": "inf" if level is None else f"{level:.6f}",
    }


def open_queues(wanted: Collection[str] = ()) -> list[str]:
    """Return the names of the queues to which users can submit, with the default queue first."""
    names = sorted(row.name for row in ask(address(), ListQueues()) if row.name != "root")
    names.sort(key=lambda name: name != "default")
    return [name for name in names if not wanted or name in wanted]


def _no_use(queue: str) -> dict[str, str]:
    return {"account": queue, "user": getpass.getuser(), "shares": "1", "use": "0"}
