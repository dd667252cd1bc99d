"""dpdispatcher's machine for Slurm: tasks as jobs, and as array tasks."""

import pytest
from dpdispatcher import Machine, Resources, Submission, Task


@pytest.mark.parametrize("kind", ["Slurm", "SlurmJobArray"])
def test_tasks_run_and_their_files_come_back(directory, kind):
    for name in ("a", "b"):
        (directory / "local" / name).mkdir(parents=True)
        (directory / "local" / name / "in").write_text(name)
    (directory / "remote").mkdir()
    where = {"local_root": str(directory / "local"), "remote_root": str(directory / "remote")}
    machine = Machine.load_from_dict({"batch_type": kind, "context_type": "LocalContext", **where})
    resources = Resources.load_from_dict(
        {"number_node": 1, "cpu_per_node": 1, "gpu_per_node": 1, "queue_name": "default",
         "group_size": 1}
    )  # fmt: skip
    tasks = [
        Task(
            command="sleep 5; cat in in > out", task_work_path=f"{name}/", forward_files=["in"],
            backward_files=["out"],
        )
        for name in ("a", "b")
    ]  # fmt: skip
    Submission(work_base=".", machine=machine, resources=resources, task_list=tasks).run_submission(
        check_interval=2
    )
    assert [(directory / "local" / name / "out").read_text() for name in "ab"] == ["aa", "bb"]
