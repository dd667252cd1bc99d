"""Makes the orders that start members, from a job and the places of its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.member_states import ENDED, HELD
from phalanx.head.grants import Grants, NoGrants
from phalanx.head.jobs.environment import member_setup, process_argv, process_environment
from phalanx.head.jobs.environments import cleaning, description, inside, keys_of, preparation
from phalanx.head.jobs.places import MemberPlace, MemberSetup, PlacedGang
from phalanx.manifests.jobs import HOST_FILES
from phalanx.model.accelerators import VISIBLE
from phalanx.model.environments import DESCRIPTION
from phalanx.model.ids import node_prefix
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec, Process
from phalanx.model.jobs.states import WAITING
from phalanx.protocol.bundle_messages import (
    FILES,
    SECRET_FILE,
    Command,
    ExtendRun,
    Grant,
    RunTask,
    StartMember,
    Streams,
)

_WRAP = 1 << 24


class Starter:
    """Makes orders for nodes. `address_of` returns a node's address by its id."""

    def __init__(self, address_of: Callable[[str], str]) -> None:
        self._address_of = address_of
        self.grants: Grants = NoGrants()
        self.name_of: Callable[[str], str] = lambda node: node
        """Returns a node's name by its id."""

    def orders(
        self, record: JobRecord, gang: Gang, wanted: list[int], ends: float | None
    ) -> dict[int, StartMember]:
        """Return the orders to start these members, by member.

        No other member gets the rank of an ended member. `ends`: when the gang's time is up, in
        seconds since the epoch.
        """
        places = {}
        for index, place in enumerate(gang.members):
            node = place.node or place.last_node
            if not node or (place.state != HELD and place.state not in ENDED):
                continue
            member = record.member(place.of_group, place.index)
            attempt = member.attempt if member is not None else 1
            places[place.of_group, place.index] = self._place(gang, index, node, attempt)
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

    def _place(self, gang: Gang, index: int, node: str, attempt: int) -> MemberPlace:
        place = gang.members[index]
        return MemberPlace(
            node=node,
            address=self._address_of(node),
            ports=(gang.ports[1 + index],) if len(gang.ports) > 1 + index else (),
            devices=tuple(place.devices.get("GPU", ())),
            others={
                kind: tuple(numbers)
                for kind, numbers in place.devices.items()
                if kind != "GPU" and kind in VISIBLE
            },
            attempt=attempt,
        )

    def run(self, gang: Gang, first: int, tasks: Sequence[JobSpec]) -> ExtendRun:
        """Return the order to run these array tasks one after another in a place. Each task runs
        for the first time.
        """
        member = gang.members[0]
        place = self._place(gang, 0, member.node, 1)
        like = _run_order(gang, member, place, tasks[0])
        base = like.commands[0].variables
        run = []
        for spec in tasks:
            command = _run_order(gang, member, place, spec).commands[0]
            own = {k: v for k, v in command.variables.items() if base.get(k) != v}
            run.append(RunTask(spec.uid, command.argv, own))
        like.attempt, like.start = first, 1
        like.grant = self._grant(tasks[0], first, place)
        # The end of the place's last attempt is not known: the attempt may fail before this order
        # arrives.
        return ExtendRun(first, run, like, member.attempt - 1)

    def _grant(self, spec: JobSpec, attempt: int, place: MemberPlace) -> Grant | None:
        name = self.name_of(place.node)
        return self.grants.grant(spec.user, spec.uid, attempt, name, place.devices)

    def secret(self, record: JobRecord, gang: Gang) -> str:
        """Return the secret that only the members of a job have; "" where they have none."""
        return self.grants.secret(record.spec.user, record.uid, gang.gang_id)

    def step(
        self, record: JobRecord, gang: Gang, index: int, ends: float | None, wanted: WantedStep
    ) -> Command:
        """Return the command for one more program of a running member. Unless `wanted` says
        otherwise, the program has the directory and the variables of the member's first program.
        """
        order = self.orders(record, gang, [index], ends)[index]
        first = order.commands[0]
        env = {**first.variables, **wanted.variables}
        # the variable's file reports why the member failed, not why a step failed
        env.pop("TORCHELASTIC_ERROR_FILE", None)
        directory = wanted.directory or first.directory
        umask = first.umask if wanted.umask < 0 else wanted.umask
        group = record.spec.group(gang.members[index].of_group)
        assert group is not None
        first_process = group.template.processes[0] if group.template.processes else Process()
        argv = inside(record.spec, first_process, wanted.argv, env)
        return Command(argv, env, directory, first.memory_limit, wanted.streams, umask)

    def _order(self, record: JobRecord, gang: Gang, placed: PlacedGang, index: int) -> StartMember:
        name, number = gang.members[index].of_group, gang.members[index].index
        group, member = record.spec.group(name), record.member(name, number)
        assert group is not None
        assert member is not None
        setup = member_setup(placed, name, number)
        template, warning = group.template, record.spec.timing.signal
        umask, files = record.spec.umask, dict(setup.files)
        prepare: Command | None = None
        if record.spec.is_prepared_first:
            files[DESCRIPTION] = description(record.spec)
            first = template.processes[0] if template.processes else Process()
            prepare = preparation(record.spec, template, process_environment(setup, first), umask)
        if secret := self.secret(record, gang):
            files[SECRET_FILE] = secret
        return StartMember(
            group=gang.gang_id,
            index=index,
            attempt=member.attempt,
            job=record.uid,
            name=member.name,
            before=[
                _command(setup, process, umask=umask, job=record.spec)
                for process in template.before
            ],
            commands=[
                _command(
                    setup,
                    process,
                    number,
                    streams_of(gang, index, member.attempt) if process.streams else b"",
                    umask,
                    record.spec,
                )
                for number, process in enumerate(template.processes)
            ],
            files=files,
            grace_s=template.grace_s,
            time_limit_s=template.time_limit_s or 0.0,
            signal=0 if warning is None else warning.number,
            only_shell=warning is not None and warning.only_shell,
            is_followed=record.spec.is_followed,
            grant=self._grant(record.spec, member.attempt, placed.places[name, number]),
            prepare=prepare,
            environment=keys_of(record.spec, template),
            is_alone=record.spec.replicas == 1,
            packages=list(record.spec.packages),
            after=cleaning(record.spec, template),
        )


def _run_order(gang: Gang, member: Member, place: MemberPlace, spec: JobSpec) -> StartMember:
    """Return the order for one array task of a run. The order equals the order for a task that has
    a job of its own.
    """
    name, index = member.of_group, member.index
    placed = PlacedGang(
        job=spec,
        places={(name, index): place},
        ports=tuple(gang.ports),
        directory=FILES,
        restarts=0,
    )
    setup, template = member_setup(placed, name, index), spec.groups[0].template
    warning = spec.timing.signal
    return StartMember(
        group=gang.gang_id,
        index=0,
        attempt=1,
        job=spec.uid,
        name=f"{name}-{index}",
        before=[],
        commands=[_command(setup, template.processes[0], umask=spec.umask)],
        files=dict(setup.files),
        grace_s=template.grace_s,
        signal=0 if warning is None else warning.number,
        only_shell=warning is not None and warning.only_shell,
    )


class WantedStep(msgspec.Struct, frozen=True):
    """A requested additional program of a member, with its own variables."""

    argv: list[str]
    variables: dict[str, str]
    directory: str
    streams: Streams
    umask: int = -1
    """The umask of the program; -1 for the umask of the member's first program."""


def streams_of(gang: Gang, index: int, attempt: int) -> bytes:
    """Return the id of the process that handles the streams of a member's first program. The id
    follows from the member and the attempt, and begins with the id of the node.
    """
    number = (index % _WRAP).to_bytes(3, "big") + (attempt % _WRAP).to_bytes(3, "big")
    return node_prefix(gang.members[index].node) + gang.gang_id[:4] + number


def _command(
    setup: MemberSetup,
    process: Process,
    number: int = 1,
    stands: bytes = b"",
    umask: int = -1,
    job: JobSpec | None = None,
) -> Command:
    """Return the command of one process. `stands`: the process that handles the streams of the
    member's first program, if any.
    """
    env = process_environment(setup, process)
    argv = list(process_argv(setup, process, env)) or ["true"]
    if setup.files:
        argv = [word.replace(HOST_FILES, FILES) for word in argv]
        env = {name: value.replace(HOST_FILES, FILES) for name, value in env.items()}
    argv = argv if job is None else inside(job, process, argv, env)
    limit = int(dict(process.limits).get("memory", 0))
    has_streams = bool(process.streams) and number == 0 and bool(stands)
    streams = Streams(stands, process.streams == "terminal") if has_streams else None
    return Command(argv, env, process.working_dir, limit, streams, umask)
