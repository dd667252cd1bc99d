"""Hydra's launcher `phalanx`, which runs the jobs of a multirun as tasks.

    python my_app.py --multirun hydra/launcher=phalanx lr=0.1,0.2

Hydra finds the launcher in `hydra_plugins.phalanx_launcher`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import (
    JobReturn,
    JobStatus,
    configure_log,
    filter_overrides,
    run_job,
    setup_globals,
)
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

import phalanx
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)


@dataclass
class PhalanxLauncherConf:
    """The configuration `hydra.launcher`: options of the tasks, and arguments of `phalanx.init`.
    The launcher calls `init` unless the program has called it.
    """

    _target_: str = "hydra_plugins.phalanx_launcher.PhalanxLauncher"
    init: dict[str, Any] = field(default_factory=dict)
    remote: dict[str, Any] = field(default_factory=dict)


def launch_tasks(
    context: HydraContext,
    task_function: TaskFunction,
    config: DictConfig,
    given: PhalanxLauncherConf,
    job_overrides: Sequence[Sequence[str]],
    first: int,
) -> list[JobReturn]:
    """Run a task for each list of overrides and return the results in order.

    The jobs are numbered from `first`. A job whose worker dies counts as failed, like a job that
    raises an error.
    """
    setup_globals()
    hydra = config.hydra
    configure_log(hydra.hydra_logging, hydra.verbose)
    Path(str(hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
    if not phalanx.is_initialized():
        phalanx.init(**_plain(given.init))
    options = _plain(given.remote)
    run = phalanx.remote(**options)(_run) if options else phalanx.remote(_run)
    shared = phalanx.put((context, task_function, config, Singleton.get_state(), os.getcwd()))
    log.info(f"Phalanx runs {len(job_overrides)} jobs")
    refs = []
    for number, overrides in enumerate(job_overrides, first):
        log.info("\t#%d : %s", number, " ".join(filter_overrides(overrides)))
        # Report a wrong override here, before a worker starts.
        context.config_loader.load_sweep_config(config, list(overrides))
        refs.append(run.remote(shared, number, list(overrides)))
    found = [_returned(ref) for ref in refs]
    configure_log(hydra.hydra_logging, hydra.verbose)
    return found


def _plain(config: Any) -> dict[str, Any]:
    found = OmegaConf.to_container(config, resolve=True) if OmegaConf.is_config(config) else config
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}


def _run(shared: tuple[Any, ...], number: int, overrides: list[str]) -> JobReturn:
    """Run one job in a worker, with the driver's resolvers, singletons and directory."""
    context, task_function, config, singletons, directory = shared
    before = os.getcwd()
    if os.path.isdir(directory):
        os.chdir(directory)
    try:
        setup_globals()
        Singleton.set_state(singletons)
        sweep = context.config_loader.load_sweep_config(config, overrides)
        with open_dict(sweep):
            sweep.hydra.job.id = f"{phalanx.get_runtime_context().get_task_id()}"
            sweep.hydra.job.num = number
        return run_job(
            hydra_context=context,
            task_function=task_function,
            config=sweep,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
    finally:
        os.chdir(before)


def _returned(ref: phalanx.ObjectRef[Any]) -> JobReturn:
    try:
        found: JobReturn = phalanx.get(ref)
    except PhalanxError as error:
        found = JobReturn(status=JobStatus.FAILED)
        found.return_value = error
    return found
