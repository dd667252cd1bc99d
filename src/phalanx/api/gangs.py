"""Gangs: members that start together or not at all, as tasks or as actors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from phalanx.api.session import engine_or_start
from phalanx.model.ids import GangId
from phalanx.model.jobs.spec import MAX_REPLICAS
from phalanx.model.options import required_resources
from phalanx.model.rows.row import cells_html, text_html
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, ListGangs
from phalanx.runtime.engine.definitions import ActorDefinition, FunctionDefinition
from phalanx.runtime.engine.interface import Engine

T = TypeVar("T")

DEFAULT_QUEUE = "default"
DEFAULT_GRACE_S = 5.0
SHOWN_OF_ID = 12
"""The number of digits of a node's id that a notebook displays."""


class GangOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The size and placement of a gang. Raises ValueError or TypeError for a value that is not
    allowed."""

    members: int
    min_members: int | None = None
    queue: str | None = None
    priority: int | None = None
    topology: str | None = None
    ports: int = 1
    grace_s: float = DEFAULT_GRACE_S

    def __post_init__(self) -> None:
        _whole("a gang's size", self.members, 1)
        if self.members > MAX_REPLICAS:
            raise ValueError(f"a gang's size is at most {MAX_REPLICAS}, not {self.members}.")
        if self.min_members is not None:
            _whole("min_members", self.min_members, 1)
            if self.min_members > self.members:
                raise ValueError(
                    f"min_members={self.min_members} is more than the gang's {self.members}."
                )
        _whole("ports", self.ports, 1)
        if isinstance(self.grace_s, bool) or not isinstance(self.grace_s, int | float):
            raise TypeError(f"grace_s is a number of seconds, not {self.grace_s!r}.")
        if not 0 <= self.grace_s < float("inf"):
            raise ValueError(f"grace_s is 0 seconds or more, not {self.grace_s}.")

    @property
    def least(self) -> int:
        """The number of members that must be placed before any starts."""
        return self.members if self.min_members is None else self.min_members


class Gang(list[T], Generic[T]):
    """A gang's references, or the handles of its actors, in the order of the members' ranks.

    Example:
        gang = train.gang(4).remote()
        if not gang.wait_started(timeout_s=60):
            print(phalanx.explain(gang))
            gang.cancel()
    """

    def __init__(self, members: Iterable[T], name: str, group: GangId) -> None:
        super().__init__(members)
        self.name = name
        """The gang's name in listings."""
        self.group = group

    def wait_started(self, timeout_s: float | None = None) -> bool:
        """Wait until the gang is placed. Returns False after `timeout_s` seconds, or when the gang
        ends before it is placed.
        """
        from phalanx.errors import GetTimeoutError

        try:
            return engine_or_start().group_created(self.group).result(timeout_s)
        except GetTimeoutError:
            return False

    def cancel(self) -> None:
        """End the gang: waiting members never start, and running members are ended."""
        engine_or_start().ask(EndMembers(self.group, list(range(len(self)))))

    def __repr__(self) -> str:
        return f"Gang({self.name}, {super().__repr__()})"

    def _repr_html_(self) -> str:
        """Return a table of the gang's members with their states and places, or one line if the
        gang has ended.
        """
        own = [row for row in engine_or_start().ask(ListGangs()) if row.group == self.group.hex()]
        if not own:
            return text_html(f"gang {self.name} of {len(self)} members: it has ended")
        row = own[0]
        cells = [
            [rank, state, node[:SHOWN_OF_ID], _numbers(devices)]
            for rank, (state, node, devices) in enumerate(
                zip(row.members, row.nodes, row.devices, strict=True)
            )
        ]
        return text_html(
            f"gang {self.name} of queue {row.queue}: {row.phase}, {row.min_members} of "
            f"{len(self)} members start together"
        ) + cells_html(("rank", "state", "node", "devices"), cells)


def _numbers(devices: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{kind} {','.join(map(str, held))}" for kind, held in devices.items())


class GangedFunction:
    """A remote function whose calls start gangs of tasks, one gang for each call."""

    def __init__(
        self, definition: FunctionDefinition, options: Mapping[str, Any], gang: GangOptions
    ) -> None:
        _check_options(options)
        returns = options.get("num_returns")
        if returns is not None and (not isinstance(returns, int) or returns < 1):
            raise ValueError(
                f"num_returns of a gang must be a whole number of at least 1, got {returns!r}."
            )
        self._definition = definition
        self._options = dict(options)
        self._gang = gang

    def remote(self, *args: Any, **kwargs: Any) -> Gang[Any]:
        """Start the gang, whose members all get the same arguments. Returns one reference for each
        member.

        Raises QueueUnavailableError when the queue takes no work, and GangInfeasibleError when the
        cluster could never hold the gang.
        """
        engine = engine_or_start()
        definition, gang = self._definition, self._gang
        definition.arity.check(definition.name, args, kwargs)
        called = self._options.get("name") or definition.function.__name__
        name, group = _create(engine, called, gang, self._options)
        with _taken_back(engine, group, gang.members):
            refs = engine.start_gang(
                definition, self._options, group, gang.members, gang.least, args, kwargs
            )
        return Gang(refs, name, group)


class GangedActorClass:
    """An actor class whose actors are started as a gang."""

    def __init__(
        self, definition: ActorDefinition, options: Mapping[str, Any], gang: GangOptions
    ) -> None:
        _check_options(options)
        if options.get("name") or options.get("lifetime") == "detached":
            raise ValueError(
                "The actors of a gang cannot have names or be detached: they end with their driver."
            )
        self._definition = definition
        self._options = dict(options)
        self._gang = gang

    def remote(self, *args: Any, **kwargs: Any) -> Gang[Any]:
        """Start the actors, all with the same arguments. Returns their handles in the order of
        ranks.

        Raises QueueUnavailableError when the queue takes no work, and GangInfeasibleError when the
        cluster could never hold the gang.
        """
        engine = engine_or_start()
        definition, members = self._definition, self._gang.members
        definition.check_arguments(args, kwargs)
        name, group = _create(engine, definition.name, self._gang, self._options)
        with _taken_back(engine, group, members):
            handles = engine.gang_actors(definition, self._options, group, members, args, kwargs)
        return Gang(handles, name, group)


@contextlib.contextmanager
def _taken_back(engine: Engine, group: GangId, members: int) -> Iterator[None]:
    """Run a block that makes the gang's members. If the block fails, release the gang's places."""
    try:
        yield
    except BaseException:
        engine.ask(EndMembers(group, list(range(members))))
        raise


def _create(
    engine: Engine, name: str, gang: GangOptions, options: Mapping[str, Any]
) -> tuple[str, GangId]:
    needs = required_resources(options, default_cpus=1)
    if not needs:
        raise ValueError(
            "A gang's members must request something: give num_cpus above 0, or resources."
        )
    group = engine.new_gang()
    chosen = (gang.priority, options.get("priority"), engine.priority)
    request = CreateGang(
        group=group,
        name=name,
        queue=gang.queue or options.get("queue") or engine.queue or DEFAULT_QUEUE,
        priority=next(one for one in chosen if one is not None),
        needs=[needs] * gang.members,
        min_members=gang.least,
        topology=gang.topology or "",
        ports=gang.ports,
        grace_s=float(gang.grace_s),
    )
    return engine.ask(request), group


def _check_options(options: Mapping[str, Any]) -> None:
    for key in ("scheduling_strategy", "placement_group", "label_selector", "max_calls"):
        if options.get(key) is not None and options[key] != "default":
            raise ValueError(f"{key} is not allowed for a gang: its queue decides where it runs.")


def _whole(what: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a whole number, not {value!r}.")
    if value < least:
        raise ValueError(f"{what} is at least {least}, not {value}.")
