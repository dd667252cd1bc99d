"""The time that an iteration takes if jobs share GPUs, computed from the times of its three stages.

The stages of an iteration are data (read and prepared by disks and CPUs), GPU and network, in this
order. Jobs on the same GPUs use different resources at the same time. Times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

Stages = tuple[float, ...]
"""The seconds that the stages of an iteration take: data, GPU and network."""
SLOTS = 4
"""The number of slots of an iteration, and the largest number of jobs in a group. Data takes two
slots, for reading and preparing; GPU and network take one slot each.
"""
SETTLED = 1e-3
"""The relative difference up to which two periods count as equal."""


def interleaved_s(jobs: Sequence[Stages]) -> float:
    """Return the seconds of an iteration of jobs that take turns in using each resource, in the
    best order of the jobs. Two jobs may be in their data stages at the same time, because one can
    read while the other prepares. The computation is that of Muri's simulator (Zhao et al., SIGCOMM
    2022, section 4).
    """
    return _interleaved_s(tuple(sorted(jobs)))


@lru_cache(maxsize=65_536)
def _interleaved_s(jobs: tuple[Stages, ...]) -> float:
    best = min(_period_s(order) for order in permutations(jobs))
    if len(jobs) == 2:
        # Two jobs may also swap halves: one job reads while the other computes and sends.
        (data, gpu, network), (other_data, other_gpu, other_network) = jobs
        swapped = max(data, other_gpu + other_network) + max(other_data, gpu + network)
        best = min(best, swapped)
    return best


def _period_s(jobs: tuple[Stages, ...]) -> float:
    """Return the period of the slots in the steady state, computed over two rounds. Each job is one
    slot behind the previous job.
    """
    ends = [0.0]
    for slot in range(2 * SLOTS):
        end = 0.0
        for behind, (data, gpu, network) in enumerate(jobs):
            turn = (slot - behind) % SLOTS
            if turn == 3:
                end = max(end, ends[slot] + network)
            elif turn == 2:
                end = max(end, ends[slot] + gpu)
            elif turn == 1 and slot:
                end = max(end, ends[slot - 1] + data)
        ends.append(end)
        if slot >= SLOTS:
            period, before = end - ends[slot - 3], ends[slot] - ends[slot - 4]
            if math.isclose(period, before, rel_tol=SETTLED):
                return period
    return ends[2 * SLOTS] - ends[SLOTS]


def guest_s(guest: Stages, host: Stages, host_iteration_s: float) -> float:
    """Return the seconds of an iteration of a guest that uses a resource only while its host does
    not. The result is a whole number of the host's iterations. In each of the host's iterations, a
    stage of the guest gets the time of the host's other two stages. The guest's next stage gets
    what is left of that time. The computation is that of Muri's simulator for AntMan (Xiao et al.,
    OSDI 2020).
    """
    data, gpu, network = host
    left_data, left_gpu, left_network = guest
    iterations, part = _windows(left_data, gpu + network)
    if part > 0:
        iterations += 1
        left_gpu -= min(left_gpu, network, gpu + network - part)
    more, part = _windows(left_gpu, data + network)
    iterations += more
    if part > 0:
        iterations += 1
        if part < data:
            left_network -= min(left_network, data + gpu - part)
    more, part = _windows(left_network, data + gpu)
    iterations += more
    if part > data:
        iterations += 1
    return iterations * host_iteration_s


def _windows(stage_s: float, window_s: float) -> tuple[float, float]:
    """Return the number of whole windows that a stage fills, and the rest in seconds. They are
    rounded separately, as in Muri's simulator. So a stage of exactly ten windows may fill ten
    windows and have nearly one window left.
    """
    if not window_s:
        return (math.inf if stage_s else 0.0), 0.0
    return math.floor(stage_s / window_s), stage_s % window_s
