"""Arrays of short commands on real nodes: each array task runs once, with its own output, whichever
process dies.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.polling import eventually

import phalanx
from phalanx.api.jobs import JobHandle

COUNT = 300


def submit(directory, script, indices=f"0-{COUNT - 1}", **more):
    text = f"echo out $PHALANX_ARRAY_INDEX; {script}; echo $PHALANX_ARRAY_INDEX >> {directory}/ran"
    job = phalanx.Job(
        ["sh", "-c", text], name="sweep", working_dir=str(directory), array=indices, **more
    )
    return phalanx.submit(job)


def ran(directory):
    path = directory / "ran"
    return Counter(map(int, path.read_text().split())) if path.exists() else Counter()


def once(count=COUNT):
    return dict.fromkeys(range(count), 1)


def test_each_task_runs_once_with_its_output_code_and_retries(new_cluster, tmp_path):
    new_cluster(2)
    flag = f"{tmp_path}/failed-$PHALANX_ARRAY_INDEX"
    fails = f"[ $PHALANX_ARRAY_INDEX != 150 ] || [ -e {flag} ] || {{ touch {flag}; exit 7; }}"
    sweep = submit(tmp_path, fails, max_retries=2)
    sweep.wait(120)
    assert (sweep.status().state, sweep.status().succeeded) == ("Completed", COUNT)
    for index, times in ran(tmp_path).items():
        if times > 1:  # something outside killed it as it ended, so it was retried
            assert times <= attempts_of(index)
    assert set(ran(tmp_path)) == set(range(COUNT))
    for index in (0, 149, 150, 299):
        assert f"out {index}\n" in JobHandle(f"sweep[{index}]").logs()
    assert attempts_of(150) == 2


def attempts_of(index):
    return JobHandle(f"sweep[{index}]").describe().members[0].attempt


def has_run(directory, least):
    return ran(directory).total() >= least


def test_a_head_that_is_killed_loses_and_doubles_nothing(new_cluster, tmp_path):
    tmp_path.chmod(0o700)
    cluster = new_cluster(2, store=str(tmp_path / "control.db"))
    sweep = submit(tmp_path, "true")
    for part in (1, 2):
        least = part * COUNT // 3
        eventually(partial(has_run, tmp_path, least), "some have run")
        cluster.kill_head()
        cluster.start_head()
    sweep.wait(120)
    assert (sweep.status().state, sweep.status().succeeded) == ("Completed", COUNT)
    assert ran(tmp_path) == once()


def test_tasks_of_a_node_that_is_killed_run_elsewhere(new_cluster, tmp_path):
    cluster = new_cluster(1, 1)
    sweep = submit(tmp_path, "true")
    eventually(lambda: ran(tmp_path).total() >= COUNT // 3, "some have run")
    victim = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    cluster.remove_node(victim, allow_graceful=False)
    sweep.wait(120)
    assert (sweep.status().state, sweep.status().succeeded) == ("Completed", COUNT)
    assert set(ran(tmp_path)) == set(range(COUNT))


def test_cancelled_tasks_never_begin(new_cluster, tmp_path):
    new_cluster(1)
    sweep = submit(tmp_path, "true")
    eventually(lambda: ran(tmp_path).total() >= 20, "some have run")
    JobHandle(f"sweep[{COUNT - 50}-{COUNT - 1}]").cancel()
    sweep.wait(120)
    status = sweep.status()
    assert status.reason == f"{COUNT - 50} of {COUNT} array tasks completed, 50 were ended"
    assert ran(tmp_path) == once(COUNT - 50)


def test_no_command_is_harmed_while_many_others_begin_and_end(new_cluster, tmp_path):
    new_cluster(16)
    job = phalanx.Job(["true"], name="sweep", working_dir=str(tmp_path), array="0-599")
    sweep = phalanx.submit(job)
    sweep.wait(120)
    assert sweep.status().reason == "all 600 array tasks completed"
