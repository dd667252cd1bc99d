"""`ray._private.ray_constants` and `ray._common.constants`: names and numbers that programs
read.
"""

from __future__ import annotations

import os
import re

RAY_NODE_ID_KEY = "ray.io/node-id"
RAY_NODE_TPU_POD_TYPE_KEY = "ray.io/tpu-pod-type"
RAY_NODE_TPU_SLICE_NAME_KEY = "ray.io/tpu-slice-name"
RAY_NODE_TPU_TOPOLOGY_KEY = "ray.io/tpu-topology"
RAY_NODE_TPU_WORKER_ID_KEY = "ray.io/tpu-worker-id"
GRPC_STATUS_CODE_RESOURCE_EXHAUSTED = 8
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""Matches decimal and hexadecimal numbers, which are ignored when lines of output are compared."""
HEAD_NODE_RESOURCE_NAME = "node:__internal_head__"
NODE_ID_PREFIX = "node:"
RESOURCE_CONSTRAINT_PREFIX = "accelerator_type:"
RAY_ADDRESS_ENVIRONMENT_VARIABLE = "RAY_ADDRESS"
RAY_NAMESPACE_ENVIRONMENT_VARIABLE = "RAY_NAMESPACE"
RESOURCES_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_RESOURCES"
LABELS_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_LABELS"
DEFAULT_DASHBOARD_IP = "127.0.0.1"
DEFAULT_DASHBOARD_PORT = 8265
DEFAULT_PORT = 6379
ID_SIZE = 28
DEFAULT_ACTOR_METHOD_CPU_SIMPLE = 1
DEFAULT_ACTOR_CREATION_CPU_SIMPLE = 0
DEFAULT_MAX_RETRIES = 3
DEFAULT_TASK_MAX_RETRIES = 3
DEFAULT_ACTOR_MAX_CONCURRENCY_ASYNC = 1000
KV_NAMESPACE_FUNCTION_TABLE = b"fun"
KV_NAMESPACE_PACKAGE = None
LOG_PREFIX_ACTOR_NAME = ":actor_name:"
LOG_PREFIX_TASK_NAME = ":task_name:"
MIN_RESOURCE_GRANULARITY = 0.0001
PROCESS_TYPE_WORKER = "worker"


def env_bool(key: str, default: bool) -> bool:
    """Whether an environment variable is 1 or true; `default` if it is not set."""
    text = os.environ.get(key)
    return default if text is None else text.lower() in ("true", "1")


def env_integer(key: str, default: int) -> int:
    """Return an environment variable as a whole number; `default` if it is not a whole number."""
    text = os.environ.get(key, "")
    return int(text) if text.removeprefix("-").isdecimal() else default


def env_float(key: str, default: float) -> float:
    """Return an environment variable as a number; `default` if it is not a number."""
    try:
        return float(os.environ[key])
    except (KeyError, ValueError):
        return default


def env_set_by_user(key: str) -> bool:
    """Whether the variable is set."""
    return key in os.environ
