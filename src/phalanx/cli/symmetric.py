"""The command `phalanx symmetric-run`: a program whose tasks run on all members of its job."""

from __future__ import annotations

import os
from typing import Annotated

from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import FAILED, USAGE, fail


def symmetric_run(
    command: Annotated[
        list[str], Argument(help="Program that the first member runs, written after --.")
    ],
    object_store_memory: Annotated[
        str,
        Option(
            help="Size of each member's object store (shared memory), such as 2GiB or 2e9 (bytes). "
            "Default: 30% of the node's free memory, but at most the free part of /dev/shm, "
            "divided among its members."
        ),
    ] = "",
) -> None:
    """Start a cluster on the members of a job, and run a program on it.

    Use `phalanx symmetric-run` as the command of a job:
    `phalanx run --gang 4 --cpus 8 -- phalanx symmetric-run -- python train.py`.
    When all members have joined the cluster, the first member runs the program,
    and phalanx.init() in the program finds the cluster. Exits with the program's
    exit code.
    """
    from phalanx.cli.amounts import memory_bytes
    from phalanx.errors import AuthenticationError, SystemFailureError
    from phalanx.runtime.daemons.job_cluster import read_member, run_in_cluster

    try:
        store = int(memory_bytes(object_store_memory)) if object_store_memory else None
        member = read_member(os.environ)
    except (LookupError, ValueError) as error:
        fail(str(error), USAGE)
    try:
        code = run_in_cluster(member, command, store)
    except (AuthenticationError, SystemFailureError, OSError, TimeoutError) as error:
        fail(f"The cluster of this job failed: {error}", FAILED)
    raise SystemExit(code)
