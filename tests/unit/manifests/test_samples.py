"""Tables of cases of manifests: this repository's table, and one that PHALANX_MANIFEST_CASES
names.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from tests.unit.manifests.samples import differences

OURS = Path(__file__).parent / "tables" / "validation.yaml"
GIVEN = os.environ.get("PHALANX_MANIFEST_CASES", "")
FILES = [OURS] + [Path(p) for p in GIVEN.split(os.pathsep) if p]
CASES = [(p.name, case) for p in FILES for case in yaml.safe_load(p.read_text())["cases"]]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{name}:{case['name']}") for name, case in CASES]
)
def test_a_case_is_decided_as_its_table_says(case) -> None:
    assert differences(case) == []


def test_every_rule_is_in_our_table() -> None:
    """A rule is tested only if some case expects its code."""
    provoked = {
        code
        for _, case in CASES
        for code in case.get("reason_codes_all", [case.get("reason_code")])
    }
    assert provoked >= RULES, sorted(RULES - provoked)


CODES = """
    no_tasks duplicate_task_name task_name_invalid member_name_invalid min_available_negative
    max_retry_negative ttl_negative replicas_negative replicas_too_many
    task_min_available_negative
    task_min_available_exceeds_replicas min_available_exceeds_replicas min_success_invalid
    event_and_exit_code no_event_or_exit_code invalid_policy_event invalid_policy_action
    duplicate_event duplicate_exit_code exit_code_zero any_event_not_alone
    pending_without_timeout timeout_invalid unknown_plugin mpi_master_missing ray_head_missing
    mount_path_missing duplicate_mount_path volume_without_claim volume_claim_twice
    queue_not_found queue_not_open queue_is_root queue_not_leaf
    task_dependency_not_dag partition_invalid partition_replicas partition_min_available
    partition_min_exceeds_total topology_tier_and_name topology_policy_needs_whole_cpus
    update_tasks_changed update_forbidden_field name_invalid name_missing
    state_invalid weight_invalid quantity_negative quantity_invalid guarantee_above_deserved
    deserved_above_capability guarantee_above_capability hierarchy_length_mismatch
    hierarchy_weight_invalid hierarchy_path_is_ancestor parent_is_self parent_not_found
    parent_is_descendant parent_has_allocated_pods queue_too_deep capability_above_ancestor
    capability_below_descendant children_guarantee_above_parent children_deserved_above_parent
    queue_protected has_children has_allocated_pods
    min_member_negative subgroup_name_invalid subgroup_size_invalid
    flow_target_unknown flow_not_dag no_flows
    schedule_missing schedule_invalid schedule_has_timezone timezone_unknown cron_name_too_long
    deadline_negative history_limit_negative
    no_members member_type_invalid not_one_selector regex_invalid regex_missing no_labels
    budget_both budget_invalid wrong_type wrong_value port_invalid request_above_limit
"""
RULES = frozenset(CODES.split())
