"""A program that runs small steps on a GPU and says how many it did, like the training of a small
model: a step keeps only a few of the GPU's processors busy.

    python -m tests.gpu.small_steps SECONDS [--cpu]

With `--cpu` the CPU computes the steps, for a rehearsal without a GPU.

It prints `ready` and the seconds since the start of the process, and then for each second of the
wall clock this second and the number of steps in it.
"""

from __future__ import annotations

import ctypes
import sys
import time

from tests.gpu.program import Cuda

BLOCKS, THREADS, ROUNDS = 8, 128, 20_000
_STEP = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p;
    .reg .u32 %i, %n;
    .reg .f32 %x, %y;
    .reg .u64 %out;
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [rounds];
    mov.u32 %i, 0;
    mov.f32 %x, 0f3F800000;
    mov.f32 %y, 0f3F800054;
again:
    fma.rn.f32 %x, %x, %y, %y;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, %n;
    @%p bra again;
    cvta.to.global.u64 %out, %out;
    st.global.f32 [%out], %x;
    ret;
}
"""


class Steps(Cuda):
    """The steps of one process."""

    def __init__(self) -> None:
        super().__init__()
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_STEP))
        self._step = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(self._step), module, b"step")
        self._out = self.take(4)
        self._rounds = ctypes.c_uint32(ROUNDS)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(self._out), ctypes.addressof(self._rounds))
        self._values = values

    def one(self) -> None:
        shape = (BLOCKS, 1, 1, THREADS, 1, 1, 0)
        self._call("cuLaunchKernel", self._step, *shape, None, self._values, None)
        self._call("cuCtxSynchronize")


class CpuSteps:
    """Steps without a GPU."""

    def one(self) -> None:
        sum(range(ROUNDS))


def main(seconds: float, on_cpu: bool) -> None:
    steps: Steps | CpuSteps = CpuSteps() if on_cpu else Steps()
    steps.one()
    with open("/proc/self/stat", encoding="ascii") as file:
        begun = int(file.read().rpartition(")")[2].split()[19]) / 100
    print("ready", round(time.clock_gettime(time.CLOCK_BOOTTIME) - begun, 3), flush=True)
    count, second, end = 0, int(time.time()), time.time() + seconds
    while (now := time.time()) < end:
        steps.one()
        if int(now) != second:
            print(second, count, flush=True)
            count, second = 0, int(now)
        count += 1


if __name__ == "__main__":
    main(float(sys.argv[1]), "--cpu" in sys.argv[2:])
