"""`ray logs`: Ray's command over the logs of nodes, workers, actors and tasks."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from phalanx.cli import state
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.table import say
from phalanx.errors import StateQueryError
from phalanx.util.state.listing import list_nodes
from phalanx.util.state.logs import get_log, list_logs

_WHAT = ("actor", "cluster", "job", "task", "worker")
_TAIL = 1_000


def logs(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[cluster] [GLOB] | actor | worker | task",
            help="Pattern of log names (GLOB), such as 'worker*', or a kind of process: actor, "
            "worker or task. With a kind, --id or --pid names the process whose log is printed.",
        ),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of the actor, task or job.")] = None,
    pid: Annotated[int | None, typer.Option(help="Process id of the worker or actor.")] = None,
    node_id: Annotated[
        str | None, typer.Option("--node-id", "-id", help="Id of the node on which the log lies.")
    ] = None,
    node_ip: Annotated[
        str | None,
        typer.Option("--node-ip", "-ip", help="IP address of the node on which the log lies."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int,
        typer.Option(help="Number of lines to print, counted from the end; -1 prints all lines."),
    ] = _TAIL,
    interval: Annotated[
        float | None,
        typer.Option(help="With --follow: seconds between two reads of the log, such as 0.5."),
    ] = None,
    err: Annotated[
        bool, typer.Option("--err", help="Print standard error instead of standard output.")
    ] = False,
    attempt_number: Annotated[
        int,
        typer.Option(
            "--attempt-number", "-a", help="Number of the attempt of the task, counted from 0."
        ),
    ] = 0,
    encoding: Annotated[str, typer.Option(help="Encoding of the log's text.")] = "utf-8",
    encoding_errors: Annotated[
        str,
        typer.Option(
            help="Error handler of Python for text that cannot be decoded, such as strict, ignore "
            "or replace."
        ),
    ] = "strict",
    address: state.Address = None,
    timeout: state.Timeout = state.TIMEOUT_S,
) -> None:
    """List a node's logs, or print one log.

    Without --node-id and --node-ip, the command reads the node on the head's
    machine.
    """
    what, names = "cluster", list(words or ())
    if names and names[0] in _WHAT:
        what = names.pop(0)
    if len(names) > (what == "cluster"):
        fail(f"ray logs {what} does not take {names[-1]!r}.", USAGE)
    if what in ("job", "task") and id is None:
        fail(f"ray logs {what} needs --id.", USAGE)
    if what == "worker" and pid is None:
        fail("ray logs worker needs --pid.", USAGE)
    if what == "actor" and id is None and pid is None:
        fail("Give --pid or --id.", USAGE)
    of: dict[str, dict[str, Any]] = {
        "actor": {"actor_id": id, "pid": pid},
        "cluster": {},
        "job": {"submission_id": id},
        "task": {"task_id": id, "attempt_number": attempt_number},
        "worker": {"pid": pid},
    }
    given = of[what]
    try:
        if node_id is None and node_ip is None:
            node_id = _head(address, timeout)
        if what == "cluster":
            found = list_logs(address, node_id, node_ip, names[0] if names else None, timeout)
            files = [name for group in found.values() for name in group]
            if len(files) != 1:
                _list(found, node_id or node_ip)
                return
            given = {"filename": files[0]}
        if tail > 0:
            say(f"--- The last {tail} lines at most: --tail -1 prints all. ---\n", err=True)
        for part in get_log(
            address,
            node_id,
            node_ip,
            follow=follow,
            tail=tail,
            timeout=timeout,
            suffix="err" if err else "out",
            encoding=encoding,
            errors=encoding_errors,
            _interval=interval,
            **given,
        ):
            sys.stdout.write(part)
            sys.stdout.flush()
    except (StateQueryError, ConnectionError, TimeoutError) as error:
        fail(str(error))
    except (ValueError, LookupError) as error:  # also a UnicodeDecodeError
        fail(str(error), USAGE)


def _head(address: str | None, timeout: float) -> str:
    nodes = list_nodes(address, timeout=timeout)
    heads = [row for row in nodes if row.is_head_node] or nodes
    if not heads:
        raise StateQueryError("The cluster has no node now. Name a former node by --node-id.")
    return str(heads[0].node_id)


def _list(found: dict[str, list[str]], node: str | None) -> None:
    if not found:
        raise StateQueryError(f"No log of node {node} matches.")
    say(f"Node: {node}")
    state.echo_data([found], "yaml", marked=True)
