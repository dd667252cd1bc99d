"""The command `phalanx submit`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from phalanx.cli import panels
from phalanx.cli.common_options import PanelAddress, rows_json
from phalanx.cli.ending import Ended
from phalanx.cli.job_view import WELL, how_it_ended
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import FAILED, USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import AppliedInfo
from phalanx.protocol.requests.jobs import GetJob, ListFlows

_FOLLOW_S = 0.1
"""Seconds between two questions about work for which the command waits."""
FLOW_SETTLED = frozenset({"Succeed", "Failed", "Terminating", "Deleted"})


def submit(
    files: Annotated[
        list[Path],
        Argument(help="Files with manifests in YAML or JSON; '-' reads standard input."),
    ],
    wait: Annotated[
        bool,
        Option(
            "--wait",
            rich_help_panel=panels.OUTPUT,
            help="Wait until all submitted jobs and flows are over. Cron jobs never end, and "
            "are not waited for.",
        ),
    ] = False,
    address: PanelAddress = None,
    json: Annotated[
        bool,
        Option("--json", rich_help_panel=panels.OUTPUT, help="Print JSON instead of text."),
    ] = False,
) -> None:
    """Submit manifests: jobs, queues, flows, cron jobs, templates, priority classes, HyperNodes,
    reservations.

    Exit 1: a manifest is wrong or refused or, with --wait, a job or flow did not
    complete. Exit 2: a file cannot be read. Exit 5: the cluster could never run
    the work.
    """
    from phalanx.api.new_manifests import manifest_objects, new_request
    from phalanx.manifests.findings import ManifestError

    objects = []
    for file in files:  # read all files before submitting any object
        try:
            text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
            found, warnings = manifest_objects(text, str(file))
        except OSError as error:
            fail(f"{file}: {error.strerror}", USAGE)
        except ManifestError as error:
            fail(str(error))
        objects += found
        for warning in warnings:
            say(f"warning: {warning}", err=True)
    done = ask(address, new_request(objects))
    if json:
        echo(rows_json(done))
    else:
        for one in done:
            say(f"{one.kind} {one.name} {one.done}")
    states = (
        [_await(address, one) for one in done if one.kind in ("Job", "JobFlow")] if wait else []
    )
    if any(state not in WELL for state in states):
        raise Ended(FAILED)


def _await(address: str | None, one: AppliedInfo) -> str:
    """Wait until a submitted job or flow is over, and return its final state.

    Prints a line if the job or flow did not complete.
    """
    name = (one.namespace, one.name)
    while True:
        reason = ""
        if one.kind == "Job":
            job = ask(address, GetJob("/".join(name)))
            state, settled, reason = job.state, st.SETTLED, job.reason
        else:
            flows = {(row.namespace, row.name): row for row in ask(address, ListFlows())}
            flow = flows.get(name)
            state, settled = (flow.state, FLOW_SETTLED) if flow else ("Deleted", FLOW_SETTLED)
            reason = flow.reason if flow else ""
        if state in settled:
            if state not in WELL:
                say(how_it_ended(one.kind, name, state, reason), err=True)
            return state
        time.sleep(_FOLLOW_S)
