"""All request types, found in their package, so that a new type is tried without a change here."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import msgspec
from tests.fuzz.values import Known, Maker

from phalanx.head.jobs.requests import KINDS
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol import requests
from phalanx.protocol.requests.jobs import Manifest
from phalanx.protocol.requests.queues import QueueFields
from phalanx.protocol.requests.request import Request

for _module in pkgutil.iter_modules(requests.__path__):
    importlib.import_module(f"{requests.__name__}.{_module.name}")

REQUESTS: list[type[Request[Any]]] = sorted(Request.__subclasses__(), key=lambda one: one.kind)

NAMES = ["a", "b", "c", "q"]
IDS = [bytes(18), b"\x01" * 18, bytes(16), b"\x01" * 16, b"g"]
TEXTS = {
    "name": NAMES,
    "job": NAMES,
    "queue": ["default", "default", "default", "q", "a"],
    "namespace": ["default"],
    "parent": ["", "root", "q", "a"],
    "priority_class": ["", "", "", "a"],
    "member": ["a-0", "b-0"],
    "node_id": ["6e" * 28],
    "schedule": ["* * * * *", "@every 5s", "@every 1s", "@daily", "0 0 31 2 *"],
    "strategy": ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"],
    "pattern": ["", "6e.*", "(a+)+$"],
    "state": ["", "Open", "Closed"],
    "action": ["RestartJob", "AbortJob", "RestartTask", "CompleteJob", "TerminateJob"],
    "events": ["PodFailed", "PodEvicted", "*", "TaskCompleted", "OutOfSync"],
}
STRATEGIES: list[dict[str, Any]] = [
    {},
    {"name": "SPREAD"},
    {"node_id": "6e" * 28, "soft": False},
    {"group": IDS[0].hex(), "bundle": 0},
    {"group": IDS[0].hex(), "bundle": -1},
    {"group": IDS[0].hex(), "bundle": 7},
    {"labels": [[("a", "In", ["b"])]]},
]
KNOWN: Known = {
    **{(name, str): found for name, found in TEXTS.items()},
    ("group", bytes): IDS,
    ("actor", bytes): IDS,
    ("command", tuple[str, ...]): [("true",), ("sh", "-c", "x")],
    ("replicas", int): [1, 1, 2, 3, 0],
    ("min_available", int): [1, 1, 2, 0],
    ("min_members", int): [1, 1, 2],
    ("needs", list[dict[str, float]]): [[{"CPU": 1.0}], [{"CPU": 1.0}] * 2, [{"GPU": 0.5}, {}]],
    ("bundles", list[dict[str, float]]): [[{"CPU": 1.0}], [{"CPU": 2.0}] * 2, [{"GPU": 0.5}]],
    ("fields", QueueFields): [QueueFields(), QueueFields(weight=2), QueueFields(parent="q")],
    ("strategy", dict[str, Any]): STRATEGIES,
    ("weight", int): [1, 1, 2],
}


def manifest(maker: Maker) -> Manifest:
    """Return an object of some kind with random fields. A few objects are bytes that cannot be
    decoded.
    """
    rng = maker.rng
    if maker.is_wild() and rng.random() < 0.3:
        return Manifest(rng.choice([*KINDS, "x"]), rng.randbytes(rng.randint(0, 9)))
    kind = rng.choice([*KINDS, "Job", "Job"])
    return Manifest(kind, msgspec.msgpack.encode(maker.struct(KINDS[kind], rng.choice([0.5, 0.9]))))


def job(maker: Maker) -> JobSpec:
    """Return a random job, which usually has groups."""
    spec: JobSpec = maker.struct(JobSpec, 0.85)
    if spec.groups or maker.is_wild():
        return spec
    return msgspec.structs.replace(spec, groups=(maker.value(TaskGroup, "groups"),))


def group(maker: Maker) -> TaskGroup:
    """Return a random group, whose members usually have commands."""
    found: TaskGroup = maker.struct(TaskGroup, 0.8)
    if found.template.processes or maker.is_wild():
        return found
    return msgspec.structs.replace(found, template=maker.value(Template))


def template(maker: Maker) -> Template:
    """Return a random template of a member: its commands."""
    found: Template = maker.struct(Template, 0.85)
    if found.processes or maker.is_wild():
        return found
    return msgspec.structs.replace(found, processes=(maker.value(Process),))


def process(maker: Maker) -> Process:
    """Return a random command."""
    found: Process = maker.struct(Process, 0.8)
    if found.argv or maker.is_wild():
        return found
    return msgspec.structs.replace(found, command=("true",))


SPECIAL = {
    Manifest: manifest,
    JobSpec: job,
    Process: process,
    TaskGroup: group,
    Template: template,
}
