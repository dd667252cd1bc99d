"""The schema accepts what the reader accepts, and has no other field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.unit.manifests.samples import manifest
from tests.unit.manifests.test_samples import CASES
from tests.unit.scheduler.cycle.test_config import DEFAULT_YAML

from phalanx.head.gangs.cycles import CONFIGURATION
from phalanx.manifests.findings import Report
from phalanx.manifests.reading import GROUPS, read_manifests
from phalanx.manifests.schema import manifest_schema
from phalanx.scheduler.cycle.config import CHART_YAML
from phalanx.scheduler.cycle.registry import BUILT_IN, known_plugins
from phalanx.scheduler.cycle.schema import configuration_schema

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "jobs").glob("*.yaml"))
MANIFESTS = jsonschema.Draft7Validator(manifest_schema())
RULES = jsonschema.Draft7Validator(configuration_schema(known_plugins()))


def faults(validator: Any, document: Any) -> list[str]:
    return [f"{list(e.absolute_path)}: {e.message}"[:300] for e in validator.iter_errors(document)]


def is_taken(report: Report) -> bool:
    return report.ok and not any(found.code == "unknown_field" for found in report.warnings)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_taken(path):
    for document in yaml.safe_load_all(path.read_text()):
        assert faults(MANIFESTS, document) == []
    assert path.read_text().startswith("# yaml-language-server: $schema=../manifests.schema.json\n")


def test_what_the_reader_takes_the_schema_takes():
    count = 0
    for _, case in CASES:
        text = manifest(case["object"], case["spec"])
        if is_taken(read_manifests(text)[1]):
            count += 1
            assert faults(MANIFESTS, yaml.safe_load(text)) == [], case["name"]
    assert count > 60, "most that are accepted have no field that nobody knows"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda job: job["spec"].update(minAvailabel=1), "'minAvailabel' was unexpected"),
        (lambda job: job["spec"]["tasks"][0].update(replica=1), "'replica' was unexpected"),
        (lambda job: job["spec"].update(minAvailable="one"), "is not of type 'integer'"),
        (lambda job: job["spec"].update(plugins={"torch": []}), "'torch' was unexpected"),
        (lambda job: job["spec"].update(tasks={}), "is not of type 'array'"),
        (lambda job: job.update(kind="Jobb"), "'Jobb' is not one of"),
    ],
)
def test_what_is_misspelt_or_of_the_wrong_kind_is_shown(change, says):
    job = yaml.safe_load(manifest("job", {"name": "j", "tasks": [{"name": "t"}]}))
    assert faults(MANIFESTS, job) == []
    change(job)
    found = faults(MANIFESTS, job)
    assert len(found) == 1
    assert says in found[0]


def test_every_kind_knows_fields_of_its_own():
    """The schema has the fields for which the reader asks. If the reader stopped in the middle, a
    kind would have almost no fields.
    """
    least = {"Job": 20, "JobTemplate": 20, "Queue": 8, "PodGroup": 5, "CronJob": 7}
    for one in manifest_schema()["allOf"]:
        kind = one["if"]["properties"]["kind"]["const"]
        properties = one["then"]["properties"]
        spec = properties["spec"].get("properties", {}) if "spec" in properties else properties
        assert len(spec) >= least.get(kind, 2) or kind == "Pod", (kind, sorted(spec))
    assert {one["if"]["properties"]["kind"]["const"] for one in manifest_schema()["allOf"]} == set(
        GROUPS
    )


def test_the_file_beside_the_examples_is_the_schema_of_today():
    kept = json.loads((ROOT / "examples" / "manifests.schema.json").read_text())
    assert kept == manifest_schema(), "phalanx schema > examples/manifests.schema.json"


@pytest.mark.parametrize("text", [CONFIGURATION, DEFAULT_YAML, CHART_YAML])
def test_configurations_that_are_read_are_taken(text):
    assert faults(RULES, yaml.safe_load(text)) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{actions: allocate, tiers: [{plugins: [{name: gong}]}]}", "'gong' is not one of"),
        (
            "{actions: allocate, tiers: [{plugins: [{name: capacity, arguments: {x: 1}}]}]}",
            "'x' was unexpected",
        ),
        ("{actions: allocate, tiers: [], tier: []}", "'tier' was unexpected"),
    ],
)
def test_configurations_with_slips_are_shown(text, says):
    found = faults(RULES, yaml.safe_load(text))
    assert len(found) == 1
    assert says in found[0]


def test_each_plugin_says_what_it_takes():
    plugin = RULES.schema["properties"]["tiers"]["items"]["properties"]["plugins"]["items"]
    named = {one["if"]["properties"]["name"]["const"] for one in plugin["allOf"]}
    assert named >= set(BUILT_IN)
