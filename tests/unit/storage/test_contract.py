"""The guarantees of every kind of store, tested on each kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.effort import examples

from phalanx.storage.errors import StaleEpochError
from phalanx.storage.shard import Batch
from phalanx.storage.storage import Storage

from .conftest import KINDS, Place

every_kind = pytest.mark.parametrize("place", KINDS, indirect=True)

TABLES = st.sampled_from(["nodes", "actors", "lineage", "objects", "häßlich: *[?]"])
KEYS = st.binary(max_size=6) | st.sampled_from([b"*", b"\\", b"a[b]?", b"\xff", b"\xff\xff\x00"])
VALUES = st.binary(max_size=40)
BATCHES = st.dictionaries(st.tuples(TABLES, KEYS), st.none() | VALUES, max_size=8)


@every_kind
def test_the_last_outcome_of_a_row_is_what_is_there(place: Place) -> None:
    storage = place.open()
    storage.apply({("nodes", b"1"): b"one", ("nodes", b"2"): b"two", ("actors", b"1"): b""})
    storage.apply({("nodes", b"1"): b"uno", ("nodes", b"2"): None, ("nodes", b"3"): None})
    storage.apply({})
    assert list(storage.load("nodes")) == [(b"1", b"uno")]
    assert list(storage.load("actors")) == [(b"1", b"")]
    assert list(storage.load("unheard of")) == []
    assert storage.get("nodes", b"1") == b"uno"
    assert storage.get("nodes", b"2") is None
    assert storage.get("unheard of", b"2") is None


@every_kind
def test_large_values_and_large_batches(place: Place) -> None:
    storage = place.open()
    value = bytes(range(256)) * 12_000
    rows = {b"%05d" % at: b"%d" % at for at in range(12_345)}
    storage.apply({("functions", b"f"): value, **{("tasks", key): v for key, v in rows.items()}})
    assert storage.get("functions", b"f") == value
    assert list(storage.load("tasks")) == sorted(rows.items())
    storage.apply({("tasks", key): None for key in rows if key != b"00042"})
    assert list(storage.load("tasks")) == [(b"00042", b"42")]


@every_kind
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(batch=BATCHES, table=TABLES, prefix=KEYS | st.just(b""))
def test_load_gives_the_rows_of_a_prefix_in_order(
    place: Place, batch: Batch, table: str, prefix: bytes
) -> None:
    storage = place.open()
    for name in {table, *(name for name, _ in batch)}:
        storage.apply({(name, key): None for key, _ in storage.load(name)})
    storage.apply(batch)
    expected = [
        (key, value)
        for (name, key), value in sorted(batch.items(), key=lambda item: item[0][1])
        if name == table and value is not None and key.startswith(prefix)
    ]
    assert list(storage.load(table, prefix)) == expected
    storage.close()


@every_kind
def test_what_was_applied_is_there_at_the_next_opening(place: Place) -> None:
    first = place.open()
    first.apply({("nodes", b"n"): b"1", ("lineage", b"task-1"): b"2"})
    first.close()
    second = place.open()
    assert second.epoch == first.epoch + 1
    assert list(second.load("nodes")) == [(b"n", b"1")]
    assert list(second.load("lineage")) == [(b"task-1", b"2")]


@every_kind
def test_an_earlier_head_cannot_write_any_more(place: Place) -> None:
    zombie = place.open()
    zombie.apply({("nodes", b"n"): b"before"})
    head = place.open_despite_lock()
    for _ in range(2):
        with pytest.raises(StaleEpochError, match=rf"epoch {head.epoch}, and this one has 1"):
            zombie.apply({("nodes", b"n"): b"zombie", ("lineage", b"task"): b"zombie"})
    head.apply({("actors", b"a"): b"1"})
    assert list(head.load("nodes")) == [(b"n", b"before")]
    assert list(head.load("lineage")) == []


@every_kind
def test_a_batch_of_nothing_tells_an_earlier_head_of_the_later_one(place: Place) -> None:
    zombie = place.open()
    zombie.apply({("nodes", b"n"): b"1"})
    head = place.open_despite_lock()
    head.apply({})
    for _ in range(2):
        with pytest.raises(StaleEpochError, match=rf"epoch {head.epoch}, and this one has 1"):
            zombie.apply({})


@every_kind
def test_of_two_heads_that_open_at_once_one_is_refused(place: Place) -> None:
    late = place.open()._shards[0]
    head = place.open_despite_lock()
    with pytest.raises(StaleEpochError):
        late.claim(late.head())
    head.apply({("nodes", b"n"): b"still the writer"})


class Model(RuleBasedStateMachine):
    """Compares a store with a dictionary after the same random steps."""

    make: Callable[[], Place]

    @initialize()
    def begin(self) -> None:
        self.place = type(self).make()
        self.storage: Storage = self.place.open()
        self.rows: dict[tuple[str, bytes], bytes] = {}

    @rule(batch=BATCHES)
    def apply(self, batch: Batch) -> None:
        self.storage.apply(batch)
        for row, value in batch.items():
            self.rows.pop(row, None)
            if value is not None:
                self.rows[row] = value

    @rule()
    def reopen(self) -> None:
        epoch = self.storage.epoch
        self.storage.close()
        self.storage = self.place.open()
        assert self.storage.epoch == epoch + 1

    @rule(batch=BATCHES)
    def a_zombie_writes(self, batch: Batch) -> None:
        zombie, self.storage = self.storage, self.place.open_despite_lock()
        with pytest.raises(StaleEpochError):
            zombie.apply({**batch, ("nodes", b"z"): b"zombie"})
        zombie.close()

    @rule(table=TABLES, key=KEYS)
    def get(self, table: str, key: bytes) -> None:
        assert self.storage.get(table, key) == self.rows.get((table, key))

    @invariant()
    def every_table_is_as_the_model_has_it(self) -> None:
        found = {
            (table, key): value
            for table in ("nodes", "actors", "lineage", "objects", "häßlich: *[?]")
            for key, value in self.storage.load(table)
        }
        assert found == self.rows

    def teardown(self) -> None:
        self.place.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.hypothesis
def test_a_store_does_what_a_dictionary_does(kind: str, make_place: Callable[[str], Place]) -> None:
    machine = type("Model", (Model,), {"make": staticmethod(lambda: make_place(kind))})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(15),
            stateful_step_count=12,
            suppress_health_check=list(HealthCheck),
        ),
    )
