"""Names that a cell that runs elsewhere reads of its notebook, and those that come back."""

from __future__ import annotations

import pytest

from phalanx.adapters.cells import LAST, cell_source, run_cell, sent_names


def ran(cell, notebook, wanted=()):
    source, named = cell_source(cell)
    return run_cell(source, sent_names(named, notebook), wanted)


def test_a_cell_reads_names_and_its_last_line_is_its_value():
    notebook = {"x": 2, "y": 5, "_i": "hidden"}
    assert ran("z = x + 1\nz * 2", notebook, ["z"]) == {"z": 3, LAST: 6}
    _, named = cell_source("z = x + 1\nprint(_i)")
    assert sent_names(named, notebook) == {"x": 2}
    assert ran("z = 1", {}, []) == {}


def test_a_name_that_the_cell_does_not_bind_is_told():
    with pytest.raises(NameError, match=r"does not bind w, which --get names"):
        ran("z = 1", {}, ["z", "w"])


def test_functions_and_loops_of_a_cell_see_its_names():
    found = ran("def f(n):\n    return n * k\nk = 3\n[f(i) for i in range(3)]", {})
    assert found[LAST] == [0, 3, 6]
