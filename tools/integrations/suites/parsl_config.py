"""The configuration with which Parsl's tests run over Phalanx's executor."""

from parsl.config import Config

from phalanx.adapters.parsl import PhalanxExecutor


def fresh_config():
    return Config(
        executors=[
            PhalanxExecutor(init={"num_cpus": 4, "address": "local", "log_to_driver": False})
        ]
    )
