"""A word that is not a number, or a number that is too large, is refused with a sentence."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from phalanx.cli.job_output import _split
from phalanx.cli.typer_app import app
from phalanx.errors import JobNotFoundError
from phalanx.model.jobs.spec import JobSpec

ODD = ["nan", "1.5", "-1", "1" + "0" * 30, "CPU=nan", "x" * 300]
OF_RUN = (
    "--gang", "--min", "--cpus", "--gpus", "--memory", "--priority", "--retries", "--time-limit",
    "--env", "--queue", "--name",
)  # fmt: skip
OF_QUEUE = ("--weight", "--priority", "--parent", "--capability", "--deserved", "--guarantee")
COMMANDS = [
    *[f"run {option} @ -d -- true" for option in OF_RUN],
    *[f"queue create q {option} @" for option in OF_QUEUE],
    "queue update q --capability @", "resize j @", "resize j a=@", "resize j 1 --min @",
    "explain @", "jobs --queue @",
]  # fmt: skip


class Asked(Exception):
    """Keeps the requests that a command would send to the head."""


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch):
    def answer(session, daemon, request, patience_s):
        msgspec.msgpack.encode(request)
        raise Asked(request)

    monkeypatch.setattr("phalanx.cli.reach.daemons_of", lambda *_: [(None, None)])
    monkeypatch.setattr("phalanx.runtime.daemons.visitor.ask_daemon", answer)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_line_is_understood_or_refused_with_a_sentence(command) -> None:
    for odd in ODD:
        words = [word.replace("@", odd) for word in command.split()]
        done = CliRunner().invoke(app, words)
        if isinstance(done.exception, Asked):
            continue
        assert isinstance(done.exception, SystemExit), (odd, done.exception)
        assert done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "option",
    [
        "--gpus=1.5", "--gpus=0.00001", "--gpus=nan", "--gpus=inf", "--gpus=1e30", "--cpus=nan",
        "--cpus=1e30", "--memory=1e30", "--memory=-1", "--gang=100001", "--priority=99999999999",
        "--time-limit=nan", "--time-limit=1e300", "--queue=a/b", "--name=..",
    ],
)  # fmt: skip
def test_what_no_node_could_hold_is_refused_at_the_call(option) -> None:
    done = CliRunner().invoke(app, ["run", option, "-d", "--", "true"])
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.exception


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("a", ("a", "")), ("a.worker-0", ("a", "worker-0")), ("a.b", ("a.b", "")),
        ("a.b.worker-0", ("a.b", "worker-0")), ("s/a.b.worker-1", ("s/a.b", "worker-1")),
        ("a.c", ("a", "c")), ("x.y", ("x.y", "")), ("b.worker-0", ("b.worker-0", "")),
        ("b.worker-0.worker-0", ("b.worker-0", "worker-0")),
    ],
)  # fmt: skip
def test_names_of_jobs_may_have_dots(name, meant) -> None:
    known = {"default/a", "default/a.b", "s/a.b", "default/b", "default/b.worker-0"}
    assert _split(name, known) == meant


@pytest.mark.parametrize("command", ["cancel", "suspend", "resume", "delete"])
def test_a_job_that_cannot_be_ended_does_not_keep_the_others(command, monkeypatch) -> None:
    asked = []

    def answer(session, daemon, request, patience_s):
        asked.append(request.name)
        if request.name == "b":
            raise JobNotFoundError("there is no job 'b'")

    monkeypatch.setattr("phalanx.runtime.daemons.visitor.ask_daemon", answer)
    done = CliRunner().invoke(app, [command, "a", "b", "c"])
    assert (done.exit_code, asked) == (3, ["a", "b", "c"])
    assert done.stderr == "there is no job 'b'\n"
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["a", "c"]


@pytest.mark.parametrize("given", ["{GPU: 1}", '{"GPU": 1}', "GPU", "=1"])
def test_amounts_that_are_written_otherwise_are_refused_with_an_example(given) -> None:
    done = CliRunner().invoke(app, ["queue", "create", "q", "--capability", given])
    assert done.exit_code == 2
    assert done.stderr == (
        f"Amounts are NAME=AMOUNT, as in CPU=8,GPU=2,memory=64Gi; given {given!r}.\n"
    )


def test_what_is_right_is_sent() -> None:
    done = CliRunner().invoke(
        app, ["run", "--gpus", "0.5", "--cpus", "1.5", "-n", "j", "-d", "--", "true"]
    )
    assert isinstance(done.exception, Asked)
    (manifest,) = done.exception.args[0].manifests
    spec = msgspec.msgpack.decode(manifest.spec, type=JobSpec)
    assert spec.groups[0].template.needs == {"CPU": 1.5, "GPU": 0.5}
