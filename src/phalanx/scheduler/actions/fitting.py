"""Places a part's tasks on the nodes of a domain until the part is ready.

Source: Volcano's allocateResourcesForTasks. One of its quirks is kept: within one pass, a node that
turned a task away is not tried again for tasks of the same named role. Once a task of a role fits
nowhere, the role's other tasks are not tried.
"""

from __future__ import annotations

from typing import NamedTuple

from phalanx.scheduler.actions import entitled
from phalanx.scheduler.actions.worksheet import Tasks
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.attempts import attempt_of
from phalanx.scheduler.cycle.hypernodes import TOP
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Ask
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement


class Fitting:
    """Places the tasks of jobs' parts. One object serves the whole action."""

    def __init__(self, session: Session, *, remember_roles: bool) -> None:
        self._session = session
        self._remember = remember_roles
        self._masks: dict[str, Flags] = {}
        self.turned_away = -1
        """The first task for which the last `fill` found no room; -1 if all tasks found room."""

    def domain_mask(self, name: str) -> Flags:
        mask = self._masks.get(name)
        if mask is None:
            members = None if name == TOP else self._session.cluster.hypernodes.members[name]
            mask = self._masks[name] = self._session.placer.mask_of(members)
        return mask

    def fill(
        self, sub: SubJob, tasks: Tasks, domain: str, *, hopeful: bool = False
    ) -> Statement | None:
        """Place tasks until the part is ready. Returns the moves. If the part is not ready, and
        will not be after evictions have ended, undoes everything and returns None. `hopeful`:
        whether `Ceilings` has found that the job may have room.
        """
        session = self._session
        job = sub.job
        mask = self.domain_mask(domain)
        statement = Statement(session)
        if not mask.any():
            return None
        lack = None if hopeful or session.entitled(job) else self._too_little(job, tasks, mask)
        failed = self.turned_away = -1
        why: tuple[Rejection, ...] = ()
        if session.entitled(job):
            failed, why = entitled.fill(session, statement, sub, tasks, mask)
        elif lack is not None:
            if session.explains:
                failed = tasks.rest()[lack.room]
                if lack.of_quota:
                    why = session.shortages(job, session.cluster.eq_class[failed], lack.room + 1)
            tasks.drop()
        else:
            failed, why = _Filling(
                self,
                session,
                statement,
                sub,
                tasks=tasks,
                mask=mask,
                remember=self._remember,
            ).run()
            self.turned_away = failed
        if session.subjob_ready(job, sub) or session.subjob_pipelined(job, sub):
            return statement
        if session.explains:
            besides = 0 if lack is None else lack.room
            session.note_attempt(job, attempt_of(job, failed, why, besides=besides))
        statement.discard()
        return None

    def _too_little(self, job: Job, tasks: Tasks, mask: Flags) -> _Lack | None:
        """Return how many of the gang's tasks could be placed if this is certainly too few; None
        otherwise.

        It can be certain only for a gang of equal tasks: too few of them would fit even without
        other waiting work, or quotas admit too few.
        """
        session = self._session
        short = session.shortfall(job)
        if short <= 1 or len(tasks) < 2 or job.counts[j.PIPELINED] or job.has_subgroups:
            return None
        if not tasks.are_alike(session.cluster.eq_class):
            return None
        ask = session.placer.ask(tasks.any())
        if not session.placer.can_unroll(ask.eq_class):
            return None
        least = min(short, len(tasks))
        admitted = session.room(job, ask.eq_class, least)
        if admitted < least:
            if session.hooks.first("pre_predicate", ask.task) is not None:
                return None
            if not session.explains:
                return _Lack(0, of_quota=True)
        room = session.placer.room_for(ask, mask, admitted)
        return _Lack(room, of_quota=room == admitted) if room < least else None

    def fail(self, job: Job, sub: SubJob, t: int) -> None:
        """Record that no node had room for a task with the role of the task `t`."""
        role = self._session.cluster.eq_class[t].shape.role
        job.failed_roles.setdefault(sub.uid, set()).add(role)

    def may_go_on(self, job: Job, sub: SubJob) -> bool:
        """Whether the part could still become ready although one of its tasks found no node.

        Source: Volcano's NeedContinueAllocating.
        """
        if job.min_available == len(job.tasks) or sub.min_available >= len(sub.tasks):
            return False
        if job.has_subgroups:
            return True
        failed = job.failed_roles.get(sub.uid, set())
        cluster = self._session.cluster
        if not job.roles_matter():
            left = sum(
                cluster.eq_class[t].shape.role not in failed
                for t in job.tasks
                if cluster.status[t] == j.PENDING
            )
            return job.ready_count() + left >= job.min_available
        for role in failed:
            least = job.role_min.get(role, 0)
            if least and role in job.role_counts and job.role_count(role, idle=True) < least:
                return False
        return True


class _Lack(NamedTuple):
    """How many tasks of a gang could be placed, and whether a quota prevents more."""

    room: int
    of_quota: bool


class _Filling:
    """One pass over the tasks of a part."""

    def __init__(
        self,
        fitting: Fitting,
        session: Session,
        statement: Statement,
        sub: SubJob,
        *,
        tasks: Tasks,
        mask: Flags,
        remember: bool,
    ) -> None:
        self._fitting = fitting
        self._session = session
        self._statement = statement
        self._sub = sub
        self._job = sub.job
        self._tasks = tasks
        self._mask = mask
        self._remember = remember
        self._refused: dict[str, Flags] = {}
        """For each role: the nodes that turned away one of its tasks."""
        self._unnoted: tuple[Ask, Flags, Flags, list[int]] | None = None
        """The last placement, which is not recorded yet: the asking class, the mask of nodes, the
        nodes that suited the first task, and the nodes that were used.
        """
        self._at = sub.allocated_hypernode
        """The smallest network domain that holds the part's tasks so far."""
        self._failed = -1
        """The first task that found no room; -1 if none."""
        self._why: tuple[Rejection, ...] = ()
        """Why the failed task was turned away, if no node was asked."""

    def run(self) -> tuple[int, tuple[Rejection, ...]]:
        """Place as many tasks as possible.

        Returns the first task that found no room (-1 if none), and the reasons if no node was asked
        about it.
        """
        self._fill()
        return self._failed, self._why

    def _fill(self) -> None:
        session, cluster = self._session, self._session.cluster
        while len(self._tasks):
            t = self._tasks.peek()
            eq_class = cluster.eq_class[t]
            alike = self._tasks.run_length(cluster.eq_class)
            admitted = session.room(self._job, eq_class, min(alike, session.shortfall(self._job)))
            if admitted < 1:
                self._tasks.take(alike)  # there is no room for equal tasks, either
                if self._failed < 0:
                    self._failed = t
                    if session.explains:
                        self._why = session.shortages(self._job, eq_class)
                continue
            if self._role_failed(eq_class.shape.role):
                self._tasks.take(1)
                continue
            refusal = session.hooks.first("pre_predicate", t)
            if refusal is not None:
                self._tasks.take(1)
                if self._failed < 0:
                    self._failed, self._why = t, (refusal,)
                return
            if not self._place(t, admitted):
                return
            if session.subjob_ready(self._job, self._sub):
                return

    def _role_failed(self, role: str) -> bool:
        return bool(role) and role in self._job.failed_roles.get(self._sub.uid, ())

    def _place(self, t: int, count: int) -> bool:
        """Place the next task, or several equal tasks. Returns whether to continue."""
        self._note()
        placer = self._session.placer
        ask = placer.ask(t, self._at)
        answers = placer.answers(ask)
        role = ask.eq_class.shape.role
        mask = self._mask
        if self._remember and role and role in self._refused:
            mask = mask & ~self._refused[role]
        nominated = self._nominated(t, mask)
        if nominated is not None:
            self._tasks.take(1)
            self._put(ask, t, nominated)
            return True
        good = answers.open & mask
        if not good.any():
            self._tasks.take(1)
            self._failed = t if self._failed < 0 else self._failed
            self._fitting.fail(self._job, self._sub, t)
            return self._fitting.may_go_on(self._job, self._sub)
        self._unnoted = (ask, mask, good, [])
        if count > 1 and not self._sub.topology and placer.can_unroll(ask.eq_class):
            nodes = placer.unroll(ask, count, mask)
            if nodes:
                self._unnoted = (ask, mask, good, nodes)
                self._note_choice(ask, nodes[0], answers.room & mask)
                self._statement.allocate(ask.eq_class, self._tasks.take(len(nodes)), nodes)
                return True
        self._tasks.take(1)
        idle = answers.room & mask
        candidates = idle if idle.any() else good
        node = placer.best(ask, candidates)
        self._note_choice(ask, node, candidates)
        self._put(ask, t, node)
        return True

    def _note_choice(self, ask: Ask, node: int, candidates: Flags) -> None:
        if not self._statement.moves:
            self._session.note_choice(ask, node, candidates)

    def _nominated(self, t: int, mask: Flags) -> int | None:
        """Return the node that preemption in an earlier cycle set aside for the task; None if there
        is no such node, or if the task no longer fits there.
        """
        cluster = self._session.cluster
        node = cluster.nominated.get(t, -1)
        if node < 0 or not mask[node]:
            return None
        ask = self._session.placer.ask(t, self._at)
        return node if self._session.placer.answers(ask).open[node] else None

    def _put(self, ask: Ask, t: int, node: int) -> None:
        if self._session.placer.has_room_now(ask, node):
            self._statement.allocate(ask.eq_class, [t], [node])
        else:
            self._statement.pipeline(t, node)
        if self._sub.topology is not None:
            tree = self._session.cluster.hypernodes
            self._at = tree.common(self._at, tree.lowest_of(node))

    def _note(self) -> None:
        """Record which nodes turned away the first and the last task of the last placement. It is
        called only before another task is tried, because only that task needs the record.
        """
        if self._unnoted is None:
            return
        ask, mask, good, nodes = self._unnoted
        self._unnoted = None
        role = ask.eq_class.shape.role
        if not self._remember or not role:
            return
        if len(nodes) > 1:  # since the last task was placed, only its own node has changed
            now = self._session.placer.answers(ask).open & mask
            now[nodes[-1]] = True
            good = good & now
        refused = self._mask & ~good
        known = self._refused.get(role)
        self._refused[role] = refused if known is None else known | refused
