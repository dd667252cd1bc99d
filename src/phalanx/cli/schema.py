"""`phalanx schema`: what editors need to complete and check manifests and configurations."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class Of(StrEnum):
    """What the schema is of."""

    manifests = "manifests"
    scheduler = "scheduler"


def schema(
    of: Annotated[Of, typer.Argument(help="Manifests, or the scheduler's rules.")] = Of.manifests,
) -> None:
    """Print the JSON Schema of manifests, or of the scheduler's configuration.

    An editor with YAML's language server uses it where a file begins with
    `# yaml-language-server: $schema=FILE`.
    """
    if of is Of.manifests:
        from phalanx.manifests.schema import manifest_schema

        found = manifest_schema()
    else:
        from phalanx.scheduler.cycle.registry import known_plugins
        from phalanx.scheduler.cycle.schema import configuration_schema

        found = configuration_schema(known_plugins())
    typer.echo(json.dumps(found, indent=1, sort_keys=True))
