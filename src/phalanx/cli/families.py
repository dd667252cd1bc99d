"""`phalanx flows`, `crons` and `hypernodes`: what manifests make beside jobs and queues."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Callable
from typing import Any

import typer

from phalanx.cli.job_view import crons_text, flows_text, hypernodes_text
from phalanx.cli.jobs import Address, Json
from phalanx.cli.reach import ask
from phalanx.protocol.requests.jobs import ListCrons, ListFlows, ListHyperNodes


def flows(address: Address = None, json: Json = False) -> None:
    """List flows: how far each is, and the state of every step's job."""
    _show(ask(address, ListFlows()), lambda rows: flows_text(rows, time.time()), json)


def crons(address: Address = None, json: Json = False) -> None:
    """List cron jobs: when they make jobs, and which of those run."""
    _show(ask(address, ListCrons()), crons_text, json)


def hypernodes(address: Address = None, json: Json = False) -> None:
    """List network domains, and which nodes are in each now."""
    _show(ask(address, ListHyperNodes()), hypernodes_text, json)


def _show(
    rows: list[dict[str, Any]], text: Callable[[list[dict[str, Any]]], str], json: bool
) -> None:
    typer.echo(json_module.dumps(rows, indent=1) if json else text(rows))
