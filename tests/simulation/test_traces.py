"""Readers of traces: the jobs that they return, and the errors for a malformed file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from phalanx_research.traces.frames import frame_of, jobs_from_frame, nodes_from_frame
from phalanx_research.traces.reading import read_jobs, read_nodes
from phalanx_research.traces.records import TraceError, TraceJob, TraceNode

MULTI = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
OPENB = MULTI[:-1] + ",gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n"
PLAIN = "name,submit_s,duration_s,gpus,gpu_milli\n"
JOB: dict[str, Any] = {
    "status": "Pass",
    "vc": "lab",
    "jobid": "j1",
    "user": "u",
    "submitted_time": "2017-10-07 01:00:00",
    "attempts": [
        {
            "start_time": "2017-10-07 01:01:00",
            "end_time": "2017-10-07 02:01:00",
            "detail": [{"ip": "m1", "gpus": ["g0", "g1"]}, {"ip": "m2", "gpus": ["g0"]}],
        }
    ],
}


def written(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_an_openb_pod(tmp_path: Path) -> None:
    [job] = read_jobs(written(tmp_path, OPENB + "p,500,1024,1,460,T4|A10,LS,Running,5,90,10\n"))
    assert job == TraceJob(
        name="p",
        cpu_milli=500,
        memory_mib=1024,
        num_gpu=1,
        gpu_milli=460,
        models=("A10", "T4"),
        submitted_s=5,
        started_s=10,
        ended_s=90,
        duration_s=80,
        queue="LS",
        outcome="Running",
    )


def test_files_with_five_columns_have_no_times(tmp_path: Path) -> None:
    [job] = read_jobs(written(tmp_path, MULTI + "p,500,1024,2,1000\n"))
    assert (job.num_gpu, job.gpu_milli, job.submitted_s) == (2, 1000, None)


def test_openb_nodes_also_compressed(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv.gz"
    path.write_bytes(gzip.compress((NODES + "a,64000,262144,2,P100\n").encode()))
    expected = TraceNode(name="a", cpu_milli=64000, memory_mib=262144, gpus=2, model="P100")
    assert read_nodes(path) == [expected]


def test_a_muri_job_takes_its_iterations(tmp_path: Path) -> None:
    [job] = read_jobs(written(tmp_path, MURI + "7,16,2000,100,bert,500\n"))
    assert (job.num_gpu, job.submitted_s, job.workload) == (16, 2.0, "bert")
    assert job.duration_s == pytest.approx(50 * 1.015)
    assert (job.stages_ms, job.stated_s, job.priority) == ((), None, 0)


def test_a_muri_job_tells_its_stages(tmp_path: Path) -> None:
    header = MURI[:-1] + ",duration,resource_time_0,resource_time_1,resource_time_2,priority\n"
    [job] = read_jobs(written(tmp_path, header + "7,1,0,100,bert,500,50000,446,8,0.5,1\n"))
    assert (job.stages_ms, job.stated_s, job.priority) == ((446, 8, 0.5), 50, -1)


def test_a_philly_job_over_two_machines(tmp_path: Path) -> None:
    later = JOB | {"jobid": "j2", "submitted_time": "2017-10-07 00:59:00", "attempts": []}
    waiting, job = read_jobs(written(tmp_path, json.dumps([JOB, later], indent=1), "log.json"))
    assert (waiting.name, waiting.submitted_s, waiting.duration_s) == ("j2", 0.0, None)
    assert (job.members, job.num_gpu, job.queue) == (2, 2, "lab")
    assert (job.submitted_s, job.started_s, job.ended_s) == (60.0, 120.0, 3720.0)
    assert job.duration_s == 3600.0


def test_a_plain_job_has_defaults(tmp_path: Path) -> None:
    [job] = read_jobs(written(tmp_path, "name,submit_s,duration_s,gpus\nj,1,2.5,4\n"))
    assert job == TraceJob(
        name="j", cpu_milli=1000, num_gpu=4, gpu_milli=1000, submitted_s=1, duration_s=2.5
    )


def test_a_plain_job_may_be_moved(tmp_path: Path) -> None:
    rows = "name,submit_s,duration_s,movable\nj,1,2,10m\nk,1,2,\n"
    assert [job.movable for job in read_jobs(written(tmp_path, rows))] == ["10m", ""]


WRONG_JOBS = [
    ("p,-1,0,0,0\n", MULTI, 2, "cpu_milli is -1; it must be 0 or more"),
    ("p,x,0,0,0\n", MULTI, 2, "cpu_milli is 'x'; a number is needed"),
    ("p,nan,0,0,0\n", MULTI, 2, "cpu_milli is nan; a number of at most"),
    ("p,1.5,0,0,0\n", MULTI, 2, "cpu_milli is 1.5; a whole number"),
    ("p,1,0,0,500\n", MULTI, 2, "gpu_milli is 500, but num_gpu is 0: a share of no GPU"),
    ("p,1,0,1,0\n", MULTI, 2, "gpu_milli is 0; for one GPU it must be 1 to 1000"),
    ("p,1,0,2,500\n", MULTI, 2, "it must be 1000 where there are several GPUs"),
    ("p,1,0,9,1000\n", MULTI, 2, "num_gpu is 9; one pod has at most 8"),
    ("p,1,0,0,0\np,1,0,0,0\n", MULTI, 3, "name 'p' is already in line 2"),
    ("p,1,0,0\n", MULTI, 2, "4 fields; the header has 5"),
    ("p,1,0,1,10,,LS,Running,9,20,5\n", OPENB, 2, "scheduled_time (5) is before creation_time (9)"),
    ("", MULTI.replace("gpu_milli", "gpu_mili"), 1, "did you mean gpu_milli?"),
    ("", MULTI.replace(",gpu_milli", ""), 1, "missing column 'gpu_milli'"),
    ("", MULTI.replace("memory_mib", "cpu_milli"), 1, "column 'cpu_milli' appears twice"),
    ("", MULTI, 1, "the file has no jobs"),
    ("1,1,500,1,bert,1\n2,1,400,1,bert,1\n", MURI, 3, "time runs backwards"),
    ("1,0,500,1,bert,1\n", MURI, 2, "needs a GPU"),
    ("a,5,1,0,0\nb,4,1,0,0\n", PLAIN, 3, "time runs backwards"),
    (
        "a,5,1,soon\n",
        "name,submit_s,duration_s,movable\n",
        2,
        "movable: it must be 'true' or the time",
    ),
]


@pytest.mark.parametrize(("rows", "header", "line", "reason"), WRONG_JOBS)
def test_a_wrong_job_file(tmp_path: Path, rows: str, header: str, line: int, reason: str) -> None:
    path = written(tmp_path, header + rows)
    with pytest.raises(TraceError) as caught:
        read_jobs(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (NODES + "a,1,1,2,\n", 2, "a device count without a device"),
        (NODES + "a,1,1,-2,T4\n", 2, "gpu is -2"),
        ("name,cpu_milli,memory_mib,gpus\na,1,1,2\n", 2, "a device count without a device"),
        (NODES, 1, "the file has no nodes"),
        ("", 1, "the file is empty"),
    ],
)
def test_a_wrong_node_file(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_nodes(written(tmp_path, text))
    assert caught.value.line == line
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"submitted_time": "yesterday"}, "submitted_time is 'yesterday'"),
        ({"submitted_time": "2017-10-08 01:00:00"}, "time runs backwards"),
        ({"attempts": [{"start_time": "2017-10-07 01:01:00", "detail": [{}]}]}, "detail needs"),
    ],
)
def test_a_wrong_philly_job(tmp_path: Path, entry: dict[str, Any], reason: str) -> None:
    text = json.dumps([JOB | {"jobid": "first"}, JOB | entry])
    with pytest.raises(TraceError) as caught:
        read_jobs(written(tmp_path, text.replace(', {"status"', ',\n{"status"'), "log.json"))
    assert caught.value.line == 2
    assert reason in caught.value.reason


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_jobs(tmp_path / "none.csv")


def test_frames_in_and_out() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"name": ["a", "b"], "submit_s": [0, 5], "duration_s": [1.0, 2.0], "queue": ["q", None]}
    )
    jobs = jobs_from_frame(frame)
    assert [j.queue for j in jobs] == ["q", "default"]
    assert list(frame_of(jobs)["duration_s"]) == [1.0, 2.0]
    with pytest.raises(TraceError, match=r"DataFrame, line 2: .*backwards"):
        jobs_from_frame(frame.assign(submit_s=[5, 0]))
    nodes = pandas.DataFrame({"name": ["n"], "cpu_milli": [1], "memory_mib": [2]})
    assert nodes_from_frame(nodes) == [TraceNode(name="n", cpu_milli=1, memory_mib=2)]
