"""A training run on a GPU as a recorder would see it, written by hand."""

from __future__ import annotations

from tileprof.errors import Location
from tileprof.profile import Metric, Profile, Tables, TreeBuilder

_ARRAY = "std::array<char*, 3ul>"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    f"{_ARRAY} >(int, at::native::CUDAFunctor_add<float>, {_ARRAY})"
)
"""An elementwise kernel, demangled."""
_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
)
COPY = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
    f"{_COPY}::{{lambda(float)#1}}>(at::TensorIteratorBase&, {_COPY}::{{lambda(float)#1}} const&)"
    "::{lambda(int)#1}>(int, int)"
)
"""A kernel that is a lambda within a function within a template."""
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas"
"""A kernel of a library, whose name is no C++."""


class _Run:
    """Nodes of a run under construction; times are in µs."""

    def __init__(self, gemm: int) -> None:
        self.builder = TreeBuilder()
        self.gemm = gemm
        self.builder.declare(Metric("idle_time", "ns"))
        self._places: dict[str, Location] = {}

    def frame(self, parent: int, name: str, line: int) -> int:
        place = self._places.setdefault(name, Location("/w/train.py", line, function=name))
        node = self.builder.child(parent, "frame", name, place)
        self.builder.add(node, "cpu_time", 2_000)
        return node

    def host(self, parent: int, kind: str, name: str, phase: str = "", cpu: int = 4) -> int:
        node = self.builder.child(parent, kind, name, None, phase)
        self.builder.add(node, "count", 1)
        self.builder.add(node, "cpu_time", cpu * 1_000)
        return node

    def device(self, parent: int, kind: str, name: str, time: int, phase: str = "") -> int:
        node = self.builder.child(parent, kind, name, None, phase)
        for metric, value in (("time", time), ("time_min", time), ("time_max", time)):
            self.builder.add(node, metric, value * 1_000)
        self.builder.add(node, "count", 1)
        return node

    def kernel(self, parent: int, name: str, time: int, blocks: int, phase: str = "") -> int:
        api = self.host(parent, "api", "cudaLaunchKernel", phase, cpu=3)
        node = self.device(api, "kernel", name, time, phase)
        self.builder.add(node, "blocks", blocks)
        return node

    def step(self, parent: int, number: int) -> None:
        step = self.host(parent, "scope", f"step {number}", cpu=90)
        self._load(self.frame(step, "load_batch", 12))
        self._model(self.frame(self.host(step, "scope", "forward", cpu=20), "forward", 17))
        self._optimize(self.frame(step, "optimize", 25))
        item = self.host(self.frame(step, "log", 30), "op", "aten::item", cpu=6)
        sync = self.host(item, "api", "cudaStreamSynchronize", cpu=400)
        self.host(sync, "sync", "stream", cpu=0)

    def _load(self, frame: int) -> None:
        op = self.host(frame, "op", "aten::to", cpu=30)
        api = self.host(op, "api", "cudaMemcpyAsync", cpu=12)
        copy = self.device(api, "memcpy", "HtoD pageable", 80)
        self.builder.add(copy, "bytes", 2_000_000)
        idle = self.builder.child(frame, "idle", "waiting for the host")
        self.builder.add(idle, "idle_time", 150_000)
        self.builder.add(idle, "count", 1)

    def _model(self, frame: int) -> None:
        linear = self.host(self.host(frame, "op", "aten::linear"), "op", "aten::addmm", cpu=9)
        self.builder.add(linear, "flops", 3 * 2 * 2**30 * 128)
        self.kernel(linear, GEMM, self.gemm, 256)
        backward = self.host(linear, "op", "AddmmBackward0", "backward", cpu=11)
        for _ in range(2):
            self.kernel(backward, GEMM, self.gemm, 256, "backward")
        residual = self.host(frame, "op", "aten::add", cpu=5)
        self.kernel(residual, ADD, 60, 8192)
        self.kernel(residual, COPY, 30, 4096, "backward")

    def _optimize(self, frame: int) -> None:
        step = self.host(frame, "op", "Optimizer.step#SGD.step", cpu=25)
        self.kernel(step, ADD, 40, 4096)
        api = self.host(frame, "api", "cudaMemsetAsync", cpu=3)
        clear = self.device(api, "memset", "device", 5)
        self.builder.add(clear, "bytes", 4_000_000)


def training(gemm: int = 450, steps: int = 3) -> Profile:
    """Some steps of a training run; one matrix product takes `gemm` µs.

    Backward work hangs under the forward operation that made it, in the backward phase.
    """
    run = _Run(gemm)
    main = run.frame(run.frame(-1, "<module>", 40), "main", 35)
    for number in range(steps):
        run.step(main, number)
    provenance = {"command": "tileprof run train.py", "device": "NVIDIA H200", "rank": "0"}
    return run.builder.snapshot(Tables(provenance=provenance))
