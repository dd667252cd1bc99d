"""Options and arguments that many commands share, and rows as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from phalanx.cli import panels
from phalanx.cli.options import Argument, Option
from phalanx.cli.table import echo
from phalanx.model.rows.row import Row

_ADDRESS = (
    "Address of the head (HOST:PORT), or ray:auto for a Ray cluster. Default: PHALANX_ADDRESS, "
    "the current login, or the cluster on this machine."
)
Address = Annotated[
    str | None,
    Option(help=_ADDRESS),
]
HeadAddress = Annotated[
    str | None,
    Option(
        "--address",
        help="Address of the head, as HOST:PORT. Default: PHALANX_ADDRESS, the current login, or "
        "the cluster on this machine.",
    ),
]
"""`Address` for commands that do not work with a Ray cluster."""
PanelAddress = Annotated[
    str | None,
    Option("--address", rich_help_panel=panels.CLUSTER, help=_ADDRESS),
]
"""`Address` in a panel of its own, for commands with many options."""
Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Name = Annotated[str, Argument(help="Name of the job: NAME or NAMESPACE/NAME.")]
Names = Annotated[list[str], Argument(help="Names of one or more jobs: NAME or NAMESPACE/NAME.")]
Watch = Annotated[
    bool,
    Option("--watch", "-w", help="Print the list again every two seconds, until Ctrl-C."),
]


def print_json(rows: Sequence[Row]) -> None:
    """Print rows as a list in JSON, one row in each line. A row is printed as soon as it is
    made.
    """
    import json

    encode = json.JSONEncoder().encode
    echo("[", nl=False)
    for number, row in enumerate(rows):
        sys.stdout.write(("," if number else "") + "\n " + encode(row.as_dict()))
    echo("\n]" if rows else "]")


def rows_json(rows: Row | Sequence[Row], indent: int | None = 1) -> str:
    """Return one row or several as JSON."""
    import json

    plain = rows.as_dict() if isinstance(rows, Row) else [row.as_dict() for row in rows]
    return json.dumps(plain, indent=indent)
