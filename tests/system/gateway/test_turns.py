"""The order in which handshakes begin: those that run at the same time, and those that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phalanx.runtime.gateway.turns import (
    AT_ONCE,
    AT_ONCE_OF_ADDRESS,
    PATIENCE_S,
    WAITING,
    Turns,
)


def begun(turns: Turns[str], now: float = 0.0) -> list[str]:
    """Let all handshakes begin that may; return their connections."""
    return list(iter(lambda: turns.begins(now), None))


def arrive(turns: Turns[str], address: str, count: int, begin: int = 0) -> list[str]:
    """Let `count` connections arrive from an address. Return the connections that are dropped in
    exchange.
    """
    dropped = [turns.arrives(address, f"{address}{n}") for n in range(begin, begin + count)]
    return [one for one in dropped if one is not None]


def test_an_address_has_so_many_at_once_and_others_have_the_rest():
    turns = Turns[str]()
    arrive(turns, "a", 200)
    assert len(begun(turns)) == AT_ONCE_OF_ADDRESS
    arrive(turns, "b", 200)
    others = begun(turns)
    assert {one[0] for one in others} == {"b"}
    assert len(others) == AT_ONCE - AT_ONCE_OF_ADDRESS
    arrive(turns, "c", 1)
    assert begun(turns) == []
    turns.over("a", "a199")
    assert begun(turns) == ["c0"]


def test_addresses_take_turns():
    turns = Turns[str]()
    arrive(turns, "a", 3)
    arrive(turns, "b", 2)
    arrive(turns, "c", 1)
    assert [one[0] for one in begun(turns)] == ["a", "b", "c", "a", "b", "a"]


def test_of_an_address_the_last_to_come_is_the_next():
    turns = Turns[str]()
    arrive(turns, "a", 3)
    assert begun(turns) == ["a2", "a1", "a0"]


def test_of_an_address_that_has_all_its_turns_the_slow_give_way():
    turns = Turns[str]()
    arrive(turns, "a", AT_ONCE_OF_ADDRESS + 2)
    first = begun(turns, 10.0)
    turns.arrives("b", "slow")
    assert begun(turns, 10.0) == ["slow"]
    assert turns.overdue(10.0 + PATIENCE_S - 0.01) == []
    assert turns.overdue(10.0 + PATIENCE_S) == first[:2], "as many as wait, the oldest first"
    for one in first[:2]:
        turns.over("a", one)
    assert len(begun(turns, 11.0)) == 2
    assert turns.overdue(99.0) == [], "nobody waits"


def test_when_all_turns_are_taken_the_address_with_most_gives_way():
    turns = Turns[str]()
    for number in range(AT_ONCE // 2):
        turns.arrives(f"10.0.0.{number}", f"one of {number}")
    arrive(turns, "a", AT_ONCE // 2)
    begun(turns)
    arrive(turns, "c", 1)
    assert turns.overdue(0.5) == []
    (late,) = turns.overdue(PATIENCE_S)
    assert late.startswith("a")
    turns.over("a", late)
    assert begun(turns, PATIENCE_S) == ["c0"]


def test_when_too_many_wait_the_oldest_of_the_address_with_most_goes():
    turns = Turns[str]()
    arrive(turns, "friend", 1)
    assert arrive(turns, "a", WAITING - 1) == []
    assert arrive(turns, "a", 2, begin=WAITING) == ["a0", "a1"]
    assert begun(turns)[0] == "friend0"


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.floats(0, 3)), max_size=300)
)
def test_bounds_hold_and_nobody_is_lost(steps):
    turns = Turns[str]()
    now, waiting, running = 0.0, set[str](), set[str]()
    for number, (address, kind, passes) in enumerate(steps):
        now += passes
        if kind < 2:
            for n in range(40):
                waiting.add(one := f"{address}{number}.{n}")
                waiting.discard(turns.arrives(address, one) or "")
        elif kind == 2:
            for one in sorted(running)[::2]:
                running.discard(one)
                turns.over(one[0], one)
        late = turns.overdue(now)
        assert len(late) == len(set(late))
        assert set(late) <= running
        for one in late:
            running.discard(one)
            turns.over(one[0], one)
        new = set(begun(turns, now))
        assert new <= waiting
        waiting -= new
        running |= new
        assert len(turns) == len(waiting) <= WAITING
        assert len(running) <= AT_ONCE
        of_each = [sum(one[0] == name for one in running) for name in "abcde"]
        assert max(of_each) <= AT_ONCE_OF_ADDRESS
        has_room = len(running) < AT_ONCE
        for name, count in zip("abcde", of_each, strict=True):
            if has_room and count < AT_ONCE_OF_ADDRESS:
                assert not any(one[0] == name for one in waiting), "nobody waits in vain"
