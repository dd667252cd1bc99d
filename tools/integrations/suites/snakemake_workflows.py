"""Snakemake's own workflows for testing executors, run on Phalanx's executor."""

import pytest
from snakemake.common.tests import TestWorkflowsLocalStorageBase


@pytest.mark.usefixtures("cluster")
class TestWorkflows(TestWorkflowsLocalStorageBase):
    __test__ = True

    def get_executor(self):
        return "phalanx"

    def get_executor_settings(self):
        return None
