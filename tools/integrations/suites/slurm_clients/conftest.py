"""Each test of a program that calls Slurm's commands has a directory of its own."""

import pytest


@pytest.fixture(autouse=True)
def directory(slurm, tmp_path, monkeypatch):
    """Where the test runs: programs write their scripts and outputs there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
