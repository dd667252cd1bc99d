"""Slurm's options, scripts and formats, as far as they can be tested without a running job."""

from __future__ import annotations

import pytest

from phalanx.adapters.slurm import formats, options
from phalanx.adapters.slurm.accounting_columns import SACCT_FIELDS
from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.reservations import pairs_of, reservation_fields
from phalanx.adapters.slurm.nodes import choice_of
from phalanx.adapters.slurm.options import OptionError
from phalanx.adapters.slurm.queue_columns import SQUEUE_LETTERS
from phalanx.adapters.slurm.request import (
    LEAST_LIMIT_BYTES,
    MAX_TASKS,
    exported,
    job_spec,
    shape_of,
)
from phalanx.adapters.slurm.script import MAX_SCRIPT_BYTES, checked, directives, file_name
from phalanx.adapters.slurm.states import JOB, OUT_OF_MEMORY, elapsed, states_named
from phalanx.adapters.slurm.words import read_options
from phalanx.cli.ending import Ended
from phalanx.head.jobs.slurm import run_lengths, slurm_variables, tasks_of_member
from phalanx.manifests.arrays import read_array
from phalanx.manifests.dependencies import read_dependencies
from phalanx.model.jobs import states as st


@pytest.mark.parametrize(
    ("words", "members", "each", "cpus", "gpus", "memory_mib"),
    [
        ("", 1, 1, 1, 0, None),
        ("-n 4", 4, 1, 1, 0, None),
        ("-n 4 -c 3 --mem-per-cpu=100", 4, 1, 3, 0, 300),
        ("-N 2", 2, 1, 1, 0, None),
        ("-N 2 -n 4", 2, 2, 2, 0, None),
        ("-N2 --ntasks-per-node=3 -c2", 2, 3, 6, 0, None),
        ("-n 6 --ntasks-per-node=3", 2, 3, 3, 0, None),
        ("-n 3 -N 2", 2, 2, 2, 0, None),
        ("--gres=gpu:2 --mem=1G", 1, 1, 1, 2, 1024),
        ("-N 2 -G 4", 2, 1, 1, 2, None),
        ("-n 2 --gpus-per-task=1", 2, 1, 1, 1, None),
        ("--gpus-per-node=4 --mem-per-gpu=2G", 1, 1, 1, 4, 8192),
    ],
)
def test_what_is_asked_for_becomes_members(words, members, each, cpus, gpus, memory_mib) -> None:
    asked, _ = read_options("sbatch", options.BATCH, words.split())
    shape = shape_of(asked)
    assert (shape.members, shape.tasks_per_member, shape.cpus, shape.gpus) == (
        members, each, cpus, gpus,
    )  # fmt: skip
    assert shape.memory_bytes == (None if memory_mib is None else memory_mib * 2**20)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--array=1-3 -n 2", "an array task has one member here, not 2"),
        ("-a 3-1", "has no index"),
        ("--dependency=aftergood:1", "is not a dependency"),
        ("--exclusive=mine", "--exclusive=mine is not supported; only user or mcs is"),
        ("-C a[2]", "labels of nodes, NAME or NAME=VALUE"),
        ("-M other", "--clusters=other is not supported; only phalanx or all is"),
        ("--kill-on-invalid-dep=no", "is not supported; only yes is"),
        ("-m cyclic", "--distribution=cyclic is not supported"),
        ("--bogus", "option --bogus not recognized"),
        ("-n 0", "at least 1"),
        ("-n x", "at least 1"),
        ("-N 2-1", "or MIN-MAX"),
        ("--core-spec=1", "--core-spec is not supported: Phalanx counts CPUs"),
        ("-N 3 -n 2", "do not fit"),
        ("--mem=4Q", "it takes a size"),
        ("--mem=1 --mem-per-cpu=1", "cannot be combined"),
        ("--mem-per-gpu=1", "no GPUs"),
        ("--gres=fpga:1", "only gpu"),
        ("--gres=shard:x", "it takes shard:N"),
        ("--gres=mps:100", "below 100"),
        ("--gres=gpu:0.5", "^--gres=gpu:0.5: "),
        ("--gres=gpu:1g.10gb:1 --gpus=2g.20gb:1", "GPUs of one type"),
        ("--gres=gpu:a100:1 --gpus=h100:1", "GPUs of one type"),
        ("--nice=x", "--nice=x: it takes a whole number"),
        ("--nice=--5", "--nice=--5: it takes a whole number"),
        ("--begin=4pm", "begin='4pm'"),
        ("--time=a", "time='a'"),
        ("-N 2 -G 3", "cannot be shared evenly"),
        ("--gres=gpu:1 --gpus-per-node=2", "contradict"),
    ],
)
def test_what_is_not_there_is_refused_by_name(words, why) -> None:
    with pytest.raises(OptionError, match=why):
        asked = read_options("sbatch", options.BATCH, words.split())[0]
        job_spec(1, asked, shape_of(asked), ("true",), ("sleep",), {})


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--gres=gpu:1g.10gb:2", 2),
        ("--gres=gpu:mig-1g.10gb", 1),
        ("--gpus-per-task=1g.10gb:1 -N 1 -n 2", 2),
        ("-N 2 --gpus=mig-1g.10gb:4", 2),
        ("--gpus-per-node=1g.10gb:3", 3),
    ],
)
def test_a_type_that_is_a_profile_asks_for_parts_of_split_gpus(words: str, parts: int) -> None:
    asked = read_options("sbatch", options.BATCH, words.split())[0]
    spec = job_spec(1, asked, shape_of(asked), ("true",), ("sleep",), {})
    for group in spec.groups:
        needs = {"nvidia.com/mig-1g.10gb": parts, "GPU": parts}
        assert needs.items() <= group.template.needs.items()
    assert choice_of(asked, {}) == [], "no label of a node is asked for"


def test_arrays_and_dependencies_are_those_of_run() -> None:
    words = ["-J", "fit", "-a", "1-9:2%2", "-d", "afterok:7:8,singleton"]
    asked = read_options("sbatch", options.BATCH, words)[0]
    spec = job_spec(12, asked, shape_of(asked), ("true",), ("sleep",), {})
    assert spec.array == read_array("1-9:2%2")
    assert spec.after == read_dependencies("afterok:7:8,singleton:fit", "default")
    odd = read_options("sbatch", options.BATCH, ["-J", "a\\1\\g<x>", "-d", "singleton"])[0]
    with pytest.raises(OptionError, match="after"):
        job_spec(13, odd, shape_of(odd), ("true",), ("sleep",), {})


@pytest.mark.parametrize("known", [options.BATCH, options.STEP, options.ALLOCATION])
def test_every_option_is_taken_or_refused_with_a_reason(known) -> None:
    assert len({one.long for one in known}) == len(known)
    letters = [one.short for one in known if one.short]
    assert len(set(letters)) == len(letters)
    for one in known:
        word = [f"--{one.long}=1" if one.takes_value else f"--{one.long}"]
        if one.refused:
            with pytest.raises(OptionError, match=f"--{one.long} is not supported: "):
                read_options("x", known, word)
        else:
            assert one.long in read_options("x", known, word)[0]


def test_little_memory_is_set_aside_as_asked_and_is_no_limit() -> None:
    assert shape_of({"mem": "5"}).memory_bytes == 5 << 20
    assert shape_of({"mem": "5"}).memory_limit_bytes == LEAST_LIMIT_BYTES
    assert shape_of({"mem": "1G"}).memory_limit_bytes == 1 << 30


def test_a_job_has_so_many_tasks_at_most() -> None:
    assert shape_of({"ntasks": str(MAX_TASKS)}).members == MAX_TASKS
    with pytest.raises(OptionError, match=f"{MAX_TASKS + 1} tasks are too many"):
        shape_of({"ntasks": str(MAX_TASKS + 1)})


def test_directives_end_at_the_first_command() -> None:
    head = "#!/bin/sh\n# text\n#SBATCH -n 2 # two\n#SBATCHX -n 3\n\n#SBATCH -J 'a b'\n"
    script = f"{head}true\n#SBATCH -n 9\n"
    assert directives(script) == ["-n", "2", "-J", "a b"]
    with pytest.raises(OptionError, match="line 2 of the script"):
        directives("#!/bin/sh\n#SBATCH -J 'a\n")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (b"", "empty"),
        (b"true\n", "#!"),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS"),
        (b"#!/bin/sh\0", "zero bytes"),
        (b"#!/bin/sh\n" + b"#" * MAX_SCRIPT_BYTES, "the limit is"),
    ],
)
def test_what_is_no_script(script, why) -> None:
    with pytest.raises(OptionError, match=why):
        checked(script)


def test_patterns_of_files() -> None:
    values = {"j": "42", "x": "name", "t": "3"}
    assert file_name("%x-%5j_%t.%%.%N", values) == "name-00042_3.%.%N"
    assert file_name("\\%j", values) == "%j"


def test_variables_that_go_along() -> None:
    here = {"A": "1", "B": "2", "SLURM_JOB_ID": "7", "PHALANX_JOB": "x"}
    assert exported({}, here) == {"A": "1", "B": "2"}
    assert exported({"export": "NONE"}, here) == {}
    assert exported({"export": "A,C=3,D"}, here) == {"A": "1", "C": "3"}
    assert exported({"export": "ALL,A=5"}, here) == {"A": "5", "B": "2"}


def test_a_job_is_over_with_its_script() -> None:
    asked, _ = read_options("sbatch", options.BATCH, ["-N", "3", "-J", "n", "-A", "lab"])
    spec = job_spec(7, asked, shape_of(asked), ("a",), ("b",), {"V": "1"})
    first, others = spec.groups
    assert (spec.name, first.replicas, others.replicas, spec.min_available) == ("7", 1, 2, 3)
    assert [one.events for one in first.policies] == [("TaskCompleted",)]
    assert first.template.placement == others.template.placement != {}
    assert dict(spec.annotations)["slurm/account"] == "lab"
    assert dict(first.template.processes[0].env)["SLURM_JOB_NAME"] == "n"


def test_tasks_of_members_are_blocks_that_leave_none_out() -> None:
    assert [list(tasks_of_member(m, 3, 2, 4)) for m in range(3)] == [[0, 1], [2], [3]]
    for members, most, tasks in ((1, 1, 1), (3, 4, 7), (4, 1, 4), (5, 2, 10)):
        blocks = [tasks_of_member(m, members, most, tasks) for m in range(members)]
        assert [task for block in blocks for task in block] == list(range(tasks))
        assert max(map(len, blocks)) <= most
    env = slurm_variables(["x", "x", "y"], {"x": "hx", "y": "hy"}, 2)
    assert (env["SLURM_JOB_NODELIST"], env["SLURM_NTASKS"], env["SLURM_NNODES"]) == (
        "hx,hy",
        "6",
        "2",
    )
    assert env["SLURM_TASKS_PER_NODE"] == "4,2"
    assert run_lengths([2, 2, 1]) == "2(x2),1"


def test_columns() -> None:
    columns, _ = formats.letters("%.4i|%3j %t", SQUEUE_LETTERS)
    rows = [{"id": "123456", "name": "n", "short": "PD"}]
    assert formats.listed(columns, rows, True) == ["JOBI|NAM ST", "1234|n   PD"]
    columns = formats.sacct_names("jobid%3,Stat", SACCT_FIELDS, "sacct")
    assert formats.listed(columns, [{"id": "7", "state": "RUNNING"}], False, "|") == ["7|RUNNING"]
    everything, _ = formats.letters("%all", SQUEUE_LETTERS)
    lines = formats.listed(everything, rows, True)
    assert lines[0].startswith("ACCOUNT|TRES_PER_NODE|") and lines[1].startswith("(null)|N/A|")
    assert all(line.count("|") == len(SQUEUE_LETTERS) - 1 for line in lines)
    with pytest.raises(OptionError, match='Invalid field requested: "Bad"'):
        formats.sacct_names("Bad", SACCT_FIELDS, "sacct")


def test_every_state_of_a_job_has_a_name_of_slurms() -> None:
    assert set(JOB) == {st.PREPARING, OUT_OF_MEMORY, *st.JOB}
    assert states_named("CANCELLED") == states_named("ca") == {"Terminated", "DependencyFailed"}


def test_states_times_and_lists_of_hosts() -> None:
    assert states_named("pd,RUNNING") == {"Pending", "Running"}
    with pytest.raises(ValueError, match="NONSENSE is no state"):
        states_named("nonsense")
    times = (59, 60, 3_661, 90_061, None)
    assert [elapsed(s) for s in times] == ["0:59", "1:00", "1:01:01", "1-01:01:01", "UNLIMITED"]
    assert expanded("a[01-03,7],b") == ["a01", "a02", "a03", "a7", "b"]


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["NodeCnt=2", "Duration=60"], {"node_count": 2, "length_s": 3600.0}),
        (["Nodes=a[1-2]", "Users=x,y"], {"nodes": ("a1", "a2"), "users": ("x", "y")}),
        (["TRES=gres/gpu=4", "Duration=UNLIMITED"], {"amounts": (("GPU", 4.0),)}),
        (
            ["NodeCnt=1", "StartTime=2027-01-31T02:30Z", "Flags=WEEKLY,MAINT"],
            {"node_count": 1, "schedule": "30 2 * * 0", "maintenance": True},
        ),
        (["NodeCnt=1", "Flags=IGNORE_JOBS"], {"node_count": 1, "ignores_jobs": True}),
    ],
)
def test_reservations_in_words_of_scontrol(words, fields):
    assert reservation_fields(pairs_of("create", words)) == fields


@pytest.mark.parametrize("word", ["Flags=FLEX", "NodeCnt=x", "TRES=mem=4", "Nodes=ALL", "Core=1"])
def test_what_scontrol_cannot_ask_of_a_reservation(word, capsys):
    with pytest.raises(Ended):
        reservation_fields(pairs_of("create", [word]))
    assert word.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-n1", "1 member of 1 CPU"),
        ("-n4", "4 members of 1 CPU each"),
        ("-c8 --gres=gpu:3", "1 member of 8 CPUs and 3 GPUs"),
        ("-N2 --gpus-per-node=1 --mem=2G",
         "2 members of 1 CPU, 1 GPU and 2.0 GiB of memory each on different nodes"),
    ],
)  # fmt: skip
def test_the_size_of_a_job_in_words(words, text) -> None:
    asked, _ = read_options("sbatch", options.BATCH, words.split())
    assert shape_of(asked).text == text
