"""The command `sprio`: the factors that decide the order of waiting jobs."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.accounting_columns import SPRIO_LETTERS
from phalanx.adapters.slurm.commands.numbers import array_task_or_job
from phalanx.adapters.slurm.commands.usage import address, complain, read, refuse, words_of
from phalanx.adapters.slurm.marks import NOTE
from phalanx.adapters.slurm.options import Option, flag
from phalanx.cli.reach import ask
from phalanx.cli.snapshots import one_snapshot
from phalanx.cli.table import say
from phalanx.model.jobs.arrays import split_element
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.scheduler.cycle.waiting import WaitingGroup, waiting_groups

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
    Option("sort", "S", refused="rows are in the order in which jobs will start"),
    Option("user", "u"),
    flag("version", "V"),
    flag("weights", "w", refused="use `phalanx scheduler show`"),
    flag("yaml", refused="use --json"),
)
_SPRIO = "%.15i %9r %.10Y %.10S %.10A %.10F %.10J"
_SPRIO_LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"


def sprio(words: Sequence[str]) -> None:
    """List waiting jobs in their order, with the factors that decide it."""
    asked, rest = read("sprio", SPRIO, words)
    if rest:
        refuse("sprio", f"{rest[0]}: only options are taken")
    usual = _SPRIO_LONG if "long" in asked else _SPRIO
    columns, complaints = formats.letters(asked.get("format", usual), SPRIO_LETTERS)
    complain("sprio", complaints)
    jobs, queues, users = (words_of(asked, name) for name in ("jobs", "partition", "user"))
    jobs = {array_task_or_job(one) for one in jobs}
    found = [
        one
        for one in waiting_groups(one_snapshot(None, address()))
        if (not jobs or not jobs.isdisjoint((_name(one), _array_of(_name(one)))))
        and (not queues or one.queue in queues)
        and (not users or one.user in users)
    ]
    if (jobs or users) and not found:
        say("Unable to find jobs matching user/id(s) specified")
        return
    nices = {}
    if "long" in asked or "N" in asked.get("format", ""):
        nices = {
            row.name: row.annotations.get(f"{NOTE}nice", "") for row in ask(address(), ListJobs())
        }
    rows = [
        factors_of(one) | {"nice": nices.get(_array_of(_name(one)), "")}
        for one in one_of_each_array(found)
    ]
    if "json" in asked:
        say(json.dumps({"jobs": rows, "errors": []}, indent=1))
        return
    for line in formats.listed(columns, rows, "noheader" not in asked):
        say(line)


def totals() -> dict[str, float]:
    """Return the priority that the plugin `multifactor` computes for each waiting job. An array has
    the priority of its next array task.
    """
    found: dict[str, float] = {}
    for one in waiting_groups(one_snapshot(None, address())):
        total = one.factors.get("total", 0.0)
        found.setdefault(_array_of(_name(one)), total)
        found[_name(one)] = total
    return found


def one_of_each_array(found: Iterable[WaitingGroup]) -> list[WaitingGroup]:
    """Return the groups, with only the next array task of each array, as in Slurm."""
    seen: set[tuple[str, str]] = set()
    left = []
    for one in found:
        key = one.podgroup.rpartition("/")[0], _array_of(_name(one))
        if key not in seen:
            left.append(one)
        seen.add(key)
    return left


def factors_of(one: WaitingGroup) -> dict[str, str]:
    """Return a job's factors.

    With the plugin `multifactor` they are the weighted factors. Otherwise `priority` is the job's
    priority, `age` the seconds for which the job has waited, and `fairshare` the rank of the job's
    user divided by the number of users. As in Slurm, the priority is a whole number of at least 1,
    because 0 means held.
    """
    found = one.factors
    if "total" in found:
        total, age = found["total"], found["age"]
        fairshare, size = f"{found['fairshare']:.0f}", f"{found['size']:.0f}"
    else:
        total, age, size = float(one.priority), one.waited_s or 0.0, "0"
        fairshare = f"{found['rank'] / found['of']:.6f}" if found.get("of") else "0"
    return {
        "id": _array_of(_name(one)),
        "partition": one.queue,
        "user": one.user or getpass.getuser(),
        "priority": str(max(int(total), 1)),
        "age": f"{age:.0f}",
        "fairshare": fairshare,
        "size": size,
    }


def _name(one: WaitingGroup) -> str:
    return one.podgroup.rpartition("/")[2]


def _array_of(name: str) -> str:
    """Return the array's name for an array task, and any other name unchanged."""
    return (split_element(name) or (name, ""))[0]
