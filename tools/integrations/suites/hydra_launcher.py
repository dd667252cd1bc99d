"""Hydra's own tests of launchers, run on Phalanx's launcher."""

import pytest
from hydra.test_utils.launcher_common_tests import (
    BatchedSweeperTestSuite,
    IntegrationTestSuite,
    LauncherTestSuite,
)

import phalanx

INIT = ["+hydra.launcher.init.num_cpus=2", "+hydra.launcher.init.address=local"]


@pytest.fixture(autouse=True, scope="module")
def _ends():
    yield
    phalanx.shutdown()


@pytest.mark.parametrize("launcher_name, overrides", [("phalanx", INIT)])
class TestLauncher(LauncherTestSuite):
    pass


@pytest.mark.parametrize(
    "launcher_name, overrides",
    [("phalanx", ["hydra.sweeper.max_batch_size=2", *INIT])],
)
class TestBatches(BatchedSweeperTestSuite):
    pass


@pytest.mark.parametrize(
    "task_launcher_cfg, extra_flags",
    [({}, ["-m", "hydra/launcher=phalanx", *INIT])],
)
class TestPrograms(IntegrationTestSuite):
    pass
