"""Where a gang's members meet: ports that are free on all its nodes, devices, and who is told what.

What a member finds in its environment is worked out by `control.jobs.environment`, as for jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from phalanx.head.gangs.gang import (
    DONE,
    ENDING,
    HELD,
    NAMESPACE,
    PLACING,
    ROLE,
    Gang,
)
from phalanx.head.jobs.environment import DEVICES, member_setup
from phalanx.head.jobs.places import Gang as PlacedGang
from phalanx.head.jobs.places import MemberPlace
from phalanx.model.jobs.gang_view import GangMember, GangView
from phalanx.model.jobs.spec import JobSpec, TaskGroup, Template
from phalanx.resources.ports import Ports, RandomSource, pick_ports

FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the ports that systems hand out to clients (from 32,768 on Linux)."""
KEEP_BUSY = 1_000

_encode = msgspec.msgpack.Encoder().encode


class Rendezvous:
    """Ports of all gangs, and the views of the members of each."""

    def __init__(self, rng: RandomSource, address_of: Callable[[str], str]) -> None:
        self._rng = rng
        self._address_of = address_of
        self._taken: set[int] = set()
        self._busy: dict[int, None] = {}
        """Ports that nodes said others use; the oldest are forgotten."""

    def choose_ports(self, gang: Gang) -> None:
        """Give the gang ports that no other gang has."""
        self.free_ports(gang)
        picked = pick_ports(
            Ports(((FIRST_PORT, LAST_PORT),)), gang.port_count, FIRST_PORT, self._rng, self
        )
        if picked is None:
            self._busy.clear()
        gang.ports = picked or []
        self._taken.update(gang.ports)

    def __contains__(self, port: object) -> bool:
        """Whether somebody has this port."""
        return port in self._taken or port in self._busy

    def keep_ports(self, gang: Gang) -> None:
        """A gang that was known before has these."""
        self._taken.update(gang.ports)

    def free_ports(self, gang: Gang) -> None:
        """The gang needs its ports no longer."""
        self._taken.difference_update(gang.ports)
        gang.ports = []

    def are_busy(self, ports: Iterable[int]) -> None:
        """Somebody uses these."""
        for port in ports:
            self._busy[port] = None
            if len(self._busy) > KEEP_BUSY:
                del self._busy[next(iter(self._busy))]

    def views(self, gang: Gang, nodes: list[str], wanted: Iterable[int]) -> dict[int, bytes]:
        """What these members are told; `nodes` by member, of those that have or get a place."""
        nodes = [node or gang.was_on.get(i, "") for i, node in enumerate(nodes)]
        there = [i for i in gang.among(PLACING, HELD, ENDING, DONE) if nodes[i]]
        places = {
            (ROLE, index): MemberPlace(
                node=nodes[index],
                address=self._address_of(nodes[index]),
                devices=tuple(gang.devices.get(index, {}).get("GPU", ())),
            )
            for index in there
        }
        placed = PlacedGang(job=_as_job(gang), places=places, ports=tuple(gang.ports))
        ranks = placed.ranks
        members = [
            GangMember(
                rank=ranks.rank[ROLE, i],
                node=nodes[i],
                address=places[ROLE, i].address,
                local_rank=ranks.local[ROLE, i],
                devices=list(places[ROLE, i].devices),
            )
            for i in there
        ]
        told = {}
        for index in wanted:
            env = dict(member_setup(placed, ROLE, index).env)
            env.pop(DEVICES)  # shown by the worker, within what its node may see
            told[index] = _encode(
                GangView(
                    name=gang.name,
                    queue=gang.queue,
                    rank=ranks.rank[ROLE, index],
                    local_rank=ranks.local[ROLE, index],
                    world_size=len(there),
                    local_world_size=ranks.on_node[nodes[index]],
                    address=places[ROLE, there[0]].address,
                    ports=gang.ports,
                    devices=list(places[ROLE, index].devices),
                    members=members,
                    env=env,
                    grace_s=gang.grace_s,
                )
            )
        return told


def _as_job(gang: Gang) -> JobSpec:
    group = TaskGroup(name=ROLE, replicas=len(gang.needs), template=Template(grace_s=gang.grace_s))
    return JobSpec(name=gang.name, namespace=NAMESPACE, queue=gang.queue, groups=(group,))
