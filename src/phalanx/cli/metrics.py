"""The commands `phalanx metrics ...`: configuration for Prometheus and Grafana."""

from __future__ import annotations

import json
from typing import Any

import typer

from phalanx.cli.reach import fail
from phalanx.dashboard import monitoring

app = typer.Typer(help="Print configuration for Prometheus and Grafana.", no_args_is_help=True)


@app.command()
def targets() -> None:
    """Print the settings with which Prometheus reads metrics from this machine's dashboard."""
    try:
        from phalanx.dashboard import serve
    except ModuleNotFoundError as error:
        fail(f"The metrics need {error.name}: pip install 'phalanx[dashboard]'.")
    from phalanx.runtime.os import serving

    found = serving.servers(serve.place())
    if not found:
        fail("The dashboard serves the metrics, and none runs here: start `phalanx dashboard`.")
    scheme, _, address = found[-1].url.partition("://")
    _print_yaml(monitoring.targets(address, serve.scrape_token_file(), scheme))


@app.command()
def alerts() -> None:
    """Print alerting rules for Prometheus."""
    _print_yaml(monitoring.alerts())


@app.command()
def grafana() -> None:
    """Print a dashboard to import into Grafana."""
    typer.echo(json.dumps(monitoring.board(), indent=1))


def _print_yaml(data: dict[str, Any]) -> None:
    import yaml

    typer.echo(yaml.safe_dump(data, sort_keys=False, width=100), nl=False)
