"""The command `phalanx schema`: JSON Schemas with which editors complete and check files."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

from phalanx.cli.options import Argument
from phalanx.cli.table import echo


class Of(StrEnum):
    """The kinds of files that have a schema."""

    manifests = "manifests"
    scheduler = "scheduler"


def schema(
    of: Annotated[
        Of,
        Argument(metavar="KIND", help="Kind of file: manifests, or the scheduler's configuration."),
    ] = Of.manifests,
) -> None:
    """Print the JSON Schema of manifests, or of the scheduler's configuration.

    An editor with YAML's language server uses the schema in files that begin with
    `# yaml-language-server: $schema=FILE`.
    """
    if of is Of.manifests:
        from phalanx.manifests.schema import manifest_schema

        found = manifest_schema()
    else:
        from phalanx.scheduler.cycle.registry import known_plugins
        from phalanx.scheduler.cycle.schema import configuration_schema

        found = configuration_schema(known_plugins())
    echo(json.dumps(found, indent=1, sort_keys=True))
