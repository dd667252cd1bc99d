"""What Slurm's listings show of waiting work, compared with what real Slurm 22.05.8 (Debian
22.05.8-4+deb12u3) printed. `make beside SYSTEM=slurm` runs both.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.adapters.test_slurm_tables import job_info
from tests.unit.dashboard.world import node

from phalanx.adapters.slurm.commands import array_rows
from phalanx.adapters.slurm.commands.priorities import factors_of, one_of_each_array
from phalanx.adapters.slurm.commands.rows import Shown
from phalanx.adapters.slurm.commands.shares import share_rows
from phalanx.adapters.slurm.marks import NOTE
from phalanx.adapters.slurm.steps import torchrun_variables
from phalanx.cli.times import clock
from phalanx.model.jobs import states as st
from phalanx.model.rows.shares import ShareInfo
from phalanx.model.rows.work import ArrayTaskInfo
from phalanx.protocol.requests.jobs import ListElements
from phalanx.scheduler.cycle.waiting import WaitingGroup


def _array_task(indices: str, state: str, starts: int = 0) -> ArrayTaskInfo:
    return ArrayTaskInfo(
        name=f"20[{indices}]", elements=1, state=state, exit_code=None, starts=starts, node="",
        reason="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "rows", "ids"),
    [
        ("1-3", [("1", st.PENDING, 1), ("2", st.PENDING, 1), ("3", st.WAITING, 0)], ["20[1-3]"]),
        ("1,5,9", [("1", st.PENDING, 1), ("5,9", st.WAITING, 0)], ["20[1,5,9]"]),
        ("0-40:5%2", [("0", st.PENDING, 1), ("5-40:5", st.WAITING, 0)], ["20[0,5-40:5%2]"]),
        ("1-4", [("1", st.COMPLETED, 1), ("2", st.RUNNING, 1), ("3-4", st.WAITING, 0)],
         ["20[2]", "20[3-4]"]),
        ("1-3", [("1", st.PENDING, 2), ("2-3", st.WAITING, 0)], ["20[1]", "20[2-3]"]),
        ("1-2", [("1", st.COMPLETED, 1), ("2", st.COMPLETED, 1)], []),
    ],
)  # fmt: skip
def test_array_tasks_that_have_not_begun_are_one_row(monkeypatch, written, rows, ids) -> None:
    """Slurm 22.05.8 printed one row `20_[1-3]` for these, and a row for each array task that had
    begun.
    """
    array = job_info(name="20", namespace="default", array=written, state=st.PENDING, running=0)

    def ask(_, request):
        if isinstance(request, ListElements):
            return [_array_task(*row) for row in rows]
        return msgspec.structs.replace(array, name=request.name.rpartition("/")[2], array="")

    monkeypatch.setattr(array_rows, "ask", ask)
    monkeypatch.setattr(array_rows, "address", lambda: None)
    assert [one.name for one in array_rows.with_array_tasks([array], [], False)] == ids


@pytest.mark.parametrize(
    ("fields", "total", "priority"),
    [
        ({"is_held": True, "priority": 7}, None, "0"),
        ({"priority": 0}, None, "1"),
        ({"priority": -100}, None, "1"),
        ({"priority": 9}, None, "9"),
        ({"priority": 0}, 10149.6, "10149"),
        ({"priority": 0}, 0.0, "1"),
        ({"priority": 3, "name": "7[2-9]"}, 10149.6, "10149"),
        ({"priority": 3, "state": st.RUNNING}, 10149.6, "3"),
    ],
)
def test_priority_0_means_held(fields, total, priority) -> None:
    """Slurm 22.05.8 printed 0 for held jobs only. With its multifactor plugin it printed the sum of
    the factors.
    """
    shown = Shown({"priority"})
    shown._totals = {} if total is None else {"7": total}
    job = job_info(**{"name": "7", "state": st.PENDING} | fields)
    assert shown.row(job) == {"priority": priority}


@pytest.mark.parametrize(
    ("notes", "replicas", "nodes"),
    [
        ({"cpus": "16"}, 16, "4"),
        ({"cpus": "17"}, 17, "5"),
        ({"cpus": "2"}, 2, "1"),
        ({"cpus": "2", "apart": "yes"}, 2, "2"),
        ({"cpus": "8"}, 1, "1"),
    ],
)
def test_nodes_of_a_waiting_job_are_the_fewest_that_hold_it(notes, replicas, nodes) -> None:
    """Slurm 22.05.8 printed 4 nodes for `-n16` on nodes of 4 CPUs."""
    shown = Shown({"nodes"})
    shown._nodes = [node(1, [], total={"CPU": 4.0}), node(2, [], total={"CPU": 2.0})]
    annotations = {NOTE + name: value for name, value in notes.items()}
    job = job_info(name="7", state=st.PENDING, replicas=replicas, annotations=annotations)
    assert shown.row(job) == {"nodes": nodes}


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"state": st.PENDING, "begins": 4e9, "time_limit_s": 60.0}, clock(4e9 + 60)),
        ({"state": st.PENDING, "begins": 4e9}, "NONE"),
        ({"state": st.PENDING}, ""),
        ({"state": st.RUNNING, "ends": 5e9, "time_limit_s": 60.0}, clock(5e9)),
        ({"state": st.RUNNING}, "NONE"),
    ],
)
def test_end_of_a_job_that_waits(fields, end) -> None:
    usual = {"time_limit_s": None, "ends": None, "is_held": False, "ran_s": 0.0}
    assert Shown({"end"}, False).row(job_info(**usual | fields)) == {"end": end}


def _share(user: str, rank: int, queue: str = "q", use: float = 1.0) -> ShareInfo:
    return ShareInfo(
        queue=queue, user=user, shares=1.0, is_set=False, part=0.5, use=use, use_part=0.5,
        level_fairshare=1.0, rank=rank, rate=0.0,
    )  # fmt: skip


def test_fairshare_is_a_rank_among_all_users_of_a_queue() -> None:
    """Slurm 22.05.8 printed the same FairShare for bob with `-u bob` as without it."""
    rows = share_rows([_share("al", 2), _share("bob", 1), _share("cy", 1, "other")])
    assert [(row["user"], row["fairshare"]) for row in rows] == [
        ("al", "1.000000"), ("bob", "0.500000"), ("cy", "1.000000"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("uses", "printed"),
    [  # what was billed to users of three accounts, and NormUsage that Slurm printed for them
        (
            {"a0": [16.0, 14.0, 1.0, 7.0], "a1": [0.0, 14.0, 0.0, 2.0], "a2": [4.0, 0.0, 0.0]},
            "0.275862 0.241379 0.017241 0.120690 0.000000 0.241379 0.000000 0.034483 0.068966"
            " 0.000000 0.000000",
        ),
        ({"a0": [0.0, 2785837.0], "a1": [3371753.0]}, "0.000000 0.452423 0.547577"),
        ({"a0": [0.0], "a1": [0.0]}, "0.000000 0.000000"),
    ],
)  # fmt: skip
def test_norm_usage_is_a_part_of_the_use_of_all_queues(uses, printed) -> None:
    rows = share_rows(
        [
            _share(f"u{at}", 1, queue, use)
            for queue, mine in uses.items()
            for at, use in enumerate(mine)
        ]
    )
    assert [row["norm_use"] for row in rows] == printed.split()


@pytest.mark.parametrize(
    ("use", "printed"), [(0.0, "0"), (79.08, "79"), (8.75, "8"), (4.38, "4"), (399985.9, "399985")]
)
def test_raw_usage_has_no_fraction(use, printed) -> None:
    """Slurm 22.05.8 printed 8 for a usage of 8.75, and 4 for half of 8.75."""
    assert share_rows([_share("al", 1, use=use)])[0]["use"] == printed


@pytest.mark.parametrize(
    ("factors", "priority", "printed"),
    [  # of Slurm with PriorityWeightFairshare=10000: PRIORITY has no fraction, FAIRSHARE is rounded
        ({"rank": 1 / 6}, 0, ("1666", "1667")),
        ({"rank": 2 / 3}, 0, ("6666", "6667")),
        ({"rank": 11 / 12}, 0, ("9166", "9167")),
        ({"rank": 10 / 12}, 0, ("8333", "8333")),
        ({"rank": 0.0}, 0, ("1", "0")),  # 0 would mean held
        ({}, 0, ("1", "0")),
        ({}, 7, ("7", "0")),
    ],
)
def test_priority_is_the_sum_of_the_factors_without_its_fraction(
    factors, priority, printed
) -> None:
    weighed = 10_000 * factors.get("rank", 0.0)
    named = {"total": weighed, "fairshare": weighed, "age": 0.0, "size": 0.0}
    one = WaitingGroup(
        podgroup="default/15", queue="q", user="u", position=1, priority=priority, waited_s=0.0,
        factors=named if factors else {},
    )  # fmt: skip
    row = factors_of(one)
    assert (row["priority"], row["fairshare"]) == printed


def test_an_array_has_one_line_in_sprio() -> None:
    names = ("default/15[2]", "default/15[3]", "default/16", "lab/15[1]")
    groups = [
        WaitingGroup(podgroup=name, queue="q", user="u", position=at, priority=0, waited_s=0.0,
                     factors={})
        for at, name in enumerate(names, 1)
    ]  # fmt: skip
    assert [one.podgroup for one in one_of_each_array(groups)] == [
        "default/15[2]", "default/16", "lab/15[1]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "ranks"),
    [
        (["a"], ["0 0 1 1 0 1"]),
        (["a", "a"], ["0 0 2 2 0 1", "1 1 2 2 0 1"]),
        (["a", "b"], ["0 0 2 1 0 2", "1 0 2 1 1 2"]),
        (["b", "b", "a"], ["0 0 3 2 0 2", "1 1 3 2 0 2", "2 0 3 1 1 2"]),
    ],
)
def test_each_task_of_a_step_has_a_rank_of_its_own(nodes, ranks) -> None:
    """In an earlier version all programs of torch.distributed that a batch script started by srun
    had rank 0, and waited for each other in vain. Under real Slurm these variables are unset.
    """
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK",
             "GROUP_WORLD_SIZE")  # fmt: skip
    found = [torchrun_variables(task, nodes) for task in range(len(nodes))]
    assert [" ".join(one[name] for name in names) for one in found] == ranks
    assert all(one["ROLE_RANK"] == one["RANK"] for one in found)
    assert all(one["GROUP_RANK"] == one["NODE_RANK"] for one in found)
