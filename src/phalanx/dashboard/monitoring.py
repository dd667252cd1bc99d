"""Files for who has Prometheus and Grafana: where to scrape, when to alert, and a board to import.

All say only names that `metrics` exports; a test reads every expression.
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
        "PhalanxDefects", "increase(phalanx_defects[1h]) > 0", "0m", "warning",
        "The head of {{ $labels.instance }} has met an error of its own about a {{ $labels.kind }}",
    ),
)  # fmt: skip
"""(name, expression, how long, severity, what it says)."""

_ROWS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "Overview",
        (
            ("Allocated", "percentunit", "phalanx_resource_allocated / phalanx_resource_capacity",
             "{{resource}}"),
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
        "Nodes",
        (
            ("Allocated of each", "percentunit",
             'phalanx_node_resource_allocated{resource="$resource"} / '
             'phalanx_node_resource_capacity{resource="$resource"}', "{{node}}"),
            ("Defects of the head", "short", "phalanx_defects", "{{kind}}"),
        ),
    ),
)  # fmt: skip
_WIDE, _HIGH = 12, 8


def targets(address: str, token_file: str, scheme: str) -> dict[str, Any]:
    """A part of Prometheus' configuration; `address` is HOST:PORT of the page."""
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
    """A file of rules for Prometheus."""
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
    """A dashboard that Grafana imports as it is, and then asks for the data source of."""
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
