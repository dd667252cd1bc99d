"""The configuration of a head's process."""

from __future__ import annotations

import msgspec

from phalanx.head.nodes.liveness import HealthLimits
from phalanx.model.system_settings import SystemSettings
from phalanx.runtime.os import session as sessions
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx.storage.ledger import HistoryLimits


class HeadConfig(msgspec.Struct, kw_only=True):
    """The configuration of a head's process. Times are in seconds."""

    session: sessions.Session
    host: str = "127.0.0.1"
    port: int = 0
    token_file: str
    insecure: bool = False
    store: tuple[str, ...] = ("memory",)
    """The addresses of the store's shards (see `phalanx.storage`)."""
    marks: str = ""
    """The directory of the marks of stores in servers; "" for no marks. See `open_storage`."""
    cluster: str = ""
    """The name of the cluster to which the store must belong, as the nodes of this machine know it;
    "" for any cluster.
    """
    accept_loss: bool = False
    """Whether to continue with a store that has lost confirmed changes."""
    history: str = ""
    """The file of the history of jobs; "" for a file that is deleted with the session."""
    history_limits: HistoryLimits = HistoryLimits()
    is_shared: bool = False
    """Whether other users of this machine may use the head (the mode *shared*)."""
    group: str = ""
    """The group of accounts that may use a shared head; "" for everybody."""
    launch_keys: str = ""
    """The directory of the key with which the head lets work run under the accounts of its owners;
    "" if work runs under the accounts of its nodes.
    """
    audit: str = ""
    """The file of the audit log; "" for a file that is deleted with the session."""
    limits: HealthLimits = HealthLimits()
    placement: PlacementPolicy = PlacementPolicy()
    settings: SystemSettings = SystemSettings()
    ready_fd: int = -1
    """The descriptor to which the head writes that it serves, or why it cannot serve."""
    parent_fd: int = -1
    """A pipe whose other end keeps the head alive: when that end closes, the head ends."""
    log: str
    """The file of the head's log."""
    is_private: bool = False
    """Whether `init(address="auto")` skips this daemon."""
    standbys: tuple[str, ...] = ()
    """HOST:PORT of each other process that may be the head of this store. If there is one, this
    process waits while another head uses the store.
    """
