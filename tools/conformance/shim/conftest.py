"""What tests import from the conftest of Ray's own: fixtures' makers of ours."""

from conf_fixtures import _cluster as _ray_start_cluster  # noqa: F401
from conf_fixtures import propagate_logs, ray_start_cluster, shutdown_only  # noqa: F401
