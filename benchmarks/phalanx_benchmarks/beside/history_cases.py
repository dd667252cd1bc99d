"""Compares what random histories of short jobs leave behind: real Slurm's shares and order of
waiting jobs, and those of a cluster of Phalanx on which the same users ran the same jobs.

An account of Slurm is a queue of Phalanx. Jobs run on both sides, and no two runs last equally
long, so a user's part of the use may differ by what the times of both sides' `sacct` explain. All
else must be equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from phalanx_benchmarks.beside.histories import Accounts, History, ShortJob, drawn_history, uses
from phalanx_benchmarks.beside.history_rows import (
    listed,
    order_of_jobs,
    order_of_use,
    order_of_users,
    order_row,
    priority_faults,
    priority_row,
    same,
    shares_of,
    total_of,
    use_row,
)
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.processes import wait_until
from phalanx_benchmarks.beside.rows import Row
from phalanx_benchmarks.beside.share_cases import make_accounts, row_of, shown
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

RULES = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: multifactor
    arguments:
      fairshareWeight: 10000
      penalty: 1ms
      billing: {cpu: 100000, memory: 0.000093132257461548}
- plugins:
  - name: predicates
"""
"""Phalanx's rules, with Slurm's weights (`SETTINGS` and `PARTITION` of `share_cases`). A user's
second waiting job counts as if the first had run for a millisecond.
"""
_LIST = "sshare -l -a -P -n"
_WAITING = "sprio -l -h"
_PAST = "sacct -a -X -n -P -o JobName,ElapsedRaw"


def compare(real: SlurmCluster, ours: PhalanxCluster, seed: int, count: int) -> Iterator[Row]:
    """Yield the rows of each random history. Both sides run a history at the same time."""
    draw = random.Random(f"histories {seed}")
    before: History | None = None
    for number in range(count):
        name, history = f"history {seed}.{number}", drawn_history(draw, f"h{number}")
        make_accounts(real, history.accounts, list(before.accounts) if before else [])
        _make_queues(ours, history.accounts, list(before.accounts) if before else [])
        before = history
        with ThreadPoolExecutor(2) as pool:
            theirs_run = pool.submit(_run_on_slurm, real, history.jobs)
            ours_run = pool.submit(_run_on_phalanx, ours, history.jobs)
            theirs_s, ours_s = theirs_run.result(), ours_run.result()
        real.restart_controller()  # then ranks are computed at once, not at the next period
        theirs_text, ours_text = real.done(_LIST), ours.done(_LIST)
        yield row_of(f"{name}: tree", shown(_of_tree(theirs_text)))
        theirs, mine = listed(theirs_text), listed(ours_text)
        yield same(f"{name}: shares", shares_of(theirs), shares_of(mine))
        middle_s = {job: seconds + 0.5 for job, seconds in ours_s.items()}
        by_times = (
            order_of_use(history.accounts, uses(history.jobs, theirs_s)),
            order_of_use(history.accounts, uses(history.jobs, middle_s)),
        )
        orders = order_of_users(theirs), order_of_users(mine)
        yield order_row(f"{name}: order of users", orders, by_times)
        yield use_row(
            f"{name}: use", history.jobs, (theirs, theirs_s), (mine, ours_s), total_of(theirs_text)
        )
        waiting = _waiting(real, ours, history.accounts)
        jobs = (
            order_of_jobs(waiting[0], history.accounts),
            order_of_jobs(waiting[1], history.accounts),
        )
        # tied users submit in the order of their names
        by_users = orders[0].replace("=", " "), orders[1].replace("=", " ")
        yield order_row(f"{name}: order of waiting jobs", jobs, by_users)
        yield priority_row(
            f"{name}: priorities",
            priority_faults(waiting[0], theirs),
            priority_faults(waiting[1], mine),
        )


def _of_tree(text: str) -> str:
    """Return the columns that `share_cases.shown` reads."""
    lines = [line.split("|") for line in text.splitlines()]
    return "\n".join("|".join([c[0], c[1], c[2], c[4], c[7], c[8]]) for c in lines)


def _make_queues(ours: PhalanxCluster, accounts: Accounts, before: Sequence[str]) -> None:
    for name in before:
        ours.done(f"phalanx queue delete {name}")
    for name, (weight, users) in accounts.items():
        shares = " ".join(f"{user}={number}" for user, number in users.items())
        ours.done(
            f"phalanx queue create {name} --weight {weight} && phalanx set-shares {name} {shares}"
        )


def _run_on_slurm(real: SlurmCluster, jobs: Sequence[ShortJob]) -> dict[str, float]:
    lines = [
        f"sbatch --parsable --uid={job.user} -A {job.account} -J {job.name} -N1 -n{job.cpus}"
        f" --mem={job.mib} -o /dev/null --wrap 'sleep {job.sleeps_s}'"
        for job in jobs
    ]
    numbers = real.done("cd /tmp; " + " && ".join(lines)).split()
    wait_until(lambda: not real.run("squeue -h").stdout.strip(), "the end of drawn jobs")
    return _past(lambda: real.done(f"{_PAST} -j {','.join(numbers)}"), jobs)


def _run_on_phalanx(ours: PhalanxCluster, jobs: Sequence[ShortJob]) -> dict[str, float]:
    _submit(ours, jobs)
    wait_until(lambda: not ours.run("squeue -h").stdout.strip(), "the end of drawn jobs")
    return _past(lambda: ours.done(_PAST), jobs)


def _past(read: Callable[[], str], jobs: Sequence[ShortJob]) -> dict[str, float]:
    """Return the seconds for which each job ran, once the accounts have all of them."""
    found: dict[str, float] = {}

    def has_all() -> bool:
        for line in read().splitlines():
            name, _, seconds = line.partition("|")
            if seconds:
                found[name] = float(seconds)
        return all(job.name in found for job in jobs)

    wait_until(has_all, "the accounts of drawn jobs")
    return found


def _submit(ours: PhalanxCluster, jobs: Sequence[ShortJob]) -> None:
    """Submit jobs as their users. Only a manifest names another user."""
    text = "---\n".join(_manifest(job) for job in jobs)
    ours.done(f"phalanx submit - <<'END'\n{text}END\n")


def _manifest(job: ShortJob) -> str:
    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata: {{name: {job.name}}}\n"
        f"spec:\n  user: {job.user}\n  queue: {job.account}\n  tasks:\n"
        "  - replicas: 1\n    name: a\n    template:\n      spec:\n"
        "        restartPolicy: Never\n        containers:\n"
        f'        - {{name: c, command: [sleep, "{job.sleeps_s}"], resources: '
        f"{{requests: {{cpu: {job.cpus}, memory: {job.mib}Mi}}}}}}\n"
    )


def _waiting(real: SlurmCluster, ours: PhalanxCluster, accounts: Accounts) -> tuple[str, str]:
    """Let each user submit a job that has to wait. Return what `sprio` prints on both sides."""
    places = [(account, user) for account in accounts for user in sorted(accounts[account][1])]
    for node in real.nodes:
        real.done(f"scontrol update nodename={node} state=drain reason=drawn")
        ours.done(f"phalanx drain {node}")
    lines = [
        f"sbatch --uid={user} -A {account} -J w -N1 -n1 --mem=10 -o /dev/null --wrap true"
        for account, user in places
    ]
    real.done("cd /tmp; " + " && ".join(lines))
    _submit(
        ours, [ShortJob(f"{account}-{user}", account, user, 1, 10, 0.1) for account, user in places]
    )
    theirs, mine = real.done(_WAITING), ours.done(_WAITING)
    for side in (real, ours):
        side.settle()
    for node in real.nodes:
        real.done(f"scontrol update nodename={node} state=resume")
        ours.done(f"phalanx undrain {node}")
    return theirs, mine
