"""The commands `phalanx backup` and `phalanx restore`: copies of the head's store."""

from __future__ import annotations

import os
import time
from typing import Annotated

from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.readable_errors import sentence
from phalanx.cli.table import report
from phalanx.cli.times import moment

Store = Annotated[
    list[str] | None,
    Option(
        help="Store of the head: path of its file; may be repeated. Stores in Redis and in memory "
        "have no backups. Default: the store of the configuration, or "
        "~/.phalanx/store/HOSTNAME.db."
    ),
]


def backup(
    file: Annotated[str, Argument(help="New file to write the backup to.")],
    store: Store = None,
) -> None:
    """Copy the head's store into a file; the head may be running. Exit 1: no copy was made.

    The copy contains queues, jobs, users, tokens, reservations, actors, and the
    history of jobs. It contains neither the output of jobs nor the cluster's
    token.
    """
    from phalanx import __version__
    from phalanx.model.readable import size
    from phalanx.runtime.daemons.cluster_token import default_path
    from phalanx.storage.backup import back_up
    from phalanx.storage.errors import StorageError

    try:
        made = back_up(_stores(store), file, version=__version__, at=time.time())
    except (StorageError, OSError) as error:
        fail(sentence(error))
    report(
        f"{file}: {size(os.path.getsize(file))}, cluster {made.cluster}, batch {made.sequence} of "
        f"epoch {made.epoch}. Keep a copy of the token ({default_path()}), too."
    )


def restore(
    file: Annotated[str, Argument(help="File that `phalanx backup` has written.")],
    store: Store = None,
    replace: Annotated[
        bool,
        Option(
            "--replace",
            help="Delete an existing store first. Without --replace, the command refuses to "
            "restore over an existing store.",
        ),
    ] = False,
) -> None:
    """Restore a backup as the head's store; the head must not run. Exit 1: nothing was changed.

    Start the head afterwards. The head continues with the jobs and nodes that it
    had at the time of the backup.
    """
    from phalanx.storage.backup import restore as put_back
    from phalanx.storage.errors import StorageError

    stores = _stores(store)
    try:
        made = put_back(file, stores, replaces=replace)
    except (StorageError, OSError) as error:
        fail(sentence(error))
    report(
        f"The store at {', '.join(stores)} is as it was on {moment(made.at)}, made by release "
        f"{made.version}. Start the head: phalanx start --head"
    )


def _stores(given: list[str] | None) -> list[str]:
    from phalanx.cli.cluster_start import default_store
    from phalanx.cli.configuration.sources import read_sources, settle

    try:
        found = settle("start", {"store": given, "head": True}, read_sources(os.environ))
    except ValueError as error:
        fail(str(error), USAGE)
    return found["store"].value if "store" in found else [default_store()]
