"""TensorFlow's TF_CONFIG for members of a gang of tasks or actors.

    @phalanx.remote
    def train():
        os.environ["TF_CONFIG"] = phalanx.adapters.tensorflow.tf_config()
        strategy = tf.distribute.MultiWorkerMirroredStrategy()

    train.gang(4, ports=4).remote()

Jobs get TF_CONFIG from their plugin `tensorflow`.
"""

from __future__ import annotations

import json

import phalanx


def tf_config() -> str:
    """Return the value of TF_CONFIG: this member's gang as a cluster of workers, and this member's
    place in it. Raises RuntimeError outside of a gang, and ValueError if a node of the gang has
    more members than the gang has ports.
    """
    gang = phalanx.get_runtime_context().gang
    if gang is None:
        raise RuntimeError("tf_config is for members of a gang: call function.gang(n).remote().")
    most = max(member.local_rank for member in gang.members) + 1
    if len(gang.ports) < most:
        raise ValueError(
            f"{most} members of the gang are on one node, but the gang has {len(gang.ports)} "
            f"ports: call gang(..., ports={most})."
        )
    workers = [f"{one.address}:{gang.ports[one.local_rank]}" for one in gang.members]
    own = {"type": "worker", "index": gang.rank}
    return json.dumps({"cluster": {"worker": workers}, "task": own})
