"""Converts traces from and to pandas DataFrames with the columns of the plain CSV. This module
needs pandas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from phalanx_research.traces import plain
from phalanx_research.traces.fields import Row, check_columns
from phalanx_research.traces.records import TraceJob, TraceNode

if TYPE_CHECKING:
    import pandas

FRAME = "DataFrame"


def nodes_from_frame(frame: pandas.DataFrame) -> list[TraceNode]:
    """Return nodes from the columns of a plain node file.

    Raises TraceError; its line is the number of the row, counted from 1.
    """
    return plain.nodes_of(_rows(frame, plain.NODE_COLUMNS, plain.NODE_MORE))


def jobs_from_frame(frame: pandas.DataFrame) -> list[TraceJob]:
    """Return jobs from the columns of a plain job file.

    Raises TraceError; its line is the number of the row, counted from 1.
    """
    return plain.jobs_of(_rows(frame, plain.JOB_COLUMNS, plain.JOB_MORE))


def frame_of(records: Sequence[TraceJob] | Sequence[TraceNode]) -> pandas.DataFrame:
    """Return a table with a row for each record and a column for each field. Models are joined with
    |.
    """
    import pandas

    columns = [f.name for f in fields(records[0])] if records else []
    table = [
        {c: "|".join(v) if isinstance(v := getattr(r, c), tuple) else v for c in columns}
        for r in records
    ]
    return pandas.DataFrame(table, columns=columns)


def _rows(frame: Any, required: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    import pandas

    names = [str(name) for name in frame.columns]
    check_columns(FRAME, names, required, optional)
    for number, values in enumerate(frame.itertuples(index=False, name=None), start=1):
        filled = zip(names, values, strict=True)
        yield Row(FRAME, number, {n: str(v) for n, v in filled if not pandas.isna(v)})
