"""The command `phalanx simulate`, which tries policies on a trace before they are used on a
cluster.
"""

from __future__ import annotations

import json as json_module
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

from phalanx.cli.ending import Ended
from phalanx.cli.options import Option, Registrar
from phalanx.cli.registry import RESEARCH
from phalanx.cli.table import echo, say, table

UNUSABLE = 2
BROKEN = 1


class Arrival(StrEnum):
    """How pods arrive: in order, or at their own times."""

    order = "order"
    time = "time"


class Rules(StrEnum):
    """The rules for jobs that arrive at their own times."""

    cluster = "cluster"
    muri = "muri"


def simulate(
    nodes: Annotated[
        Path | None,
        Option(help="File of the trace's nodes: openb or plain CSV; may be compressed (.gz)."),
    ] = None,
    pods: Annotated[
        Path | None,
        Option(
            "--pods",
            help="File of the trace's jobs: openb, Muri or plain CSV, or Philly JSON; may be "
            "compressed (.gz).",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        Option(
            help="Name of a policy, such as srtf, or path of a scheduler configuration; repeat "
            "to compare several."
        ),
    ] = None,
    arrival: Annotated[
        Arrival,
        Option(
            help="Arrival of the work. `order`: pods arrive one after another and never end. "
            "`time`: jobs arrive at the times in the trace, and end after their run times."
        ),
    ] = Arrival.order,
    rules: Annotated[
        Rules,
        Option(
            help="With --arrival time: rules of the simulated cluster. `cluster`: the rules of a "
            "real cluster. `muri`: the rules of the simulator of Muri, a scheduler from research, "
            "to compare with its published results; only for the policies srtf, srsf, tiresias, "
            "muri-s, muri-l, antman and themis."
        ),
    ] = Rules.cluster,
    overheads: Annotated[
        bool | None,
        Option(
            "--overheads/--no-overheads",
            help="With --arrival time: count the time that the start of a job takes; "
            "--no-overheads does not count it. Default: count it if the trace says "
            "which neural network each job trains.",
        ),
    ] = None,
    inflate: Annotated[
        float | None,
        Option(
            min=0.0,
            help="With --arrival order: copy pods until all pods together request this "
            "multiple of the cluster's GPUs. Default: 1.3.",
        ),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of all random choices.")] = 42,
    queues: Annotated[
        Path | None,
        Option(help="With --arrival time: YAML or JSON file that describes the queues."),
    ] = None,
    report: Annotated[
        Path | None, Option(help="File to which an HTML page with plots is written.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print the figures as JSON.")] = False,
    chaos: Annotated[
        bool, Option("--chaos", help="Simulate clusters with random crashes and losses.")
    ] = False,
    seeds: Annotated[
        str | None,
        Option(
            help="With --chaos: number of seeds, counted from --seed, such as 20, or a range of "
            "seeds, such as 1-20."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        Option(help="With --chaos and one seed: file to which every event of the run is written."),
    ] = None,
    verbose: Annotated[
        bool, Option("--verbose", help="With --chaos and one seed: print every event of the run.")
    ] = False,
    lab: Annotated[bool, Option("--lab", help="Simulate a random day of a lab.")] = False,
    users: Annotated[int, Option(help="With --lab: number of users.")] = 120,
    machines: Annotated[int, Option(help="With --lab: number of nodes; most have 8 GPUs.")] = 32,
    hours: Annotated[
        float, Option(help="With --lab: number of hours during which users submit jobs.")
    ] = 24.0,
    promised: Annotated[
        int,
        Option(
            min=0,
            help="With --lab: number of waiting gangs of each queue that are promised a place and "
            "a time.",
        ),
    ] = 0,
    restarts: Annotated[
        int, Option(min=0, help="With --lab: number of times that the head dies and starts again.")
    ] = 0,
) -> None:
    """Simulate the jobs of a trace under one or more policies, in virtual time.

    With --chaos, clusters with random crashes and losses are simulated instead;
    with --lab, a day of many users' jobs. Exit 1: --chaos or --lab found an error
    of Phalanx. Exit 2: a file is faulty, or options are missing.
    """
    from phalanx.errors import PhalanxError

    if chaos and lab:
        say("--chaos and --lab are two simulations: choose one", err=True)
        raise Ended(UNUSABLE)
    if lab:
        _lab(users, machines, hours, seed, promised, restarts, json)
        return
    if chaos:
        _chaos(seed, seeds, json, trace, verbose)
        return
    if nodes is None or pods is None or not policy:
        say(
            "give --nodes, --pods and --policy for a trace, --chaos for faults, or --lab for a lab",
            err=True,
        )
        raise Ended(UNUSABLE)
    from phalanx_research.command import Request, run

    request = Request(
        nodes=nodes,
        pods=pods,
        policies=tuple(policy),
        over_time=arrival is Arrival.time,
        published=rules is Rules.muri,
        overheads=overheads,
        inflate=inflate,
        seed=seed,
        queues=queues,
        report=report,
    )
    try:
        runs = run(request, warn=partial(say, err=True))
    except (PhalanxError, OSError) as error:
        say(str(error), err=True)
        raise Ended(UNUSABLE) from error
    if json:
        rows = {r.name: {**r.figures, **({"queues": r.queues} if r.queues else {})} for r in runs}
        echo(json_module.dumps(rows if len(rows) > 1 else rows[runs[0].name], indent=1))
        return
    names = [r.name for r in runs]
    figures = dict.fromkeys(key for r in runs for key in r.figures)
    lines = [[figure, *(_cell(r.figures.get(figure)) for r in runs)] for figure in figures]
    echo(table(["", *names], lines, right=names))
    if report is not None:
        say(f"Wrote the page to {report}.")


def _cell(value: float | int | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)


def _chaos(seed: int, seeds: str | None, json: bool, trace: Path | None, verbose: bool) -> None:
    from phalanx.errors import PhalanxError
    from phalanx_research.chaos.command import Request, run, seeds_of

    try:
        chosen = seeds_of(seed, seeds)
        request = Request(seeds=chosen, as_json=json, trace=trace, verbose=verbose)
        is_good = run(request, write=say)
    except (PhalanxError, OSError) as error:
        say(str(error), err=True)
        raise Ended(UNUSABLE) from error
    if not is_good:
        raise Ended(BROKEN)


def _lab(
    users: int, nodes: int, hours: float, seed: int, promised: int, restarts: int, json: bool
) -> None:
    from msgspec import to_builtins

    from phalanx_research.command import progress
    from phalanx_research.lab.command import HEADERS, rows, run, sentences
    from phalanx_research.lab.people import Size

    try:
        with progress("hours") as report:
            size = Size(users=users, nodes=nodes, hours=hours)
            found = run(size, seed, promised, restarts, report)
    except ValueError as error:
        say(str(error), err=True)
        raise Ended(UNUSABLE) from error
    if json:
        echo(json_module.dumps(to_builtins(found), indent=1))
    else:
        echo(table(list(HEADERS), rows(found), right=list(HEADERS[1:])))
        say("\n".join(sentences(found)))
    if found.lost:
        raise Ended(BROKEN)


def register(app: Registrar) -> None:
    """Add the command to `app`."""
    app.command(rich_help_panel=RESEARCH)(simulate)
