"""The command lines for container tools, the choice of a tool on a node, and what a container
gets.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from phalanx.runtime.containers import finding, leftovers
from phalanx.runtime.containers.finding import Tool, find_tool
from phalanx.runtime.containers.leftovers import name_of, noted, remove_leftovers
from phalanx.runtime.containers.requests import ContainerRequest, Gpus, User
from phalanx.runtime.containers.run import gpus_of, names_of
from phalanx.runtime.containers.tools import MountError, line_for, reference
from phalanx.runtime.containers.worker import packages_of
from phalanx.runtime.environments.images import steps_of
from phalanx.runtime.environments.tools import ToolNotFoundError

VALUES = {"A": "secret", "B": "2"}


def request(**fields) -> ContainerRequest:
    given = {"image": "python:3.12", "argv": ("python", "a b"), "name": "n", "user": User(0, 0)}
    return ContainerRequest(**{**given, **fields})


def line(tool: str, **fields) -> tuple[str, dict[str, str]]:
    argv, variables = line_for(tool, f"/bin/{tool}", request(**fields), VALUES)
    return " ".join(argv), variables


BUSY = {
    "directory": "/work/a",
    "mounts": ("/job/1", "/work/a/below", "/"),
    "variables": ("A", "C"),
    "gpus": Gpus(nvidia=("GPU-1", "GPU-2")),
    "limits": (("nofile", 10, 20), ("nproc", -1, -1)),
    "options": ("--hostname", "x"),
    "has_input": True,
    "has_terminal": True,
}

WORKER = {"packages": (("/node/src", "/.phalanx/0"), ("/venv", "/.phalanx/1")), "passed": 4}

TABLE = [
    (
        "podman",
        WORKER,
        "/bin/podman run --rm --name n --network=host --ipc=host --cgroups=disabled "
        "--log-driver=none --security-opt=label=disable --preserve-fds=4 "
        "--volume /node/src:/.phalanx/0:ro --volume /venv:/.phalanx/1:ro --entrypoint= "
        "docker.io/library/python:3.12 python a b",
        {},
    ),
    (
        "apptainer",
        WORKER,
        "/bin/apptainer exec --cleanenv --bind /node/src:/.phalanx/0:ro "
        "--bind /venv:/.phalanx/1:ro docker://docker.io/library/python:3.12 python a b",
        {},
    ),
    (
        "podman",
        {},
        "/bin/podman run --rm --name n --network=host --ipc=host --cgroups=disabled "
        "--log-driver=none --security-opt=label=disable --entrypoint= "
        "docker.io/library/python:3.12 python a b",
        {},
    ),
    (
        "podman",
        {**BUSY, "user": User(1000, 100), "init": "/bin/i"},
        "/bin/podman run --rm --name n --network=host --ipc=host --cgroups=disabled "
        "--log-driver=none --security-opt=label=disable --userns=keep-id --init "
        "--init-path=/bin/i --ulimit=nofile=10:20 --ulimit=nproc=-1:-1 "
        "--volume /job/1:/job/1 --volume /work/a:/work/a --workdir /work/a --env A --env C "
        "--interactive --tty --device nvidia.com/gpu=GPU-1 --device nvidia.com/gpu=GPU-2 "
        "--hostname x --entrypoint= docker.io/library/python:3.12 python a b",
        {},
    ),
    (
        "podman",
        {"gpus": Gpus(nvidia=("3", "5"), has_amd=True)},
        "/bin/podman run --rm --name n --network=host --ipc=host --cgroups=disabled "
        "--log-driver=none --security-opt=label=disable --device nvidia.com/gpu=3 "
        "--device nvidia.com/gpu=5 --device=/dev/kfd --device=/dev/dri "
        "--env CUDA_VISIBLE_DEVICES=0,1 --entrypoint= docker.io/library/python:3.12 python a b",
        {},
    ),
    (
        "docker",
        {**BUSY, "user": User(1000, 100, (100, 7))},
        "/bin/docker run --rm --name n --network=host --ipc=host --init --user=1000:100 "
        "--group-add=7 --ulimit=nofile=10:20 --ulimit=nproc=-1:-1 --volume /job/1:/job/1 "
        "--volume /work/a:/work/a --workdir /work/a --env A --env C --interactive --tty "
        '--gpus "device=GPU-1,GPU-2" --hostname x --entrypoint= docker.io/library/python:3.12 '
        "python a b",
        {},
    ),
    (
        "apptainer",
        BUSY,
        "/bin/apptainer exec --cleanenv --bind /job/1 --bind /work/a --pwd /work/a --nv "
        "--hostname x docker://docker.io/library/python:3.12 python a b",
        {"APPTAINERENV_A": "secret"},
    ),
    (
        "singularity",
        {"variables": ("B",), "image": "/images/a.sif", "gpus": Gpus(has_amd=True)},
        "/bin/singularity exec --cleanenv --rocm /images/a.sif python a b",
        {"SINGULARITYENV_B": "2"},
    ),
    (
        "enroot",
        {**BUSY, "image": "/e/image.sqsh", "place": "/e"},
        "/bin/enroot start --rc /e/enroot.rc --mount /job/1:/job/1 --mount /work/a:/work/a "
        "--env A --env C --env PHALANX_DIRECTORY --env NVIDIA_VISIBLE_DEVICES "
        "--env NVIDIA_DRIVER_CAPABILITIES --hostname x /e/image.sqsh python a b",
        {
            "PHALANX_DIRECTORY": "/work/a",
            "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        },
    ),
    (
        "enroot",
        {"image": "/e/image.sqsh", "place": "/e"},
        "/bin/enroot start --rc /e/enroot.rc --env PHALANX_DIRECTORY --env NVIDIA_VISIBLE_DEVICES "
        "--env NVIDIA_DRIVER_CAPABILITIES /e/image.sqsh python a b",
        {
            "PHALANX_DIRECTORY": "/",
            "NVIDIA_VISIBLE_DEVICES": "void",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        },
    ),
]


@pytest.mark.parametrize(("tool", "fields", "words", "variables"), TABLE)
def test_the_words_of_each_tool(tool, fields, words, variables):
    assert line(tool, **fields) == (words, variables)
    assert "secret" not in words, "all users see the words of a command"


@pytest.mark.parametrize("name", ["/a:b", "/a,b"])
def test_a_directory_that_a_tool_cannot_mount_is_refused(name):
    with pytest.raises(MountError, match="cannot be mounted"):
        line("podman", directory=name)


@pytest.mark.parametrize(
    ("image", "podman", "apptainer", "enroot"),
    [
        (
            "python:3.12",
            "docker.io/library/python:3.12",
            "docker://docker.io/library/python:3.12",
            "docker://docker.io#library/python:3.12",
        ),
        ("a/b", "docker.io/a/b", "docker://docker.io/a/b", "docker://docker.io#a/b"),
        (
            "docker://nvcr.io/nvidia/pytorch:1",
            "nvcr.io/nvidia/pytorch:1",
            "docker://nvcr.io/nvidia/pytorch:1",
            "docker://nvcr.io#nvidia/pytorch:1",
        ),
        ("localhost/a", "localhost/a", "docker://localhost/a", "docker://localhost#a"),
        ("host:5000/a", "host:5000/a", "docker://host:5000/a", "docker://host:5000#a"),
        ("/images/a.sif", "/images/a.sif", "/images/a.sif", "/images/a.sif"),
    ],
)
def test_one_name_of_an_image_means_the_same_to_all_tools(image, podman, apptainer, enroot):
    found = [reference(tool, image) for tool in ("podman", "docker", "apptainer", "enroot")]
    assert found == [podman, podman, apptainer, enroot]


def test_an_image_is_fetched_once_by_the_words_of_its_tool():
    def fetching(name: str, image: str = "a:1") -> list[tuple[str, str]]:
        steps = steps_of(Tool(name, name), image, "/e")
        return [(" ".join(step.argv), " ".join(step.unless)) for step in steps]

    name = "docker.io/library/a:1"
    assert fetching("podman") == [(f"podman pull {name}", f"podman image exists {name}")]
    assert fetching("docker") == [(f"docker pull {name}", f"docker image inspect {name}")]
    assert fetching("apptainer") == [(f"apptainer pull /e/image.sif docker://{name}", "")]
    assert fetching("enroot") == [
        ("enroot import --output /e/image.sqsh docker://docker.io#library/a:1", "")
    ]
    assert fetching("enroot", "/images/a.sqsh") == []
    with pytest.raises(ToolNotFoundError, match="is a file"):
        fetching("podman", "/images/a.sif")


def program(directory: Path, name: str) -> None:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_the_first_tool_in_the_path_is_used_unless_another_is_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(finding, "_USUAL", "")
    variables = {"PATH": str(tmp_path)}
    assert find_tool(variables) is None
    program(tmp_path, "docker")
    assert find_tool({**variables, "DOCKER_HOST": "tcp://127.0.0.1:1"}) == Tool(
        "docker", f"{tmp_path}/docker"
    )
    for name in ("enroot", "podman"):
        program(tmp_path, name)
        assert find_tool(variables) == Tool(name, f"{tmp_path}/{name}")
    chosen = {**variables, "PHALANX_CONTAINER_TOOL": "enroot"}
    assert find_tool(chosen) == Tool("enroot", f"{tmp_path}/enroot")
    for off in ("none", "apptainer"):
        assert find_tool({**variables, "PHALANX_CONTAINER_TOOL": off}) is None


def test_a_container_gets_the_variables_of_its_job_and_not_those_of_the_node():
    variables = {
        "PHALANX_NODE": "n", "LC_ALL": "C", "TERM": "vt", "PATH": "/bin", "LD_LIBRARY_PATH": "/lib",
        "HOME": "/root", "RANK": "1", "VIRTUAL_ENV": "/v",
    }  # fmt: skip
    found = names_of(["RANK", "ABSENT", "PHALANX_NODE"], variables)
    assert found == ("LC_ALL", "PHALANX_NODE", "RANK", "TERM")
    assert "PATH" in names_of(["PATH"], variables), "its job has named it"


@pytest.mark.parametrize(
    ("shown", "has_nvidia", "has_amd", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0, GPU-1"}, True, False, Gpus(("0", "GPU-1"))),
        ({"CUDA_VISIBLE_DEVICES": ""}, True, True, Gpus()),
        ({}, True, True, Gpus()),
        ({"CUDA_VISIBLE_DEVICES": "0"}, False, False, Gpus()),
        ({"HIP_VISIBLE_DEVICES": "0"}, False, True, Gpus((), True)),
    ],
)
def test_a_container_gets_the_gpus_of_its_member(shown, has_nvidia, has_amd, expected):
    assert gpus_of(shown, has_nvidia=has_nvidia, has_amd=has_amd) == expected


def test_a_container_whose_runner_is_dead_is_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PHALANX_ENVIRONMENTS", str(tmp_path))
    removed: list[str] = []

    def remove(name: str, tool: str) -> bool:
        removed.append(f"{tool} {name}")
        return name != "phalanx-2-x"

    monkeypatch.setattr(leftovers, "remove", remove)
    remove_leftovers()
    mine = name_of(os.getpid())
    with noted(mine, "podman"):
        notes = tmp_path / ".containers"
        for number in (1, 2):
            (notes / f"phalanx-{number}-x").write_text("docker")
        remove_leftovers()
        assert sorted(removed) == ["docker phalanx-1-x", "docker phalanx-2-x"]
        assert {one.name for one in notes.iterdir()} == {mine, "phalanx-2-x"}
    assert [one.name for one in notes.iterdir()] == ["phalanx-2-x"]


def test_the_packages_of_a_worker_begin_with_its_own(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    path = ["", str(other), sysconfig.get_path("stdlib"), str(own), str(tmp_path / "none")]
    found = packages_of(path, str(own))
    assert found == ((str(own), "/.phalanx/0"), (str(other), "/.phalanx/1"))


def test_a_directory_of_packages_with_a_colon_is_refused():
    with pytest.raises(MountError, match="/a:b cannot be mounted"):
        line("podman", packages=(("/a:b", "/.phalanx/0"),))
