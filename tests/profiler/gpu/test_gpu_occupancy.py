"""Occupancy of kernels on a GPU against what its driver says."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.cuda.ptxas_kernels import source
from tests.profiler.gpu.running import profiled, succeeded
from tileprof.binary.occupancy import MULTIPROCESSORS, occupancy
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.profiler.device import devices
from tileprof.runtime.cuda.device import find_device
from tileprof.runtime.cuda.driver import MAX_DYNAMIC_SHARED

pytestmark = pytest.mark.gpu

_REGISTERS, _STATIC_SHARED = 4, 1
"""Numbers of `CUfunction_attribute`."""
_BODY = """\
float d[96]; for (int i = 0; i < 96; i++) d[i] = x[i * n];
__syncthreads();
for (int i = 0; i < 96; i++) x[i * 3 + n] = d[i] * d[(i + 7) % 96];
"""


def test_limits_are_those_of_the_table() -> None:
    """The driver and the programming guide agree."""
    device = devices.find(0)
    assert device is not None
    if device.capability in MULTIPROCESSORS:
        assert device.limits == MULTIPROCESSORS[device.capability]
    assert device.multiprocessors == find_device(0).sms


@pytest.mark.parametrize("most", [128, 256, 512, 1024])
def test_blocks_are_those_of_the_driver(most: int) -> None:
    """Functions with ever fewer registers, blocks and shared memory of all sizes."""
    device, told = find_device(0), devices.find(0)
    assert told is not None
    assert told.limits is not None
    made = compile_cubin(
        source(_BODY, bounds=f"__launch_bounds__({most}, 1)"), device.target, Controls()
    )
    ask = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor
    with device.current():
        driver = device.driver
        module = driver.pointer("cuModuleLoadDataEx", made.bytes, 0, None, None)
        function = driver.pointer("cuModuleGetFunction", module, b"f")
        registers, static = (
            driver.number("cuFuncGetAttribute", what, function)
            for what in (_REGISTERS, _STATIC_SHARED)
        )
        for shared in (0, 1000, 40_000, 49_152, 60_000, told.limits.shared_per_block - static):
            driver.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
            for threads in range(32, most + 1, 32):
                blocks = ctypes.c_int()
                code = ask(ctypes.byref(blocks), ctypes.c_void_p(function), threads,
                           ctypes.c_size_t(shared))  # fmt: skip
                assert code == 0
                ours = occupancy(registers, static + shared, threads, told.limits)
                assert ours.blocks == blocks.value, (threads, registers, static, shared)


def test_kernels_of_a_program(tmp_path: Path) -> None:
    """Each says how it fills its GPU, which the provenance names."""
    profile = succeeded(profiled(tmp_path, "counting", "0.2", "1")).profile
    (double,) = (kernel for kernel in profile.tables.kernels if kernel.name == "double")
    assert 0 < float(double.attributes["occupancy"]) <= 1
    assert float(double.attributes["waves"]) < 1
    device = devices.find(0)
    assert device is not None
    assert profile.tables.provenance["cuda:0"] == str(device)
