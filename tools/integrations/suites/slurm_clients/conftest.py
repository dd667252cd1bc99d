"""Each test of a program that calls Slurm's commands has a directory of its own."""

import pytest


@pytest.fixture(autouse=True)
def directory(slurm, tmp_path, monkeypatch):
    """Run the test in an empty directory, in which programs write their scripts and output."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
