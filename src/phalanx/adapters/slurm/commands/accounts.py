"""The command `sacctmgr`, which some programs call before they submit jobs. Accounts are the
queues.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.accounting_columns import SACCTMGR_FIELDS
from phalanx.adapters.slurm.commands.shares import open_queues
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.marks import CLUSTER
from phalanx.adapters.slurm.options import Option, OptionError, flag, ignored
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.protocol.requests.cluster import GetStatus

SACCTMGR = (
    flag("associations", "s"),
    flag("help", "h"),
    ignored("immediate", "i", "sacctmgr changes nothing", takes_value=False),
    flag("noheader", "n"),
    flag("parsable", "p"),
    flag("parsable2", "P"),
    ignored("quiet", "Q", "messages are always brief", takes_value=False),
    Option("json", refused="use --parsable2"),
    ignored("readonly", "r", "sacctmgr changes nothing", takes_value=False),
    flag("usage"),
    ignored("verbose", "v", "messages are always brief", takes_value=False),
    flag("version", "V"),
)
_USUAL = {
    "account": "Account,Descr,Org",
    "association": "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,"
    "GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS",
    "cluster": "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,"
    "MaxTRES,MaxSubmit,MaxWall,QOS,DefaultQOS",
    "qos": "Name,Priority,GraceTime,Preempt,PreemptMode,Flags,UsageFactor,GrpTRES,MaxTRES,MaxWall",
    "user": "User,DefaultAccount,Admin",
}
"""The default columns of each kind of listing."""
_WITH = "User,DefaultAccount,Admin,Cluster,Account,Partition,Share,MaxJobs,MaxTRES,QOS"


def sacctmgr(words: Sequence[str]) -> None:
    """List accounts, users, associations, clusters and qualities of service. Nothing can be
    changed.
    """
    asked, rest = read("sacctmgr", SACCTMGR, words, intermixed=True)
    verb, *operands = rest or [""]
    if verb not in ("list", "show"):
        reason = "queues are the accounts: `phalanx queue` and `phalanx set-shares` change them"
        refuse("sacctmgr", f"{verb or 'nothing'} is not supported, only list and show: {reason}")
    kind = next((one for one in _USUAL if operands and one.startswith(operands[0].lower()[:4])), "")
    if not kind:
        refuse("sacctmgr", f"{verb} {' '.join(operands[:1])}: the kinds are {', '.join(_USUAL)}")
    wanted, format = _wanted(operands[1:])
    with_queues = "associations" in asked or "withassoc" in wanted
    usual = _WITH if kind == "user" and with_queues else _USUAL[kind]
    try:
        columns = formats.sacct_names(format or usual, SACCTMGR_FIELDS, "sacctmgr")
    except OptionError as error:
        refuse("sacctmgr", str(error))
    rows = [row for row in _rows(kind, with_queues) if _is_meant(row, kind, wanted)]
    separator = "|" if asked.keys() & {"parsable", "parsable2"} else ""
    has_head = "noheader" not in asked
    lines = formats.listed(columns, rows, has_head, separator)
    if has_head and not separator:
        lines.insert(1, "".join("-" * column.width + " " for column in columns))
    for line in lines:
        say(line + ("|" if "parsable" in asked else ""))


def _wanted(operands: Sequence[str]) -> tuple[dict[str, set[str]], str]:
    """Return what the operands of a listing ask for: the values that a row must have, by field, and
    the value of `format`, which names the columns.
    """
    found: dict[str, set[str]] = {}
    format = ""
    for word in operands:
        name, is_set, value = word.partition("=")
        lower = name.lower()
        if lower == "where":
            continue
        if is_set and lower.startswith("format"):
            format = value
        elif is_set:
            found[lower.removesuffix("s") if lower != "qos" else lower] = set(value.split(","))
        elif lower.startswith("with"):
            found["withassoc"] = set()
        else:
            found["name"] = set(word.split(","))
    return found, format


def _rows(kind: str, with_queues: bool) -> list[dict[str, str]]:
    me = getpass.getuser()
    queues = open_queues()
    if kind == "cluster":
        host = next((node.host for node in ask(address(), GetStatus()).nodes), "")
        return [{"name": CLUSTER, "host": host}]
    if kind == "qos":
        return [{"name": "normal"}]
    if kind == "user":
        usual = {"name": me, "user": me, "default": queues[0] if queues else ""}
        return [usual | {"account": one} for one in queues] if with_queues else [usual]
    rows = [{"name": queue, "account": queue} for queue in queues]
    if kind == "account" and not with_queues:
        return rows
    return [row | {"user": user} for row in rows for user in ("", me)]


def _is_meant(row: Mapping[str, str], kind: str, wanted: Mapping[str, set[str]]) -> bool:
    has = {"name": row.get("name", ""), "user": row.get("user", ""), "cluster": CLUSTER}
    has["account"] = row.get("account", "")
    if kind == "association":
        has["name"] = has["user"]
    return all(not words or name not in has or has[name] in words for name, words in wanted.items())
