"""The libraries of the installed ray run on Phalanx's own engine: no process of Ray starts."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

import pytest

from phalanx.adapters.ray.libraries import CHECKED

pytest.importorskip("pyarrow", reason="Tune needs the extra `libraries`")
_LIMIT_S = 400
"""The seconds that a program may take on a busy machine. On an idle one it takes twenty seconds."""
_INSTALLED = tuple(map(int, importlib.metadata.version("ray").split(".")[:2]))
pytestmark = pytest.mark.skipif(CHECKED[0] > _INSTALLED, reason="libraries are of newer releases")

TUNE = """
import json
import os
import sys
import tempfile

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining


class Steps(tune.Trainable):
    def setup(self, config):
        self.total = 0

    def step(self):
        self.total += self.config["x"]
        return {"score": self.total}

    def save_checkpoint(self, directory):
        return {"total": self.total}

    def load_checkpoint(self, checkpoint):
        self.total = checkpoint["total"]


def loop(config):
    checkpoint = tune.get_checkpoint()
    step = 0
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            with open(os.path.join(directory, "step")) as file:
                step = json.load(file)
    while step < 3:
        step += 1
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "step"), "w") as file:
                json.dump(step, file)
            checkpoint = tune.Checkpoint.from_directory(directory)
            tune.report({"score": step * config["x"], "pid": os.getpid()}, checkpoint=checkpoint)
        if step == 2 and config["x"] == 2 and "retried" not in os.listdir(config["at"]):
            open(os.path.join(config["at"], "retried"), "w").close()
            raise RuntimeError("once")


def fit(name, trainable, stop=None, failures=0, values=(1, 2, 3), **tuning):
    space = {"x": tune.grid_search(list(values)), "at": sys.argv[1]}
    running = tune.RunConfig(
        name=name,
        storage_path=os.path.join(sys.argv[1], "results"),
        stop=stop,
        verbose=0,
        failure_config=tune.FailureConfig(max_failures=failures),
    )
    tuning = tune.TuneConfig(metric="score", mode="max", **tuning)
    grid = tune.Tuner(trainable, param_space=space, tune_config=tuning, run_config=running).fit()
    print(name, sorted(result.metrics["score"] for result in grid), len(grid.errors))
    return grid


ray.init(num_cpus=2)
os.makedirs(os.path.join(sys.argv[1], "results"))
fit("class", Steps, stop={"training_iteration": 3})
grid = fit("function", loop, failures=1)
print(all(result.checkpoint for result in grid), grid.get_best_result().config["x"])
print(all(result.metrics["pid"] != os.getpid() for result in grid))
restored = tune.Tuner.restore(os.path.join(sys.argv[1], "results", "function"), loop)
print(len(restored.fit()))
# One after another, the best first: who comes to a rung first is never stopped there.
asha = {"scheduler": ASHAScheduler(max_t=4), "max_concurrent_trials": 1, "values": (3, 2, 1)}
fit("asha", Steps, stop={"training_iteration": 4}, **asha)
mutations = {"x": [1, 2, 3]}
scheduler = PopulationBasedTraining(perturbation_interval=2, hyperparam_mutations=mutations)
fit("pbt", Steps, stop={"training_iteration": 1}, scheduler=scheduler)
"""

EXPECTED = """\
class [3, 6, 9] 0
function [3, 6, 9] 0
True 3
True
3
asha [1, 2, 12] 0
pbt [1, 2, 3] 0
"""


TRAIN = """
import json
import os
import signal
import sys
import tempfile

import ray
import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def loop(config):
    context = ray.train.get_context()
    epoch = 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as directory, open(os.path.join(directory, "epoch")) as file:
            epoch = json.load(file) + 1
    began = epoch
    killed = os.path.join(config["at"], "killed")
    while epoch < 5:
        if epoch == 3 and context.get_world_rank() == 1 and not os.path.exists(killed):
            open(killed, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "epoch"), "w") as file:
                json.dump(epoch, file)
            first = context.get_world_rank() == 0
            checkpoint = Checkpoint.from_directory(directory) if first else None
            reported = {"epoch": epoch, "began": began, "workers": context.get_world_size()}
            ray.train.report(reported, checkpoint=checkpoint)
        epoch += 1


ray.init(num_cpus=3)
running = RunConfig(
    name="run", storage_path=sys.argv[1], failure_config=FailureConfig(max_failures=1)
)
result = DataParallelTrainer(
    loop,
    train_loop_config={"at": sys.argv[1]},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=running,
).fit()
print(result.metrics["epoch"], 1 <= result.metrics["began"] <= 3, result.metrics["workers"])
with result.checkpoint.as_directory() as directory:
    print(os.listdir(directory))
"""


@pytest.mark.timeout(_LIMIT_S)
def test_train_restarts_its_workers_from_the_checkpoint_when_one_is_killed(tmp_path):
    assert ran(TRAIN, tmp_path, RAY_TRAIN_V2_ENABLED="1") == ["4 True 2", "['epoch']"]


@pytest.mark.timeout(_LIMIT_S)
def test_tune_runs_trials_with_checkpoints_retries_and_schedulers(tmp_path):
    assert ran(TUNE, tmp_path, RAY_AIR_NEW_OUTPUT="0") == EXPECTED.splitlines()


def ran(program, folder, **variables):
    """Return the output of the program, without the lines that its workers printed."""
    path = folder / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "phalanx.compat.ray", "--libraries", str(path), str(folder)],
        env={**os.environ, "TMPDIR": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S - 20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("(")]
