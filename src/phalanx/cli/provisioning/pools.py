"""Pools of nodes, as their file describes them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any

import msgspec

from phalanx.manifests.sizes import read_amount
from phalanx.manifests.times import read_length
from phalanx.model.nearest import nearest
from phalanx.protocol.requests.cluster import NodePool

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,40}[A-Za-z0-9])?")


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are alike, and the programs that start and end their machines."""

    name: str
    """The beginning of the names of the pool's nodes, which are NAME-1, NAME-2 and so on."""
    up: tuple[str, ...]
    """The program that starts machines, with its arguments."""
    down: tuple[str, ...]
    """The program that ends machines, with its arguments."""
    resources: dict[str, float]
    """The resources that one node offers. Memory is in bytes."""
    labels: dict[str, str] = {}
    """The labels that one node has."""
    min: int = 0
    """The number of nodes that are kept although they are idle."""
    max: int
    """The largest number of nodes."""
    idle_s: float = 600.0
    """Seconds for which a node is idle before it is ended."""
    boot_s: float = 300.0
    """Seconds after which a node that has not joined counts as failed."""
    limit_s: float = 60.0
    """Seconds after which a program that has not ended is killed."""

    def names(self, taken: set[str], count: int) -> list[str]:
        """Return the first `count` names of nodes that are not taken."""
        found: list[str] = []
        number = 1
        while len(found) < count:
            if (name := f"{self.name}-{number}") not in taken:
                found.append(name)
            number += 1
        return found

    def declared(self, booting: Iterable[str]) -> NodePool:
        """Return the pool in the form in which the head is told about it. `booting`: the nodes
        whose machines boot.
        """
        names = self.names(set(), self.max)
        return NodePool(names, self.resources, self.labels, self.name, list(booting))

    def owns(self, node: str) -> bool:
        """Whether a node with this name belongs to the pool."""
        start, _, number = node.rpartition("-")
        return start == self.name and number.isdecimal()


_LENGTHS = {"idle": "idle_s", "boot": "boot_s", "limit": "limit_s"}
"""The keys with a length of time, and the fields that they set."""
_KEYS = ("up", "down", "resources", "labels", "min", "max", *_LENGTHS)


def read_pools(text: str) -> list[Pool]:
    """Return the pools of a file in TOML, in the order of the file: a table `[pools.NAME]` for each
    pool. Raises ValueError that names the pool and the key.

    Example:
        [pools.gpu]
        up = ["/usr/local/bin/start-machines"]
        down = ["/usr/local/bin/end-machines"]
        resources = { CPU = 32, GPU = 4, memory = "256GiB" }
        max = 8
        idle = "10m"
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is no TOML: {error}") from None
    pools = found.pop("pools", None)
    if found or not isinstance(pools, dict) or not pools:
        raise ValueError("the file has tables of the form [pools.NAME], and nothing else")
    read = [_read(name, given) for name, given in pools.items()]
    for one in read:
        rival = next((other for other in read if other is not one and one.owns(other.name)), None)
        if rival is not None:
            raise ValueError(f"pool {rival.name} has the name of a node of pool {one.name}")
    return read


def _read(name: str, given: Any) -> Pool:
    if not _NAME.fullmatch(name):
        raise ValueError(f"pool {name!r}: a pool's name must be usable in the names of nodes")
    if not isinstance(given, dict):
        raise ValueError(f"[pools.{name}] must be a table")
    for key in given:
        if key not in _KEYS:
            raise ValueError(f"pool {name}: {key} is no key{nearest(key, _KEYS) or ''}")
    fields: dict[str, Any] = {k: v for k, v in given.items() if k not in _LENGTHS}
    try:
        for key, field in _LENGTHS.items():
            if key in given:
                fields[field] = read_length(str(given[key]))
        if isinstance(fields.get("resources"), dict):
            fields["resources"] = {
                one: read_amount(one, str(amount)) for one, amount in fields["resources"].items()
            }
        pool = msgspec.convert({"name": name, **fields}, Pool)
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"pool {name}: {error}") from None
    if not pool.up or not pool.down:
        raise ValueError(f"pool {name}: up and down must each name a program")
    if not 0 <= pool.min <= pool.max:
        raise ValueError(f"pool {name}: min is from 0 to max ({pool.max}), not {pool.min}")
    return pool
