"""Pickling of slices of Arrow tables and arrays without the data outside the slice. pyarrow pickles
a slice with the whole buffers from which it is cut (Arrow's issue ARROW-10739): ten rows of a table
of a gigabyte would take a gigabyte in the store.

So this module first copies a slice, in Arrow's own format, into buffers of its size, and then lets
pyarrow pickle the copy. The reader of the pickle does not need Phalanx.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Iterator
from typing import Any

_WASTE_BYTES = 1 << 16
"""A slice is copied if its buffers have more than this number of bytes in addition to the data that
it shows.
"""


def know_arrow() -> bool:
    """Make pickle copy slices before it pickles them, from now on. Returns False if pyarrow is not
    imported yet.

    If the program has registered a reducer for one of the classes with `copyreg`, that reducer
    stays.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not hasattr(arrow, "RecordBatchStreamReader"):
        return False
    kinds = (arrow.Table, arrow.RecordBatch, arrow.ChunkedArray, *_below(arrow.Array))
    for kind in kinds:
        if kind not in copyreg.dispatch_table:
            copyreg.pickle(kind, _reduce)
    return True


def _below(kind: Any) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _reduce(value: Any) -> Any:
    return _trimmed(value).__reduce_ex__(5)


def _trimmed(value: Any) -> Any:
    try:
        if value.get_total_buffer_size() - value.nbytes <= _WASTE_BYTES:
            return value
        copied = _copied(value)
    except Exception:
        # Types of other libraries may raise an error when they are counted or written.
        return value
    return copied if _kind(copied) == _kind(value) else value


def _copied(value: Any) -> Any:
    import pyarrow as arrow

    if isinstance(value, arrow.Table | arrow.RecordBatch):
        return _rewritten(value)
    whole = arrow.Table if isinstance(value, arrow.ChunkedArray) else arrow.RecordBatch
    return _rewritten(whole.from_arrays([value], names=[""])).column(0)


def _rewritten(value: Any) -> Any:
    import pyarrow as arrow

    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    reader = arrow.ipc.open_stream(sink.getvalue())
    return reader.read_all() if isinstance(value, arrow.Table) else reader.read_next_batch()


def _kind(value: Any) -> Any:
    """Return the properties in which a copy must equal its original. A copy may differ in them,
    because Arrow may read a user's own type as another type.
    """
    return getattr(value, "schema", None) or value.type
