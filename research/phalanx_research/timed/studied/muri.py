"""Muri: up to four jobs with equal numbers of GPUs share their GPUs, and use different resources at
each time.

The policy follows Muri (Zhao et al., SIGCOMM 2022) and its simulator. Muri-S knows run times: jobs
with the smallest product of remaining work and GPUs come first. Muri-L does not know run times:
jobs that have used the least GPU time come first.

1. An empty cluster is filled with jobs in order. Each job that still fits becomes a candidate, and
   so do the next three jobs with the same number of GPUs.
2. While the candidates request more GPUs than exist, pairs of groups with the same number of GPUs
   are merged, in at most four rounds. A maximum-weight matching chooses the pairs. The weight is
   the fraction of time in which the four resources are used.
3. Groups are placed, groups with more GPUs first. A group without room waits.

A group may be slower than its jobs one after another. A flag of Muri's simulator would divide such
groups, but the published tables were made without this flag. Equal jobs keep the order of the last
event: jobs with more GPUs first, and new jobs last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from phalanx_research.timed.studied.live import Decision, Live, Terms, check_stages
from phalanx_research.timed.studied.matching import Kind, matched
from phalanx_research.timed.studied.rooms import Rooms
from phalanx_research.timed.studied.stages import SLOTS, Stages, interleaved_s
from phalanx_research.timed.workload import Job

MOST = SLOTS
"""The largest number of jobs in a group, and the number of rounds of merging."""
PROFILING = 1.015
SLOWER = (0.0, 1.0, 1.33 / PROFILING, 1.5 / PROFILING, 1.37 / PROFILING)
"""The factors by which an iteration takes longer than its stages, by the number of jobs.

Muri's simulator has the same factors: the whole measured slowdown, minus the profiling time that
each job's own times already include.
"""

Group: TypeAlias = tuple[Live, ...]
Rank = Callable[[Live], float]


def least_left(one: Live) -> float:
    """Return the sort key of Muri-S: the GPU-seconds of work left, by the scheduler's estimate."""
    return one.believed_s * one.gpus


def least_attained(one: Live) -> float:
    """Return the sort key of Muri-L: the GPU-seconds that the job has used."""
    return one.attained_s * one.gpus


class Muri:
    """The policy Muri. `gpus` has the number of GPUs of each machine."""

    def __init__(self, name: str, rank: Rank, gpus: Sequence[int], jobs: Sequence[Job]) -> None:
        check_stages(name, jobs)
        self._rank = rank
        self._machines = gpus

    def decide(self, live: list[Live], now: float) -> Decision:
        """Decide which groups run, and where."""
        live.sort(key=self._rank)
        candidates = _candidates(live, Rooms(self._machines))
        groups = _merged(candidates, sum(self._machines))
        group_of = {one: group for group in groups for one in group}
        live.sort(key=lambda one: one.gpus, reverse=True)
        return _placed(live, group_of, Rooms(self._machines))

    def leave(self, one: Live) -> None:
        """Do nothing: the policy keeps no state of jobs."""


def iteration_s(group: Group) -> float:
    """Return the seconds that an iteration takes for the jobs of a group."""
    if len(group) == 1:
        return group[0].training.iteration_s
    return _shared_s([one.training.stages_s for one in group])


def _candidates(live: Iterable[Live], rooms: Rooms) -> dict[int, list[Live]]:
    """Return the candidates in order, by number of GPUs (step 1)."""
    of_size: dict[int, list[Live]] = {}
    for one in live:
        of_size.setdefault(one.gpus, []).append(one)
    chosen = dict.fromkeys(of_size, 0)
    taken: set[Live] = set()
    for one in live:
        if one in taken or not rooms.take(one.gpus):
            continue
        start = chosen[one.gpus]
        following = of_size[one.gpus][start : start + MOST]
        chosen[one.gpus] += len(following)
        taken.update(following)
    return {size: these[: chosen[size]] for size, these in of_size.items() if chosen[size]}


def _merged(candidates: dict[int, list[Live]], room: int) -> list[Group]:
    """Merge groups until they need at most `room` GPUs in all, or for four rounds (step 2)."""
    groups: dict[int, list[Group]] = {n: [(one,) for one in c] for n, c in candidates.items()}
    wanted = sum(size * len(these) for size, these in groups.items())
    for _ in range(MOST):
        if wanted <= room:
            break
        for size, these in groups.items():
            after: list[Group] = []
            for pair in _pairs(these):
                if len(pair) == 2 and wanted > room:
                    after.append(pair[0] + pair[1])
                    wanted -= size
                else:
                    after.extend(pair)
            groups[size] = after
    return [group for these in groups.values() for group in these]


def _pairs(groups: list[Group]) -> list[tuple[Group, ...]]:
    """Return the pairs to merge, and the groups that are not merged, sorted by the last job of
    each.
    """
    kinds = [tuple(sorted(one.training.stages_s for one in group)) for group in groups]
    partners = matched(kinds, _used)
    pairs: list[tuple[Group, ...]] = []
    for i, partner in enumerate(partners):
        if partner is None:
            pairs.append((groups[i],))
        elif partner < i:
            pairs.append((groups[partner], groups[i]))
    return pairs


def _used(one: Kind, other: Kind) -> float:
    """Return the fraction of time in which both groups together use the four resources; 0 if they
    have too many jobs.
    """
    jobs = one + other
    if len(jobs) > MOST:
        return 0.0
    return sum(map(sum, jobs)) / (_shared_s(jobs) * SLOTS)


def _shared_s(jobs: Sequence[Stages]) -> float:
    """Return the seconds of an iteration of two or more jobs that share GPUs."""
    return interleaved_s(jobs) * SLOWER[len(jobs)]


def _placed(live: Iterable[Live], group_of: dict[Live, Group], rooms: Rooms) -> Decision:
    """Place each group where its first job finds room (step 3)."""
    terms: dict[Live, Terms] = {}
    placed: set[Group] = set()
    for one in live:
        group = group_of.get(one)
        if group is None or not (group in placed or rooms.take(one.gpus)):
            continue
        placed.add(group)
        terms[one] = Terms(
            pace=iteration_s(group) / one.training.iteration_s,
            overhead_s=sum(other.job.overhead_s for other in group),
        )
    return Decision(terms=terms, held=rooms.held())
