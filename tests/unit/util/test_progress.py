"""The progress display counts every ref one time. It prints plain lines without a terminal, and a
bar at a terminal.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from phalanx.util import progress


@pytest.fixture
def refs(ray):
    task = ray.remote(lambda value: value)
    return [task.remote(value) for value in range(25)]


def console(**options):
    return Console(file=io.StringIO(), width=100, **options)


def test_results_come_in_their_order(refs):
    assert progress.get(refs, console=console()) == list(range(25))


@pytest.mark.parametrize("terminal", [False, True])
def test_every_ref_is_yielded_once(refs, terminal):
    yielded = list(progress.track(refs, console=console(force_terminal=terminal)))
    assert sorted(ref.hex() for ref in yielded) == sorted(ref.hex() for ref in refs)


def test_lines_are_few_and_the_last_one_is_complete(refs):
    out = console()
    list(progress.track(refs, "search", console=out))
    lines = out.file.getvalue().splitlines()
    assert 1 <= len(lines) <= progress.PLAIN_LINES + 1
    assert lines[-1].startswith("search: 25 of 25 done, ")


def test_a_terminal_gets_a_bar(refs):
    out = console(force_terminal=True)
    list(progress.track(refs, "search", console=out))
    assert "25/25" in out.file.getvalue()


def test_a_failed_task_counts_as_done_and_raises_at_get(ray):
    @ray.remote
    def fail():
        raise KeyError("gone")

    out = console()
    with pytest.raises(KeyError):
        progress.get([fail.remote()], console=out)
    assert "1 of 1 done" in out.file.getvalue()


def test_nothing_to_wait_for(ray):
    assert progress.get([], console=console()) == []
