"""The command `phalanx stop`."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Annotated

from phalanx.cli.cluster_start import default_store
from phalanx.cli.options import Option
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.readable_errors import failing_readably
from phalanx.cli.table import report, say
from phalanx.cli.unfinished import unfinished_jobs, unfinished_text
from phalanx.runtime.engine import starting as engines


def stop(
    force: Annotated[
        bool,
        Option(
            "--force", help="Kill all processes at once, so that they cannot finish their work."
        ),
    ] = False,
    forget: Annotated[
        bool,
        Option(
            "--forget",
            help="Also delete the output of jobs on this machine, and the head's queues, jobs, "
            "history and audit log, if they are in the default store "
            "(~/.phalanx/store/HOSTNAME.db).",
        ),
    ] = False,
    yes: Annotated[
        bool, Option("--yes", "-y", help="With --forget: delete without asking.")
    ] = False,
    address: Annotated[
        str | None,
        Option(
            help="Address of a Ray cluster (ray:auto) whose scheduler is to end, instead "
            "of the heads and nodes on this machine."
        ),
    ] = None,
) -> None:
    """End the heads and nodes that you started on this machine or, with --address ray:auto, the
    scheduler on a Ray cluster.

    The head's store is kept: the next `phalanx start --head` continues with its
    queues and jobs. The output of jobs on this machine is kept, too, until the
    machine restarts.
    """
    if yes and not forget:
        fail("--yes is only for --forget: it answers the question that --forget asks.", USAGE)
    if address is not None:
        if (engine := engines.engine_of(address)) is None:
            fail("--address takes a Ray cluster: ray:auto or ray:HOST:PORT.", USAGE)
        if forget:
            fail(
                "--forget is only for this machine's head: Ray's store ends with Ray's head.", USAGE
            )
        with failing_readably():
            say(engines.entry_of(engine).stop_scheduler(address))
        return
    from phalanx.runtime.daemons.starting import stop_all
    from phalanx.runtime.os.kept_sessions import delete_output
    from phalanx.runtime.os.session import runtime_root
    from phalanx.storage import ledger
    from phalanx.storage.opening import delete_audit
    from phalanx.storage.sqlite import delete, exists

    store = default_store()
    if forget and not yes and exists(store):
        import typer

        try:
            sure = f"Delete all queues, jobs, history and the audit log in {store}?"
            typer.confirm(sure, abort=True)
        except typer.Abort:
            fail("Nothing was ended or deleted. `phalanx stop --forget --yes` asks no question.")
    left = "" if forget else unfinished_text(unfinished_jobs())
    ended = stop_all(force=force)
    for one in ended:
        name = f"node {one.name}" if one.kind == "node" else one.kind
        report(f"Ended the {name} of the cluster at {one.address}.")
    if not ended:
        report("No head and no node runs on this machine under this user.")
    with failing_readably():
        if forget:
            delete_output(runtime_root())
        if forget and delete(store):
            ledger.delete(store + ledger.ENDING)
            delete_audit(store)
            shutil.rmtree(f"{store}.packages", ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{store}.pem")
            report(f"Deleted {store}: the next head begins with nothing.")
        elif not forget and any(one.kind == "head" for one in ended) and exists(store):
            report(
                f"Kept {store} and the output of jobs: the next head continues with its queues and "
                "jobs. `phalanx stop --forget` deletes both."
            )
            if left:
                report(f"{left} The next head starts what has not ended again.")
