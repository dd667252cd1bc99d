"""The text about one job: unknown facts are left out, and nouns have the right number, singular or
plural.
"""

from __future__ import annotations

import msgspec
from tests.unit.dashboard.world import description, job

from phalanx.adapters.slurm.request import job_spec, shape_of
from phalanx.cli.job_view import job_text
from phalanx.head.accounting.records import _command
from phalanx.head.jobs.rows import _roles
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import RoleInfo


def lines(state: str = st.RUNNING, **fields: object) -> list[str]:
    more = {name: fields.pop(name) for name in ("preempted", "members", "roles") if name in fields}
    row = msgspec.structs.replace(description(job("mine", state, **fields)), **more)
    return job_text(row, []).splitlines()


def test_a_job_that_waits_has_no_start_no_end_and_no_run() -> None:
    text = lines(st.PENDING, started=None, running=0, ran_s=0.0, time_limit_s=7_200.0, gpus=16.0)
    assert text[1].endswith(", 16 GPU")
    assert not {"started", "finished", "retries", "preempted"} & set(
        text[1].replace(",", "").split()
    )
    assert text[2] == "time limit 2h"


def test_counts_have_their_nouns() -> None:
    once = lines(retries=1, restarts=1, preempted=1, ran_s=3.0)
    assert once[1].endswith(", 1 retry, preempted once")
    assert once[2] == "ran 3s, ran once before"
    often = lines(retries=2, restarts=2, preempted=2, ran_s=3.0)
    assert often[1].endswith(", 2 retries, preempted 2 times")
    assert often[2] == "ran 3s, ran 2 times before"


def test_the_limit_of_an_array_is_that_of_each_task() -> None:
    text = lines(array="0-9", gpus=0.5, time_limit_s=60.0, ran_s=0.0, members=[])
    assert text[1].endswith(", 0.5 GPU for each array task")
    assert "time limit 1m for each array task" in text


def test_the_command_of_a_job_stands_above_its_members() -> None:
    lead = RoleInfo(name="lead", replicas=1, command="sh -c 'echo \x1b[2J'", needs={})
    work = RoleInfo(name="work", replicas=3, command="", needs={"GPU": 1.0})
    shown = "command: sh -c 'echo \\x1b[2J'"
    one = lines(roles=[lead])
    assert [line for line in one if line.startswith("command")] == [shown]
    assert one.index(shown) < one.index("")
    assert [line for line in lines(roles=[lead, work]) if line.startswith("command")] == [
        shown.replace("command", "command of lead, 1 member"),
        "command of work, 3 members: none",
    ]
    assert not [line for line in lines(roles=[]) if line.startswith("command")]


def test_a_very_long_command_is_cut() -> None:
    role = RoleInfo(name="lead", replicas=1, command="x" * 1_800, needs={})
    (said,) = [line for line in lines(roles=[role]) if line.startswith("command: ")]
    assert said == f"command: {'x' * 300}… (1,800 characters in all)"


def test_a_job_of_slurms_commands_shows_what_its_user_gave() -> None:
    words = {"job-name": "wrap", "nodes": "2"}
    starter = ("sh", "-c", "a program that opens files", "sbatch")
    holder = ("sleep", "infinity")
    notes = {"program": "python train.py | tee log"}
    spec = job_spec(7, words, shape_of(words), starter, holder, {}, notes=notes)
    assert [role.command for role in _roles(spec)] == [notes["program"], "sleep infinity"]
    assert _command(spec, "batch") == notes["program"]
    plain = job_spec(7, words, shape_of(words), starter, holder, {})
    assert _roles(plain)[0].command.startswith("sh -c 'a program")
    held = job_spec(7, words, shape_of(words), holder, holder, {}, notes=notes)
    assert _command(held, "batch") == "sleep infinity", "the history tells steps from scripts by it"
