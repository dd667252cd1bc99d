"""The command `phalanx validate`: check manifests without submitting them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from phalanx.cli.ending import Ended
from phalanx.cli.options import Argument, Option
from phalanx.cli.table import echo, say

if TYPE_CHECKING:
    from phalanx.manifests.findings import Finding

INVALID = 1
"""The exit code for a wrong manifest."""
UNUSABLE = 2
"""The exit code for a file that cannot be read."""


class Operation(StrEnum):
    """The operations for which a manifest can be checked."""

    create = "create"
    update = "update"
    delete = "delete"


def validate(
    file: Annotated[
        Path, Argument(help="File with manifests in YAML or JSON; '-' reads standard input.")
    ],
    queues: Annotated[
        Path | None,
        Option(
            help="File with the queues that exist, as manifests or as a list such as "
            "\\[{name: lab}]. Jobs in FILE may name these queues."
        ),
    ] = None,
    old: Annotated[
        Path | None,
        Option(
            help="File with the manifests as they are now. FILE is checked as an update of "
            "these manifests, unless --operation delete is given."
        ),
    ] = None,
    operation: Annotated[
        Operation,
        Option(
            help="Operation that the check assumes: FILE is to create, update "
            "or delete objects. With --old, create becomes update."
        ),
    ] = Operation.create,
    json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Check manifests without submitting them.

    Exit 1: a manifest is wrong. Exit 2: a file cannot be read, or the file of
    --queues is wrong.
    """
    import json as json_module

    from phalanx.manifests.check import check_manifests, check_new_jobs
    from phalanx.manifests.findings import ManifestError
    from phalanx.manifests.known_queues import read_known_queues

    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        known = None if queues is None else read_known_queues(queues.read_bytes(), str(queues))
        before = None if old is None else old.read_bytes()
    except OSError as e:
        say(f"{e.filename}: {e.strerror}", err=True)
        raise Ended(UNUSABLE) from e
    except ManifestError as e:
        say(str(e), err=True)
        raise Ended(UNUSABLE) from e
    manifests, report = check_manifests(
        text, queues=known, old=before, operation=operation.value, file=str(file)
    )
    if operation is Operation.create and old is None:
        check_new_jobs(manifests, report)
    if json:
        echo(json_module.dumps(report.as_data(), indent=1))
    else:
        for finding in report.warnings:
            say(f"warning: {_line(file, finding)}", err=True)
        for finding in report.errors:
            say(f"error: {_line(file, finding)}", err=True)
        if report.ok:
            say(f"{file}: {', '.join(m.object for m in manifests)}: valid")
    raise Ended(0 if report.ok else INVALID)


def _line(file: Path, finding: Finding) -> str:
    line = f":{finding.line}" if finding.line is not None else ""
    where = " ".join(x for x in (finding.object, finding.path) if x)
    text = f"{file}{line}: {where + ': ' if where else ''}{finding.reason}"
    # A manifest is an untrusted text: nothing in it may control the terminal.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
