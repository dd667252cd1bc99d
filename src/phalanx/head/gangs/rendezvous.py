"""The rendezvous of a gang's members: ports that are free on all its nodes, and each member's view
of the gang.

`head.jobs.environment` computes the variables of a member's environment, as for jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from phalanx.head.gangs.gang import NAMESPACE, ROLE, Gang
from phalanx.head.gangs.member_states import ENDED, HELD, PLACING
from phalanx.head.gangs.offered_ports import OfferedPorts
from phalanx.head.jobs.environment import DEVICES, member_setup
from phalanx.head.jobs.places import MemberPlace, PlacedGang
from phalanx.model.jobs.gang_view import EncodedView, GangMember, GangView, encode_view
from phalanx.model.jobs.spec import JobSpec, TaskGroup, Template
from phalanx.scheduler.devices.ports import RandomSource, settle_ports

KEEP_BUSY = 1_000


class Rendezvous:
    """The ports of all gangs, and the views of their members."""

    def __init__(
        self,
        rng: RandomSource,
        address_of: Callable[[str], str],
        offered: OfferedPorts,
        first_port: int,
    ) -> None:
        """`first_port`: the lowest port that may be chosen."""
        self._rng = rng
        self._address_of = address_of
        self._offered = offered
        self._first_port = first_port
        self._taken: set[int] = set()
        self._busy: dict[int, None] = {}
        """Ports that nodes reported as used by other programs. Only the latest reports are kept."""

    def choose_ports(self, gang: Gang, nodes: Collection[str]) -> bool:
        """Choose ports for the gang that are common to all its nodes and that no other gang has. If
        possible, the gang keeps its old ports.

        `nodes`: the nodes that will get members. The ports must be free on the nodes that already
        have members, too. Returns False, and leaves the gang's ports unchanged, if too few ports
        are common to all nodes, or if running members would have to change their ports.
        """
        held = {member.node for member in gang.members if member.state == HELD}
        self._taken.difference_update(gang.ports)
        picked = settle_ports(
            [self._offered.everywhere()],
            [self._offered.of(node) for node in dict.fromkeys((*nodes, *sorted(held)))],
            gang.port_count,
            self._first_port,
            self._rng,
            earlier=gang.ports,
            used=self,
        )
        if picked is None:
            self._busy.clear()
        is_settled = picked is not None and (not held or picked == gang.ports)
        if is_settled and picked is not None:
            gang.ports = picked
        self._taken.update(gang.ports)
        return is_settled

    def __contains__(self, port: object) -> bool:
        return port in self._taken or port in self._busy

    def keep_ports(self, gang: Gang) -> None:
        """Mark the ports of a restored gang as used."""
        self._taken.update(gang.ports)

    def free_ports(self, gang: Gang) -> None:
        """Free the ports of a gang that no longer needs them."""
        self._taken.difference_update(gang.ports)
        gang.ports = []

    def note_busy(self, ports: Iterable[int]) -> None:
        """Note that other programs use these ports."""
        for port in ports:
            self._busy[port] = None
            if len(self._busy) > KEEP_BUSY:
                del self._busy[next(iter(self._busy))]

    def views(self, gang: Gang, wanted: Iterable[int]) -> dict[int, EncodedView]:
        """Return these members' views of their gang. Ended members keep their ranks."""
        there = {
            index: member.node or member.last_node
            for index, member in enumerate(gang.members)
            if member.state in (PLACING, HELD) or member.state in ENDED
        }
        places = {
            (ROLE, index): MemberPlace(
                node=node,
                address=self._address_of(node),
                devices=tuple(gang.members[index].devices.get("GPU", ())),
            )
            for index, node in there.items()
            if node
        }
        placed = PlacedGang(job=_as_job(gang), places=places, ports=tuple(gang.ports))
        ranks = placed.ranks
        members = [
            GangMember(
                rank=ranks.rank[key],
                node=place.node,
                address=place.address,
                local_rank=ranks.local[key],
                devices=list(place.devices),
            )
            for key, place in places.items()
        ]
        views = {}
        for index in wanted:
            place = places[ROLE, index]
            env = dict(member_setup(placed, ROLE, index).env)
            # The worker itself sets this variable, from the devices that its node may use.
            env.pop(DEVICES)
            views[index] = encode_view(
                GangView(
                    name=gang.name,
                    queue=gang.queue,
                    rank=ranks.rank[ROLE, index],
                    local_rank=ranks.local[ROLE, index],
                    world_size=len(places),
                    local_world_size=ranks.on_node[place.node],
                    address=next(iter(places.values())).address,
                    ports=gang.ports,
                    devices=list(place.devices),
                    members=members,
                    env=env,
                    grace_s=gang.grace_s,
                )
            )
        return views


def _as_job(gang: Gang) -> JobSpec:
    group = TaskGroup(
        name=ROLE, replicas=len(gang.members), template=Template(grace_s=gang.grace_s)
    )
    return JobSpec(name=gang.name, namespace=NAMESPACE, queue=gang.queue, groups=(group,))
