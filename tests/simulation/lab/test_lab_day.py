"""A simulated day of a lab: the same seed always gives the same day, and a head that dies in the
middle of the day loses nothing.
"""

from __future__ import annotations

import pytest

from phalanx.model.attempts import Attempt
from phalanx_research.lab.command import rows, run, sentences
from phalanx_research.lab.giving_way import gave_way
from phalanx_research.lab.outcome import Outcome
from phalanx_research.lab.people import Size

SMALL = Size(users=6, nodes=4, hours=1.0)


def day(seed: int, restarts: int = 0) -> Outcome:
    return run(SMALL, seed, 0, restarts, lambda done, total: None)


def test_one_seed_is_one_history() -> None:
    first, again = day(3, restarts=2), day(3, restarts=2)
    assert first == again
    assert first.heads == 3
    assert not first.lost


def test_heads_that_die_in_the_middle_of_all_of_it_lose_nothing() -> None:
    """With this seed, two promises became later when they were kept only in the head's memory."""
    found = run(Size(users=6, nodes=4, hours=2.0), 2, 2, 8, lambda done, total: None)
    assert found.heads == 9
    assert found.promises_met
    assert sentences(found)[-2:] == [
        "No job, array task, record or promise was lost.",
        f"History {found.digest}.",
    ]


def test_all_kinds_of_work_run_in_a_small_day() -> None:
    found = day(1)
    assert not found.refused
    assert not found.lost
    assert [row[0] for row in rows(found) if int(row[2])] == [one.kind for one in found.kinds]
    assert {one.kind for one in found.kinds} == {
        "backup", "chain", "desk", "gang", "grid", "judge", "licensed", "pupil", "single", "spare",
        "sweep", "urgent",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (Size(users=0), "--users must be 1 to 10,000, not 0"),
        (Size(nodes=2), "--machines must be 4 to 1,000, not 2"),
        (Size(hours=500.0), "--hours must be 1 to 168, not 500"),
    ],
)
def test_a_lab_that_is_none_is_refused(size: Size, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run(size, 1, 0, 0, lambda done, total: None)


def preempted(job: str, ran_s: float, reason: str) -> Attempt:
    return Attempt(
        job=job, namespace="default", member="worker-0", attempt=1, user="", queue="", command="",
        state="Preempted", reason=reason, submitted=0.0, started=0.0, ended=ran_s,
    )  # fmt: skip


def test_the_history_tells_who_gave_way_to_whom() -> None:
    to_paper = "its place went to default/due-2 (preempt)"
    records = [
        preempted("long-1", 500.0, to_paper),
        preempted("long-1", 3.0, to_paper),
        preempted("many-3[7]", 3.0, "its place went to default/many-4[0] (reclaim)"),
        preempted("long-1", 99.0, ""),
    ]
    kinds = {"long-1": "spare", "due-2": "urgent", "many-3": "sweep", "many-4": "sweep"}
    found = gave_way(records, kinds)
    assert (found.count, found.short, found.jobs) == (4, 2, 2)
    assert found.most == ("long-1/worker-0", 3)
    assert [(one.action, one.kind, one.to, one.count) for one in found.pairs] == [
        ("preempt", "spare", "urgent", 2),
        ("", "spare", "nobody", 1),
        ("reclaim", "sweep", "sweep", 1),
    ]
