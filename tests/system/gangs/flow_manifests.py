"""Builds manifests of flows and of their templates, and reads the states of both."""

from __future__ import annotations

import phalanx
from phalanx.api.session import engine_or_start
from phalanx.protocol.requests.jobs import ListCrons, ListFlows


def template(name, *command):
    container = {
        "name": "c",
        "command": list(map(str, command)),
        "resources": {"requests": {"cpu": "500m"}},
    }
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": name},
        "spec": {"tasks": [{"name": "main", "template": {"spec": {"containers": [container]}}}]},
    }


def flow(*steps):
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "flow"},
        "spec": {"jobRetainPolicy": "retain", "flows": list(steps)},
    }


def states():
    return {row["name"]: row["state"] for row in phalanx.jobs()}


def state_of(what):
    engine = engine_or_start()
    rows = [one.state for one in engine.ask(ListFlows())]
    if what == "crons":
        rows = [one.state for one in engine.ask(ListCrons())]
    [state] = rows
    return state
