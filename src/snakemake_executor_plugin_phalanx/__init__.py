"""Snakemake's executor `phalanx` in the place where Snakemake looks for it; see
adapters.snakemake.
"""

from phalanx.adapters.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
