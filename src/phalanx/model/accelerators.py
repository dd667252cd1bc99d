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
"""By resource, the variable that tells the device driver which devices to show. AMD's driver reads
NVIDIA's variable, too.
"""

AMD = "HIP_VISIBLE_DEVICES"
"""AMD's own variable. If NVIDIA's variable is set, too, AMD's variable applies."""

AMD_RUNTIME = "ROCR_VISIBLE_DEVICES"
"""The variable of AMD's runtime. The numbers in the two variables above count only the devices that
this variable shows.
"""
