"""From a job and the places of its members to what their nodes are to run."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import ENDED, HELD
from phalanx.head.jobs.environment import member_setup, process_argv, process_environment
from phalanx.head.jobs.places import MemberPlace, MemberSetup, PlacedGang
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import Process
from phalanx.model.jobs.states import WAITING
from phalanx.protocol.bundle_messages import FILES, Command, StartMember


class Starter:
    """Makes orders for nodes; `address_of` a node's id."""

    def __init__(self, address_of: Callable[[str], str]) -> None:
        self._address_of = address_of

    def orders(
        self, record: JobRecord, gang: Gang, wanted: list[int], ends: float | None
    ) -> dict[int, StartMember]:
        """What the nodes of these members are to run, by member. Those that have ended keep their
        ranks: no other member gets the same one. `ends`: when the gang's time is over, in seconds
        since the epoch."""
        places = {}
        for index, place in enumerate(gang.members):
            node = place.node or place.last_node
            if not node or (place.state != HELD and place.state not in ENDED):
                continue
            member = record.member(place.of_group, place.index)
            places[place.of_group, place.index] = MemberPlace(
                node=node,
                address=self._address_of(node),
                ports=(gang.ports[1 + index],) if len(gang.ports) > 1 + index else (),
                devices=tuple(place.devices.get("GPU", ())),
                attempt=member.attempt if member is not None else 1,
            )
        placed = PlacedGang(
            job=record.spec,
            places=places,
            later=tuple((m.group, m.index) for m in record.members if m.state == WAITING),
            ports=tuple(gang.ports),
            directory=FILES,
            restarts=record.run_count,
            ends=ends,
        )
        return {index: self._order(record, gang, placed, index) for index in wanted}

    def _order(self, record: JobRecord, gang: Gang, placed: PlacedGang, index: int) -> StartMember:
        name, number = gang.members[index].of_group, gang.members[index].index
        group, member = record.spec.group(name), record.member(name, number)
        assert group is not None
        assert member is not None
        setup = member_setup(placed, name, number)
        template = group.template
        return StartMember(
            group=gang.group,
            index=index,
            attempt=member.attempt,
            job=record.uid,
            name=member.name,
            before=[_command(setup, process) for process in template.before],
            commands=[_command(setup, process) for process in template.processes],
            files=dict(setup.files),
            grace_s=template.grace_s,
            time_limit_s=template.time_limit_s or 0.0,
        )


def _command(setup: MemberSetup, process: Process) -> Command:
    env = process_environment(setup, process)
    argv = list(process_argv(setup, process, env)) or ["true"]
    limit = int(dict(process.limits).get("memory", 0))
    return Command(argv, env, process.working_dir, limit)
