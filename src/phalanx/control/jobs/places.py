"""Where the members of a gang are, and what is prepared for each of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.model.jobs.spec import JobSpec

Key = tuple[str, int]
"""A member: its group and its index."""


class MemberPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one member is: its node's name and address, its own ports and its exact devices."""

    node: str
    address: str
    ports: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    attempt: int = 1


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose members have places. `ports` are free on every node of it; files for a member
    go into `directory`."""

    job: JobSpec
    places: Mapping[Key, MemberPlace]
    ports: tuple[int, ...] = ()
    directory: str = ""

    def place(self, group: str, index: int) -> MemberPlace:
        return self.places[group, index]

    def members(self, group: str) -> list[Key]:
        """The placed members of a group, by index."""
        return sorted(key for key in self.places if key[0] == group)

    def addresses(self, group: str) -> list[str]:
        """Where the placed members of a group are, by index; a node as often as it has some."""
        return [self.places[key].address for key in self.members(group)]


class MemberSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Variables, files (by name, in the gang's directory), and the command for a process that has
    none of its own."""

    env: Mapping[str, str]
    files: Mapping[str, str]
    command: tuple[str, ...] = ()


class PortNeed(msgspec.Struct, frozen=True):
    """Ports to be free on all nodes of a gang, and ports for each member on its own node."""

    gang: int
    member: int
