"""Hydra's launcher `phalanx` in the place where Hydra looks for launchers; see
phalanx.adapters.hydra.
"""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from phalanx.adapters.hydra import PhalanxLauncherConf, launch_tasks

ConfigStore.instance().store(
    group="hydra/launcher", name="phalanx", node=PhalanxLauncherConf, provider="phalanx"
)


class PhalanxLauncher(Launcher):
    """A launcher that runs Hydra's jobs as tasks."""

    def __init__(self, init: DictConfig, remote: DictConfig) -> None:
        self._given = PhalanxLauncherConf(init=init, remote=remote)

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep the application's configuration for `launch`."""
        self._context = hydra_context
        self._task_function = task_function
        self._config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run one task for each list of overrides; return their results in order."""
        return launch_tasks(
            self._context,
            self._task_function,
            self._config,
            self._given,
            job_overrides,
            initial_job_idx,
        )
