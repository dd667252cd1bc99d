"""Snakemake's executor `phalanx`, where Snakemake looks for it: see integrations.snakemake."""

from phalanx.adapters.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
