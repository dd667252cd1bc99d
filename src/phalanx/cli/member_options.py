"""Options of commands that start members: what each member holds, and how the job waits."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli import panels
from phalanx.cli.amounts import member_memory
from phalanx.cli.options import Option

Cpus = Annotated[
    float, Option(min=0, rich_help_panel=panels.RESOURCES, help="Number of CPUs for each member.")
]
Memory = Annotated[
    str | None,
    Option(
        parser=member_memory,
        metavar="MEMORY",
        rich_help_panel=panels.RESOURCES,
        help="Memory for each member, such as 4GiB or 512MiB, or a number of bytes; at least 1MiB. "
        "A member that uses more is killed.",
    ),
]
Queue = Annotated[
    str,
    Option(
        "--queue",
        "-q",
        rich_help_panel=panels.PLACEMENT,
        show_default=False,
        help="Name of the queue in which the job waits. Default: the queue named default.",
    ),
]
Time = Annotated[
    str | None,
    Option(
        "--time",
        "-t",
        rich_help_panel=panels.TIME,
        help="Time limit of the job, counted from each start: 2h30m, 90s, 1-12:00 "
        "(days-hours:minutes) or 90 (minutes). Default: the default limit of the queue, "
        "or else its longest limit, if it has one.",
    ),
]
Quiet = Annotated[
    bool,
    Option("--quiet", rich_help_panel=panels.OUTPUT, help="Print no messages while the job waits."),
]
