"""The life cycle of a gang's member: its states, its events, and what follows from them.

Only this module changes a member's state or node. Everything else about members is derived: a
`Follower` updates it, or it is computed from the record on request. Examples are the columns of
cycles, the amounts that gangs hold on each node, and the state of a gang's placement group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import (
    ABSENT,
    CANCELLED,
    DONE,
    ENDING,
    EVICTED,
    HELD,
    LEAVING,
    OVER,
    PLACELESS,
    PLACING,
    RECALLED,
    WAITING,
)
from phalanx.model.lifecycle import IllegalTransition

# ---- events of a member --------------------------------------------------------------------------


class Wanted(msgspec.Struct, frozen=True):
    """The member's job wants the member to have a place, for the first time or again."""


class Dismissed(msgspec.Struct, frozen=True):
    """The member's job does not want the member to have a place for now."""


class Placed(msgspec.Struct, frozen=True):
    """A plan has given these members nodes. The attempt with this number asks the nodes for
    places.
    """

    nodes: Mapping[int, str]
    number: int


class Arrived(msgspec.Struct, frozen=True):
    """The member's node has kept the member's bundle since `at`, in seconds since the epoch."""

    at: float


class Refused(msgspec.Struct, frozen=True):
    """The attempt to place the member has failed."""


class Lost(msgspec.Struct, frozen=True):
    """The member's node is dead, or no longer has the member's bundle."""


class Evicted(msgspec.Struct, frozen=True):
    """The member must give up its place and wait for another one."""


class Ended(msgspec.Struct, frozen=True):
    """The member is over, and no longer wanted."""


class Released(msgspec.Struct, frozen=True):
    """The member's node has been asked, under this number, to free the member's bundle."""

    number: int


class Freed(msgspec.Struct, frozen=True):
    """The member's node has freed the bundle or, with `is_lost`, is dead. The member takes nothing
    there any more.
    """

    is_lost: bool = False


class Moved(msgspec.Struct, frozen=True):
    """The next process of the member's node continues with the member. The head treats that process
    as another node.
    """

    node: str


Event = (
    Wanted
    | Dismissed
    | Placed
    | Arrived
    | Refused
    | Lost
    | Evicted
    | Ended
    | Released
    | Freed
    | Moved
)

# ---- follow-ups ----------------------------------------------------------------------------------

NOTHING: Final = ""
BEGINS: Final = "begins"
"""The member now has its place: its starter is notified."""
LOSES: Final = "loses"
"""The member has lost its place: its starter is notified."""
RELEASE: Final = "release"
"""The member's bundle must be given back as soon as no member of its gang is on its way to a
node.
"""

_Row = Mapping[type[Event], tuple[str, str]]

TABLE: Final[Mapping[str, _Row]] = {
    ABSENT: {
        Wanted: (WAITING, NOTHING),
        Ended: (DONE, NOTHING),
    },
    WAITING: {
        Wanted: (WAITING, NOTHING),
        Dismissed: (ABSENT, NOTHING),
        Placed: (PLACING, NOTHING),
        Ended: (DONE, NOTHING),
    },
    PLACING: {
        Wanted: (PLACING, NOTHING),
        Arrived: (HELD, BEGINS),
        Refused: (WAITING, NOTHING),
        Lost: (WAITING, NOTHING),
        Evicted: (RECALLED, NOTHING),
        Ended: (CANCELLED, NOTHING),
    },
    RECALLED: {
        Wanted: (RECALLED, NOTHING),
        Arrived: (EVICTED, RELEASE),
        Refused: (WAITING, NOTHING),
        Lost: (WAITING, NOTHING),
        Ended: (CANCELLED, NOTHING),
    },
    CANCELLED: {
        Wanted: (PLACING, NOTHING),
        Arrived: (OVER, RELEASE),
        Refused: (DONE, NOTHING),
        Lost: (DONE, NOTHING),
        Ended: (CANCELLED, NOTHING),
        # the whole gang was removed while the member was being started
        Released: (ENDING, NOTHING),
    },
    HELD: {
        Wanted: (EVICTED, RELEASE),  # the member starts again elsewhere, once its old place is free
        Lost: (WAITING, LOSES),
        Evicted: (EVICTED, RELEASE),
        Ended: (OVER, RELEASE),
        Moved: (HELD, NOTHING),
    },
    EVICTED: {
        Wanted: (EVICTED, NOTHING),
        Lost: (WAITING, LOSES),
        Ended: (OVER, NOTHING),
        Released: (LEAVING, NOTHING),
        Moved: (EVICTED, NOTHING),
    },
    LEAVING: {
        Wanted: (LEAVING, NOTHING),
        Ended: (ENDING, NOTHING),
        Freed: (WAITING, LOSES),
    },
    OVER: {
        Wanted: (EVICTED, NOTHING),
        Lost: (DONE, NOTHING),
        Ended: (OVER, NOTHING),
        Released: (ENDING, NOTHING),
        Moved: (OVER, NOTHING),
    },
    ENDING: {
        Wanted: (LEAVING, NOTHING),
        Ended: (ENDING, NOTHING),
        Freed: (DONE, NOTHING),
    },
    DONE: {
        Wanted: (WAITING, NOTHING),
        Ended: (DONE, NOTHING),
    },
}
"""The next state and the follow-ups for each state and event. A missing pair is illegal."""

# ---- the machine ---------------------------------------------------------------------------------

KEEP_STEPS = 40
"""The number of moves of a gang's members that are remembered, for error messages."""


class Move(NamedTuple):
    """The members that an event moved, with the states and nodes that they had before the event."""

    event: Event
    indexes: Sequence[int]
    before: Sequence[str]
    nodes: Sequence[str]


class Follower(Protocol):
    """Data that depend on the states of members, and are kept up to date."""

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Update whatever depends on the states of these members, which have just changed."""
        ...


class MemberLifecycle:
    """Moves members from state to state, notifies followers, and remembers the recent steps of each
    gang.
    """

    def __init__(self, *followers: Follower) -> None:
        self._followers = followers
        self._steps: dict[bytes, deque[Move]] = {}

    def handle(self, gang: Gang, indexes: Iterable[int], event: Event) -> dict[str, list[int]]:
        """Apply the event to these members. Returns the members for each kind of follow-up. Raises
        IllegalTransition, with the member's last steps, if the event is illegal for a member.
        """
        kind = type(event)
        moved: list[int] = []
        before: list[str] = []
        nodes: list[str] = []
        following: dict[str, list[int]] = {}
        for index in indexes:
            member = gang.members[index]
            old = member.state
            step = TABLE[old].get(kind)
            if step is None:
                raise IllegalTransition(self._illegal(gang, index, event))
            state, follows = step
            if follows:
                following.setdefault(follows, []).append(index)
            if state == old and kind is not Moved:
                continue
            moved.append(index)
            before.append(old)
            nodes.append(member.node)
            member.state = state
            if isinstance(event, Placed):
                member.node, member.number = event.nodes[index], event.number
                member.why_gone = member.node_death = ""
            elif isinstance(event, Arrived):
                member.last_node, member.started = member.node, event.at
            elif isinstance(event, Moved):
                member.node = member.last_node = event.node
            elif isinstance(event, Released):
                member.number = event.number
            elif state in PLACELESS:
                member.node, member.started = "", None
        if moved:
            move = Move(event, moved, before, nodes)
            self._remember(gang, move)
            for follower in self._followers:
                follower.members_moved(gang, move)
        return following

    def forget(self, gang: Gang) -> None:
        """Forget the moves of a gang that is over."""
        self._steps.pop(gang.gang_id, None)

    # ---- the story ---------------------------------------------------------------------------

    def _remember(self, gang: Gang, move: Move) -> None:
        steps = self._steps.get(gang.gang_id)
        if steps is None:
            steps = self._steps[gang.gang_id] = deque(maxlen=KEEP_STEPS)
        steps.append(move)

    def story(self, gang: Gang, index: int) -> str:
        """Return the last steps of a member, oldest first."""
        steps = [
            f"{move.before[move.indexes.index(index)]} {_said(move.event, index)}"
            for move in self._steps.get(gang.gang_id, ())
            if index in move.indexes
        ]
        return " -> ".join([*steps, gang.members[index].state])

    def _illegal(self, gang: Gang, index: int, event: Event) -> str:
        member = gang.members[index]
        where = f" on {member.node}" if member.node else ""
        return (
            f"member {index} of gang {gang.uid} is {member.state}{where}: "
            f"{_said(event, index)} cannot happen to it. Its story: {self.story(gang, index)}"
        )


def _said(event: Event, index: int) -> str:
    name = type(event).__name__
    if isinstance(event, Placed):
        return f"({name} on {event.nodes.get(index, '?')}, {event.number})"
    return f"({name}, {event.number})" if isinstance(event, Released) else f"({name})"
