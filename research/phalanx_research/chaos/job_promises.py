"""The invariants of jobs. Events of the simulation are checked against them: what the head orders,
and what the jobs' simulated commands do.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phalanx.head.groups.record import KnownGroup
from phalanx.head.head import Head
from phalanx.head.jobs import dependencies
from phalanx.manifests.dependencies import written_dependencies
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import Indices, array_task_uid, split_element
from phalanx.model.jobs.dependencies import AFTER, AFTER_CORR, AFTER_OK, SINGLETON, Dependency
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.protocol.bundle_messages import MemberNews, RunNews, StartMember
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.history import History

SLOWEST = 0.9
"""A lower bound for the speed of a machine's clock relative to another's."""
AT_REST = st.FINISHED | {st.ABORTED}
"""The states in which a job stays until somebody resumes it."""


class _Run(msgspec.Struct, kw_only=True):
    """The commands of a member that run on one node."""

    node: bytes
    """The prefix of the node's process ids."""
    attempt: int
    commands: int = 0


class JobPromises:
    """Checks the invariants of jobs that the head has accepted. Jobs are kept by their names."""

    def __init__(self, history: History, now: Callable[[], float]) -> None:
        self._history = history
        self._now = now
        self._ran_s: dict[str, float] = {}
        """The seconds during which at least one command of each job ran."""
        self._ran_from: dict[str, float] = {}
        """The time since which at least one command of each job has been running, or waiting for a
        restart in place.
        """
        self._unheard: dict[tuple[bytes, bytes, int, int], tuple[str, float]] = {}
        """The job and the time of each (node, group, index, attempt) whose commands have ended
        without the head knowing it yet.
        """
        self._unheard_s: dict[str, float] = {}
        """The seconds during which the head believed that an ended member of each job was
        running.
        """
        self._restarting: set[tuple[str, str]] = set()
        """The members, as (job, member), whose commands failed and will restart in place."""
        self._taken: dict[str, JobSpec] = {}
        self._lines: dict[str, str] = {}
        """The key of each job with a `singleton` dependency. Jobs with the same key run one at a
        time.
        """
        self._deleted: set[str] = set()
        self._runs: dict[tuple[str, str], list[_Run]] = {}
        self._attempts: set[tuple[str, str, bytes, int]] = set()
        """The (job, member, gang, attempt) of every start so far."""
        self._warned: set[tuple[str, str, bytes, int]] = set()
        """The (job, member, gang, attempt) of every start whose member got the signal before its
        end.
        """
        self._begun: set[tuple[bytes, int]] = set()
        """The (group, attempt) pairs whose members were asked to start."""
        self._once: set[str] = set()
        """The arrays in which no task that succeeded may run again."""
        self._done_on: dict[str, bytes] = {}
        """The node of each array task that succeeded without having been asked to end."""
        self._numbers: dict[tuple[str, int], bytes] = {}
        """The node of each start of an array task, by job and number of the start."""
        self._outlived: set[str] = set()
        """The jobs with members that outlived a process of their node."""
        self._succeeded: dict[str, set[str]] = {}
        """The members of each job that had a successful command."""

    def asked(self, spec: JobSpec) -> None:
        """Record that somebody submits a job. The head may accept the job even if the sender gets
        no answer.
        """
        if word := _word_of(spec):
            self._lines[spec.uid] = word

    def runs_once(self, spec: JobSpec) -> None:
        """Record that no driver holds or suspends this array, so that its tasks never run again
        after success.
        """
        self._once.add(spec.uid)

    def taken(self, spec: JobSpec) -> None:
        """Record that the head has accepted the job."""
        self._taken[spec.uid] = spec
        self._history.count("jobs")

    def deleted(self, uid: str) -> None:
        """Record that somebody wants the job deleted."""
        self._deleted.add(uid)

    # ---- commands ----------------------------------------------------------------------------

    def begins(self, node: bytes, order: StartMember) -> None:
        """When a node starts a command, check that the head has not declared the node dead. `node`:
        the prefix of its present process.
        """
        if self._history.is_dead(node):
            name = self._history.name_of_node(node)
            raise Broken(
                f"member {order.name} of {order.job} begins its attempt {order.attempt} on {name}, "
                "which the head has declared dead",
                [name, "head"],
            )

    def started(self, node: bytes, order: StartMember) -> None:
        """When a command starts, check that no other attempt of the same member runs. Attempts on a
        node do not count if the head has declared the node dead, and the node does not know that
        yet.
        """
        runs = self._runs.setdefault((order.job, order.name), [])
        for run in runs:
            is_given_up = self._history.is_dead(run.node)
            if (run.node != node or run.attempt != order.attempt) and not is_given_up:
                names = [self._history.name_of_node(one) for one in (node, run.node)]
                raise Broken(
                    f"member {order.name} of {order.job} begins its attempt {order.attempt} on "
                    f"{names[0]} while its attempt {run.attempt} runs on {names[1]}",
                    [*names, "head"],
                )
        self._check_line(node, order)
        self._check_task(node, order)
        mine = next((r for r in runs if r.node == node and r.attempt == order.attempt), None)
        if mine is None:
            attempt = (order.job, order.name, order.group, order.attempt)
            if attempt in self._attempts:
                name = self._history.name_of_node(node)
                raise Broken(
                    f"attempt {order.attempt} of member {order.name} of {order.job} begins again, "
                    f"on {name}",
                    [name, "head"],
                )
            self._attempts.add(attempt)
            self._check_number(node, order)
            mine = _Run(node=node, attempt=order.attempt)
            runs.append(mine)
            self._ran_from.setdefault(order.job, self._now())
            self._history.count("member starts")
        mine.commands += 1
        self._restarting.discard((order.job, order.name))

    def _check_task(self, node: bytes, order: StartMember) -> None:
        """Check that an array task may begin: the array admits another task, the task of the
        earlier array has succeeded, and this task has not succeeded yet, as far as the head can
        know.
        """
        spec = self._taken.get(_array_of(order.job))
        if spec is None or spec.array is None:
            return
        name = self._history.name_of_node(node)
        done_on = self._done_on.get(order.job)
        is_once = spec.uid in self._once
        if is_once and done_on is not None and not self._history.is_dead(done_on):
            there = self._history.name_of_node(done_on)
            raise Broken(
                f"{order.job} begins again on {name}, and it has ended well on {there}",
                [name, there, "head"],
            )
        others = [
            uid
            for (uid, _), runs in self._runs.items()
            if _array_of(uid) == spec.uid
            and uid != order.job
            and any(not self._history.is_dead(run.node) for run in runs)
        ]
        if spec.array.limit is not None and len(others) >= spec.array.limit:
            raise Broken(
                f"{order.job} begins on {name}, and {', '.join(others)} run: more than "
                f"{spec.array.limit} at once",
                [name, "head"],
            )
        found = split_element(order.job)
        for need in spec.after.needs if spec.after is not None and found is not None else ():
            if need.kind == AFTER_CORR and need.job in self._taken:
                self._history.count("elements after elements")
                pair = f"{need.job}[{found[1] if found is not None else ''}]"
                if not self._succeeded.get(pair):
                    raise Broken(f"{order.job} begins before {pair} has ended well", ["head"])

    def _check_number(self, node: bytes, order: StartMember) -> None:
        """Check that an array task begins only one time under each start number, as far as the head
        can know.
        """
        if _array_of(order.job) not in self._once:
            return
        key = order.job, order.start or order.attempt
        before = self._numbers.get(key)
        if before is not None and not self._history.is_dead(before):
            names = [self._history.name_of_node(one) for one in (node, before)]
            raise Broken(
                f"{order.job} begins on {names[0]} for the {key[1]}. time, as on {names[1]} before",
                [*names, "head"],
            )
        self._numbers[key] = node
        self._history.count("starts of array tasks")

    def _check_line(self, node: bytes, order: StartMember) -> None:
        """Check that at most one job of each `singleton` key runs at a time."""
        job = _array_of(order.job) or order.job
        word = self._lines.get(job)
        if word is None:
            return
        self._history.count("members of singletons")
        for (uid, member), runs in self._runs.items():
            other = _array_of(uid) or uid
            if other == job or self._lines.get(other) != word:
                continue
            for run in runs:
                if not self._history.is_dead(run.node):
                    names = [self._history.name_of_node(one) for one in (node, run.node)]
                    raise Broken(
                        f"{order.job} begins on {names[0]} while {member} of {uid} runs on "
                        f"{names[1]}, and of the singletons {word} one at a time may run",
                        [*names, "head"],
                    )

    def ended(self, node: bytes, order: StartMember, code: int, was_asked: bool) -> None:
        """Record that a command of a member has ended. `was_asked`: SIGTERM was sent to it
        before.
        """
        if not code and not was_asked and _array_of(order.job):
            self._done_on[order.job] = node
        runs = self._runs.get((order.job, order.name), [])
        for run in [r for r in runs if r.node == node and r.attempt == order.attempt]:
            run.commands -= 1
            if not run.commands:
                runs.remove(run)
                member = (node, order.group, order.index, order.attempt)
                self._unheard[member] = (order.job, self._now())
        if code and self._is_restarted(order):
            self._restarting.add((order.job, order.name))
        self._look_who_runs(order.job)
        if not code:
            self._succeeded.setdefault(order.job, set()).add(order.name)

    def warned(self, node: bytes, order: StartMember) -> None:
        """Check that a member gets the signal before its end at most once per start."""
        attempt = (order.job, order.name, order.group, order.attempt)
        if attempt in self._warned:
            name = self._history.name_of_node(node)
            raise Broken(
                f"member {order.name} of {order.job} gets its signal twice in its attempt "
                f"{order.attempt}, on {name}",
                [name, "head"],
            )
        self._warned.add(attempt)
        self._history.count("warned members")

    def heard(self, node: bytes, news: MemberNews | RunNews, since: float) -> None:
        """Record that a report has reached the head over a connection made at `since`. The report
        is about a member, or about the tasks of a run that have ended.
        """
        if isinstance(news, RunNews):
            for one in news.ended:
                self._history.count("ends in runs")
                self._heard((node, news.group, news.index, one.attempt), since)
        elif news.code is not None:
            self._heard((node, news.group, news.index, news.attempt), since)

    def cut_off(self, node: bytes, since: float) -> None:
        """Record that the head has lost a connection, so that no further messages arrive
        over it.
        """
        for member in [one for one in self._unheard if one[0] == node]:
            self._heard(member, since)

    def _heard(self, member: tuple[bytes, bytes, int, int], since: float) -> None:
        job, ended = self._unheard.pop(member, ("", 0.0))
        if since <= ended:
            late_s = self._now() - ended
            self._unheard_s[job] = self._unheard_s.get(job, 0.0) + late_s

    def node_gone(self, node: bytes) -> None:
        """Record that a node's process has ended together with all its commands."""
        for key, runs in self._runs.items():
            self._runs[key] = [run for run in runs if run.node != node]
        for job in list(self._ran_from):
            self._look_who_runs(job)

    def outlived(self, job: str) -> None:
        """Record that the next process of a node has found a member of this job in the records of
        the process before it. The head may already have given the member away.
        """
        self._outlived.add(job)

    def went_on(self) -> None:
        """Record that the next process of a node has taken over a command."""
        self._history.count("commands taken over")

    def _is_restarted(self, order: StartMember) -> bool:
        """Whether a failed member of the job may be restarted in place."""
        spec = self._taken.get(order.job)
        if spec is None:
            return False
        name = order.name.rpartition("-")[0]
        return any(g.name == name and g.template.restart == "OnFailure" for g in spec.groups)

    def _look_who_runs(self, job: str) -> None:
        """If no command of a job runs or waits for a restart, add the time for which the job has
        run.
        """
        if any(uid == job for uid, _ in self._restarting):
            return
        if not any(runs for (uid, _), runs in self._runs.items() if uid == job):
            begun = self._ran_from.pop(job, self._now())
            self._ran_s[job] = self._ran_s.get(job, 0.0) + self._now() - begun

    def _ran_s_of(self, job: str) -> float:
        begun = self._ran_from.get(job)
        return self._ran_s.get(job, 0.0) + (0.0 if begun is None else self._now() - begun)

    # ---- reports of the head -----------------------------------------------------------------

    def gang_begins(self, record: JobRecord, group: KnownGroup, attempt: int) -> None:
        """Check that enough members of a job's gang start, or have ended, when the gang begins."""
        if (group.group, attempt) in self._begun:
            return  # a node that dies between two such orders takes placed members with it
        self._begun.add((group.group, attempt))
        self._check_others(record)
        over = record.count(st.SUCCEEDED, st.FAILED)
        placed = sum(map(bool, group.nodes))
        later = sum(g.min_available for g in record.spec.groups if g.depends_on is not None)
        least = record.spec.min_available - later
        if placed + over < least:
            raise Broken(
                f"job {record.uid} needs {least} members at once and begins with {placed} placed "
                f"and {over} over",
                ["head"],
            )

    def _check_others(self, record: JobRecord) -> None:
        """Check that a job's dependencies are met, as far as the members' commands show this."""
        spec = record.spec
        if spec.element is not None:
            spec = self._taken.get(spec.element.array, spec)
        if spec.after is None or record.run_count:
            return
        met = [self._is_met(need, record) for need in spec.after.needs]
        self._history.count("jobs after others")
        if not (any(met) if spec.after.is_any else all(met)):
            raise Broken(
                f"{record.uid} begins although its dependencies are not met: "
                f"{written_dependencies(spec.after)}",
                ["head"],
            )

    def _is_met(self, need: Dependency, record: JobRecord) -> bool:
        other = self._taken.get(need.job)
        if other is None:
            return True  # the head accepted the job, but nobody was left to receive the answer
        if need.kind == AFTER:
            return True  # the other job may have ended before it started
        if need.kind == AFTER_CORR:
            element = record.spec.element
            assert element is not None
            self._history.count("elements after elements")
            return bool(self._succeeded.get(array_task_uid(JobId(need.job), element.index)))
        of_it = [uid for uid, _ in self._runs if uid == need.job or _array_of(uid) == need.job]
        if need.kind != AFTER_OK:
            runs = [run for (uid, _), runs in self._runs.items() if uid in of_it for run in runs]
            return all(self._history.is_dead(run.node) for run in runs)
        by_policy = any(policy.action == st.COMPLETE_JOB for policy in other.policies)
        done = sum(len(self._succeeded.get(uid, ())) for uid in {need.job, *of_it})
        least = other.min_available if other.array is None else other.array.count
        return by_policy or done >= least

    @property
    def members_begun(self) -> int:
        """The number of members of jobs and tasks of arrays that have run at least once."""
        return len(self._runs)

    def open(self, control: Head | None) -> list[str]:
        """Return descriptions of jobs that have not finished, or that the head no longer knows.
        `control` is the head's state; None while no head runs.
        """
        scheduler = None if control is None else control.gangs_if_used
        if scheduler is None:
            return sorted(self._taken.keys() - self._deleted)
        known: dict[str, JobRecord] = {job.uid: job for job in scheduler.jobs.table.all()}
        open_jobs = {uid: job for uid, job in known.items() if job.state not in AT_REST}
        # The driver that would have released a held job may have ended by now.
        left = [
            f"{uid} is {job.state}"
            for uid, job in open_jobs.items()
            if not job.is_held and not _waits_for_one_at_rest(job, known)
        ]
        lost = sorted(self._taken.keys() - known.keys() - self._deleted)
        return left + [f"{uid} is no longer known to the head" for uid in lost]

    def check_ends(self, control: Head | None) -> None:
        """Check that every completed job has enough members that succeeded."""
        scheduler = None if control is None else control.gangs_if_used
        for job in scheduler.jobs.table.all() if scheduler is not None else ():
            if job.spec.array is not None:
                self._check_array(job)
                continue
            done = len(self._succeeded.get(job.uid, ()))
            by_policy = any(p.action == st.COMPLETE_JOB for p in job.spec.policies)
            if job.state == st.COMPLETED and not by_policy and done < job.spec.min_available:
                raise Broken(
                    f"{job.uid} counts as completed and needs {job.spec.min_available} "
                    f"members for that, but only {done} succeeded",
                    ["head"],
                )
            # For its time limit, a gang counts as running until the head learns of its end.
            limit_s = job.spec.timing.limit_s
            ran_s = self._ran_s_of(job.uid) + self._unheard_s.get(job.uid, 0.0)
            if job.state in st.OUT_OF_TIME:
                self._history.count(f"jobs in {job.state}")
            is_known = job.uid not in self._outlived  # the head may count from an earlier start
            if job.state == st.TIMED_OUT and is_known and ran_s < SLOWEST * (limit_s or 0.0):
                raise Broken(
                    f"{job.uid} was ended for its limit of {limit_s:g} s, although it had run "
                    f"for {ran_s:g} s as far as the head knew",
                    ["head"],
                )
            if job.retries > max(job.spec.max_retry, 1):
                raise Broken(
                    f"{job.uid} was restarted {job.retries} times, above its limit of "
                    f"{job.spec.max_retry}",
                    ["head"],
                )

    def _check_array(self, job: JobRecord) -> None:
        """Check that an ended array has run all the tasks that it counts."""
        assert job.spec.array is not None
        indices = Indices(job.spec.array.ranges)
        done = sum(bool(self._succeeded.get(array_task_uid(job.uid, i))) for i in indices)
        if job.is_finished:
            self._history.count("arrays that ended")
            counted = job.count(st.SUCCEEDED, st.FAILED, st.ENDED)
            if counted != len(indices) or job.count(st.SUCCEEDED) > done:
                raise Broken(
                    f"array {job.uid} of {len(indices)} tasks is {job.state} and counts "
                    f"{job.tally}, but {done} tasks succeeded",
                    ["head"],
                )


def _waits_for_one_at_rest(
    job: JobRecord, known: dict[str, JobRecord], passed: frozenset[str] = frozenset()
) -> bool:
    """Whether a job waits, directly or indirectly, for a job that is suspended or held. `passed`
    has the jobs that the search has already visited.
    """
    passed |= {job.uid}
    others = [known[uid] for uid in dependencies.unheard(job) if uid in known]
    if (word := _word_of(job.spec)) and job.queued is None:
        others += [one for one in known.values() if _word_of(one.spec) == word]
    return any(
        other.state == st.ABORTED
        or (other.is_held and not other.is_finished)
        or _waits_for_one_at_rest(other, known, passed)
        for other in others
        if other.uid not in passed
    )


def _word_of(spec: JobSpec) -> str:
    """Return the key of the job's `singleton` dependency; empty if the job has no such
    dependency.
    """
    needs = spec.after.needs if spec.after is not None else ()
    return next((need.job for need in needs if need.kind == SINGLETON), "")


def _array_of(uid: str) -> str:
    found = split_element(uid)
    return "" if found is None else found[0]
