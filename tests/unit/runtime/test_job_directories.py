"""The files of an array's tasks on a node's disk."""

from __future__ import annotations

from pathlib import Path

from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.protocol.bundle_messages import StartMember
from phalanx.runtime.os.job_files import JobDirectories


def _order(job: str) -> StartMember:
    return StartMember(
        group=GangId(GroupId(b"g")),
        index=0,
        attempt=1,
        job=JobId(job),
        name="w-0",
        before=[],
        commands=[],
        files={},
        grace_s=0.0,
    )


def test_logs_of_an_array_lie_side_by_side_and_go_together(tmp_path: Path) -> None:
    directories = JobDirectories(str(tmp_path))
    first, second = (Path(directories.make(_order(f"default/a[{n}]"))) for n in (1, 2))
    other = Path(directories.make(_order("default/b")))

    assert first != second
    assert first.parent == second.parent != other.parent
    for log in (first, second, other):
        log.parent.mkdir(exist_ok=True)
        log.write_text("said\n")
    assert directories.read(str(second), 0, 100) == (b"said\n", 5, 0)

    directories.remove(JobId("default/a"))
    assert not first.parent.exists()
    assert other.exists()


def test_tasks_have_directories_and_errors_of_their_own(tmp_path: Path) -> None:
    directories = JobDirectories(str(tmp_path))
    one, two = _order("default/a[1]"), _order("default/a[12]")

    assert directories.home(one) != directories.home(two)
    assert directories.error_path(one) != directories.error_path(two)
    Path(directories.error_path(one)).parent.mkdir(parents=True, exist_ok=True)
    Path(directories.error_path(one)).write_text("why")
    assert directories.error(one, 10) == b"why"
    assert directories.error(two, 10) == b""
