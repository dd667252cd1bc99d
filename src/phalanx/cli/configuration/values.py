"""Checks of single options of `phalanx start`. Each raises ValueError with one sentence."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.cli.node_checks import read_check_rules, read_checks
from phalanx.cli.option_names import OF_START, with_options
from phalanx.cli.reach import read_object

if TYPE_CHECKING:
    from phalanx.model.system_settings import SystemSettings
    from phalanx.scheduler.placement.placement_policy import PlacementPolicy

_NODE_ID = "ray.io/node-id"


class StartOptions(msgspec.Struct, kw_only=True):
    """The options of `phalanx start` with their defaults, by the names of its parameters."""

    head: bool = False
    address: str | None = None
    no_node: bool = False
    block: bool = False
    host: str = "127.0.0.1"
    port: int | None = None
    store: list[str] = []
    standby: list[str] = []
    accept_loss: bool = False
    history: list[str] = []
    limit: list[str] = []
    num_cpus: int | None = None
    num_gpus: int | None = None
    resources: str | None = None
    node_name: str = ""
    labels: list[str] = []
    object_store_memory: int | None = None
    topology: str = ""
    ports: str = ""
    devices: str = ""
    check: list[str] = []
    check_every: str = "10m"
    check_limit: str = "1m"
    placement: str | None = None
    system_config: str | None = None
    spill_threshold: int = 0
    patience: float = 60.0
    gpu_resource: str = "GPU"
    token_file: str = ""
    shared: bool = False
    group: str = ""
    system: bool = False
    insecure: bool = False


OF_HEAD = (
    "no_node", "store", "standby", "limit", "placement", "accept_loss", "history", "system_config",
    "shared", "group",
)  # fmt: skip
"""The options that only `--head` takes."""


def check_host(host: str) -> None:
    """Check that `host` is an address at which other machines may reach this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(
            f"--host takes an IP address of this machine, such as 10.0.0.1, not {host!r}."
        ) from None
    if address.is_unspecified:
        raise ValueError(
            f"--host takes an address at which other nodes can reach this one, not {host}."
        )


def check_standby(standby: list[str], store: list[str]) -> None:
    """Check the addresses of `--standby`, and that the other heads can reach the store."""
    from phalanx.runtime.daemons.local import split_address
    from phalanx.storage.lease import NO_SERVER, needs_beats

    for address in standby:
        split_address(address)
    if standby and not all(needs_beats([one]) for one in store or [""]):
        raise ValueError(f"--standby: {NO_SERVER}")


def read_labels(texts: list[str]) -> dict[str, str]:
    """Return the labels that texts such as `zone=a,rack=r1` list."""
    pairs = [one.partition("=") for text in texts for one in text.split(",") if one]
    for key, equals, _ in pairs:
        if not key or not equals or key == _NODE_ID:
            raise ValueError(
                "Label string is not a key-value pair. --labels takes KEY=VALUE, and KEY is not "
                f"{_NODE_ID}; not {key!r}."
            )
    return {key.strip(): value.strip() for key, _, value in pairs}


def read_placement(text: str | None) -> PlacementPolicy:
    """Return the policy of `--placement`: a name or a YAML mapping."""
    import yaml

    from phalanx.scheduler.placement.placement_policy import read_placement_policy

    try:
        given = None if text is None else yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"--placement takes a name or a YAML mapping, not {text}") from None
    return read_placement_policy(given)


def read_settings(text: str | None) -> SystemSettings:
    """Return the settings of `--system-config` and of the environment."""
    from phalanx.runtime.driver.starting import system_settings

    return system_settings(read_object("system-config", text, '{"max_lineage_bytes": 1000000}'))


def read_resources(text: str | None) -> dict[str, Any] | None:
    """Return the additional resources in the JSON of `--resources`."""
    return read_object("resources", text, '{"TPU": 4}')


def check_amounts(**given: Any) -> None:
    """Check amounts of a node by the options that set them, and name the options in errors."""
    from phalanx.api import amounts

    try:
        amounts.check_amounts(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(with_options(str(error), OF_START)) from None


def read_limits(texts: list[str]) -> dict[str, float]:
    """Return the limits of `--limit`."""
    from phalanx.head.nodes.liveness import HealthLimits

    return _numbers("limit", texts, HealthLimits, whole=("misses",))


def read_history(texts: list[str]) -> dict[str, float]:
    """Return the limits of `--history`."""
    from phalanx.storage.ledger import HistoryLimits

    return _numbers("history", texts, HistoryLimits, whole=("records",))


def check_node(given: StartOptions) -> None:
    """Check the options of a node that nothing else checks before a head has started."""
    from phalanx.runtime.devices.recorded import check_declared

    # No part of `check_value`: a configuration may name a file of another machine.
    checks = {"node_name": _check_name, "ports": _check_ports, "devices": check_declared}
    for name, check in checks.items():
        try:
            if value := getattr(given, name):
                check(value)
        except ValueError as error:
            raise ValueError(f"--{name.replace('_', '-')}: {error}") from None


def check_value(name: str, value: Any) -> None:
    """Check the value of one option of `phalanx start`, as the command itself checks it."""
    if name in _CHECKS:
        _CHECKS[name](value)


def _check_ports(text: str) -> None:
    from phalanx.scheduler.devices.ports import parse_ports

    parse_ports(text)


def _check_name(name: str) -> None:
    from phalanx.runtime.daemons.starting import check_node_name

    check_node_name(name)


_CHECKS: dict[str, Callable[[Any], object]] = {
    "host": check_host,
    "labels": read_labels,
    "placement": read_placement,
    "system_config": read_settings,
    "resources": lambda text: check_amounts(resources=read_resources(text)),
    "num_cpus": lambda amount: check_amounts(num_cpus=amount),
    "num_gpus": lambda amount: check_amounts(num_gpus=amount),
    "object_store_memory": lambda amount: check_amounts(object_store_memory=amount),
    "limit": read_limits,
    "history": read_history,
    "check": read_checks,
    "check_every": lambda text: read_check_rules(text, StartOptions().check_limit),
    "check_limit": lambda text: read_check_rules(StartOptions().check_every, text),
    "ports": _check_ports,
    "node_name": _check_name,
}


def _numbers(option: str, texts: list[str], kind: Any, whole: tuple[str, ...]) -> dict[str, float]:
    """Return the numbers of texts NAME=NUMBER, in which NAME is a field of the struct `kind`."""
    from phalanx.model.nearest import nearest

    names = kind.__struct_fields__
    found: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in names or not equals:
            raise ValueError(
                f"--{option} takes NAME=NUMBER, and NAME is one of {', '.join(names)}, not "
                f"{text!r}{nearest(name, names) or '.'}"
            )
        try:
            found[name] = int(value) if name in whole else float(value)
        except ValueError:
            raise ValueError(f"--{option} {name} takes a number, not {value!r}.") from None
    msgspec.convert(found, kind)
    return found
