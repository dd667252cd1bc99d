"""The command `phalanx bench`, which compares Phalanx with Ray and with pools of processes."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli.ending import Ended
from phalanx.cli.options import Option, Registrar
from phalanx.cli.registry import RESEARCH


def bench(
    peer: Annotated[
        str | None,
        Option(
            help="Other systems to measure, separated by commas: ray, multiprocessing, "
            "concurrent.futures, joblib, dask, parsl, charm4py, xoscar."
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        Option(
            "--row",
            help="Text in the names of the rows to measure, such as put; may be repeated. Default: "
            "all rows.",
        ),
    ] = None,
    group: Annotated[
        str,
        Option(
            help="Group of rows to measure: engine, placement, batch, plan, cluster, nodes, "
            "scheduling, store, transfer, gangs, dashboard, counting, simulator, ray-engine, "
            "ray-calls, or `all` of these. Further groups take minutes and are not part of `all`: "
            "release (Ray's release benchmarks), history, scale, processes, objects, jobs, "
            "short-commands, people and day."
        ),
    ] = "engine",
    quick: Annotated[bool, Option(help="Measure for a shorter time.")] = False,
    markdown: Annotated[bool, Option(help="Print the table as Markdown.")] = False,
    json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Compare Phalanx's speed with the speed of Ray and of process pools.

    Groups without a counterpart in other systems measure only Phalanx.
    """
    from phalanx_benchmarks.command import run

    code = run(peer, json=json, markdown=markdown, rows=rows, quick=quick, group=group)
    raise Ended(code)


def register(app: Registrar) -> None:
    """Add the command to `app`."""
    app.command(rich_help_panel=RESEARCH)(bench)
