"""From a job and the places of its members to what their nodes are told to run."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.gangs.gang import DONE, ENDING, HELD, Gang
from phalanx.head.jobs.environment import member_setup, process_argv, process_environment
from phalanx.head.jobs.places import Gang as PlacedGang
from phalanx.head.jobs.places import MemberPlace, MemberSetup
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import Process
from phalanx.model.jobs.states import WAITING
from phalanx.protocol.cluster_messages import FILES, Command, StartMember


class Starter:
    """Makes orders for nodes; `address_of` a node's id."""

    def __init__(self, address_of: Callable[[str], str]) -> None:
        self._address_of = address_of

    def orders(
        self, record: JobRecord, gang: Gang, nodes: list[str], wanted: list[int]
    ) -> dict[int, StartMember]:
        """What the nodes of these members are to run, by member. Those that have ended keep their
        ranks: nobody else is told to be the same."""
        nodes = [node or gang.was_on.get(i, "") for i, node in enumerate(nodes)]
        there = [i for i in gang.among(HELD, ENDING, DONE) if nodes[i]]
        gang_ports = gang.ports
        places = {}
        for index in there:
            group, number = gang.members[index]
            member = record.member(group, number)
            places[group, number] = MemberPlace(
                node=nodes[index],
                address=self._address_of(nodes[index]),
                ports=(gang_ports[1 + index],) if len(gang_ports) > 1 + index else (),
                devices=tuple(gang.devices.get(index, {}).get("GPU", ())),
                attempt=member.attempt if member is not None else 1,
            )
        placed = PlacedGang(
            job=record.spec,
            places=places,
            later=tuple((m.group, m.index) for m in record.members if m.state == WAITING),
            ports=tuple(gang_ports),
            directory=FILES,
        )
        return {index: self._order(record, gang, placed, index) for index in wanted}

    def _order(self, record: JobRecord, gang: Gang, placed: PlacedGang, index: int) -> StartMember:
        name, number = gang.members[index]
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
