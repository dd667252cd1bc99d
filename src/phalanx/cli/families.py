"""`phalanx flows`, `crons` and `hypernodes`: what manifests make beside jobs and queues."""

from __future__ import annotations

import time

import typer

from phalanx.cli.job_view import crons_text, flows_text, hypernodes_text
from phalanx.cli.jobs import Address, Json, rows_json
from phalanx.cli.reach import ask
from phalanx.protocol.requests.jobs import ListCrons, ListFlows, ListHyperNodes


def flows(address: Address = None, json: Json = False) -> None:
    """List flows: how far each is, and the state of every step's job."""
    rows = ask(address, ListFlows())
    typer.echo(rows_json(rows) if json else flows_text(rows, time.time()))


def crons(address: Address = None, json: Json = False) -> None:
    """List cron jobs: when they make jobs, and which of those run."""
    rows = ask(address, ListCrons())
    typer.echo(rows_json(rows) if json else crons_text(rows))


def hypernodes(address: Address = None, json: Json = False) -> None:
    """List network domains, and which nodes are in each now."""
    rows = ask(address, ListHyperNodes())
    typer.echo(rows_json(rows) if json else hypernodes_text(rows))
