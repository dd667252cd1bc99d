"""The resources that jobs used, from the command line, also after the head was killed."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from tests.polling import eventually

from phalanx.cli.periods import past_moment


@pytest.fixture(scope="module")
def done(running):
    """A machine on which one job has completed and one has failed."""
    words = (
        "--memory",
        "64Mi",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done",
    )
    running.done("run", "-n", "good", *words)
    running.phalanx("run", "-n", "bad", "--", "sh", "-c", "exit 3")
    eventually(lambda: len(history(running)) == 2)
    return running


def history(machine, *words):
    return json.loads(machine.done("history", "--json", *words))


def test_who_ran_what_and_how_it_ended(done):
    good, bad = history(done)
    assert (good["job"], good["state"], good["exit_code"]) == ("good", "Completed", 0)
    assert (bad["job"], bad["state"], bad["exit_code"]) == ("bad", "Failed", 3)
    assert good["user"] and good["node"] and good["memory"] == 64 * 2**20
    assert good["used"]["cpu_s"] > 0 and good["used"]["ran_s"] > 0
    assert good["submitted"] <= good["started"] < good["ended"]
    assert [one["job"] for one in history(done, "good")] == ["good"]
    assert [one["job"] for one in history(done, "--state", "failed")] == ["bad"]
    assert history(done, "--user", "eve") == []
    assert history(done, "--until", "1d", "--since", "2d") == []
    said = done.done("history", "-o", "job,exit,reason")
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["good", "0"], ["bad", "3"]]
    cut = done.phalanx("history", "--limit", "1")
    assert cut.stdout.count("\n") == 2 and "--limit is 1" in cut.stderr


def test_efficiency_and_report(done):
    said = done.done("efficiency", "good")
    assert "CPU Utilized: 00:00:0" in said and "of 64.0 MiB" in said
    assert said.rstrip().endswith("It ran less than 5 minutes, too short for a verdict.")
    assert json.loads(done.done("efficiency", "bad", "--json"))["exit_code"] == 3
    [row] = json.loads(done.done("report", "--json", "--by", "queue"))
    assert (row["queue"], row["attempts"], row["completed"], row["jobs_begun"]) == (
        "default",
        2,
        1,
        2,
    )
    assert row["cpu_hours"] > 0 and row["wait_p50_s"] is not None
    assert done.done("report").splitlines()[-1].split()[:3] == ["all", "all", "2"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["efficiency", "nobody"], 3, "The history has no finished attempt of a job nobody"),
        (["efficiency", "goood"], 3, "did you mean 'good'?"),
        (["history", "--since", "soon"], 2, "a time is like 7d"),
        (["history", "--since", "1d", "--until", "2d"], 2, "is not after --since"),
        (["history", "--state", "Fialed"], 2, "Failed"),
        (["history", "--format", "job,cpuu"], 2, "there is no column 'cpuu'"),
        (["history", "--limit", "10001"], 2, "10000"),
        (["report", "--by", "node"], 2, "user, queue or both"),
        (["start", "--head", "--history", "years=1"], 2, "days, records, sum_days"),
        (["start", "--head", "--history", "days=0"], 2, "1 or more"),
    ],
)
def test_what_is_wrong_is_said(done, words, code, said):
    ended = done.phalanx(*words)
    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr


def test_a_head_that_is_killed_loses_no_record_and_doubles_none(machine):
    address = machine.start_head()
    words = ("run", "-d", "--cpus", "0.1", "-n")
    for number in range(6):
        wait = f"while [ ! -e {machine.home}/go ]; do sleep 0.05; done"
        machine.done(*words, f"j{number}", "--", "sh", "-c", wait if number % 2 else "true")
    eventually(lambda: len(history(machine)) == 3)
    head = machine.daemons()["head"]
    os.kill(head.pid, signal.SIGKILL)
    eventually(lambda: "head" not in machine.daemons())
    open(f"{machine.home}/go", "w").close()
    port = address.rpartition(":")[2]
    machine.done("start", "--head", "--port", port, "--num-cpus", "1")
    eventually(lambda: len(history(machine)) == 6)
    assert sorted(one["job"] for one in history(machine)) == [f"j{n}" for n in range(6)]
    machine.done("delete", "j1")
    assert [one["job"] for one in history(machine, "j1")] == ["j1"], "it stays when the job goes"
    [whole] = json.loads(machine.done("report", "--json"))
    assert whole["attempts"] == 6


def test_moments_of_the_past():
    now = 1_800_000_000.0
    assert past_moment("2d", now) == past_moment("now-2days", now) == now - 172_800
    assert past_moment("now-3hours", now) == now - 10_800
    assert past_moment("now-90", now) == now - 90
    assert past_moment("now-2w", now) == now - 14 * 86_400
    assert time.localtime(past_moment("today", now))[3:6] == (0, 0, 0)
    for bad in ("", "soon", "now-", "now-2parsecs", "2030-13-01", "d"):
        with pytest.raises(ValueError, match="a time is like 7d"):
            past_moment(bad, now)
