"""A notebook cell that runs on a worker: the names that it reads from its notebook, and the names
that it returns.
"""

from __future__ import annotations

import traceback

import pytest

from phalanx.adapters.cells import LAST, failure_lines, read_names, run_cell, sent_names
from phalanx.errors import GangInfeasibleError, TaskError


def ran(cell, notebook, wanted=()):
    return run_cell(cell, sent_names(read_names(cell), notebook), wanted)


def failure_of(cell, wanted=()):
    """Return the error of a cell, as it comes back from a worker."""
    try:
        ran(cell, {}, wanted)
    except Exception as error:
        return TaskError("run_cell", traceback.format_exc(), error, pid=7)
    raise AssertionError("the cell raised nothing")


def test_a_cell_reads_names_and_its_last_line_is_its_value():
    notebook = {"x": 2, "y": 5, "_i": "hidden"}
    assert ran("z = x + 1\nz * 2", notebook, ["z"]) == {"z": 3, LAST: 6}
    assert sent_names(read_names("z = x + 1\nprint(_i)"), notebook) == {"x": 2}
    assert ran("z = 1", {}, []) == {}


def test_a_name_that_the_cell_does_not_bind_is_told():
    with pytest.raises(NameError, match=r"does not bind w, which --get names"):
        ran("z = 1", {}, ["z", "w"])


def test_functions_and_loops_of_a_cell_see_its_names():
    found = ran("def f(n):\n    return n * k\nk = 3\n[f(i) for i in range(3)]", {})
    assert found[LAST] == [0, 3, 6]


def test_a_failure_shows_the_lines_of_the_cell_as_they_were_written():
    error = failure_of("# halves\n\ndef f(y):\n    return 1 / y  # of what\n\nf(0)")
    shown = [line for line in failure_lines(error) if "^^^" not in line and "~~" not in line]
    assert shown == [
        "The cell (pid=7) raised:",
        "Traceback (most recent call last):",
        '  File "<cell>", line 6, in <module>',
        "    f(0)",
        '  File "<cell>", line 4, in f',
        "    return 1 / y  # of what",
        "ZeroDivisionError: division by zero",
    ]


def test_a_failure_outside_the_cell_is_one_line():
    said = "NameError: the cell does not bind w, which --get names"
    assert failure_lines(failure_of("z = 1", ["w"])) == ["The cell (pid=7) raised:", said]
    (line,) = failure_lines(GangInfeasibleError("no node has a GPU"))
    assert line.strip().endswith("GangInfeasibleError: no node has a GPU")
