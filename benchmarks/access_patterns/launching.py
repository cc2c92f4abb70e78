"""Launches of patterns by the driver alone.

In: machine code.  Out: one warp for each pattern, with the pattern's addresses in the parameters.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from benchmarks.access_patterns.bodies import PARAMETERS, kernel_of
from benchmarks.access_patterns.patterns import LANES, MEMORY, Box, Pattern
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.driver import LaunchConfig
from tileprof.runtime.cuda.tensor_maps import SWIZZLES

_TYPES = {1: 0, 2: 9, 4: 7}
"""`CUtensorMapDataType` by the bytes of an element: uint8, bfloat16, float32."""
_MAP_ALIGNMENT = 64
_PROMOTION = 3
"""`CU_TENSOR_MAP_L2_PROMOTION_L2_256B`, with which the runtime encodes its maps."""
Allocate = Callable[[int], int]
"""From bytes to the address of as much memory of the device, of which all bytes are 0."""


def allocate(size: int) -> int:
    """Allocate memory of the current context by `cuMemAlloc`; RuntimeError where that fails."""
    driver = ctypes.CDLL("libcuda.so.1")
    place = ctypes.c_uint64()
    code = driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size))
    code = code or driver.cuMemsetD8_v2(place, ctypes.c_ubyte(0), ctypes.c_size_t(size))
    if code:
        raise RuntimeError(f"{size} bytes of the device's memory: CUresult {code}")
    return place.value


class Launches:
    """A loaded module and the memory that its kernels access."""

    def __init__(self, device: CudaDevice, cubin: bytes, allocated: Allocate = allocate) -> None:
        self._driver = device.driver
        self._module = self._driver.pointer("cuModuleLoadDataEx", cubin, 0, None, None)
        self._functions: dict[str, int] = {}
        self.memory = allocated(MEMORY)
        self._parameters = ctypes.create_string_buffer(sum(PARAMETERS) + _MAP_ALIGNMENT)
        self._config = LaunchConfig()
        self._config.grid[:] = (1, 1, 1)
        self._config.block[:] = (LANES, 1, 1)

    def __call__(self, pattern: Pattern, kernel: str = "") -> None:
        """Launch a pattern by its body's kernel, or by a copy with another name, and wait;
        DriverFailure where the driver refuses it."""
        base = ctypes.addressof(self._parameters)
        base += -base % _MAP_ALIGNMENT
        places = [base, base + PARAMETERS[0], base + PARAMETERS[0] + PARAMETERS[1]]
        ctypes.memset(base, 0, sum(PARAMETERS))
        first, second, count = pattern.first, pattern.second, pattern.count
        if pattern.box is not None:
            self._encode(pattern.box, base)
            second = pattern.box.start + (0,) * (LANES - len(pattern.box.start))
            count = (pattern.box.bytes,) * LANES
        numbers = (ctypes.c_int32 * (3 * LANES)).from_address(places[1])
        numbers[:] = [*first, *second, *count]
        ctypes.c_uint64.from_address(places[2]).value = self.memory
        pointers = (ctypes.c_void_p * len(places))(*places)
        code = self._driver.launch(
            ctypes.addressof(self._config), self._function(kernel or kernel_of(pattern.body)),
            ctypes.addressof(pointers), None,
        )  # fmt: skip
        if code:
            self._driver.fail("cuLaunchKernelEx", code)
        self._driver.call("cuStreamSynchronize", None)

    def _function(self, name: str) -> int:
        if name not in self._functions:
            handle = self._driver.pointer("cuModuleGetFunction", self._module, name.encode())
            self._functions[name] = handle
        return self._functions[name]

    def _encode(self, box: Box, place: int) -> None:
        """Write a box's tensor map: elements next to each other, as `tensor_maps` does."""
        rank = len(box.shape)
        self._driver.call(
            "cuTensorMapEncodeTiled", place, _TYPES[box.element], rank, self.memory,
            (ctypes.c_uint64 * rank)(*box.shape), (ctypes.c_uint64 * (rank - 1))(*box.pitches),
            (ctypes.c_uint32 * rank)(*box.box), (ctypes.c_uint32 * rank)(*[1] * rank),
            0, SWIZZLES[box.swizzle], _PROMOTION, 0,
        )  # fmt: skip
