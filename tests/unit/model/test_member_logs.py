"""The logs of an array's tasks share one path, which has a gap for the index."""

from __future__ import annotations

import pytest

from phalanx.model.member_logs import for_any_task, for_task


@pytest.mark.parametrize(
    ("path", "common"),
    [
        ("/jobs/a1/e17-w.1.log", "/jobs/a1/e{}-w.1.log"),
        # an earlier version made a directory for each task
        ("/jobs/a1/e17/w.1.log", "/jobs/a1/e{}/w.1.log"),
    ],
)
def test_tasks_have_a_common_path(path: str, common: str) -> None:
    assert for_any_task(path, 17) == common
    assert for_task(common, 17) == path
    assert for_task(common, 3) == path.replace("e17", "e3")


def test_another_tasks_path_stays() -> None:
    assert for_any_task("/jobs/a1/e17-w.1.log", 1) == "/jobs/a1/e17-w.1.log"
