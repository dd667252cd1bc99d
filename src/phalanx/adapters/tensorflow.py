"""TensorFlow's TF_CONFIG for members of a gang of tasks or actors.

    @phalanx.remote
    def train():
        os.environ["TF_CONFIG"] = phalanx.adapters.tensorflow.tf_config()
        strategy = tf.distribute.MultiWorkerMirroredStrategy()

    train.gang(4, ports=4).remote()

Jobs have it from their plugin `tensorflow`.
"""

from __future__ import annotations

import json

import phalanx


def tf_config() -> str:
    """The cluster of workers that this member's gang is, and this member's place there.

    Raises RuntimeError outside of a gang, and ValueError where the gang has fewer ports than a node
    of it has members.
    """
    gang = phalanx.get_runtime_context().gang
    if gang is None:
        raise RuntimeError("tf_config is for members of a gang: call function.gang(n).remote().")
    most = max(member.local_rank for member in gang.members) + 1
    if len(gang.ports) < most:
        raise ValueError(
            f"{most} members of the gang are on one node, and it has {len(gang.ports)} ports: "
            f"gang(..., ports={most})."
        )
    workers = [f"{one.address}:{gang.ports[one.local_rank]}" for one in gang.members]
    own = {"type": "worker", "index": gang.rank}
    return json.dumps({"cluster": {"worker": workers}, "task": own})
