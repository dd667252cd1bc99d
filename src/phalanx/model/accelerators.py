"""The variables that show devices to a process, by the resource that counts the devices."""

from __future__ import annotations

VISIBLE = {
    "GPU": "CUDA_VISIBLE_DEVICES",
    "TPU": "TPU_VISIBLE_CHIPS",
    "NPU": "ASCEND_RT_VISIBLE_DEVICES",
    "HPU": "HABANA_VISIBLE_MODULES",
    "neuron_cores": "NEURON_RT_VISIBLE_CORES",
    "RBLN": "RBLN_DEVICES",
}
"""The variable by which the device driver learns which devices to show, by resource. AMD's driver
reads NVIDIA's variable, too.
"""

AMD = "HIP_VISIBLE_DEVICES"
"""AMD's own variable, which takes precedence over NVIDIA's where both are set."""

AMD_RUNTIME = "ROCR_VISIBLE_DEVICES"
"""The variable of AMD's runtime. The two variables above number only the devices that this variable
shows.
"""
