"""Reserves and frees the places of gangs. Reserving has two phases: a gang gets all places that a
plan gives it, or none.

While members are being placed, they may be refused, lost, evicted or ended. The whole gang may be
called off, or a new head may restore the members. Each of these is a transition of
`member_lifecycle`.

Bundles are given back only while no attempt for their gang is in progress. A node that gets a
request of an attempt ends the bundles of all earlier attempts of the gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_lifecycle import (
    BEGINS,
    LOSES,
    Arrived,
    Dismissed,
    Ended,
    Event,
    Evicted,
    Freed,
    Lost,
    MemberLifecycle,
    Moved,
    Placed,
    Refused,
    Released,
)
from phalanx.head.gangs.member_states import (
    ABSENT,
    CANCELLED,
    ENDED,
    EVICTED,
    GIVING_BACK,
    HAVING,
    HELD,
    LEAVING,
    ON_THE_WAY,
    OVER,
    PLACING,
)
from phalanx.head.groups.give_backs import AT_ONCE, Ending, GiveBacks
from phalanx.head.groups.two_phase_commit import Attempt, Attempts
from phalanx.model.ids import AttemptId, BundleId, GroupId
from phalanx.model.node_deaths import KILLED, ORDERLY
from phalanx.protocol.bundle_messages import BundleInventory

FIRST_BACKOFF_S, BACKOFF_FACTOR, LONGEST_BACKOFF_S = 0.02, 2.0, 1.0


class ReservationEffects(Protocol):
    """The binder's requests to nodes. The answer to a request may arrive before the method
    returns.
    """

    def prepare(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """Ask the node to set these members' bundles aside, all or none. The answer goes to
        `Attempts.prepared`.
        """
        ...

    def commit(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """Ask the node to keep the bundles that it has set aside. The answer goes to
        `Attempts.committed`.
        """
        ...

    def give_back(
        self, node_id: str, group: GroupId, number: int, indexes: list[int], ending: Ending
    ) -> None:
        """Ask the node to end these bundles. `GangBinder.returned` is called when they are free."""
        ...

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        ...

    def changed(self, gang: Gang) -> None:
        """Tell readers of the gang's bundles that its members' places have changed, or that the
        gang was removed.
        """
        ...


class Listener(Protocol):
    """The binder's reports about the members of gangs."""

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """Note that these members now have their places."""
        ...

    def lost(self, gang: Gang, members: list[int]) -> None:
        """Note that these members have lost their places. They wait again."""
        ...

    def rests(self, gang: Gang) -> None:
        """Note that the gang rests from now on: cycles must skip it until its `rests_until`."""
        ...

    def over(self, gang: Gang) -> None:
        """Note that the gang is over: all its members have ended, and all its resources are
        free.
        """
        ...


class GangBinder:
    """Takes the members of gangs through the steps of getting and losing their places."""

    def __init__(
        self,
        registry: GangRegistry,
        lifecycle: MemberLifecycle,
        effects: ReservationEffects,
        listener: Listener,
        clock: Clock,
        has_minimum: Callable[[Gang], bool],
        host_of: Callable[[str], str],
    ) -> None:
        """`host_of`: returns the display name of a node by its id."""
        self._registry = registry
        self._lifecycle = lifecycle
        self._effects = effects
        self._listener = listener
        self._clock = clock
        self._has_minimum = has_minimum
        self._host_of = host_of
        self.give_backs = GiveBacks(effects.give_back)
        self.attempts = Attempts(self, self.give_backs)

    # ---- decisions about members -------------------------------------------------------------

    def add(self, gang: Gang) -> None:
        """Add a new gang, which waits for its places."""
        self._registry.add(gang)
        self._effects.changed(gang)

    def place(self, gang: Gang, choice: Mapping[int, str]) -> bool:
        """Ask nodes to keep the bundles of these members, all or none. Returns False, and leaves
        these members waiting, if the gang was removed or other members of it are on their way.
        """
        if gang.is_removed or self.attempts.get(gang.gang_id) is not None:
            return False
        gang.number += 1
        self._lifecycle.handle(gang, choice, Placed(choice, gang.number))
        bundles: dict[str, list[int]] = {}
        for index, node in choice.items():
            bundles.setdefault(node, []).append(index)
        attempt = Attempt(group=gang.gang_id, number=gang.number, bundles=bundles)
        self.attempts.begin(attempt, self._clock.now())
        return True

    def handle(self, gang: Gang, indexes: Iterable[int], event: Event) -> None:
        """Apply an event to these members, and carry out what follows."""
        following = self._lifecycle.handle(gang, indexes, event)
        self._follow(gang, following)

    def dismiss(self, gang: Gang, indexes: Iterable[int]) -> None:
        """Make these members stop waiting for a place, for now.

        This method does not check whether the gang is over, because the members' job may want them
        again immediately. The caller checks that later.
        """
        self._lifecycle.handle(gang, indexes, Dismissed())
        self._registry.keep(gang)

    def end(self, gang: Gang, indexes: Iterable[int]) -> None:
        """End these members and give their places back. When the last member ends, the gang
        ends.
        """
        self.handle(gang, indexes, Ended())

    def refused_by_node(self, gang: Gang, index: int, why: str) -> None:
        """Evict a member that has its place but cannot start there because of the node. The member
        waits for another place, as after the death of its node.
        """
        _note(gang, [index], why)
        self.handle(gang, [index], Evicted())

    def remove(self, gang: Gang) -> None:
        """End the whole gang now, including members that are on their way."""
        if gang.is_removed:
            return
        self._lifecycle.handle(gang, range(len(gang.members)), Ended())
        self.attempts.call_off(gang.gang_id)
        gang.is_removed, gang.is_prepared = True, False
        self._give_back(gang, gang.among(CANCELLED, OVER), AT_ONCE)
        self._forget_if_free(gang)

    def rest(self, gang: Gang) -> None:
        """Make cycles skip the gang for a while, because a node that seemed to have room had
        none.
        """
        gang.backoff_s = min(gang.backoff_s * BACKOFF_FACTOR, LONGEST_BACKOFF_S) or FIRST_BACKOFF_S
        gang.rests_until = self._clock.now() + gang.backoff_s
        self._listener.rests(gang)

    # ---- consequences ------------------------------------------------------------------------

    def _follow(self, gang: Gang, following: Mapping[str, list[int]]) -> None:
        """Carry out the consequences of a transition. The gang may change further meanwhile,
        because listeners are called.
        """
        if LOSES in following:
            self._listener.lost(gang, following[LOSES])
        begun = [i for i in following.get(BEGINS, ()) if gang.members[i].state == HELD]
        if begun:
            self._listener.arrived(gang, begun)
        if gang.is_removed:
            self._forget_if_free(gang)
            return
        if all(m.state in ENDED or m.state == ABSENT for m in gang.members):
            self.remove(gang)
            return
        if LOSES in following:
            self._recall_rest(gang)
        self._registry.keep(gang)
        self._release_due(gang)
        self._effects.changed(gang)

    def _recall_rest(self, gang: Gang) -> None:
        """Evict the remaining members of a gang that has lost too many to continue."""
        here = sum(m.state in (HELD, PLACING) or m.state in ENDED for m in gang.members)
        if here < gang.min_members:
            self._lifecycle.handle(gang, gang.among(HELD, PLACING), Evicted())

    def _release_due(self, gang: Gang) -> None:
        """Ask nodes to free the places of evicted and ended members, once no attempt is in
        progress.
        """
        if self.attempts.get(gang.gang_id) is None:
            warned = Ending(warn=True, grace_s=gang.grace_s)
            for state, ending in ((EVICTED, warned), (OVER, AT_ONCE)):
                members = gang.among(state)
                if members:
                    self._give_back(gang, members, ending)

    def _give_back(self, gang: Gang, indexes: list[int], ending: Ending) -> None:
        gang.number += 1  # this answers an earlier request
        number = gang.number
        self._lifecycle.handle(gang, indexes, Released(number))
        self._registry.keep(gang)
        self._effects.changed(gang)
        if indexes:
            bundles = _by_node(gang, indexes)
            self.give_backs.ask_all(bundles, gang.gang_id, number, self._clock.now(), ending)

    def _forget_if_free(self, gang: Gang) -> None:
        """Forget a removed gang once all its resources are free."""
        if gang.gang_id in self.give_backs or gang.gang_id not in self._registry.gangs:
            return
        self._registry.remove(gang)
        self._lifecycle.forget(gang)
        self._listener.over(gang)

    # ---- attempts ----------------------------------------------------------------------------

    def prepare(self, attempt: Attempt, node_id: str) -> None:
        """Ask the node to set aside its bundles of this attempt."""
        gang = self._registry.gangs[attempt.group]
        self._effects.prepare(gang, attempt.number, node_id, attempt.bundles[node_id])

    def commit(self, attempt: Attempt, node_id: str) -> None:
        """Ask the node to keep its bundles of this attempt."""
        gang = self._registry.gangs[attempt.group]
        self._effects.commit(gang, attempt.number, node_id, attempt.bundles[node_id])

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        self._effects.when_written(action)

    def on_prepared(self, attempt: Attempt, now: float) -> None:
        """Store that all nodes have set the gang's bundles aside."""
        gang = self._registry.gangs[attempt.group]
        gang.is_prepared = True
        self._registry.keep(gang)
        self._effects.changed(gang)

    def may_begin(self, attempt: Attempt) -> bool:
        """Whether the gang still has its minimum. Members may have been lost since the nodes were
        asked, or may be ending so that their job can restart them.
        """
        return self._has_minimum(self._registry.gangs[attempt.group])

    def on_refused(self, attempt: Attempt, now: float) -> None:
        """Make the members on their way wait again, after the attempt failed."""
        gang = self._registry.gangs[attempt.group]
        gang.is_prepared = False
        self._lifecycle.handle(gang, gang.within(ON_THE_WAY), Refused())
        self._recall_rest(gang)
        self.rest(gang)
        self._follow(gang, {})

    def on_settled(self, attempt: Attempt, now: float) -> None:
        """Start the members of the attempt whose nodes have committed their bundles. The other
        members of the attempt lose their places.

        A member whose node has died since it was placed is no longer on its way. Nothing is done
        for it here. If the gang is then below its minimum, no member starts.
        """
        gang = self._registry.gangs[attempt.group]
        gang.is_prepared = False
        on_way, kept = set(gang.within(ON_THE_WAY)), attempt.kept
        following = self._lifecycle.handle(gang, sorted(on_way - kept.keys()), Lost())
        # before the other members start, because none may start if too few have bundles
        self._recall_rest(gang)
        if not self._has_minimum(gang):  # only a job's record has the job's minimum
            self._lifecycle.handle(gang, gang.among(PLACING), Evicted())
        arrived = [index for index in kept if index in on_way]
        if any(gang.members[index].state == PLACING for index in arrived):
            gang.started = self._clock.wall()
            gang.is_stranded = gang.is_promised = False
            gang.backoff_s = 0.0
        following |= self._lifecycle.handle(gang, arrived, Arrived(self._clock.wall()))
        self._follow(gang, following)

    # ---- news of nodes -----------------------------------------------------------------------

    def returned(self, node_id: str, group: GroupId, number: int) -> None:
        """Note that a node has freed the bundles that it was asked to free under this number."""
        indexes = self.give_backs.awaited(node_id, group, number)
        self.give_backs.done(node_id, group, number)
        gang = self._registry.gangs.get(group)
        if gang is not None and indexes:
            freed = [i for i in indexes if _frees(gang, i, node_id, number)]
            self.handle(gang, freed, Freed())

    def node_gone(self, node_id: str, now: float, death: str = ORDERLY) -> None:
        """Free everything that members had on a dead node. `death`: how the node ended."""
        asked = self._lose_node(node_id, death)
        self.attempts.node_gone(node_id, now)
        # The lines above may have ordered the node to free more bundles, but a dead node does not
        # answer.
        asked += self._lose_node(node_id, death)
        for gang in [self._registry.gangs[g] for g in asked if g in self._registry.gangs]:
            self._follow(gang, {})

    def _lose_node(self, node_id: str, death: str) -> list[GroupId]:
        """Free everything that members of gangs had on the node. Returns the gangs for which the
        node had already been asked to free bundles.
        """
        asked = list(self.give_backs.node_gone(node_id))
        for gang in list(self._registry.active.values()):
            there = [i for i, member in enumerate(gang.members) if member.node == node_id]
            if there:
                how = (
                    ", because one of its own processes was killed there" if death == KILLED else ""
                )
                _note(gang, there, f"its node {self._host_of(node_id)} died{how}")
                for index in there:
                    gang.members[index].node_death = death
                self._follow(gang, self._lose(gang, there))
        return asked

    def _lose(self, gang: Gang, indexes: Iterable[int]) -> dict[str, list[int]]:
        """Free everything that members have on a dead node. Members of an attempt that is not
        prepared are left out here, because `Attempts` refuses the whole attempt.
        """
        following: dict[str, list[int]] = {}
        states = HAVING | ON_THE_WAY if gang.is_prepared else HAVING
        for among, event in ((states, Lost()), (GIVING_BACK, Freed(is_lost=True))):
            gone = [index for index in indexes if gang.members[index].state in among]
            for kind, members in self._lifecycle.handle(gang, gone, event).items():
                following.setdefault(kind, []).extend(members)
        return following

    def inventory(
        self, node_id: str, there: BundleInventory, now: float
    ) -> list[tuple[GroupId, int, int, bool]]:
        """Compare the bundles of a node that joined with the gangs.

        The node gives back bundles that their gang does not expect. Members whose bundles are
        missing lose their places. Returns the bundles that belong to no gang.
        """
        others: list[tuple[GroupId, int, int, bool]] = []
        kept: set[BundleId] = set()
        unknown: dict[AttemptId, list[int]] = {}
        for group, number in there.ended.items():
            if group in self._registry.gangs:
                gang = self._registry.gangs[group]
                gang.number = max(gang.number, number)
        for held in there.held:
            group, index, number, is_committed = held
            known = self._registry.gangs.get(group)
            if known is None:
                others.append(held)
                continue
            known.number = max(known.number, number)
            if self._keeps(known, index, node_id, number, is_committed):
                kept.add((group, index))
            elif not self.give_backs.is_asked(node_id, group, number, index):
                unknown.setdefault((group, number), []).append(index)
        for (group, number), indexes in unknown.items():
            self.give_backs.ask(node_id, group, number, indexes, now)
        for gang in list(self._registry.active.values()):
            lost = [
                index
                for index, member in enumerate(gang.members)
                if member.node == node_id
                and member.state in HAVING
                and (gang.gang_id, index) not in kept
            ]
            if lost:
                _note(gang, lost, f"its node {self._host_of(node_id)} came back without it")
                self.handle(gang, lost, Lost())
        return others

    def succeeded(self, former: str, node_id: str, there: BundleInventory) -> None:
        """If `there` has the bundles of members of the node `former`, move these members to
        `node_id`, the next process of the same node. The caller then declares `former` dead, and
        the members that stayed with it lose their places. `inventory` gives back the bundles that
        no member expects.
        """
        going_on: dict[GroupId, list[int]] = {}
        for group, index, number, is_committed in there.held:
            gang = self._registry.gangs.get(group)
            if gang is not None and goes_on(gang, index, former, number, is_committed):
                going_on.setdefault(group, []).append(index)
        for group, indexes in going_on.items():
            gang = self._registry.gangs[group]
            self._lifecycle.handle(gang, indexes, Moved(node_id))
            self._registry.keep(gang)
            self._effects.changed(gang)

    def _keeps(self, gang: Gang, index: int, node_id: str, number: int, is_committed: bool) -> bool:
        """Whether the node should keep this bundle, which was reserved by attempt `number`.
        `is_committed`: whether the node has committed the bundle, and not only prepared it.
        """
        if gang.is_removed or index >= len(gang.members):
            return False
        attempt = self.attempts.get(gang.gang_id)
        if attempt is not None and attempt.number == number:
            return index in attempt.bundles.get(node_id, ())
        member = gang.members[index]
        return member.node == node_id and member.state in HAVING and is_committed

    def creator_gone(self, process: bytes) -> None:
        """Remove the gangs that a process created, when the process has ended."""
        for gang in list(self._registry.gangs.values()):
            if gang.creator == process:
                self.remove(gang)

    def tick(self, now: float) -> None:
        """Repeat the requests that were not answered."""
        self.attempts.tick(now)
        self.give_backs.tick(now)

    # ---- a restarted head --------------------------------------------------------------------

    def restore(self, gang: Gang, is_alive: Callable[[str], bool]) -> None:
        """Restore a gang that an earlier head knew.

        Listeners are not notified of places that were lost while no head ran. Instead, callers
        check all gangs after the restoration.
        """
        gang.rests_until = gang.backoff_s = 0.0
        self._registry.know(gang)
        is_moving = gang.holds or gang.is_prepared or gang.is_removed
        if gang.waits and not is_moving:  # nothing has changed for this member
            self._effects.changed(gang)
            return
        on_way = gang.within(ON_THE_WAY)
        now = self._clock.now()
        if gang.is_prepared and on_way:
            attempt = Attempt(
                group=gang.gang_id,
                number=gang.members[on_way[0]].number,
                bundles=_by_node(gang, on_way),
            )
            attempt.lost = {node for node in attempt.bundles if not is_alive(node)}
            self.attempts.resume(attempt, now)
        else:
            gang.is_prepared = False
            self._lifecycle.handle(gang, on_way, Refused())
        nodes = dict.fromkeys(member.node for member in gang.members if member.node)
        dead = {node for node in nodes if not is_alive(node)}
        lost = [i for i, member in enumerate(gang.members) if member.node in dead]
        _note(gang, lost, "its node died while the head was away")
        self._lose(gang, lost)
        self._recall_rest(gang)
        self._ask_again(gang, now)
        if gang.is_removed:
            self._forget_if_free(gang)
        else:
            self._follow(gang, {})

    def _ask_again(self, gang: Gang, now: float) -> None:
        """Repeat the requests to nodes to free bundles, because this head does not know whether
        they were answered.
        """
        asked: dict[tuple[str, int, Ending], list[int]] = {}
        for index in gang.within(GIVING_BACK):
            member = gang.members[index]
            is_warned = member.state == LEAVING
            ending = Ending(warn=True, grace_s=gang.grace_s) if is_warned else AT_ONCE
            asked.setdefault((member.node, member.number, ending), []).append(index)
        for (node, number, ending), indexes in asked.items():
            self.give_backs.ask(node, gang.gang_id, number, indexes, now, ending)


def _by_node(gang: Gang, indexes: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index in indexes:
        found.setdefault(gang.members[index].node, []).append(index)
    return found


def goes_on(gang: Gang, index: int, former: str, number: int, is_committed: bool) -> bool:
    """Whether a member continues in its bundle at the next process of its node.

    `number`: the attempt that reserved the bundle. A member that has got another place since then
    does not continue there. A member that is giving its place back gives it back at the next
    process. A bundle that its node has not committed (`is_committed`) is never continued.
    """
    if gang.is_removed or not is_committed or index >= len(gang.members):
        return False
    member = gang.members[index]
    return member.node == former and member.state in HAVING and member.number == number


def _frees(gang: Gang, index: int, node_id: str, number: int) -> bool:
    """Whether the node's answer is about the place that the member is giving back."""
    member = gang.members[index]
    is_it = member.node == node_id and member.number == number
    return is_it and member.state in GIVING_BACK


def _note(gang: Gang, indexes: Iterable[int], why: str) -> None:
    """Record why these members lose their places. A reason that is already recorded stays."""
    for index in indexes:
        gang.members[index].why_gone = gang.members[index].why_gone or why
