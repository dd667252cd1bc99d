"""Use that decays by half-lives, and Fair Tree's ranks, compared with numbers computed by hand."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.errors import BatchFileError
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.writing import as_data
from phalanx.scheduler.plugin_parts.fair_tree import Member, level_fairshares, standings
from phalanx.scheduler.plugin_parts.past_use import Use, accrued

TIMES = st.floats(0, 1e6)
HALF_LIVES = st.floats(60, 1e7)
USES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)


def test_half_is_left_after_a_half_life() -> None:
    use = Use(8.0, 100.0)
    assert [use.left(t, 10.0) for t in (100.0, 110.0, 120.0, 130.0)] == [8.0, 4.0, 2.0, 1.0]


def test_a_clock_that_is_set_back_forgets_and_adds_nothing() -> None:
    assert Use(8.0, 100.0).left(50.0, 10.0) == 8.0
    assert accrued(3.0, -50.0, 10.0) == 0.0


def test_what_runs_adds_the_integral() -> None:
    """Work that uses resources at rate 1 over one half-life H adds H / ln 2 * (1 - 1/2) to the use.
    If it ran for ever, it would add H / ln 2.
    """
    assert accrued(1.0, 10.0, 10.0) == pytest.approx(10 / math.log(2) / 2)
    assert accrued(1.0, 1e9, 10.0) == pytest.approx(10 / math.log(2))
    assert accrued(2.0, 1.0, 1e12) == pytest.approx(2.0)


@settings(max_examples=examples(200))
@given(st.floats(0, 1e3), TIMES, TIMES, HALF_LIVES)
def test_cutting_an_interval_changes_nothing(
    rate: float, first: float, then: float, half_life: float
) -> None:
    kept = Use(accrued(rate, first, half_life), first).left(first + then, half_life)
    in_two = kept + accrued(rate, then, half_life)
    assert in_two == pytest.approx(accrued(rate, first + then, half_life), rel=1e-9, abs=1e-9)


@settings(max_examples=examples(200))
@given(st.floats(0, 1e3), TIMES, TIMES, HALF_LIVES)
def test_longer_and_larger_work_never_counts_less(
    rate: float, elapsed: float, more: float, half_life: float
) -> None:
    assert accrued(rate, elapsed, half_life) <= accrued(rate, elapsed + more, half_life)
    assert accrued(rate, elapsed, half_life) <= accrued(rate + more, elapsed, half_life)


def test_level_fairshare_is_the_part_of_shares_over_the_part_of_use() -> None:
    siblings = [Member("a", 1, 30), Member("b", 3, 10), Member("c", 0, 0), Member("d", 4, 0)]
    assert level_fairshares(siblings) == [
        pytest.approx(1 / 8 / 0.75), pytest.approx(3 / 8 / 0.25), 0.0, math.inf
    ]  # fmt: skip


def ranks(*siblings: Member) -> dict[str, int]:
    return {name: standing.rank for name, standing in standings(siblings).items()}


def account(name: str, shares: float, *members: Member) -> Member:
    return Member(name, shares, sum(m.use for m in members), members)


def test_all_of_a_better_account_come_before_all_of_a_worse_one() -> None:
    """The levels are 0.5 / 0.6 = 0.83 for physics and 0.5 / 0.4 = 1.25 for biology. erin, who used
    nothing, has a rank. carol has one, too, although no work of hers waits.
    """
    physics = account("physics", 1, Member("alice", 1, 60), Member("erin", 1, 0))
    biology = account("biology", 1, Member("bob", 1, 30), Member("carol", 1, 10))
    assert ranks(physics, biology) == {"carol": 4, "bob": 3, "erin": 2, "alice": 1}


def test_equal_users_share_a_rank_and_the_next_is_below_both() -> None:
    assert ranks(Member("a", 1, 5), Member("b", 1, 5), Member("c", 1, 9)) == {
        "a": 3, "b": 3, "c": 1
    }  # fmt: skip


def test_a_user_equal_to_an_account_gets_its_best_rank() -> None:
    group = account("group", 1, Member("a", 1, 4), Member("b", 1, 6))
    assert ranks(Member("u", 1, 10), group) == {"u": 3, "a": 3, "b": 1}


def test_equal_accounts_are_ranked_as_one() -> None:
    """Both accounts have equal shares and have used 10, so their users are ranked as if in one
    account: a 0.5/0.2, b 0.5/0.8, c 0.5/0.4, d 0.5/0.6.
    """
    one = account("one", 1, Member("a", 1, 2), Member("b", 1, 8))
    two = account("two", 1, Member("c", 1, 4), Member("d", 1, 6))
    assert ranks(one, two) == {"a": 4, "c": 3, "d": 2, "b": 1}


def test_equal_accounts_are_merged_below_accounts_too() -> None:
    deep = account("deep", 1, account("inner", 1, Member("a", 1, 5), Member("b", 1, 5)))
    flat = account("flat", 1, Member("c", 1, 2), Member("d", 1, 8))
    assert ranks(deep, flat) == {"c": 4, "a": 3, "b": 3, "d": 1}


def test_accounts_without_users_take_no_rank() -> None:
    assert ranks(account("empty", 1), Member("a", 1, 3), Member("b", 1, 0)) == {"b": 2, "a": 1}
    assert ranks() == {}


@settings(max_examples=examples(200))
@given(USES, st.integers(1, 9))
def test_more_shares_never_give_a_worse_place(rows: list[tuple[int, int]], more: int) -> None:
    """A user's place is counted by the users before that user. The rank itself cannot be compared,
    because it falls when a tie ends.
    """

    def before(given: list[tuple[int, int]]) -> int:
        found = ranks(*(Member(str(i), s, u) for i, (s, u) in enumerate(given)))
        return sum(rank > found["0"] for rank in found.values())

    shares, use = rows[0]
    assert before([(shares + more, use), *rows[1:]]) <= before(rows)
    assert before([(shares, use + more), *rows[1:]]) >= before(rows)


def snapshot_with(users: object) -> str:
    return json.dumps(
        {
            "format": "phalanx-snapshot/1",
            "config": {"actions": "allocate", "tiers": [{"plugins": [{"name": "fair-tree"}]}]},
            "queues": [{"name": "q", "users": users}],
        }
    )


def test_users_are_written_as_they_are_read() -> None:
    text = snapshot_with([{"name": "alice", "shares": 2.5, "use": 7.0, "at": 3.0}, {"name": "bob"}])
    (snapshot,) = read_snapshots(text, known_plugins())
    assert [(u.name, u.shares, u.use, u.at) for u in snapshot.queues[0].users] == [
        ("alice", 2.5, 7.0, 3.0), ("bob", 1.0, 0.0, None)
    ]  # fmt: skip
    assert read_snapshots(json.dumps(as_data(snapshot)), known_plugins()) == (snapshot,)


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ([{"name": "a", "shares": -1}], "shares of a user must be 0 or more, not -1"),
        ([{"name": "a", "use": -2, "at": 0}], "use of a user must be 0 or more, not -2"),
        ([{"name": "a", "use": 2}], "a user's use needs the time 'at'"),
        ([{"name": "a"}, {"name": "a"}], "the user 'a' is given twice"),
        ({"a": 1}, "users must be a list"),
    ],
)
def test_users_that_cannot_be_are_refused(users: object, says: str) -> None:
    with pytest.raises(BatchFileError, match=says):
        read_snapshots(snapshot_with(users), known_plugins())
