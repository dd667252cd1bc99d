"""Slices of Arrow's tables and arrays, put into the store and read back."""

from __future__ import annotations

import copyreg
import pickle

import numpy as np
import pyarrow as pa
import pytest

from phalanx.objects.arrow_slices import know_arrow
from phalanx.objects.serialization import Pickled, deserialize, serialize

TABLE = pa.table(
    {
        "number": np.arange(200_000),
        "text": [f"text {i % 7}" for i in range(200_000)],
        "list": [[i, 1] for i in range(200_000)],
        "word": pa.array(["a", "b"] * 100_000).dictionary_encode(),
    }
)
(BATCH,) = TABLE.combine_chunks().to_batches()


def size(made):
    if isinstance(made, bytes):
        return len(made)
    return len(made.data) + sum(memoryview(buffer).nbytes for buffer in made.buffers)


def read(made):
    if isinstance(made, bytes):
        return deserialize(made)
    return deserialize(made.data, [memoryview(buffer) for buffer in made.buffers])


@pytest.mark.parametrize(
    "part",
    [
        TABLE.slice(10, 20),
        pa.concat_tables([TABLE.slice(3, 5), TABLE.slice(150_000, 5)]),
        BATCH.slice(10, 20),
        TABLE["text"].slice(7, 9),
        *(BATCH.column(i).slice(7, 9) for i in range(4)),
        TABLE.slice(5, 0),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_slice_travels_as_what_it_shows(part):
    made = serialize(part)
    assert size(made) < 10_000
    found = read(made)
    assert type(found) is type(part)
    assert found.equals(part)
    made = serialize({"inside": [part]})
    assert size(made) < 10_000
    assert read(made)["inside"][0].equals(part)


def test_a_whole_table_is_not_copied():
    whole = TABLE.select(["number", "text"])
    made = serialize(whole)
    assert isinstance(made, Pickled)
    mine = {b.address for column in whole.columns for b in buffers_of(column)}
    sent = {np.frombuffer(memoryview(one), np.uint8).ctypes.data for one in made.buffers}
    assert sent <= mine
    assert read(made).equals(whole)


def buffers_of(column):
    return [b for chunk in column.chunks for b in chunk.buffers() if b is not None]


def test_metadata_of_the_schema_stays():
    part = TABLE.replace_schema_metadata({"who": "me"}).slice(10, 20)
    found = read(serialize(part))
    assert found.schema.equals(part.schema, check_metadata=True)


class Celsius(pa.ExtensionType):  # type: ignore[misc]  # untyped
    """A type that is not registered with Arrow, whose format would read it as plain numbers."""

    def __init__(self):
        super().__init__(pa.float64(), "tests.celsius")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()

    def __reduce__(self):
        return Celsius, ()


def test_a_type_of_somebody_s_own_stays_what_it_is():
    degrees = pa.ExtensionArray.from_storage(Celsius(), pa.array(np.zeros(100_000)))
    part = pa.table({"degrees": degrees}).slice(10, 20)
    found = read(serialize(part))
    assert found.schema == part.schema
    assert found.equals(part)


def test_programs_pickles_are_pyarrow_s_own_and_their_reducers_stay(monkeypatch):
    assert know_arrow()
    assert b"phalanx" not in pickle.dumps(TABLE.slice(10, 20))
    theirs = pa.table
    monkeypatch.setitem(copyreg.dispatch_table, pa.Table, theirs)
    assert know_arrow()
    assert copyreg.dispatch_table[pa.Table] is theirs
