"""The setup of a node's machines, from the configuration and from what the machine allows."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial

from phalanx.model.gpu_sharing import MPS
from phalanx.node.effects import NodeSetup
from phalanx.runtime.devices.mps import has_mps
from phalanx.runtime.devices.recorded import declared_cards
from phalanx.runtime.node.account_shares import way_of_accounts
from phalanx.runtime.node.config import NodeConfig
from phalanx.runtime.os.command_groups import find_command_groups
from phalanx.runtime.os.declared_topology import read_topology
from phalanx.runtime.os.environment import python_version
from phalanx.runtime.os.visible_devices import device_limits
from phalanx.scheduler.devices.instances import NodeResources

FILES_OF_A_WORKER = 3
"""The number of files that the fork server holds open for a worker: two pipes, and the process's
descriptor.
"""
FILES_OF_ITS_OWN = 32


def node_setup(config: NodeConfig) -> NodeSetup:
    """Return the setup of the node with this configuration."""
    wiring = read_topology(config.topology) if config.topology else None
    if wiring is not None and len(wiring.numa) < config.resources.get("GPU", 0):
        wiring = None  # the topology has fewer devices than this node declares
    units = frozenset(config.unit_resources)
    # An MPS daemon serves only its own account, unless it runs as root.
    may_have_mps = not config.launch
    amounts = {n: amount for n, amount in config.resources.items() if n != MPS or may_have_mps}
    resources = NodeResources(amounts, units, topology=wiring)
    if config.devices:
        resources.set_cards(*declared_cards(config.devices))
        if may_have_mps and has_mps():
            resources.set_total(MPS, 1.0)
    return NodeSetup(
        node_id=config.node_id,
        resources=resources,
        labels=config.labels,
        ports=config.ports,
        limits=device_limits(os.environ),
        address=config.address,
        max_workers=_max_workers(),
        prestart=config.prestart,
        object_store_bytes=config.object_store_bytes,
        disk=config.session.spill,
        checks=config.check_rules,
        python=python_version(),
        settings=config.settings,
        command_groups=_way_of_commands(config.launch),
    )


def _way_of_commands(launch: str) -> Callable[[], str]:
    if launch:  # it may begin later than the node
        return partial(way_of_accounts, launch)
    way = find_command_groups(os.getpid()).way()
    return lambda: way


def _max_workers() -> int:
    """Return how many workers the limit of open files allows; 0 for any number.

    The fork server has the same limit as this process.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 0
    return max((limit - FILES_OF_ITS_OWN) // FILES_OF_A_WORKER, 2)
