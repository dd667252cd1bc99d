"""Phalanx: tasks, actors and gangs on shared CPUs and GPUs."""

__version__ = "0.1.0"
