"""The places of a gang's members, and values that follow from the places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from phalanx.manifests.plugins import options
from phalanx.model.jobs.spec import JobSpec

Key = tuple[str, int]
"""A member, as (group, index in the group)."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The members in the order of their ranks, and each member's ranks.

    `rank` is the rank in the whole gang, `local` the rank on the member's node, and `in_group` the
    rank in its group. `on_node` and `of_group` count the members on the node and in the group.
    `number` is the node's number, in the order of the nodes' first ranks.
    """

    order: list[Key]
    rank: dict[Key, int]
    local: dict[Key, int]
    on_node: dict[str, int]
    number: dict[str, int]
    in_group: dict[Key, int]
    of_group: dict[str, int]


class MemberPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one member: the name and address of its node, its own ports, and its exact
    devices.
    """

    node: str
    address: str
    ports: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    """The numbers of the member's GPUs."""
    others: Mapping[str, tuple[int, ...]] = {}
    """The numbers of the member's other devices, by resource."""
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class PlacedGang:
    """A job whose members have places.

    `later`: members without places, which start once others run or have ended, and have ranks
    already. `ports`: ports that are free on every node of the gang. `directory`: the directory of
    the member's files. `restarts`: how many times the gang ran before. `ends`: when the gang's time
    is up, in seconds since the epoch. Values that all members share are computed once.
    """

    job: JobSpec
    places: Mapping[Key, MemberPlace]
    later: tuple[Key, ...] = ()
    ports: tuple[int, ...] = ()
    directory: str = ""
    restarts: int | None = None
    ends: float | None = None

    def place(self, group: str, index: int) -> MemberPlace:
        return self.places[group, index]

    @cached_property
    def _by_group(self) -> dict[str, list[Key]]:
        groups: dict[str, list[Key]] = {}
        for key in sorted(self.places):
            groups.setdefault(key[0], []).append(key)
        return groups

    def members(self, group: str) -> list[Key]:
        """Return the placed members of a group, by index."""
        return self._by_group.get(group, [])

    def addresses(self, group: str) -> list[str]:
        """Return the addresses of the placed members of a group, by index. A node's address appears
        once for each member on it.
        """
        return [self.places[key].address for key in self.members(group)]

    @cached_property
    def ranks(self) -> Ranks:
        """The ranks of all members that have or will have places, in the manifest's order of
        groups, then by index. Members that wait for others have ranks, too, so that no rank changes
        when they start.
        """
        return self._ranked([group.name for group in self.job.groups])

    @cached_property
    def rendezvous(self) -> Ranks:
        """The ranks of the members that meet in torch.distributed. Usually these are all members.
        With the plugin pytorch they are only the master and the workers, master first, as in
        Volcano.
        """
        arguments = self.job.plugin("pytorch")
        if arguments is None:
            return self.ranks
        chosen = options("pytorch", arguments)
        return self._ranked([chosen["master"], chosen["worker"]])

    def _ranked(self, groups: list[str]) -> Ranks:
        keys = [*self.places, *(key for key in self.later if key not in self.places)]
        number_of = {group: number for number, group in enumerate(groups)}
        chosen = [(number_of[group], index, group) for group, index in keys if group in number_of]
        order = [(group, index) for _, index, group in sorted(chosen)]
        on_node: dict[str, int] = {}
        local = {}
        for key in order:
            if key not in self.places:
                continue
            node = self.places[key].node
            local[key] = on_node.get(node, 0)
            on_node[node] = local[key] + 1
        in_group: dict[Key, int] = {}
        of_group: dict[str, int] = {}
        for key in order:
            in_group[key] = of_group.get(key[0], 0)
            of_group[key[0]] = in_group[key] + 1
        return Ranks(
            order=order,
            rank={key: number for number, key in enumerate(order)},
            local=local,
            on_node=on_node,
            number={node: number for number, node in enumerate(on_node)},
            in_group=in_group,
            of_group=of_group,
        )

    @cached_property
    def hosts(self) -> tuple[dict[str, str], dict[str, str]]:
        """The members' addresses by group, once as variables and once as files, as in Volcano's
        plugin svc.
        """
        env, files = {}, {}
        for group in self.job.groups:
            hosts = self.addresses(group.name)
            word = group.name.replace("-", "_")
            env[f"VC_{word.upper()}_HOSTS"] = ",".join(hosts)
            env[f"VC_{word.upper()}_NUM"] = str(len(hosts))
            files[f"{word}.host"] = "\n".join(hosts)
        return env, files


class MemberSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of a process, its files by their names in the gang's directory, and a command
    if the manifest has none.
    """

    env: Mapping[str, str]
    files: Mapping[str, str]
    command: tuple[str, ...] = ()


class PortNeed(msgspec.Struct, frozen=True):
    """Two numbers: how many ports must be free on all nodes of a gang, and how many ports each
    member needs on its own node.
    """

    gang: int
    member: int
