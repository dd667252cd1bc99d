"""Hydra's submitit launcher for Slurm: a sweep of two jobs."""

import subprocess
import sys
from pathlib import Path

APP = """
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig


@hydra.main(version_base=None, config_path=None)
def main(config):
    Path(HydraConfig.get().runtime.output_dir, "value").write_text(str(config.rate))
    return config.rate


main()
"""


def test_a_sweep_runs_as_an_array():
    Path("app.py").write_text(APP)
    options = ["hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=10"]
    options += ["hydra.launcher.partition=default", "hydra.launcher.mem_gb=1"]
    command = [sys.executable, "app.py", "--multirun", *options, "+rate=1,2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(one.read_text() for one in Path("multirun").rglob("value")) == ["1", "2"]
