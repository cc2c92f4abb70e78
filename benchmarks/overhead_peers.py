"""Other profilers within a program: how each is started, what it keeps, how it ends.

Proton and plain CUPTI records run from the first burst to the end, as they aggregate or drop.
torch.profiler keeps every event, so each burst is a recording of its own, and its ending is timed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch


class Peer:
    """No profiler at all; the others say what is different."""

    def __init__(self, cpu: bool, output: str) -> None:
        self.cpu = cpu
        self.output = output

    def start(self) -> None:
        """Before a burst, its warm-up included."""

    def stop(self) -> None:
        """After a burst; what it takes is not part of the burst."""

    def counts(self) -> dict[str, int]:
        """What the peer saw in the last burst, where it can say."""
        return {}

    def finish(self) -> None:
        """At the program's end."""


class TorchProfiler(Peer):
    """torch.profiler with CPU and CUDA activities."""

    stacks = False
    _profiler: Any = None

    def start(self) -> None:
        """A new recording."""
        from torch.profiler import ProfilerActivity, profile

        cuda = [] if self.cpu else [ProfilerActivity.CUDA]
        self._profiler = profile(
            activities=[ProfilerActivity.CPU, *cuda], with_stack=self.stacks, acc_events=True
        )
        self._profiler.start()

    def stop(self) -> None:
        """Its events are collected."""
        self._profiler.stop()

    def counts(self) -> dict[str, int]:
        """Events by kind, of the warm-up too."""
        results = getattr(self._profiler.profiler, "kineto_results", None)
        self._profiler = None
        if results is None:
            return {}
        kinds = [event.device_type().name for event in results.events()]
        return {"host_events": kinds.count("CPU"), "device_events": kinds.count("CUDA")}


class TorchProfilerStacks(TorchProfiler):
    """torch.profiler with Python stacks."""

    stacks = True


class Proton(Peer):
    """Triton's Proton over CUPTI, a tree of scopes."""

    context = "shadow"
    options: ClassVar[dict[str, str]] = {}
    _started = False

    def start(self) -> None:
        """Once: it aggregates."""
        if not self._started:
            import triton.profiler as proton

            name = self.output.removesuffix(".hatchet")
            proton.start(name, context=self.context, data="tree", **self.options)
            self._started = True

    def finish(self) -> None:
        """Write the tree."""
        import triton.profiler as proton

        proton.finalize()


class ProtonPython(Proton):
    """Proton with the Python frames of each launch."""

    context = "python"


class ProtonSampling(Proton):
    """Proton with samples of program counters."""

    options: ClassVar[dict[str, str]] = {"backend": "cupti", "mode": "pcsampling"}


_Requested = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_Completed = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
)
_CONCURRENT_KERNEL = 10
_BUFFER = 8 << 20


class CuptiRecords(Peer):
    """Records of kernels as CUPTI hands them out, dropped: the least that any profiler pays."""

    def __init__(self, cpu: bool, output: str) -> None:
        super().__init__(cpu, output)
        self._library: Any = None
        self._free: list[Any] = []
        self._held: dict[int, Any] = {}
        self._callbacks = (_Requested(self._request), _Completed(self._complete))

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        block = self._free.pop() if self._free else ctypes.create_string_buffer(_BUFFER + 64)
        address = (ctypes.addressof(block) + 63) & ~63
        self._held[address] = block
        buffer[0], size[0], most[0] = address, _BUFFER, 0

    def _complete(self, _context: Any, _stream: int, buffer: int, _size: int, _valid: int) -> None:
        self._free.append(self._held.pop(buffer))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def start(self) -> None:
        """Once: records are dropped as they come."""
        if self._library is None:
            self._library = ctypes.CDLL(cupti_path())
            self._call("cuptiActivityRegisterCallbacks", *self._callbacks)
            self._call("cuptiActivityEnable", ctypes.c_int(_CONCURRENT_KERNEL))

    def finish(self) -> None:
        """Hand out the rest while the callbacks are there."""
        self._call("cuptiActivityFlushAll", ctypes.c_uint32(1))
        self._call("cuptiActivityDisable", ctypes.c_int(_CONCURRENT_KERNEL))


class CuptiPaused(CuptiRecords):
    """CUPTI that recorded a kernel once and then nothing: what is left of it in a pause."""

    def start(self) -> None:
        """Once."""
        if self._library is None:
            super().start()
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
            super().finish()

    def finish(self) -> None:
        """There are no records."""


def cupti_path() -> str:
    """The library that PyTorch has loaded, else that of its package."""
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    found = sorted(p for p in mapped if "/libcupti.so" in p)
    near = Path(torch.__file__).parent.parent / "nvidia"
    found += sorted(str(p) for p in near.glob("**/libcupti.so.*"))
    return found[0] if found else "libcupti.so"


PEERS: dict[str, Callable[[bool, str], Peer]] = {
    "none": Peer,
    "cupti": CuptiRecords,
    "cupti-paused": CuptiPaused,
    "proton-shadow": Proton,
    "proton-python": ProtonPython,
    "proton-sampling": ProtonSampling,
    "torch": TorchProfiler,
    "torch-stacks": TorchProfilerStacks,
}
