"""The parameters of a head: its shell, and the settings of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from phalanx.head.clock import MachineClock
from phalanx.head.log_reading import ReadOwn
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.packages import NoPackageFiles, PackageFiles
from phalanx.model.system_settings import DEFAULT_SETTINGS, SystemSettings
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

if TYPE_CHECKING:
    from phalanx.head.accounting.ledger import Ledger
    from phalanx.head.jobs.probing import Prober


@dataclass(frozen=True, kw_only=True)
class HeadShell:
    """The services that a head's process provides to the head, in addition to messages and rows."""

    clock: MachineClock
    boot: str = ""
    """The id of the boot of the machine, for the machine's clock (see WatchedClock)."""
    rng: RandomSource
    prober: Prober
    """Probes ports of members of jobs."""
    report_defect: Callable[[Exception], None]
    """Reports an internal error that affects only one thing."""
    ledger: Ledger | None = None
    """Keeps the history of jobs; None if no history is kept."""
    read_log: ReadOwn | None = None
    """Reads the head's own log; None if the head has no log."""
    packages: PackageFiles = field(default_factory=NoPackageFiles)
    """Keeps the packages of jobs."""
    look: Callable[[Meter], None] = lambda meter: None
    """Sets the numbers in the meter that only the shell knows."""


class HeadSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which a head's cluster was started."""

    cluster: str = ""
    """The cluster's name in its store; empty if nodes of any cluster are accepted."""
    is_alone: bool = False
    """Whether the cluster's only node is in the head's process."""
    limits: HealthLimits | None = None
    placement: PlacementPolicy = PlacementPolicy()
    """The policy that chooses nodes for work."""
    settings: SystemSettings = DEFAULT_SETTINGS
    standbys: tuple[str, ...] = ()
    """HOST:PORT of each other process that may be the head of this cluster."""


DEFAULT_SETUP = HeadSetup()
