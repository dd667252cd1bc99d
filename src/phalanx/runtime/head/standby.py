"""The wait of a standby: a head's process that serves only once no other head holds the store."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import NoReturn

import msgspec

from phalanx.runtime.daemon_registry import register
from phalanx.runtime.daemons.daemon_files import STANDBY, Announcement, announce
from phalanx.runtime.head.config import HeadConfig
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.exec_again import exec_again
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.session_keeper import SessionKeeper
from phalanx.runtime.os.system import say
from phalanx.storage.errors import StaleEpochError, StorageInUseError
from phalanx.storage.lease import Lease, open_lease

LOST_TO_ANOTHER = (StaleEpochError, StorageInUseError)
"""The errors of a store that another head holds."""
_LOOK_EVERY_S = 0.5


def wait_for_turn(config: HeadConfig) -> HeadConfig:
    """Wait, as a standby, while another head holds the store. Returns the configuration with which
    this process then serves.

    If this process was a standby, `ready_fd` is -1 in the returned configuration, because the
    process that started the standby already has its answer. Raises SystemExit if this process must
    end, and StorageError.
    """
    lease = open_lease(config.store)
    try:
        if lease.is_free(own_time()):
            return config
        _announce(config)
        keeper = SessionKeeper(config.session)
        keeper.remember()
        say("another head holds the store: this process stands by")
        _wait(lease, config.parent_fd, keeper)
        say("no head holds the store any more: this process takes over")
        return msgspec.structs.replace(config, ready_fd=-1)
    finally:
        lease.close()


def _wait(lease: Lease, parent_fd: int, keeper: SessionKeeper) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    while not lease.is_free(own_time()):
        watched = [parent_fd] if parent_fd >= 0 else []
        if select.select(watched, [], [], _LOOK_EVERY_S)[0]:
            raise SystemExit(0)
        keeper.tick(time.monotonic())


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)


def _announce(config: HeadConfig) -> None:
    me = Announcement(
        kind=STANDBY,
        pid=os.getpid(),
        started=sessions.started_at(os.getpid()) or "",
        address=f"{config.host}:{config.port}",
        token_file=config.token_file,
        standbys=config.standbys,
        is_private=config.is_private,
    )
    register(config.session, me)
    announce(config.session, config.ready_fd, me)


def stand_by_again(config: HeadConfig) -> NoReturn:
    """Start this process again as a standby, because another head holds the store now."""
    session = sessions.create(os.path.dirname(config.session.directory))
    sessions.remove(config.session)
    again = msgspec.structs.replace(config, session=session, ready_fd=-1, accept_loss=False)
    exec_again("phalanx.runtime.head.process", again, [], config.parent_fd)
