"""Trees of training steps on a GPU, as the recorder makes them: what rules about programs look at.

`training` is the plain run of docs/case-studies/train_gpt.md: 20 steps of 36 ms on an H200.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tileprof.errors import Location
from tileprof.profile import DevicePeak, KernelInfo, Metric, Profile, Tables, TreeBuilder

FILE = "/home/me/train_gpt.py"
TORCH = "/env/lib/python3.11/site-packages/torch/"
LATE, DEPENDENT = "waiting for its launch", "between dependent work"


@dataclass
class Step:
    """A tree under construction; times are in ns, of all launches or visits together."""

    visits: int = 20
    phase: str = ""
    builder: TreeBuilder = field(default_factory=TreeBuilder)
    kernels: dict[int, str] = field(default_factory=dict)
    top: int = -1

    def __post_init__(self) -> None:
        for name in ("idle_time", "sync_time"):
            self.builder.declare(Metric(name, "ns"))
        self.top = self.scope(self.frame(-1, "train", 161), "step")

    def frame(self, above: int, function: str, line: int, file: str = FILE) -> int:
        """A line of a function: the user's, or a library's."""
        return self.node(above, "frame", function, Location(file, line, function=function))

    def scope(self, above: int, name: str) -> int:
        """A scope that each step visits."""
        scope = self.node(above, "scope", name, Location(FILE, 161, function="train"))
        self.builder.add(scope, "count", self.visits)
        return scope

    def op(
        self, above: int, name: str, count: int = 0, backward: bool = False, **own: float
    ) -> int:
        """An operation; `own` are further metrics of it: `cpu_time`, `flops`, `bytes`."""
        op = self.node(above, "op", name, backward=backward)
        for metric, value in {"count": count or self.visits, **own}.items():
            self.builder.add(op, metric, value)
        return op

    def launch(
        self,
        above: int,
        name: str,
        time: float,
        count: int = 0,
        backward: bool = False,
        gaps: Mapping[str, float] | None = None,
        cpu_time: float = 0,
    ) -> int:
        """A kernel below the call that launches it, and the gaps that end there, by reason."""
        count = count or self.visits
        call = self.node(above, "api", "cuLaunchKernel", backward=backward)
        kernel = self.node(call, "kernel", name, backward=backward)
        self.kernels[kernel] = name
        self.builder.add(call, "count", count)
        self.builder.add(call, "cpu_time", cpu_time)
        self.builder.add(kernel, "count", count)
        self.builder.add(kernel, "time", time)
        for reason, idle in (gaps or {}).items():
            self.idle(call, reason, idle, count)
        return kernel

    def idle(self, above: int, reason: str, time: float, count: int = 0) -> int:
        """A gap of a device."""
        idle = self.node(above, "idle", reason)
        self.builder.add(idle, "idle_time", time)
        self.builder.add(idle, "count", count or self.visits)
        return idle

    def copy(self, above: int, name: str, time: float, moved: float = 0, count: int = 0) -> int:
        """A copy, as `HtoD pageable`, below its call."""
        copy = self.node(self.node(above, "api", "cuMemcpyHtoDAsync"), "memcpy", name)
        for metric, value in {"time": time, "bytes": moved, "count": count or self.visits}.items():
            self.builder.add(copy, metric, value)
        return copy

    def wait(self, above: int, time: float, count: int = 0) -> int:
        """A wait of the host for a stream, below its call."""
        call = self.node(above, "api", "cuStreamSynchronize")
        sync = self.node(call, "sync", "stream")
        self.builder.add(call, "cpu_time", time)
        self.builder.add(sync, "sync_time", time)
        self.builder.add(sync, "count", count or self.visits)
        return sync

    def node(
        self,
        above: int,
        kind: str,
        name: str,
        location: Location | None = None,
        backward: bool = False,
    ) -> int:
        """A node of any kind, in the phase of the tree."""
        phase = f"{self.phase} {'backward' if backward else ''}".strip()
        return self.builder.child(above, kind, name, location, phase)

    def profile(
        self,
        peaks: Mapping[str, float] | None = None,
        provenance: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> Profile:
        """The tree as it stands; `peaks` are measured roofs, `sources` texts of files."""
        names = list(dict.fromkeys(self.kernels.values()))
        held = tuple(
            DevicePeak("cuda:0", "GPU-1", "2026-11-20", name, value, "", value, 0.01, 1980.0, "")
            for name, value in (peaks or {}).items()
        )
        profile = self.builder.snapshot(
            Tables(
                kernels=tuple(KernelInfo(name, "cuda:0") for name in names),
                node_kernels={node: names.index(name) for node, name in self.kernels.items()},
                device_peaks=held,
                provenance=dict(provenance or {}),
                sources=dict(sources or {}),
            )
        )
        profile.check()
        return profile


MS = 20e6
"""A millisecond of each of 20 steps."""


def training() -> Step:
    """The step of the case study, by its lines; layers of twelve blocks are added up."""
    step = Step()
    forward, update = step.scope(step.top, "forward"), step.scope(step.top, "update")
    model = step.frame(forward, "GPT.forward", 98)
    attention = step.frame(step.frame(model, "Block.forward", 67), "Attention.forward", 51)
    _product(step, attention, 1.3, 2.4)
    view = step.op(attention, "aten::view", 240)
    _gradient(step, view, "ViewBackward0", "at::native::bfloat16_copy_kernel_cuda", 1.4)
    inner = step.frame(model, "Attention.forward", 52)
    unbind = step.op(step.frame(inner, "Tensor.__iter__", 1223, f"{TORCH}_tensor.py"),
                     "aten::unbind", 240)  # fmt: skip
    _gradient(step, unbind, "UnbindBackward0", "CatArrayBatchedCopy", 1.8)
    attend = step.op(step.frame(model, "Attention.forward", 53),
                     "aten::_scaled_dot_product_cudnn_attention", 240, flops=1e12)  # fmt: skip
    step.launch(attend, "cudnn_flash_fprop", 1.0 * MS, 240)
    _gradient(step, attend, "ScaledDotProductCudnnAttentionBackward0", "cudnn_flash_bprop", 3.3,
              flops=2.5e12)  # fmt: skip
    mlp = step.frame(step.frame(model, "Block.forward", 68), "Block.mlp", 71)
    _product(step, mlp, 2.9, 5.0)
    gelu = step.op(mlp, "aten::gelu", 240)
    step.launch(gelu, "GeluCUDAKernelImpl", 0.7 * MS, 240, gaps={DEPENDENT: 0.4 * MS})
    _gradient(step, gelu, "GeluBackward0", "GeluBackwardCUDAKernelImpl", 1.0)
    _add_and_norm(step, model)
    step.launch(step.op(update, "aten::_fused_adamw_"), "multi_tensor_apply", 1.1 * MS, 40)
    _data_and_loss(step, forward)
    return step


def _product(step: Step, above: int, forward: float, backward: float) -> None:
    linear = step.frame(above, "Linear.forward", 134, f"{TORCH}nn/modules/linear.py")
    product = step.op(step.op(step.op(linear, "aten::linear", 240), "aten::matmul", 240),
                      "aten::mm", 240, flops=1e13)  # fmt: skip
    step.launch(product, "nvjet_hsh_128x256_TNT", forward * MS, 240, gaps={DEPENDENT: 0.2 * MS})
    _gradient(step, product, "MmBackward0", "nvjet_hsh_256x128_NTN", backward, flops=2e13)


def _gradient(step: Step, of: int, name: str, kernel: str, time: float, flops: float = 0.0) -> None:
    node = step.op(of, name, 240, backward=True, **({"flops": flops} if flops else {}))
    step.launch(node, kernel, time * MS, 240, backward=True)


def _add_and_norm(step: Step, model: int) -> None:
    for line in (67, 68):
        block = step.frame(model, "Block.forward", line)
        norm = step.op(block, "aten::native_layer_norm", 240)
        step.launch(norm, "vectorized_layer_norm_kernel", 0.7 * MS, 240)
        _gradient(step, norm, "NativeLayerNormBackward0", "layer_norm_grad_input_kernel", 1.8)
        step.launch(step.op(block, "aten::add", 240), "CUDAFunctor_add", 0.4 * MS, 240)


def _data_and_loss(step: Step, forward: int) -> None:
    data = step.scope(step.top, "data")
    copies = step.op(step.frame(data, "train.<locals>.<genexpr>", 163), "aten::copy_", 40)
    call = step.builder.child(copies, "api", "cuMemcpyHtoDAsync")
    step.copy(copies, "HtoD pinned", 0.02 * MS, 131_000 * 40, 40)
    step.idle(call, "waiting for its launch after a host's copy", 0.8 * MS, 40)
    embed = step.op(step.frame(forward, "GPT.forward", 96), "aten::embedding")
    step.launch(embed, "indexSelectLargeIndex", 0.1 * MS, gaps={LATE: 3.0 * MS})
    item = step.op(step.op(step.top, "aten::item"), "aten::_local_scalar_dense")
    step.wait(item, 10.1 * MS)
