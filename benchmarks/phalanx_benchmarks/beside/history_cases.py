"""Compares what random histories of short jobs leave behind: real Slurm's shares and order of
waiting jobs, and those of a cluster of Phalanx on which the same users ran the same jobs.

An account of Slurm is a queue of Phalanx. Jobs run on both sides, and no two runs last equally
long, so a user's part of the use may differ, as far as the times of both sides' `sacct` explain
this. Everything else must be equal. Phalanx's numbers are read from its `sshare` and `sprio`, and
from `phalanx shares` and `phalanx priority`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from phalanx_benchmarks.beside import turn_cases
from phalanx_benchmarks.beside.histories import (
    Accounts,
    History,
    ShortJob,
    drawn_history,
    uses,
)
from phalanx_benchmarks.beside.history_rows import (
    Counted,
    listed,
    order_of_jobs,
    order_of_use,
    order_of_users,
    order_row,
    ordered,
    priority_faults,
    priority_row,
    same,
    shares_of,
    total_of,
    use_row,
)
from phalanx_benchmarks.beside.history_runs import (
    drained,
    make_queues,
    manifest,
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
    shares_in_percent,
    shares_in_table,
    table_of_shares,
    users_in,
)
from phalanx_benchmarks.beside.rows import Row
from phalanx_benchmarks.beside.share_cases import make_accounts, row_of, shown, tree_in
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster
from phalanx_benchmarks.beside.turns import NO_PENALTY_S, USUAL_PENALTY_S

_RULES = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: multifactor
    arguments:
      fairshareWeight: 10000
      penalty: {penalty}
      billing: {{cpu: 100000, memory: 0.000093132257461548}}
- plugins:
  - name: predicates
"""
"""Phalanx's rules, with Slurm's weights (`SETTINGS` and `PARTITION` of `share_cases`)."""
RULES = _RULES.format(penalty="1ms")
"""The rules with a penalty of a millisecond: a user's second waiting job counts as if the first had
run for that long.
"""
_BY_PENALTY = {NO_PENALTY_S: RULES, USUAL_PENALTY_S: _RULES.format(penalty="5m")}
_LIST = "sshare -l -a -P -n"
_WAITING = "sprio -l -h"


def compare(real: SlurmCluster, ours: PhalanxCluster, seed: int, count: int) -> Iterator[Row]:
    """Yield the rows of each random history. Both sides run a history at the same time."""
    draw = random.Random(f"histories {seed}")
    turns = random.Random(f"turns {seed}")
    before: History | None = None
    for number in range(count):
        name, history = f"history {seed}.{number}", drawn_history(draw, f"h{number}")
        make_accounts(real, history.accounts, list(before.accounts) if before else [])
        make_queues(ours, history.accounts, list(before.accounts) if before else [])
        before = history
        yield from _rows(real, ours, name, history)
        yield from turn_cases.compare(real, ours, name, history.accounts, turns, _BY_PENALTY)


def _rows(real: SlurmCluster, ours: PhalanxCluster, name: str, history: History) -> Iterator[Row]:
    accounts = history.accounts
    spans = run_on_both(real, ours, history.jobs)
    theirs_s, ours_s = ({job: span.seconds for job, span in one.items()} for one in spans)
    real.restart_controller()  # then ranks are computed at once, not at the next period
    theirs_text, ours_text = real.done(_LIST), ours.done(_LIST)
    yield row_of(f"{name}: tree", shown(tree_in(theirs_text)))
    theirs, mine = listed(theirs_text), listed(ours_text)
    table, users = table_of_shares(ours.done(SHARES)), users_in(ours.done(SHARES_JSON))
    yield same(f"{name}: shares", shares_of(theirs), shares_of(mine))
    yield same(f"{name}: {SHARES}", shares_in_percent(theirs), shares_in_table(table))
    middle_s = {job: seconds + 0.5 for job, seconds in ours_s.items()}
    by_times = (
        order_of_use(accounts, uses(history.jobs, theirs_s)),
        order_of_use(accounts, uses(history.jobs, middle_s)),
    )
    orders = order_of_users(theirs), order_of_users(mine)
    yield order_row(f"{name}: order of users", orders, by_times)
    ranks = ordered(ranks_in_table(table))
    yield order_row(f"{name}: order of users, {SHARES}", (orders[0], ranks), by_times)
    counted = Counted(
        uses(history.jobs, theirs_s),
        uses(history.jobs, ours_s),
        uses(history.jobs, {job: seconds + 1.0 for job, seconds in ours_s.items()}),
    )
    yield use_row(f"{name}: use", theirs, mine, counted, total_of(theirs_text))
    yield use_row(f"{name}: use, {SHARES}", theirs, users, counted, total_of(theirs_text))
    waiting = _waiting(real, ours, accounts)
    # tied users submit in the order of their names
    by_users = orders[0].replace("=", " "), orders[1].replace("=", " ")
    their_jobs = order_of_jobs(waiting[0], accounts)
    faults = priority_faults(waiting[0], theirs)
    for command, text in (("", waiting[1]), (f", {PRIORITY}", waiting[2])):
        jobs = their_jobs, order_of_jobs(text, accounts)
        yield order_row(f"{name}: order of waiting jobs{command}", jobs, by_users)
        yield priority_row(f"{name}: priorities{command}", faults, priority_faults(text, mine))


def _waiting(real: SlurmCluster, ours: PhalanxCluster, accounts: Accounts) -> tuple[str, str, str]:
    """Let each user submit a job that has to wait. Return what `sprio` prints on both sides, and
    `phalanx priority` in the same form.
    """
    places = [(account, user) for account in accounts for user in sorted(accounts[account][1])]
    lines = [
        f"sbatch --uid={user} -A {account} -J w -N1 -n1 --mem=10 -o /dev/null --wrap true"
        for account, user in places
    ]
    jobs = [ShortJob(f"{account}-{user}", account, user, 1, 10, 0.1) for account, user in places]
    with drained(real, ours):
        real.done("cd /tmp; " + " && ".join(lines))
        submit(ours, [manifest(job) for job in jobs])
        return real.done(_WAITING), ours.done(_WAITING), as_sprio(ours.done(PRIORITY))
