"""Doing what a cycle decided: gangs get their places, all of them or none, or lose them.

All goes through the table of placement groups, whose news come back here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from phalanx.batch.plan import Plan
from phalanx.head.gangs.gang import (
    ABSENT,
    DONE,
    ENDING,
    HELD,
    HOLDING,
    LEAVING,
    PLACING,
    WAITING,
    Gang,
)
from phalanx.head.gangs.gang_events import Recorder
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.rendezvous import Rendezvous
from phalanx.head.groups.give_backs import AT_ONCE, Ending
from phalanx.head.groups.record import Group
from phalanx.model.jobs import states as st
from phalanx.model.lifecycle import CREATED, REMOVED
from phalanx.protocol.cluster_messages import Prepared
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane

FIRST_BACKOFF_S, BACKOFF_FACTOR, LONGEST_BACKOFF_S = 0.02, 2.0, 1.0


class Listener(Protocol):
    """Who is told what became of the members of gangs."""

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """They have their places."""
        ...

    def lost(self, gang: Gang, members: list[int]) -> None:
        """They have their places no longer, and wait again."""
        ...

    def over(self, gang: Gang) -> None:
        """Nobody of it is left, and all that it had is free."""
        ...


class PlanApplier:
    """Gangs on their way to their places, and from them."""

    def __init__(
        self,
        shell: ControlPlane,
        registry: GangRegistry,
        soon: Callable[..., None],
        listener: Listener,
    ) -> None:
        self._shell = shell
        self._registry = registry
        self._soon = soon
        self._listener = listener
        self._rendezvous = Rendezvous(shell.rng, self.address_of)
        self._recorder = Recorder(shell.events.record_gang, shell.wall)

    # ---- coming and going --------------------------------------------------------------------

    def add(self, gang: Gang) -> None:
        """A new gang: it waits for its places."""
        self._shell.group_table.create(
            Group(
                group=gang.group,
                name="",
                strategy="PACK",
                bundles=[ResourceSet.from_mapping(need) for need in gang.needs],
                creator=gang.creator,
                detached=not gang.creator,
                is_pinned=True,
            ),
            self._shell.clock(),
        )
        self._registry.add(gang)
        self._soon()

    def grow(self, gang: Gang, needs: list[dict[str, float]]) -> None:
        """It has so many members more, which nobody wants yet."""
        group = self._shell.group_table.get(gang.group)
        assert group is not None, "who is asked for is in no gang that is over"
        group.grow([ResourceSet.from_mapping(need) for need in needs])
        gang.needs += needs
        gang.states += [ABSENT] * len(needs)
        gang.attempts += [0] * len(needs)
        self._shell.state_store.put_group(group)
        self._registry.know_members(gang)

    def restore(self, gang: Gang) -> None:
        """A gang that an earlier head knew; its group is restored."""
        group = self._shell.group_table.get(gang.group)
        if group is None or group.state == REMOVED:
            self._shell.state_store.keep("gangs", gang.group, None)
            return
        for index, (state, node) in enumerate(zip(gang.states, group.nodes, strict=True)):
            if state == ENDING:
                gang.states[index] = ENDING if node else DONE
            elif state in (HELD, LEAVING) and not node and self._frees(gang, index):
                gang.states[index] = LEAVING
            elif state not in (DONE, ABSENT):
                gang.states[index] = HELD if node else WAITING
        self._free_again(gang, group)
        gang.put_on |= {i: node for i, node in enumerate(group.nodes) if node}
        if group.attempt is not None:
            gang.set([i for there in group.attempt.bundles.values() for i in there], PLACING)
        gang.retry_at = gang.backoff_s = 0.0
        self._rendezvous.keep_ports(gang)
        self._registry.add(gang)
        if gang.is_over:
            self._shell.group_table.remove(gang.group, self._shell.clock())
        else:
            self.let_go(gang)
        self._soon()

    def _frees(self, gang: Gang, index: int) -> bool:
        """Whether there is a node that may still hold what this member is to give back."""
        return self._shell.nodes.is_alive(gang.put_on.get(index, ""))

    def _free_again(self, gang: Gang, group: Group) -> None:
        """Ask the nodes of who was to leave once more: what they answered is not known."""
        number = group.attempt_number - (group.attempt is not None)  # not what came after it
        going: dict[str, list[int]] = {}
        for index in gang.among(LEAVING):
            going.setdefault(gang.put_on[index], []).append(index)
        for node, indexes in going.items():
            self._shell.group_table.give_backs.ask(
                node, gang.group, number, indexes, self._shell.clock(), _warned(gang)
            )

    def end(self, gang: Gang, indexes: Iterable[int]) -> None:
        """These members are over: their places go back; with the last one, the gang."""
        over = {i for i in indexes if gang.states[i] not in (ENDING, DONE)}
        if all(state in (ENDING, DONE, ABSENT) or i in over for i, state in enumerate(gang.states)):
            self._shell.group_table.remove(gang.group, self._shell.clock())
            return
        is_leaving = any(gang.states[i] == LEAVING for i in over)
        waited = [i for i in over if gang.states[i] in (WAITING, ABSENT)]
        gang.set(over, ENDING)
        gang.set(waited, DONE)
        if is_leaving or (waited and self._registry.window.sees(gang)):
            self._registry.cache.forget()
        self.let_go(gang)
        self._registry.keep(gang)

    def apply(self, plan: Plan) -> None:
        """Do what a cycle decided."""
        member_of = self._registry.member_of
        victims: dict[bytes, list[int]] = {}
        actions: dict[bytes, str] = {}
        for eviction in plan.evictions:
            gang, index = member_of[eviction.task]
            victims.setdefault(gang.group, []).append(index)
            actions[gang.group] = eviction.reason
        for group, indexes in victims.items():
            gang = self._registry.gangs[group]
            self._recorder.evicted(gang, indexes, actions[group])
            self._evict(gang, indexes)
        if plan.evictions:
            for task in plan.pipelined:
                self._promise(member_of[task][0], True)
        choices: dict[bytes, dict[int, str]] = {}
        for task, node in plan.binds.items():
            gang, index = member_of[task]
            choices.setdefault(gang.group, {})[index] = node
        for group, choice in choices.items():
            self._place(self._registry.gangs[group], choice)

    def _promise(self, gang: Gang, is_promised: bool) -> None:
        """Others are evicted for it: it comes before them until it has its places."""
        if gang.is_promised != is_promised:
            gang.is_promised = is_promised
            self._registry.cache.amend(gang.uid, promised=is_promised)

    def _place(self, gang: Gang, choice: Mapping[int, str]) -> None:
        if not self._is_enough(gang, len(choice)):
            self._not_placed(gang, choice)
            return
        gang.set(choice, PLACING)
        gang.put_on |= choice
        if not gang.ports:
            self._rendezvous.choose_ports(gang)
            self._registry.keep(gang)  # before its group is prepared, where a next head goes on
        self._registry.active[gang.group] = gang
        if not self._shell.group_table.place(gang.group, choice, self._shell.clock()):
            self._not_placed(gang, choice)  # others of it are on their way

    def _is_enough(self, gang: Gang, more: int, gone: Collection[int] = ()) -> bool:
        """Whether the gang has its minimum with so many more: those whom they were to join may have
        been evicted meanwhile, or be `gone`, or be ending so that their job starts them again."""
        least = self._registry.podgroups.podgroup(gang).min_member
        record = self._registry.podgroups.record_of(gang.job) if gang.job else None
        if record is None:
            there = [i for i in gang.among(PLACING, HELD, ENDING) if i not in gone]
            return len(there) + more >= least
        here = sum(index not in gone for index in gang.among(PLACING))
        for index in gang.among(HELD):
            member = record.member(*gang.members[index])
            is_live = member is not None and member.state in (st.PENDING, st.RUNNING)
            here += is_live and index not in gone
        return here + more >= least

    def _not_placed(self, gang: Gang, indexes: Iterable[int]) -> None:
        """There was no room, or the table was busy with the gang: these wait again."""
        gang.set(indexes, WAITING)
        gang.backoff_s = min(gang.backoff_s * BACKOFF_FACTOR, LONGEST_BACKOFF_S) or FIRST_BACKOFF_S
        gang.retry_at = self._shell.clock() + gang.backoff_s
        self._registry.cache.forget()  # it takes no part until then
        self._soon(gang.backoff_s)

    def _evict(self, gang: Gang, indexes: list[int]) -> None:
        """Take places away from members, with a warning; they wait again."""
        coming = [index for index in indexes if gang.states[index] == PLACING]
        held = [index for index in indexes if gang.states[index] == HELD]
        gang.evict_late += coming
        if len(held) + len(coming) < len(indexes):
            self._registry.cache.forget()  # some are ending already
        gang.set(held, LEAVING)
        gang.preempted += bool(held)
        self.let_go(gang)

    def let_go(self, gang: Gang) -> None:
        """Have nodes free what leaving and ending members hold, once nothing is on its way."""
        table = self._shell.group_table
        group = table.get(gang.group)
        if group is None or group.attempt is not None:
            return
        for state, ending in ((LEAVING, _warned(gang)), (ENDING, AT_ONCE)):
            there = [index for index in gang.among(state) if group.nodes[index]]
            if there:
                table.release(gang.group, there, self._shell.clock(), ending)

    # ---- what nodes are told and say ---------------------------------------------------------

    def ports_on(self, group: bytes) -> list[int]:
        """Ports that are to be free on every node of the gang."""
        gang = self._registry.gangs.get(group)
        if gang is None or gang.among(HELD):
            return []  # its own members may be listening by now
        return gang.ports

    def prepared(self, message: Prepared) -> None:
        """A node has set bundles aside, or says why it cannot."""
        gang = self._registry.gangs.get(message.group)
        if gang is None:
            return
        if any(message.devices.values()):
            gang.devices |= message.devices
            # Before its group is: a head that comes back goes on with what it finds prepared.
            self._registry.keep(gang)
        if message.busy:
            self._rendezvous.are_busy(message.busy)
            self._rendezvous.free_ports(gang)
            gang.backoff_s = 0.0

    def given_back(self, group: bytes, indexes: list[int]) -> None:
        """A node has freed what these members held."""
        gang = self._registry.gangs.get(group)
        if gang is not None:
            left = [index for index in indexes if gang.states[index] == LEAVING]
            self._recorder.freed(gang, left, "evicted")
            self._recorder.freed(gang, [i for i in indexes if i not in left], "ended")

    def node_gone(self, node_id: str) -> None:
        """A node is dead, and with it what members were still to give back there."""
        for gang in self._registry.active.values():
            going = gang.among(LEAVING, ENDING)
            nodes = self._registry.nodes_of(gang) if going else []
            self._recorder.freed(gang, [i for i in going if nodes[i] == node_id], "lost")

    def may_begin(self, group: Group) -> bool:
        """Whether a gang that its nodes have room for has its minimum still: others may have been
        lost since they were asked, or be ending so that their job starts them again."""
        gang = self._registry.gangs.get(group.group)
        if gang is None:
            return True
        gone = {index for index in gang.among(PLACING, HELD) if not group.nodes[index]}
        return self._is_enough(gang, 0, gone)

    def told(self, group: bytes, node_id: str) -> dict[int, bytes]:
        """What the members that begin on this node are told of their gang."""
        gang = self._registry.gangs.get(group)
        if gang is None or gang.job:
            return {}  # members of jobs are told with their commands
        nodes = self._registry.nodes_of(gang)
        new = [index for index in gang.among(PLACING) if nodes[index] == node_id]
        return self._rendezvous.views(gang, nodes, new)

    def is_whole(self, group: bytes) -> bool:
        """Whether as many members as it needs have their places, or have ended."""
        gang = self._registry.gangs.get(group)
        return gang is None or len(gang.among(HELD, ENDING, DONE)) >= gang.least

    def views(self, gang: Gang) -> dict[int, bytes]:
        """What the members that have their places are told of their gang, as it is now."""
        return self._rendezvous.views(gang, self._registry.nodes_of(gang), gang.among(HELD))

    # ---- news of groups ----------------------------------------------------------------------

    def group_changed(self, group: Group) -> None:
        """A gang was placed, lost members, or is removed."""
        gang = self._registry.gangs.get(group.group)
        if gang is None:
            return
        if group.state == REMOVED:
            self._removed(gang)
        elif group.state == CREATED and group.attempt is None:
            self._settled(gang, group)

    def _removed(self, gang: Gang) -> None:
        waited = gang.among(WAITING)
        if (waited and self._registry.window.sees(gang)) or gang.among(LEAVING):
            self._registry.cache.forget()
        gang.set(gang.among(*HOLDING), ENDING)
        gang.set(waited, DONE)

    def _settled(self, gang: Gang, group: Group) -> None:
        """Nothing of it is on its way: see who has arrived, and who has lost their place."""
        arrived = [i for i in gang.among(PLACING) if group.nodes[i]]
        lost = [i for i in gang.among(PLACING, HELD) if not group.nodes[i]]
        gang.set(arrived, HELD)
        gang.was_on |= {i: group.nodes[i] for i in arrived}
        if arrived:
            gang.is_stranded = False
            self._promise(gang, False)
            gang.backoff_s = 0.0
            gang.started = self._shell.wall()
        if lost:
            self._lose(gang, lost)
        self._record(gang, group, arrived, lost)
        late, gang.evict_late = gang.evict_late, []
        if late:
            self._evict(gang, late)
            self._registry.cache.forget()  # they may have been read as running since
        if arrived:
            self._listener.arrived(gang, [i for i in arrived if gang.states[i] == HELD])
        if lost:
            self._listener.lost(gang, lost)
        if gang.group in self._registry.gangs:  # else who was told has ended it
            self.let_go(gang)
            self._registry.keep(gang)
            self._give_up_leaving(gang, group)

    def _lose(self, gang: Gang, lost: list[int]) -> None:
        """The places of these are gone with their nodes: they wait again."""
        gang.set(lost, WAITING)
        self._registry.cache.withdraw(gang.tasks(lost))
        held = gang.among(HELD)
        if held and len(held) + len(gang.among(DONE, ENDING)) < gang.least:
            gang.set(held, LEAVING)  # what is left of it could not go on
            self._registry.cache.forget()
        self._soon()

    def _record(self, gang: Gang, group: Group, arrived: list[int], lost: list[int]) -> None:
        self._recorder.freed(gang, lost, "lost")
        here = {index: group.nodes[index] for index in arrived if gang.states[index] == HELD}
        if here:
            least = self._registry.podgroups.podgroup(gang).min_member
            ending = 0 if gang.job else len(gang.among(ENDING))  # of jobs they count as ended
            self._recorder.placed(gang, max(least - ending, 0), here)

    def group_refused(self, group: Group) -> None:
        """A gang could not be placed where it was to go."""
        gang = self._registry.gangs.get(group.group)
        if gang is None:
            return
        gang.evict_late.clear()
        self._not_placed(gang, gang.among(PLACING))
        gang.set([i for i in gang.among(ENDING) if not group.nodes[i]], DONE)
        lost = [i for i in gang.among(HELD) if not group.nodes[i]]
        if lost:  # with the node that could not take the others, say
            self._lose(gang, lost)
            self._recorder.freed(gang, lost, "lost")
            self._listener.lost(gang, lost)
        if gang.group not in self._registry.gangs:
            return  # who was told has ended it
        if gang.is_over:
            self._shell.group_table.remove(gang.group, self._shell.clock())
        else:
            self.let_go(gang)
            self._give_up_leaving(gang, group)

    def _give_up_leaving(self, gang: Gang, group: Group) -> None:
        """Who was to leave once nothing was on its way, and lost the place with its node before:
        no node will say that it is free."""
        is_lost = any(not group.nodes[index] for index in gang.among(LEAVING))
        if is_lost and gang.group not in self._shell.group_table.give_backs:
            self.group_freed(gang.group)

    def group_freed(self, group: bytes) -> None:
        """All that the gang was told to give back is free."""
        gang = self._registry.gangs.get(group)
        if gang is None:
            return
        known = self._shell.group_table.get(group)
        nodes = known.nodes if known is not None else [""] * len(gang.states)
        coming = self._registry.on_the_way(gang)  # they have no place yet that could be free
        ended = [i for i in gang.among(ENDING) if not nodes[i] and i not in coming]
        left = [i for i in gang.among(LEAVING) if not nodes[i] and i not in coming]
        self._registry.cache.end(gang.tasks(ended))
        self._registry.cache.released(gang.tasks(left))
        gang.set(ended, DONE)
        gang.set(left, WAITING)
        if left:
            self._registry.keep(gang)
            self._listener.lost(gang, left)
        if gang.group not in self._registry.gangs:
            return  # who was told has ended it
        if gang.is_over and known is not None and known.state != REMOVED:
            # The others were lost while the last one gave back; this is told once more then.
            self._shell.group_table.remove(gang.group, self._shell.clock())
            return
        if gang.is_over:
            self._registry.remove(gang)
            self._rendezvous.free_ports(gang)
            self._listener.over(gang)
        else:
            self._registry.keep(gang)
        self._soon()

    def address_of(self, node_id: str) -> str:
        """Where a node is reached."""
        record = self._shell.nodes.get(node_id)
        return (record.host if record is not None else "") or "127.0.0.1"


def _warned(gang: Gang) -> Ending:
    """How members end that give way."""
    return Ending(warn=True, grace_s=gang.grace_s)
