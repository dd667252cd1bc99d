"""The tasks of an array as a grid on its page."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from phalanx.dashboard.pages.arrays import CELLS, array_grid
from phalanx.errors import JobNotFoundError
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import ArrayTaskInfo
from phalanx.protocol.requests.jobs import ListElements

from .test_app import served
from .world import EVIL, Head, job, snapshot


def row(indices: str, elements: int, state: str, **fields: Any) -> ArrayTaskInfo:
    known: dict[str, Any] = {"exit_code": None, "starts": 1, "node": "", "reason": ""}
    return ArrayTaskInfo(name=f"sweep[{indices}]", elements=elements, state=state, **known | fields)


ROWS = [
    row("0-2", 3, st.COMPLETED, exit_code=0),
    row("4-8:2", 3, st.FAILED, exit_code=3, starts=2, reason=EVIL),
    row("11,15", 2, st.PENDING),
]


def test_each_array_task_has_a_cell_with_its_state_and_reason() -> None:
    grid = array_grid(ROWS, {})
    assert [(one.index, one.state) for one in grid.cells] == [
        (0, st.COMPLETED), (1, st.COMPLETED), (2, st.COMPLETED),
        (4, st.FAILED), (6, st.FAILED), (8, st.FAILED), (11, st.PENDING), (15, st.PENDING),
    ]  # fmt: skip
    assert grid.states == {st.COMPLETED: 3, st.FAILED: 3, st.PENDING: 2}
    assert grid.cells[3].words == f"task 4 is Failed, exit code 3, started 2 times: {EVIL}"


def test_tasks_in_one_state_are_shown_alone_and_an_unknown_state_shows_all() -> None:
    grid = array_grid(ROWS, {"task": st.FAILED})
    assert ([one.index for one in grid.cells], grid.matched) == ([4, 6, 8], 3)
    assert len(array_grid(ROWS, {"task": EVIL}).cells) == 8


def test_a_large_array_has_a_bounded_number_of_cells() -> None:
    grid = array_grid([row("0-999999", 1_000_000, st.PENDING)], {})
    assert (len(grid.cells), grid.matched) == (CELLS, 1_000_000)


class HeadWithArray(Head):
    """A head that knows one array."""

    def ask(self, request: Any) -> Any:
        if isinstance(request, ListElements):
            if request.name != "default/sweep":
                raise JobNotFoundError(request.name)
            return ROWS
        return super().ask(request)


def test_the_page_of_an_array_shows_its_tasks() -> None:
    head = HeadWithArray()
    head.snapshot = snapshot(jobs=[msgspec.structs.replace(job("sweep"), array="0-15")])

    async def look() -> str:
        async with served(head) as (client, _):
            return str((await client.get("/jobs/default/sweep?task=Failed")).text)

    html = asyncio.run(look())
    assert html.count('<li><a class="bad"') == 3
    assert "<img" not in html.replace('<img src="/static', "")
