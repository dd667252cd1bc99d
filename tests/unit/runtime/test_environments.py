"""Environments that a node prepares: the commands of the tools, the cache, and a build with pip."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from pathlib import Path

import pytest
from tests.wheels import build_wheel

from phalanx.model.environments import DESCRIPTION, READY, USED, Environment
from phalanx.runtime.environments.building import BuildError, build
from phalanx.runtime.environments.cache import GRACE_S, Cache, Entry, chosen
from phalanx.runtime.environments.tools import ToolNotFoundError, steps

PLACE = "/c/KEY"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            Environment(tool="pip", packages=("a",), options=("--no-deps",)),
            "/c/KEY/bin/python -m pip install --disable-pip-version-check --no-input "
            "--progress-bar off --no-deps -r /c/KEY/files/requirements.txt",
        ),
        (
            Environment(tool="uv", packages=("a",), is_checked=True),
            "/t/uv pip install --python /c/KEY/bin/python -r /c/KEY/files/requirements.txt; "
            "/t/uv pip check --python /c/KEY/bin/python",
        ),
        (
            Environment(tool="uv", files=(("uv.lock", ""), ("pyproject.toml", ""))),
            "/t/uv sync --frozen --no-install-project --project /c/KEY/files "
            "--python /c/KEY/bin/python",
        ),
        (
            Environment(tool="uv", packages=("a",), version="==0.5"),
            "/c/KEY/bin/python -m pip install --disable-pip-version-check --no-input "
            "--progress-bar off --target /c/KEY/uv uv==0.5; "
            "/c/KEY/uv/bin/uv pip install --python /c/KEY/bin/python "
            "-r /c/KEY/files/requirements.txt",
        ),
        (
            Environment(tool="conda", files=(("environment.yml", ""),)),
            "/t/conda env create --yes --prefix /c/KEY/conda --file /c/KEY/files/environment.yml",
        ),
    ],
)
def test_each_tool_has_its_commands(environment, expected):
    made = steps(environment, PLACE, lambda name: f"/t/{name}")
    assert "; ".join(" ".join(step.argv) for step in made) == expected


def test_a_tool_that_is_not_here_is_named():
    with pytest.raises(ToolNotFoundError, match="conda is not on this node"):
        steps(Environment(tool="conda", named="base"), PLACE, lambda name: None)


OLD = 10_000.0
NOW = OLD + 2 * GRACE_S


@pytest.mark.parametrize(
    ("entries", "most", "missing", "expected"),
    [
        ("a:5 b:5", 10, 0, ""),
        ("b:5:1 a:5:0 c:5:2", 10, 0, "a"),
        ("a:5:0 b:5:1 c:5:2", 15, 6, "a b"),
        ("a:5:0 b:5:1", 0, 0, "a b"),
        (f"a:5:{2 * GRACE_S} b:5:1", 4, 0, "b"),  # a was used a moment ago
    ],
)
def test_what_was_used_longest_ago_is_removed_first(entries, most, missing, expected):
    made = []
    for text in entries.split():
        key, size, *after = text.split(":")
        made.append(Entry(key, int(size), OLD + float(after[0] if after else 0)))
    found = chosen(made, NOW, most_bytes=most, missing_bytes=missing)
    assert " ".join(entry.key for entry in found) == expected


def filled(size: int):
    def make(place: str) -> None:
        Path(place, "data").write_bytes(b"x" * size)

    return make


def age(cache: Cache, key: str) -> None:
    """Make an environment look as if it was last used long ago."""
    os.utime(os.path.join(cache.place(key), USED), (OLD, OLD))


def test_an_environment_is_built_once_and_counts_as_used(tmp_path):
    said: list[str] = []
    cache = Cache(str(tmp_path / "envs"), say=said.append)
    assert not cache.has("a")
    place = cache.prepare("a", filled(10))
    age(cache, "a")
    assert cache.prepare("a", lambda place: pytest.fail("it was built again")) == place
    assert os.stat(os.path.join(place, USED)).st_mtime > OLD
    assert os.stat(cache.place("a")).st_mode & 0o077 == 0
    assert said == []


def test_a_failed_build_leaves_nothing_and_may_be_tried_again(tmp_path):
    cache = Cache(str(tmp_path), say=lambda text: None)

    def fail(place: str) -> None:
        Path(place, "half").touch()
        raise BuildError("no")

    with pytest.raises(BuildError):
        cache.prepare("a", fail)
    assert not os.path.exists(cache.place("a"))
    os.mkdir(cache.place("a"))  # as a preparation that was killed leaves it
    assert os.path.exists(os.path.join(cache.prepare("a", filled(1)), READY))


def test_two_preparations_of_one_environment_share_one_build(tmp_path):
    said: list[str] = []
    began, go_on = threading.Event(), threading.Event()
    built = []

    def slowly(place: str) -> None:
        built.append(place)
        began.set()
        assert go_on.wait(60)

    def wait(text: str) -> None:
        said.append(text)
        go_on.set()

    first = threading.Thread(
        target=Cache(str(tmp_path), say=lambda text: None).prepare, args=("a", slowly)
    )
    first.start()
    assert began.wait(60)
    place = Cache(str(tmp_path), say=wait).prepare("a", slowly)
    first.join(60)
    assert built == [place]
    assert said == ["another process prepares this environment already; waiting for it"]


def test_room_is_made_by_removing_what_is_not_in_use(tmp_path):
    cache = Cache(str(tmp_path), say=lambda text: None, most_bytes=0, least_free_bytes=0)
    for key in ("used", "unused"):
        cache.prepare(key, filled(8192))
    for key in ("used", "unused"):
        age(cache, key)
    with open(os.path.join(cache.place("used"), READY), "rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        cache.prepare("new", filled(1))
    assert [cache.has(key) for key in ("used", "unused", "new")] == [True, False, True]


def test_pip_makes_an_environment_before_the_packages_of_this_python(tmp_path):
    wheels = tmp_path / "wheels"
    build_wheel(wheels, "greeting", "hello")
    options = ("--no-index", "--find-links", str(wheels))
    environment = Environment(tool="pip", packages=("greeting",), options=options)
    place = tmp_path / "place"
    place.mkdir()
    build(environment, str(place), lambda text: None)
    assert (place / DESCRIPTION).exists()
    code = "import greeting, phalanx, sys; print(greeting.TEXT, sys.prefix)"
    python = str(place / "bin" / "python")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"hello {place}\n"


def test_a_command_that_fails_or_takes_too_long_is_named(tmp_path, monkeypatch):
    from phalanx.runtime.environments import building
    from phalanx.runtime.environments.tools import Step

    monkeypatch.setattr(building, "_make_python", lambda place, has_pip: None)
    for argv, timeout_s, words in (
        (["sh", "-c", "echo last words; exit 3"], 0, "exit code 3"),
        (["sh", "-c", "exec tail -f /dev/null"], 1, "longer than 1 s"),
    ):
        monkeypatch.setattr(building, "steps", lambda *given, argv=argv: [Step(argv, {})])
        place = tmp_path / str(timeout_s)
        place.mkdir()
        environment = Environment(tool="pip", timeout_s=timeout_s)
        with pytest.raises(BuildError, match=words):
            build(environment, str(place), lambda text: None)
