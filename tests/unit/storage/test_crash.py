"""A process is killed while it writes: every acknowledged batch is kept, and no batch is kept in
part.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from tests.effort import examples

from phalanx.storage.shard import Batch

from .conftest import DURABLE_KINDS, Place
from .crashing import (
    PROCESSES,
    TABLES,
    Writer,
    numbered,
    read_number,
    write_numbered,
)

# Rows of one batch are all or nothing within a shard; these tables live together in the first.
BATCHES = st.dictionaries(
    st.tuples(st.sampled_from(TABLES), st.binary(min_size=1, max_size=2)),
    st.none() | st.binary(max_size=2_000),
    min_size=1,
    max_size=30,
)


def _rows(place: Place) -> dict[tuple[str, bytes], bytes]:
    storage = place.open()
    rows = {(table, key): value for table in TABLES for key, value in storage.load(table)}
    storage.close()
    return rows


def _after(rows: dict[tuple[str, bytes], bytes], batch: Batch) -> dict[tuple[str, bytes], bytes]:
    merged = {**rows, **batch}
    return {row: value for row, value in merged.items() if value is not None}


@pytest.mark.parametrize("place", DURABLE_KINDS, indirect=True)
@pytest.mark.parametrize("acknowledged", [1, 2, 17, 60])
def test_a_writer_killed_at_full_speed(place: Place, acknowledged: int) -> None:
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=write_numbered, args=(place.addresses, theirs))
    process.start()
    theirs.close()
    last = 0
    while last < acknowledged:
        number = read_number(ours)
        assert number is not None, "the writer ended by itself"
        last = number
    process.kill()
    while (number := read_number(ours)) is not None:
        last = number
    process.join()
    ours.close()
    found = _rows(place)
    assert found in (_after({}, numbered(last)), _after({}, numbered(last + 1)))


class Crashing(RuleBasedStateMachine):
    """Kills a writer at random moments of batches, and compares the store with a dictionary."""

    make: Callable[[], Place]

    @initialize()
    def begin(self) -> None:
        self.place = type(self).make()
        self.rows: dict[tuple[str, bytes], bytes] = {}
        self.writer = Writer(self.place.addresses)

    @rule(batch=BATCHES)
    def apply(self, batch: Batch) -> None:
        self.writer.apply(batch)
        self.rows = _after(self.rows, batch)

    @rule(batch=BATCHES, after_us=st.integers(1, 1_500))
    def crash_in_the_middle(self, batch: Batch, after_us: int) -> None:
        was_acknowledged = self.writer.apply_and_die(batch, after_us / 1e6)
        found = _rows(self.place)
        with_batch = _after(self.rows, batch)
        assert found == with_batch or (not was_acknowledged and found == self.rows)
        self.rows = found
        self.writer.kill()
        self.writer = Writer(self.place.addresses)

    @rule()
    def kill_between_batches(self) -> None:
        self.writer.kill()
        assert _rows(self.place) == self.rows
        self.writer = Writer(self.place.addresses)

    def teardown(self) -> None:
        self.writer.kill()
        self.place.close()


@pytest.mark.parametrize("kind", DURABLE_KINDS)
@pytest.mark.hypothesis
def test_any_order_of_writes_and_crashes(kind: str, make_place: Callable[[str], Place]) -> None:
    machine = type("Crashing", (Crashing,), {"make": staticmethod(lambda: make_place(kind))})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(8),
            stateful_step_count=10,
            suppress_health_check=list(HealthCheck),
        ),
    )
