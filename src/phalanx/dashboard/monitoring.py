"""Configuration files for Prometheus and Grafana: targets, alerting rules and a dashboard.

They use only names that `metrics` exports; a test checks every expression.
"""

from __future__ import annotations

from typing import Any

ALERTS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "PhalanxHeadDown", "phalanx_head_up == 0", "2m", "critical",
        "The head of {{ $labels.instance }} gives no answer",
    ),
    (
        "PhalanxNodeDown", 'increase(phalanx_nodes{state="down"}[15m]) > 0', "0m", "warning",
        "A node of {{ $labels.instance }} is dead",
    ),
    (
        "PhalanxQueueBelowGuarantee",
        "phalanx_queue_resource_allocated < on(instance, queue, resource) "
        "phalanx_queue_resource_guarantee and on(instance, queue, resource) "
        "phalanx_queue_resource_requested > 0",
        "10m", "warning",
        "Queue {{ $labels.queue }} waits for {{ $labels.resource }} that is kept for it",
    ),
    (
        "PhalanxWaitsLong", "phalanx_queue_oldest_pending_seconds > 86400", "0m", "info",
        "The first of queue {{ $labels.queue }} waits for more than a day",
    ),
    (
        "PhalanxIdleDevices",
        'phalanx_resource_capacity{resource="GPU"} - on(instance) '
        'phalanx_resource_allocated{resource="GPU"} > 0 and on(instance) '
        'sum by (instance) (phalanx_queue_resource_requested{resource="GPU"}) > 0',
        "30m", "info", "Devices of {{ $labels.instance }} are idle although work waits for some",
    ),
    (
        "PhalanxJobsFail",
        'sum by (instance, queue) (rate(phalanx_jobs_finished_total{result="failed"}[30m])) > '
        "0.5 * sum by (instance, queue) (rate(phalanx_jobs_finished_total[30m]))",
        "30m", "warning", "More than half of the jobs of queue {{ $labels.queue }} fail",
    ),
    (
        "PhalanxCyclesSlow",
        "histogram_quantile(0.99, sum by (instance, le) "
        "(rate(phalanx_schedule_cycle_seconds_bucket[10m]))) > 1",
        "10m", "warning", "Cycles of the scheduler of {{ $labels.instance }} take more than 1 s",
    ),
    (
        "PhalanxJournalStuck",
        "phalanx_journal_bytes > 0 and on(instance) "
        "sum by (instance) (rate(phalanx_store_commit_seconds_count[5m])) == 0",
        "5m", "critical", "The head of {{ $labels.instance }} has changes, but writes none of them",
    ),
    (
        "PhalanxLoopLag", "phalanx_loop_lag_seconds > 1", "5m", "warning",
        "A {{ $labels.process }} of {{ $labels.instance }} is busy for more than 1 s at a time",
    ),
    (
        "PhalanxAuthFailures", "increase(phalanx_auth_failures_total[10m]) > 20", "0m", "warning",
        "Somebody tries tokens at a {{ $labels.process }} of {{ $labels.instance }}",
    ),
    (
        "PhalanxDeviceBad", 'phalanx_device_health{state="bad"} == 1', "1m", "critical",
        "Device {{ $labels.device }} of {{ $labels.node }} is bad and gets no new work",
    ),
    (
        "PhalanxDeviceHot", "phalanx_device_temperature_celsius > 90", "5m", "warning",
        "Device {{ $labels.device }} of {{ $labels.node }} has {{ $value }} degrees",
    ),
    (
        "PhalanxWorkersDie",
        'sum by (instance, node) (rate(phalanx_worker_deaths_total{reason="crashed"}[10m])) > 0.1',
        "10m", "warning", "Workers of {{ $labels.node }} crash again and again",
    ),
    (
        "PhalanxStoreFull",
        "phalanx_object_store_used_bytes / phalanx_object_store_capacity_bytes > 0.95 and "
        "rate(phalanx_object_spills_total[5m]) > 0",
        "10m", "warning", "Objects of {{ $labels.node }} do not fit into its shared memory",
    ),
    (
        "PhalanxDefects", "increase(phalanx_defects[1h]) > 0", "0m", "warning",
        "The head of {{ $labels.instance }} has an internal error about a {{ $labels.kind }}",
    ),
)  # fmt: skip
"""The alerts, each as (name, expression, duration, severity, message)."""

_ROWS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "Overview",
        (
            ("Allocated", "percentunit", "phalanx_resource_allocated / phalanx_resource_capacity",
             "{{resource}}"),
            ("Stranded", "short", "phalanx_resource_stranded", "{{resource}}"),
            ("Nodes", "short", "phalanx_nodes", "{{state}}"),
            ("Jobs", "short", "sum by (state) (phalanx_jobs)", "{{state}}"),
            ("Actors", "short", "phalanx_actors", "{{state}}"),
        ),
    ),
    (
        "Queues",
        (
            ("Allocated", "short",
             'phalanx_queue_resource_allocated{queue=~"$queue",resource="$resource"}',
             "{{queue}}"),
            ("Deserved", "short",
             'phalanx_queue_resource_deserved{queue=~"$queue",resource="$resource"}', "{{queue}}"),
            ("Requested", "short",
             'phalanx_queue_resource_requested{queue=~"$queue",resource="$resource"}',
             "{{queue}}"),
            ("Waits longest", "s", 'phalanx_queue_oldest_pending_seconds{queue=~"$queue"}',
             "{{queue}}"),
        ),
    ),
    (
        "Waiting and running",
        (
            ("Wait, median", "s",
             "histogram_quantile(0.5, sum by (le, queue) "
             '(rate(phalanx_job_wait_seconds_bucket{queue=~"$queue"}[1h])))', "{{queue}}"),
            ("Wait, 95 %", "s",
             "histogram_quantile(0.95, sum by (le, queue) "
             '(rate(phalanx_job_wait_seconds_bucket{queue=~"$queue"}[1h])))', "{{queue}}"),
            ("Run, median", "s",
             "histogram_quantile(0.5, sum by (le, queue) "
             '(rate(phalanx_job_run_seconds_bucket{queue=~"$queue"}[1h])))', "{{queue}}"),
            ("Ended", "short",
             "sum by (result) (increase(phalanx_jobs_finished_total[5m]))", "{{result}}"),
        ),
    ),
    (
        "Why jobs wait",
        (
            ("Pending by reason", "short",
             'sum by (reason) (phalanx_jobs_pending{queue=~"$queue"})', "{{reason}}"),
            ("Evicted members", "short",
             "sum by (queue, action) (increase(phalanx_evicted_members_total[5m]))",
             "{{queue}} {{action}}"),
        ),
    ),
    (
        "Scheduler",
        (
            ("Cycle, 99 %", "s",
             "histogram_quantile(0.99, sum by (le) "
             "(rate(phalanx_schedule_cycle_seconds_bucket[5m])))", "cycle"),
            ("Actions, 95 %", "s",
             "histogram_quantile(0.95, sum by (le, action) "
             "(rate(phalanx_schedule_action_seconds_bucket[5m])))", "{{action}}"),
            ("Cycles", "short", "sum by (result) (rate(phalanx_schedule_cycles_total[5m]))",
             "{{result}}"),
            ("Placements", "short", "rate(phalanx_placements_total[5m])", "members"),
            ("Rejections", "short",
             "sum by (reason) (increase(phalanx_plan_rejections_total[5m]))", "{{reason}}"),
            ("Time from plan to places, 95 %", "s",
             "histogram_quantile(0.95, sum by (le) "
             "(rate(phalanx_gang_start_seconds_bucket[10m])))", "gangs"),
        ),
    ),
    (
        "The head",
        (
            ("Requests, 99 %", "s",
             "histogram_quantile(0.99, sum by (le, method) "
             "(rate(phalanx_rpc_seconds_bucket[5m])))", "{{method}}"),
            ("Lag of loops", "s", "phalanx_loop_lag_seconds", "{{process}} {{node}}"),
            ("Commit, 99 %", "s",
             "histogram_quantile(0.99, sum by (le) "
             "(rate(phalanx_store_commit_seconds_bucket[5m])))", "commit"),
            ("Waiting to be written", "bytes", "phalanx_journal_bytes", "journal"),
        ),
    ),
    (
        "Nodes",
        (
            ("Allocated of each", "percentunit",
             'phalanx_node_resource_allocated{resource="$resource"} / '
             'phalanx_node_resource_capacity{resource="$resource"}', "{{node}}"),
            ("Defects of the head", "short", "phalanx_defects", "{{kind}}"),
        ),
    ),
    (
        "GPUs",
        (
            ("Allocated", "percentunit", 'phalanx_device_allocated_ratio{node=~"$node"}',
             "{{node}} {{device}}"),
            ("In use", "percentunit", 'phalanx_device_utilization_ratio{node=~"$node"}',
             "{{node}} {{device}}"),
            ("Memory", "percentunit",
             'phalanx_device_memory_used_bytes{node=~"$node"} / '
             'phalanx_device_memory_bytes{node=~"$node"}', "{{node}} {{device}}"),
            ("Temperature", "celsius", 'phalanx_device_temperature_celsius{node=~"$node"}',
             "{{node}} {{device}}"),
            ("Power", "watt", 'sum by (node) (phalanx_device_power_watts{node=~"$node"})',
             "{{node}}"),
            ("Not well", "short", 'sum by (state) (phalanx_device_health{state!="ok"})',
             "{{state}}"),
        ),
    ),
    (
        "Tasks, actors and objects",
        (
            ("Tasks", "short", "phalanx_tasks", "{{state}}"),
            ("Ended a second", "short",
             "sum by (result, function) (rate(phalanx_tasks_finished_total[1m]))",
             "{{function}} {{result}}"),
            ("Run, 95 %", "s",
             "histogram_quantile(0.95, sum by (le, kind) "
             "(rate(phalanx_task_run_seconds_bucket[5m])))", "{{kind}}"),
            ("Wait, 95 %", "s",
             "histogram_quantile(0.95, sum by (le, kind) "
             "(rate(phalanx_task_queue_seconds_bucket[5m])))", "{{kind}}"),
            ("Workers", "short", "sum by (state) (phalanx_workers)", "{{state}}"),
            ("Workers that ended", "short",
             "sum by (reason) (increase(phalanx_worker_deaths_total[5m]))", "{{reason}}"),
            ("Objects", "bytes", 'phalanx_object_store_used_bytes{node=~"$node"}', "{{node}}"),
            ("On disk", "bytes", 'phalanx_object_store_spilled_bytes{node=~"$node"}', "{{node}}"),
            ("Pinned", "bytes", 'phalanx_object_store_pinned_bytes{node=~"$node"}', "{{node}}"),
            ("Between nodes", "Bps",
             'sum by (node) (rate(phalanx_object_transfer_bytes_total{direction="in"}[1m]))',
             "{{node}}"),
        ),
    ),
)  # fmt: skip
_WIDE, _HIGH = 12, 8


def targets(address: str, token_file: str, scheme: str) -> dict[str, Any]:
    """Return the configuration with which Prometheus reads the metrics of the page at `address`
    (HOST:PORT).
    """
    return {
        "scrape_configs": [
            {
                "job_name": "phalanx",
                "scheme": scheme,
                "authorization": {"credentials_file": token_file},
                "static_configs": [{"targets": [address]}],
            }
        ]
    }


def alerts() -> dict[str, Any]:
    """Return a file of alerting rules for Prometheus."""
    rules = [
        {
            "alert": name,
            "expr": expression,
            "for": length,
            "labels": {"severity": severity},
            "annotations": {"summary": said},
        }
        for name, expression, length, severity, said in ALERTS
    ]
    return {"groups": [{"name": "phalanx", "rules": rules}]}


def board() -> dict[str, Any]:
    """Return a dashboard for Grafana. When Grafana imports the dashboard, it asks for the data
    source.
    """
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _ROWS:
        panels.append(
            {"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}}
        )
        top += 1
        for number, panel in enumerate(row):
            place = {"x": number % 2 * _WIDE, "y": top + number // 2 * _HIGH}
            panels.append(_panel(*panel, {**place, "w": _WIDE, "h": _HIGH}))
        top += -(-len(row) // 2) * _HIGH
    for number, one in enumerate(panels, 1):
        one["id"] = number
    return {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource",
                "pluginId": "prometheus", "pluginName": "Prometheus",
            }
        ],
        "__requires": [{"type": "datasource", "id": "prometheus", "name": "Prometheus"}],
        "uid": "phalanx",
        "title": "Phalanx",
        "tags": ["phalanx"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                _variable("queue", "label_values(phalanx_queue_weight, queue)", is_many=True),
                _variable(
                    "node", "label_values(phalanx_node_resource_capacity, node)", is_many=True
                ),
                _variable(
                    "resource", "label_values(phalanx_resource_capacity, resource)", is_many=False
                ),
            ]
        },
        "panels": panels,
    }  # fmt: skip


_SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}


def _panel(
    title: str, unit: str, expression: str, legend: str, place: dict[str, int]
) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "A", "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        ],
    }


def _variable(name: str, query: str, is_many: bool) -> dict[str, Any]:
    return {
        "name": name, "type": "query", "datasource": _SOURCE, "query": query, "refresh": 2,
        "includeAll": is_many, "multi": is_many, "sort": 1,
        **({"current": {"text": "All", "value": "$__all"}} if is_many else {}),
    }  # fmt: skip
