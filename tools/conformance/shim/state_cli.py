"""Phalanx's listing commands of `ray` as click objects, which Ray's tests call.

The commands print warnings on standard error. Ray's tests expect Python warnings, so each warning
is also issued as one. The commands ask the cluster that the test uses; Ray's own commands find it
by a file.
"""

import contextlib
import functools
import io
import sys
import warnings

import ray
import typer.main

from phalanx.adapters.ray.command.main import app


def conf_cluster():
    """Return the address of the cluster or session that this program uses; "" if it uses none."""
    return ray.get_runtime_context().gcs_address if ray.is_initialized() else ""


_commands = typer.main.get_command(app).commands


def _warning(command):
    run = command.callback

    @functools.wraps(run)
    def callback(*args, **kwargs):
        said = io.StringIO()
        if kwargs.get("address") in (None, "auto") and conf_cluster():
            kwargs["address"] = conf_cluster()
        try:
            with contextlib.redirect_stderr(said):
                return run(*args, **kwargs)
        finally:
            sys.stderr.write(said.getvalue())
            for line in said.getvalue().splitlines():
                if line.startswith("warning: "):
                    warnings.warn(line, stacklevel=2)

    command.callback = callback
    return command


ray_list = _warning(_commands["list"])
ray_get = _warning(_commands["get"])
logs_state_cli_group = _warning(_commands["logs"])
summary_state_cli_group = _warning(_commands["summary"])
