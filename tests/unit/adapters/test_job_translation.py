"""Ray's requests are translated to jobs of Phalanx, and Phalanx's rows to Ray's terms."""

from __future__ import annotations

import json

import pytest

from phalanx.adapters.ray.jobs.details import JobStatus, read_details
from phalanx.adapters.ray.jobs.translation import (
    SUBMISSION,
    JobSubmitRequest,
    Place,
    details_of,
    job_name,
    job_spec,
    packages_of,
    read_request,
)
from phalanx.manifests.names import member_fault
from phalanx.model.environments import Environment
from phalanx.model.jobs.spec import JobSpec, Process
from phalanx.model.rows.work import JobDescription, JobInfo, MemberInfo

PLACE = Place(
    hostname="here",
    directory="/start",
    variables={"PATH": "/bin", "PYTHONPATH": "/names", "PHALANX_ADDRESS": "127.0.0.1:1"},
)
PACKAGE = "gcs://_ray_pkg_1.zip"


def spec(unpacked=None, **fields):
    request = JobSubmitRequest(**{"entrypoint": "echo $HOME", "submission_id": "job", **fields})
    return job_spec(request, PLACE, unpacked or {})


def process(job: JobSpec) -> Process:
    (group,) = job.groups
    (found,) = group.template.processes
    return found


def row(kind=JobInfo, **fields):
    request = {"entrypoint": "echo", "submission_id": "job", "metadata": {"a": "b"}}
    given = {
        "name": "job",
        "namespace": "default",
        "queue": "default",
        "state": "Running",
        "reason": "",
        "kind": "batch",
        "replicas": 1,
        "min": 1,
        "pending": 0,
        "running": 1,
        "succeeded": 0,
        "failed": 0,
        "retries": 0,
        "priority": 0,
        "position": None,
        "submitted": 10.0,
        "recorded_as": 10.0,
        "started": 11.0,
        "finished": None,
        "age_s": 1.0,
        "time_limit_s": None,
        "ran_s": 0.0,
        "ends": None,
        "begins": None,
        "deadline": None,
        "is_held": False,
        "restarts": 0,
        "expected_start": None,
        "queued": 0.0,
        "user": "",
        "reservation": "",
        "licenses": {},
        "gpus": 0.0,
        "annotations": {SUBMISSION: json.dumps(request | fields.pop("request", {}))},
        "after": "",
        "array": "",
    }
    return kind(**given | fields)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("Pending", "PENDING"),
        ("Restarting", "PENDING"),
        ("Running", "RUNNING"),
        ("Completing", "RUNNING"),
        ("Terminating", "RUNNING"),
        ("Aborting", "RUNNING"),
        ("Completed", "SUCCEEDED"),
        ("Failed", "FAILED"),
        ("TimeOut", "FAILED"),
        ("Deadline", "FAILED"),
        ("Terminated", "STOPPED"),
        ("Aborted", "STOPPED"),
    ],
)
def test_each_state_has_ray_s_status(state, status):
    details = details_of(row(state=state))
    assert details is not None
    assert details.status == status
    assert details.status.is_terminal() == (status in ("SUCCEEDED", "FAILED", "STOPPED"))
    assert details.message


def test_times_are_milliseconds_and_the_request_comes_back():
    details = details_of(row(state="Completed", finished=12.5))
    assert details is not None
    assert (details.start_time, details.end_time) == (10_000, 12_500)
    assert (details.entrypoint, details.metadata) == ("echo", {"a": "b"})
    assert details.submission_id == "job"
    assert read_details(json.loads(json.dumps(details.dict()))) == details


def test_a_job_that_was_submitted_otherwise_is_none_of_ray_s():
    assert details_of(row(annotations={})) is None


def test_a_job_that_waits_says_for_what():
    details = details_of(
        row(state="Pending", reason="no node has 4 GPU", request={"entrypoint_num_gpus": 4})
    )
    assert details is not None
    assert "waiting for resources" in str(details.message)
    assert "no node has 4 GPU" in str(details.message)


def test_a_job_that_failed_has_its_exit_code_and_node():
    member = MemberInfo(
        name="job-worker-0",
        state="Failed",
        attempt=1,
        node="abc",
        devices={},
        exit_code=3,
        reason="",
        started=1.0,
        ended=2.0,
        logs=[],
    )
    failed = row(
        JobDescription, state="Failed", ports=[], preempted=0, members=[member], history=[]
    )
    details = details_of(failed)
    assert details is not None
    assert details.message == "Job entrypoint command failed with exit code 3"
    assert (details.driver_exit_code, details.driver_node_id) == (3, "abc")
    assert details.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"


@pytest.mark.parametrize("name", ["raysubmit_4LamXRuQpYdSMg7J", "my_custom_id", "a", "x" * 54])
def test_an_id_that_can_be_a_name_is_the_job_s_name(name):
    assert job_name(name) == name


@pytest.mark.parametrize("given", ["x" * 55, "a b", "-", "ü", "a/b", "_x", "x" * 300])
def test_any_other_id_gets_a_name_of_its_own(given):
    name = job_name(given)
    assert member_fault(name, "worker", 1) is None
    assert name != job_name(given + "1")


def test_a_command_holds_no_cpu_and_runs_beside_the_server():
    job = spec()
    assert dict(process(job).requests) == {}
    assert process(job).working_dir == "/start"
    assert process(job).argv == ("sh", "-c", "echo $$HOME")  # a literal $ of manifests
    assert job.groups[0].template.placement == {"nodeSelector": {"kubernetes.io/hostname": "here"}}
    assert job.groups[0].template.grace_s == 3


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"entrypoint_num_cpus": 2}, {"CPU": 2}),
        ({"entrypoint_num_gpus": 0.5}, {"GPU": 0.5}),
        ({"entrypoint_memory": 1000}, {"memory": 1000}),
        ({"entrypoint_resources": {"TPU": 4}}, {"TPU": 4}),
    ],
)
def test_a_command_that_asks_for_something_runs_where_that_is(fields, needs):
    job = spec(**fields)
    assert dict(process(job).requests) == needs
    assert job.groups[0].template.placement == {"nodeSelector": {}}


def test_labels_choose_the_node():
    job = spec(entrypoint_label_selector={"disk": "ssd"})
    assert job.groups[0].template.placement == {"nodeSelector": {"disk": "ssd"}}
    for operator in ("!ssd", "in(ssd,hdd)", ""):
        with pytest.raises(ValueError, match="plain value"):
            spec(entrypoint_label_selector={"disk": operator})


def test_packages_are_the_directory_and_on_the_path():
    other = "gcs://_ray_pkg_2.zip"
    environment = {"working_dir": PACKAGE, "py_modules": [other]}
    job = spec({PACKAGE: "/one", other: "/two"}, runtime_env=environment, entrypoint_num_cpus=1)
    found = process(job)
    assert found.working_dir == "/one"
    assert dict(found.env)["PYTHONPATH"] == "/one:/two:/names"
    inherited = json.loads(dict(found.env)["RAY_JOB_CONFIG_JSON_ENV_VAR"])["runtime_env"]
    assert inherited == {"working_dir": "/one", "py_modules": ["/two"]}
    labels = job.groups[0].template.placement["nodeSelector"]
    assert labels == {"kubernetes.io/hostname": "here"}  # where the packages are


def test_variables_and_metadata_reach_the_driver():
    variables = {"A": "1", "PATH": "/mine:${PATH}", "PYTHONPATH": "/own"}
    job = spec(runtime_env={"env_vars": variables}, metadata={"k": "v"})
    found = dict(process(job).env)
    assert (found["A"], found["PATH"], found["PYTHONPATH"]) == ("1", "/mine:/bin", "/own:/names")
    assert json.loads(found["RAY_JOB_CONFIG_JSON_ENV_VAR"])["metadata"] == {
        "job_name": "job",
        "job_submission_id": "job",
        "k": "v",
    }


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"image_uri": "x", "nsight": "y"}, "'image_uri', 'nsight'"),
        ({"conda": "env", "uv": ["x"]}, "'uv' and 'conda'"),
        ({"pip": "/etc/passwd"}, "'/etc/passwd' is a path"),
        ({"uv": {"environment": "0" * 32}}, "no field 'environment'"),
        ({"working_dir": "s3://bucket/x.zip"}, "Only .zip files supported"),
        ({"working_dir": "/local"}, "not an uploaded package"),
        ({"working_dir": "gcs://../x.zip"}, "not an uploaded package"),
        ({"py_modules": ["gcs://x.whl"]}, "not an uploaded package"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(environment, text):
    request = JobSubmitRequest(entrypoint="x", runtime_env=environment)
    with pytest.raises(ValueError, match="Failed to set up runtime environment") as refused:
        packages_of(request)
    assert text in str(refused.value)


def test_the_packages_of_a_request_become_the_environment_of_the_job():
    given = {"pip": ["requests"], "env_vars": {"A": "1"}, "config": {"setup_timeout_seconds": 5}}
    request = JobSubmitRequest(entrypoint="x", submission_id="s", runtime_env=given)
    assert packages_of(request) == []
    made = job_spec(request, PLACE, {}).environment
    assert made == Environment(tool="pip", packages=("requests",), timeout_s=5)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"key": "baaaad request"}, r"__init__\(\) got an unexpected keyword argument"),
        ({}, "missing 1 required"),
        ({"entrypoint": 1}, "entrypoint must be a string, got <class 'int'>"),
        ({"entrypoint": "x", "metadata": 1}, "metadata must be a dict"),
        ({"entrypoint": "x", "metadata": {"a": 1}}, "metadata values must be strings"),
        ({"entrypoint": "x", "runtime_env": []}, "runtime_env must be a dict"),
        ({"entrypoint": "x", "entrypoint_num_cpus": "1"}, "entrypoint_num_cpus must be a number"),
        ({"entrypoint": "x", "entrypoint_memory": 1.5}, "entrypoint_memory must be an integer"),
        ({"entrypoint": "x", "entrypoint_resources": {"a": "b"}}, "values must be numbers"),
        ([], "the body must be a JSON object"),
    ],
)
def test_a_request_of_another_shape_is_refused_with_ray_s_words(body, text):
    with pytest.raises((TypeError, ValueError), match=text):
        read_request(json.dumps(body).encode())


def test_a_status_is_its_word():
    assert str(JobStatus.RUNNING) == "RUNNING"
