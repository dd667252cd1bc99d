"""Tables of Ray's modules and names that Phalanx supports, with the modules of Phalanx that provide
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_OURS = "phalanx.adapters.ray.modules"
_CLIENT = "phalanx.adapters.ray.jobs.client"
_DETAILS = "phalanx.adapters.ray.jobs.details"

SAME_MODULE = {
    "ray._private.auto_init_hook": f"{_OURS}.auto_init_hook",
    "ray.actor": f"{_OURS}.actor",
    "ray.cloudpickle.cloudpickle": "cloudpickle.cloudpickle",
    "ray.exceptions": "phalanx.exceptions",
    "ray.remote_function": f"{_OURS}.remote_function",
    "ray.runtime_env": "phalanx.runtime_env",
    "ray.state": f"{_OURS}.state",
    "ray.util.actor_group": "phalanx.util.actor_group",
    "ray.util.actor_pool": "phalanx.util.actor_pool",
    "ray.util.metrics": f"{_OURS}.metrics",
    "ray.util.check_serialize": "phalanx.util.check_serialize",
    "ray.util.collective.collective_group.base_collective_group": (
        "phalanx.util.collective.base_group"
    ),
    "ray.util.collective.types": "phalanx.util.collective.types",
    "ray.util.accelerators": f"{_OURS}.accelerators",
    "ray.util.dask": f"{_OURS}.dask",
    "ray.util.dask.callbacks": f"{_OURS}.dask.callbacks",
    "ray.util.dask.optimizations": f"{_OURS}.dask.optimizations",
    "ray.util.debug": f"{_OURS}.debug",
    "ray.util.helpers": "phalanx.util.completion",
    "ray.util.joblib": "phalanx.util.joblib",
    "ray.util.joblib.ray_backend": f"{_OURS}.joblib",
    "ray.util.multiprocessing": f"{_OURS}.multiprocessing",
    "ray.util.multiprocessing.pool": f"{_OURS}.multiprocessing.pool",
    "ray.util.placement_group": "phalanx.util.placement_group",
    "ray.util.queue": "phalanx.util.queue",
    "ray.util.scheduling_strategies": "phalanx.util.scheduling_strategies",
}
"""The modules of Ray that are the same objects as modules of Phalanx."""

_LISTINGS = (
    *("get_actor", "get_job", "get_node", "get_objects", "get_placement_group", "get_task"),
    *("get_worker", "list_actors", "list_jobs", "list_nodes", "list_objects"),
    *("get_log", "list_cluster_events", "list_logs"),
    *("list_placement_groups", "list_tasks", "list_workers"),
    *("summarize_actors", "summarize_objects", "summarize_tasks"),
)

_VERBS = ("cancel", "get", "init", "is_initialized", "kill", "put", "shutdown", "wait")

_KV = (
    "_initialize_internal_kv",
    "_internal_kv_del",
    "_internal_kv_exists",
    "_internal_kv_get",
    "_internal_kv_initialized",
    "_internal_kv_list",
    "_internal_kv_put",
    "_internal_kv_reset",
)

_LOCATIONS = ("get_local_object_locations", "get_object_locations")

_IDS = (
    "ActorID",
    "JobID",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "DynamicObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
)

_OTHER_IDS = ("ActorClassID", "ClusterID", "FunctionID")

_DAG = (
    "ClassMethodNode",
    "ClassNode",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
)

SOME_NAMES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "ray": {
        "phalanx": ("*",),
        f"{_OURS}.worker": ("LOCAL_MODE", "SCRIPT_MODE", "WORKER_MODE"),
        f"{_OURS}.log": ("logger",),
        f"{_OURS}.ids": _OTHER_IDS,
    },
    "ray.cloudpickle": {
        "cloudpickle": ("*",),
        f"{_OURS}.pickling": ("PicklingError", "dump_debug", "dumps_debug"),
    },
    "ray.dag": {"phalanx.objects.dag": _DAG},
    "ray.dag.class_node": {"phalanx.objects.dag": ("ClassMethodNode", "ClassNode")},
    "ray.dag.dag_node": {"phalanx.objects.dag": ("DAGNode",)},
    "ray.dag.function_node": {"phalanx.objects.dag": ("FunctionNode",)},
    "ray.dag.input_node": {"phalanx.objects.dag": ("InputAttributeNode", "InputNode")},
    "ray.dag.output_node": {"phalanx.objects.dag": ("MultiOutputNode",)},
    "ray.cluster_utils": {"phalanx.cluster_utils": ("Cluster", "cluster_not_supported")},
    "ray.util": {
        "phalanx.util": ("*",),
        "phalanx.util.actor_group": ("ActorGroup",),
        f"{_OURS}.annotations": ("PublicAPI",),
        f"{_OURS}.debug": ("disable_log_once_globally", "enable_periodic_logging", "log_once"),
        f"{_OURS}.network": ("get_node_ip_address",),
    },
    "ray.util.collective": {"phalanx.util.collective": ("*",)},
    "ray.util.collective.backend_registry": {
        "phalanx.util.collective": ("register_collective_backend",)
    },
    "ray.util.collective.collective": {"phalanx.util.collective": ("*",)},
    "ray.util.collective.collective_group": {},
    "ray.util.collective.collective_group.torch_gloo_collective_group": {
        f"{_OURS}.collective": ("TorchGLOOGroup",)
    },
    "ray.util.annotations": {
        f"{_OURS}.annotations": (
            *("ConsoleAPI", "Deprecated", "DeveloperAPI", "PublicAPI", "RayDeprecationWarning"),
        )
    },
    "ray.util.state": {f"{_OURS}.state_api": _LISTINGS},
    "ray.util.state.api": {f"{_OURS}.state_api": _LISTINGS},
    "ray.util.state.common": {
        f"{_OURS}.state_api": (
            *("DEFAULT_LIMIT", "DEFAULT_RPC_TIMEOUT", "RAY_MAX_LIMIT_FROM_API_SERVER"),
            *("ActorState", "NodeState", "TaskState"),
        )
    },
    "ray.util.state.exception": {
        f"{_OURS}.state_api": ("RayStateApiException", "ServerUnavailable")
    },
    "ray.experimental.state": {},
    "ray.experimental.state.api": {f"{_OURS}.state_api": _LISTINGS},
    "ray.util.serialization": {"phalanx.util": ("deregister_serializer", "register_serializer")},
    "ray.util.client": {f"{_OURS}.client": ("ray",)},
    "ray.util.rpdb": {f"{_OURS}.debug": ("_is_ray_debugger_post_mortem_enabled",)},
    "ray.autoscaler": {},
    "ray.autoscaler.sdk": {f"{_OURS}.autoscaling": ("request_resources",)},
    "ray.experimental": {f"{_OURS}.locations": _LOCATIONS},
    "ray.experimental.locations": {f"{_OURS}.locations": _LOCATIONS},
    "ray.experimental.internal_kv": {f"{_OURS}.internal_kv": _KV},
    "ray.experimental.tqdm_ray": {f"{_OURS}.tqdm_ray": ("safe_print", "tqdm")},
    "ray.job_submission": {
        _CLIENT: ("JobSubmissionClient",),
        _DETAILS: ("DriverInfo", "JobDetails", "JobInfo", "JobStatus", "JobType"),
    },
    "ray.dashboard": {},
    "ray.dashboard.modules": {},
    "ray.dashboard.modules.job": {},
    "ray.dashboard.modules.job.common": {_DETAILS: ("JobInfo", "JobStatus")},
    "ray.dashboard.modules.job.pydantic_models": {
        _DETAILS: ("DriverInfo", "JobDetails", "JobType")
    },
    "ray.dashboard.modules.job.sdk": {
        _CLIENT: ("JobSubmissionClient",),
        _DETAILS: ("JobDetails", "JobStatus"),
    },
    "ray.job_config": {"phalanx.api.job_config": ("JobConfig",)},
    "ray.runtime_context": {
        "phalanx.api.runtime_context": ("RuntimeContext", "get_runtime_context")
    },
    "ray.types": {"phalanx": ("ObjectRef",)},
    "ray._raylet": {
        "phalanx": _IDS,
        f"{_OURS}.ids": _OTHER_IDS,
        f"{_OURS}.constants": (
            "GRPC_STATUS_CODE_RESOURCE_EXHAUSTED",
            "RAY_NODE_ID_KEY",
            "RAY_NODE_TPU_POD_TYPE_KEY",
            "RAY_NODE_TPU_SLICE_NAME_KEY",
            "RAY_NODE_TPU_TOPOLOGY_KEY",
            "RAY_NODE_TPU_WORKER_ID_KEY",
        ),
        "phalanx.worker.generators": ("StreamingGeneratorStats",),
    },
    "ray._common": {},
    "ray._common.constants": {f"{_OURS}.constants": ("*",)},
    "ray._common.network_utils": {f"{_OURS}.network": ("*",)},
    "ray._common.usage": {},
    "ray._common.usage.usage_lib": {f"{_OURS}.usage": ("*",)},
    "ray._common.utils": {f"{_OURS}.common": ("*",)},
    "ray._private": {},
    "ray._private.client_mode_hook": {
        f"{_OURS}.client_mode_hook": (
            "_explicitly_disable_client_mode",
            "_explicitly_enable_client_mode",
            "client_mode_hook",
            "client_mode_should_convert",
            "client_mode_wrap",
            "disable_client_hook",
            "enable_client_mode",
            "is_client_mode_enabled",
        )
    },
    "ray._private.internal_api": {
        f"{_OURS}.state_api": ("free", "memory_summary"),
        f"{_OURS}.memory_info": ("get_memory_info_reply", "get_state_from_address"),
        f"{_OURS}.worker": ("get_local_ongoing_lineage_reconstruction_tasks",),
    },
    "ray._private.ray_constants": {f"{_OURS}.constants": ("*",)},
    "ray._private.ray_logging": {f"{_OURS}.constants": ("NUMBERS",)},
    "ray._private.services": {f"{_OURS}.network": ("*",)},
    "ray._private.utils": {f"{_OURS}.common": ("*",)},
    "ray._private.state": {f"{_OURS}.state": ("*",)},
    "ray._private.worker": {
        "phalanx": _VERBS,
        f"{_OURS}.worker": (
            *("LOCAL_MODE", "SCRIPT_MODE", "WORKER_MODE", "_global_node", "_post_init_hooks"),
            *("global_worker", "pickle"),
        ),
    },
}
"""The modules of Ray that are composed of Phalanx's names. For each module, the value has the
source modules, each with the names to take from it ("*": all public names).
"""

_ON_SEVERAL_GPUS = (
    *("allgather_multigpu", "allreduce_multigpu", "broadcast_multigpu", "recv_multigpu"),
    *("reduce_multigpu", "reducescatter_multigpu", "send_multigpu"),
)
_NO_LISTINGS = ("list_runtime_envs",)

REFUSED: Mapping[str, Sequence[str]] = {
    "ray.cluster_utils": ("AutoscalingCluster",),
    "ray._private.internal_api": ("global_gc", "node_stats"),
    "ray.experimental": (
        *("CommunicatorMetadata", "TensorTransportManager", "TensorTransportMetadata"),
        "register_tensor_transport",
    ),
    "ray.autoscaler.sdk": (
        *("bootstrap_config", "configure_logging", "create_or_update_cluster", "fillout_defaults"),
        *("get_docker_host_mount_location", "get_head_node_ip", "get_worker_node_ips"),
        *("register_callback_handler", "rsync", "run_on_cluster", "teardown_cluster"),
    ),
    "ray.util": ("connect", "disconnect"),
    "ray.util.collective": _ON_SEVERAL_GPUS,
    "ray.util.collective.collective": _ON_SEVERAL_GPUS,
    "ray.util.iter": (
        *("LocalIterator", "ParallelIterator", "ParallelIteratorWorker"),
        *("from_actors", "from_items", "from_iterators", "from_range"),
    ),
    "ray.util.state": _NO_LISTINGS,
    "ray.util.state.api": _NO_LISTINGS,
    "ray.experimental.state.api": _NO_LISTINGS,
    "ray.util.client": ("RayAPIStub",),
    "ray.util.client.common": ("ClientObjectRef",),
}
"""Names that many programs import but few call. They can be imported, and raise an error when they
are called.
"""
