"""Runs drawn histories with a half-life of a minute on real Slurm and on a cluster of Phalanx, and
yields the rows that compare decayed use, and the age and the size of waiting jobs.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from phalanx_benchmarks.beside.factor_rows import (
    Lines,
    ages_row,
    factors_text,
    lines_of,
    order_row,
    order_text,
    part_row,
    relative_row,
    rule_row,
    ruled,
    small_first_row,
    weights,
    whole_jobs,
)
from phalanx_benchmarks.beside.fading import (
    HALF_LIFE_S,
    LOOK_S,
    PAUSE_S,
    FadingHistory,
    drawn_fading,
    use_here,
    use_there,
)
from phalanx_benchmarks.beside.histories import ShortJob
from phalanx_benchmarks.beside.history_rows import (
    WEIGHT,
    Counted,
    Users,
    listed,
    order_of_use,
    order_of_users,
    ordered,
    same,
    total_of,
    use_row,
)
from phalanx_benchmarks.beside.history_rows import order_row as order_of_users_row
from phalanx_benchmarks.beside.history_runs import (
    Spans,
    drained,
    make_queues,
    manifest,
    moment,
    run_on_both,
    submit,
)
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.phalanx_listings import (
    PRIORITY,
    SHARES,
    SHARES_JSON,
    as_sprio,
    ranks_in_table,
    table_of_shares,
    users_in,
)
from phalanx_benchmarks.beside.rows import DIFFERS, ON_PURPOSE, Row
from phalanx_benchmarks.beside.share_cases import SETTINGS as SHARE_SETTINGS
from phalanx_benchmarks.beside.share_cases import make_accounts, row_of, shown, tree_in
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

SETTINGS = {
    **SHARE_SETTINGS,
    "PriorityDecayHalfLife": "1",
    "PriorityMaxAge": "1",
    "PriorityWeightAge": str(WEIGHT),
    "PriorityWeightFairshare": str(WEIGHT),
    "PriorityWeightJobSize": str(WEIGHT),
}
"""Slurm's settings: a half-life and a largest age of a minute each."""
HALF = (
    "a second leaves 1 - 0.693 / half-life of the use there, so that half of it is left a little"
    " before a half-life has passed"
)
_LIST = "sshare -l -a -P -n"
_WAITING = "sprio -l -h"


class Look(NamedTuple):
    """The numbers that both sides print about their users at one moment."""

    tick: float
    """When Slurm computed its numbers, in seconds since the epoch."""
    text: str
    theirs: Users
    ours: Users
    shares: Users
    table: str
    """What `phalanx shares` prints, as JSON and as a table."""
    between: tuple[float, float]
    """Phalanx's numbers were read between these moments."""


def compare(real: SlurmCluster, ours: PhalanxCluster, seed: int, count: int) -> Iterator[Row]:
    """Yield the rows of each random history."""
    draw = random.Random(f"fading {seed}")
    before: list[str] = []
    for number in range(count):
        history = drawn_fading(draw, f"f{number}")
        make_accounts(real, history.accounts, before)
        make_queues(ours, history.accounts, before)
        before = [history.account]
        yield from _rows(real, ours, f"decay {seed}.{number}", history)


def _rows(
    real: SlurmCluster, ours: PhalanxCluster, name: str, history: FadingHistory
) -> Iterator[Row]:
    ours.set_rules(rules(len(history.users)))
    ticks = [_restarted(real)]
    theirs, mine = run_on_both(real, ours, history.early)
    ticks += [real.computed_at(), _restarted(real)]
    time.sleep(PAUSE_S)
    ticks += [real.computed_at(), _restarted(real)]
    late = run_on_both(real, ours, history.late)
    ticks += [real.computed_at(), _restarted(real)]
    begun = _look(real, ours)
    yield from _use_rows(
        name, history, begun, ({**theirs, **late[0]}, {**mine, **late[1]}), sorted({*ticks})
    )
    with drained(real, ours):
        numbers = _submit(real, ours, history)
        real.restart_controller()
        ended = _look(real, ours)
        yield half_life_row(f"{name}: half-life", begun, ended)
        yield from _factor_rows(real, ours, name, history, numbers, ended)
    real.restart_with()


def rules(count: int, size: float = WEIGHT) -> str:
    """Return Phalanx's rules for an account of `count` users, as YAML."""
    plugin = {"name": "multifactor", "arguments": weights(count, size)}
    tiers = [{"plugins": [{"name": "gang"}, plugin]}, {"plugins": [{"name": "predicates"}]}]
    return json.dumps({"actions": "allocate, backfill", "tiers": tiers})


def _restarted(real: SlurmCluster) -> float:
    """Restart Slurm's controller, so that it computes uses and priorities. Return the moment."""
    real.restart_controller()
    return real.computed_at()


def _look(real: SlurmCluster, ours: PhalanxCluster) -> Look:
    text = real.done(_LIST)
    first = time.time()
    mine, shares = listed(ours.done(_LIST)), users_in(ours.done(SHARES_JSON))
    between = first, time.time()
    table = ours.done(SHARES)
    return Look(real.computed_at(), text, listed(text), mine, shares, table, between)


def _use_rows(
    name: str, history: FadingHistory, look: Look, spans: tuple[Spans, Spans], ticks: list[float]
) -> Iterator[Row]:
    yield row_of(f"{name}: tree", shown(tree_in(look.text)))
    there = use_there(history.jobs, spans[0], ticks)
    least, most = use_here(history.jobs, spans[1], look.between)
    middle = {key: (use + most[key]) / 2 for key, use in least.items()}
    by_times = order_of_use(history.accounts, there), order_of_use(history.accounts, middle)
    theirs = order_of_users(look.theirs)
    for command, order in (
        ("sshare", order_of_users(look.ours)),
        (SHARES, ordered(ranks_in_table(table_of_shares(look.table)))),
    ):
        row = f"{name}: order of users, {command}"
        yield order_of_users_row(row, (theirs, order), by_times)
    counted = Counted(there, least, most)
    for command, users in (("sshare", look.ours), (SHARES, look.shares)):
        yield use_row(f"{name}: use, {command}", look.theirs, users, counted, total_of(look.text))


def half_life_row(name: str, begun: Look, ended: Look) -> Row:
    """Compare how much use is left after a while in which no job ran. The name of the row states
    the half-life that each side's numbers have.
    """
    passed = ended.tick - begun.tick
    shortest = ended.between[0] - begun.between[1]
    longest = ended.between[1] - begun.between[0]
    left = [
        sum(one.use for one in after.values()) / sum(one.use for one in before.values())
        for before, after in ((begun.theirs, ended.theirs), (begun.ours, ended.ours))
    ]
    expected = (1.0 - 0.693 / HALF_LIFE_S) ** passed
    least, most = (2.0 ** (-seconds / HALF_LIFE_S) for seconds in (longest, shortest))
    is_ruled = abs(left[0] - expected) < 1e-4 and least - 1e-4 <= left[1] <= most + 1e-4
    halves = [
        -seconds * math.log(2) / math.log(part)
        for seconds, part in zip((passed, (shortest + longest) / 2), left, strict=True)
    ]
    return Row(
        f"{name} {halves[0]:.1f} s there, {halves[1]:.1f} s here",
        ON_PURPOSE if is_ruled else DIFFERS,
        f"{left[0]:.6f} left after {passed:.0f} s, by rule {expected:.6f}",
        f"{left[1]:.6f} left after {shortest:.1f} to {longest:.1f} s, by rule {least:.6f} to"
        f" {most:.6f}",
        HALF if is_ruled else "",
    )


def _submit(real: SlurmCluster, ours: PhalanxCluster, history: FadingHistory) -> dict[str, str]:
    """Submit the waiting jobs at their moments, and wait until the order is to be read. Return
    Slurm's numbers by user.
    """
    numbers = {}
    begun = time.monotonic()
    for is_first, jobs in ((True, [job for job in history.waiting if job.is_held]),
                           (False, history.waiting)):  # fmt: skip
        for job in jobs:
            if not is_first:
                time.sleep(max(begun + job.at_s - time.monotonic(), 0.0))
            if is_first or not job.is_held:
                hold = "-H " if is_first else ""
                numbers[job.user] = real.done(
                    f"cd /tmp; sbatch --parsable {hold}--uid={job.user} -A {history.account}"
                    f" --nice={job.nice}"
                    f" -J {job.name} -N{job.nodes} --ntasks-per-node={job.cpus} --mem=10"
                    f" -t {job.minutes} -o /dev/null --wrap true"
                ).strip()
                short = ShortJob(job.name, history.account, job.user, job.cpus, 0, 0.1)
                submit(ours, [manifest(short, job.nodes, is_held=is_first)])
                if job.nice:  # manifests have no nice value
                    ours.done(f"scontrol update jobid={job.name} nice={job.nice}")
            else:
                real.done(f"scontrol release {numbers[job.user]}")
                ours.done(f"phalanx release {job.name}")
    time.sleep(max(begun + LOOK_S - time.monotonic(), 0.0))
    return numbers


def _factor_rows(
    real: SlurmCluster,
    ours: PhalanxCluster,
    name: str,
    history: FadingHistory,
    numbers: dict[str, str],
    look: Look,
) -> Iterator[Row]:
    whole, count = whole_jobs(history), len(history.users)
    waited = _waited(real, numbers), _waited(ours, {j.user: j.name for j in history.waiting})

    def seen() -> tuple[tuple[Lines, Lines, Lines], tuple[float, float]]:
        theirs = lines_of(real.done(_WAITING))
        first = time.time()
        texts = ours.done(_WAITING), as_sprio(ours.done(PRIORITY))
        mine = [lines_of(text, is_sorted=True) for text in texts]
        return (theirs, mine[0], mine[1]), (first, time.time())

    def ages_at(now: float, side: int) -> dict[str, float]:
        return {user: now - at for user, at in waited[side].items()}

    def by_rule(between: tuple[float, float], size: float) -> tuple[Lines, Lines]:
        return (
            ruled(history, look.theirs, ages_at(real.computed_at(), 0), size),
            ruled(history, look.ours, ages_at(sum(between) / 2, 1), size),
        )

    (theirs, sprio, priority), between = seen()
    expected = by_rule(between, WEIGHT)
    tick = real.computed_at()
    ages = ages_at(tick, 0)
    yield rule_row(f"{name}: priorities by rule", history, look.theirs, ages, theirs)
    orders = order_text(expected[0], whole), order_text(expected[1], whole)
    bounds = {
        user: (ages[user], between[0] - at - 1, between[1] - at) for user, at in waited[1].items()
    }
    for command, mine in (("sprio", sprio), (PRIORITY, priority)):
        both = order_text(theirs, whole), order_text(mine, whole)
        yield order_row(f"{name}: order of waiting jobs, {command}", both, orders)
        digits = [factors_text(one, whole, "fairshare", "size") for one in (theirs, mine)]
        yield same(f"{name}: FAIRSHARE and JOBSIZE, {command}", *digits)
        yield ages_row(f"{name}: AGE and PRIORITY, {command}", history, theirs, mine, bounds)
    yield part_row(f"{name}: size of a part of a node", history, theirs, sprio)
    real.restart_with(PriorityFavorSmall="YES")
    ours.set_rules(rules(count, -WEIGHT))
    (theirs, small, _), between = seen()
    lines = by_rule(between, -WEIGHT)
    yield small_first_row(
        f"{name}: small jobs first",
        history,
        (theirs, small),
        (order_text(theirs, whole), order_text(small, whole)),
        (order_text(lines[0], whole), order_text(lines[1], whole)),
    )
    real.restart_with(PriorityFlags="MAX_TRES,SMALL_RELATIVE_TO_TIME")
    theirs = lines_of(real.done(_WAITING))
    yield relative_row(f"{name}: size relative to time", history, theirs, sprio)


def _waited(side: SlurmCluster | PhalanxCluster, jobs: dict[str, str]) -> dict[str, float]:
    """Return the moment since which each user's job has waited, in whole seconds."""
    found = {}
    for user, job in jobs.items():
        text = side.done(f"scontrol -o show job {job}")
        words = dict(word.partition("=")[::2] for word in text.split())
        found[user] = moment(words["AccrueTime"])
    return found
