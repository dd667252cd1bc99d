"""The commands `phalanx scheduler cycles` and `cycle`: past decisions of the scheduler."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from phalanx.cli.common_options import Address, Json
from phalanx.cli.listing import fitted_table
from phalanx.cli.node_names import Ids, NodeNames, names_of
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import NOT_FOUND, ask, fail
from phalanx.cli.table import echo, say
from phalanx.cli.times import moment
from phalanx.model.rows.cycles import CycleInfo
from phalanx.observe.cycles import Difference, Verdict, difference, verdicts
from phalanx.protocol.requests.gangs import ListCycles
from phalanx.protocol.requests.news import ListWaiting, WaitInfo

FORMAT = "phalanx-cycles/1"
_HEAD = (
    "CYCLE", "TIME", "TOOK", "READ", "ACTIONS", "WAITED", "PLACED", "EVICTED", "PROMISED", "LEFT",
)  # fmt: skip
_VERDICTS = ("GANG", "QUEUE", "VERDICT", "MEMBERS", "WHERE", "WHY")
_CYCLE_RANKS = {"READ": 6, "ACTIONS": 5, "TOOK": 4, "EVICTED": 3, "PROMISED": 2, "TIME": 1}
_VERDICT_RANKS = {"QUEUE": 4, "MEMBERS": 3, "WHERE": 2, "WHY": 1}
"""The ranks of columns, by which narrow terminals leave them out."""
_RIGHT = ("CYCLE", "TOOK", "READ", "WAITED", "PLACED", "EVICTED", "PROMISED", "LEFT")


_NO_NAMES = NodeNames(())


def cycles(
    last: Annotated[
        int,
        Option("-n", "--last", min=1, help="Number of cycles to show, counted from the newest."),
    ] = 20,
    address: Address = None,
    json: Json = False,
) -> None:
    """List the last cycles with their times and their numbers of gangs.

    TOOK is the time of the whole cycle, and READ the time in which the cycle
    updated its copy of the cluster's state. ACTIONS has the time of each action.
    WAITED, PLACED, EVICTED, PROMISED and LEFT are numbers of gangs. WAITED: gangs
    that waited when the cycle began. PLACED: gangs that got places. EVICTED:
    gangs that lost their places. PROMISED: gangs that were promised places.
    LEFT: gangs that still waited afterwards. Successive cycles that decided
    nothing share a row.
    """
    found = ask(address, ListCycles())[-last:]
    if json:
        echo(_json(found))
    elif found:
        say(cycles_text(found))
    else:
        say("There was no cycle yet: no gang has waited.")


def cycle(
    number: Annotated[
        int | None,
        Argument(
            help="Number of a cycle, as `phalanx scheduler cycles` lists it. "
            "Default: the last cycle."
        ),
    ] = None,
    ids: Ids = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show what one cycle decided for each gang, and what changed since the cycle before.

    The first 32 placed gangs are shown with the node of their first member and
    its scores. A gang that still waits is shown with the plugin that refused it,
    or with the reason why it waits now.

    `phalanx snapshot -o FILE` writes the scheduler's present state to a file.
    `phalanx replay FILE` runs a cycle on that file, and `phalanx explain FILE`
    explains why its gangs wait.
    """
    if number is None:
        listed = ask(address, ListCycles())
        if not listed:
            fail("There was no cycle yet: no gang has waited.", NOT_FOUND)
        number = listed[-1].number
    found = ask(address, ListCycles(number))
    if json:
        echo(_json(found[-1:], difference(found)))
    else:
        waits = {one.job: one for one in ask(address, ListWaiting())} if found[-1].left else {}
        nodes = [node for one in verdicts(found[-1]) for node in one.nodes]
        say(cycle_text(found, waits, names_of(address, nodes, ids)))


def _json(found: Sequence[CycleInfo], news: Difference | None = None) -> str:
    said: dict[str, Any] = {"format": FORMAT, "cycles": [one.as_dict() for one in found]}
    if news is not None:
        said["difference"] = msgspec.to_builtins(news)
    return json_module.dumps(said, indent=1)


def cycles_text(found: Sequence[CycleInfo]) -> str:
    """Return a table with one row per cycle."""
    rows = [
        [
            f"{one.number}" + (f" (x{one.repeats + 1})" if one.repeats else ""),
            moment(one.at),
            _ms(one.took_s),
            _ms(one.read_s),
            " ".join(f"{name} {_ms(took)}" for name, took in one.actions.items()),
            str(one.considered),
            *(str(one.counts[name]) for name in ("placed", "evicted", "promised", "left")),
        ]
        for one in found
    ]
    return fitted_table(_HEAD, rows, _CYCLE_RANKS, _RIGHT, ("ACTIONS",))


def cycle_text(
    found: Sequence[CycleInfo], waits: Mapping[str, WaitInfo], name: NodeNames = _NO_NAMES
) -> str:
    """Return the last cycle as text, with its differences from the cycle before. `waits` has the
    reason why each job waits now, and `name` returns the display name of a node.
    """
    one, news = found[-1], difference(found)
    rows = [
        [
            _short(said.gang),
            said.queue or "-",
            said.verdict + (f" by {said.action}" if said.action else ""),
            str(said.members) if said.members else "",
            f"for {_short(said.other)}" if said.other else " ".join(map(name, said.nodes)),
            _why(said, waits.get(said.gang), name),
        ]
        for said in verdicts(one)
    ]
    lines = [
        cycles_text([one]),
        "",
        fitted_table(_VERDICTS, rows, _VERDICT_RANKS, ("MEMBERS",), ("WHERE", "WHY")),
    ]
    lines += [f"warning: {text}" for text in one.warnings]
    if news is not None:
        lines += ["", f"Since cycle {found[-2].number}:"]
        for what, gangs in (
            ("new", news.came), ("not left waiting any more", news.served), ("gone", news.gone),
        ):  # fmt: skip
            lines.append(f"  {what}: {', '.join(map(_short, gangs[:20])) or 'none'}")
    return "\n".join(lines)


def _short(gang: str) -> str:
    return gang.removeprefix("default/")


def _why(said: Verdict, now: WaitInfo | None, name: NodeNames) -> str:
    if said.chosen is not None:
        return said.won(name(said.chosen.first))
    if said.refused is not None:
        return f"{said.refused.plugin}: {said.refused.sentence}"
    if now is None or said.verdict not in ("left", "promised"):
        return ""
    return f"now: {now.reason}" + (f" ({now.plugin})" if now.plugin else "")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"
