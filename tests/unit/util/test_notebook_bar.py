"""A progress bar below a notebook's cell."""

from __future__ import annotations

import sys
import types

import phalanx
from phalanx.util import progress


@phalanx.remote
def one():
    return 1


def test_in_a_notebook_the_bar_takes_its_own_place(monkeypatch):
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)
    page = types.ModuleType("IPython.display")
    page.HTML = lambda text: text  # type: ignore[attr-defined]
    page.display = lambda html, display_id: handle  # type: ignore[attr-defined]
    kernel = types.ModuleType("IPython")
    shell = types.SimpleNamespace(kernel=object())
    kernel.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    phalanx.init(num_cpus=1)
    try:
        assert progress.get([one.remote() for _ in range(3)], "<many>") == [1, 1, 1]
        context = phalanx.init(ignore_reinit_error=True)
        assert "<th>resource</th>" in context._repr_html_()
    finally:
        phalanx.shutdown()
    assert "shut down" in context._repr_html_()
    assert shown[0].startswith("<div>&lt;many&gt; <progress value='0' max='3'>")
    assert "value='3' max='3'" in shown[-1]
