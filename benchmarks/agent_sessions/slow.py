"""Ten kernels in slow configurations, each as a folder of two files that an agent would be given.

`kernels.py` names the kernel, `work.py` launches it: its first line is the configuration, which is
what the client may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WORK = '''CONFIGURATION = {configuration}

import numpy as np

from kernels import {kernel}

DEVICE = {device!r}


def array(extents, dtype, seed):
    """Return numbers that a seed draws, where the kernel runs."""
    drawn = np.random.default_rng(seed)
    if dtype == "uint8":
        held = drawn.integers(0, 255, extents, np.uint8)
    else:
        held = drawn.standard_normal(extents, np.float32) / 8
    if DEVICE == "cpu":
        import ml_dtypes

        return held.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    import torch

    made = torch.from_numpy(held).to("cuda")
    return made.to(torch.bfloat16) if dtype == "bfloat16" else made


arrays = [array(extents, dtype, at) for at, (extents, dtype) in enumerate({tensors})]
for _ in range(20):
    found = {kernel}(*arrays, **CONFIGURATION)
found = found[0] if isinstance(found, (tuple, list)) else found
found = np.asarray(found, np.float64) if DEVICE == "cpu" else found.double().cpu().numpy()
print(f"checksum {{float(np.abs(found).mean()):.3f}}")
'''


@dataclass(frozen=True)
class Slow:
    """A kernel, its tensors (extents by name), and the configuration that it is launched in."""

    kernel: str
    module: str
    tensors: tuple[tuple[tuple[str, ...], str], ...]
    configuration: Mapping[str, int]
    on_gpu: Mapping[str, int]
    """Extents on a GPU."""
    on_cpu: Mapping[str, int]
    static: Mapping[str, int | str] = field(default_factory=dict)
    """Arguments that are not tuned."""

    def extents(self, device: str) -> Mapping[str, int]:
        """Return the extents for a device."""
        return self.on_cpu if device == "cpu" else self.on_gpu

    def write(self, folder: Path, device: str) -> None:
        """Write both files."""
        held = self.extents(device)
        tensors = [(tuple(held[e] for e in extents), dtype) for extents, dtype in self.tensors]
        (folder / "kernels.py").write_text(f"from {self.module} import {self.kernel}\n")
        text = WORK.format(
            configuration={**self.configuration, **self.static}, kernel=self.kernel,
            device=device, tensors=tensors,
        )  # fmt: skip
        (folder / "work.py").write_text(text)


_ROWS = ((("M", "N"), "bfloat16"),)
_TALL = {"M": 8192, "N": 8192}
_TALL_CPU = {"M": 512, "N": 2048}
_SQUARE = {"M": 4096, "N": 4096, "K": 4096}
_SQUARE_CPU = {"M": 256, "N": 256, "K": 256}
_HEADS = {"batch": 4, "length": 2048, "heads": 16, "dim": 128, "keys": 2048, "groups": 16}
_HEADS_CPU = {"batch": 1, "length": 256, "heads": 2, "dim": 64, "keys": 256, "groups": 2}
_FEW = {"M": 16, "N": 8192, "K": 8192}
_FEW_CPU = {"M": 16, "N": 512, "K": 512}

SLOW = (
    Slow("softmax", "benchmarks.tuned_kernels", _ROWS,
         {"rows": 16, "chunk": 128, "stages": 1, "threads": 128}, _TALL, _TALL_CPU),
    Slow("rms_norm", "benchmarks.tuned_kernels", (*_ROWS, (("N",), "bfloat16")),
         {"rows": 16, "chunk": 128, "stages": 1, "threads": 128}, _TALL, _TALL_CPU),
    Slow("row_sums", "benchmarks.tuned_kernels", _ROWS,
         {"rows": 64, "chunk": 64, "stages": 1, "threads": 64}, _TALL, _TALL_CPU),
    Slow("row_scan", "benchmarks.tuned_kernels", ((("M", "N"), "float32"),),
         {"rows": 32, "chunk": 64, "stages": 1, "threads": 64}, _TALL, _TALL_CPU),
    Slow("transpose", "benchmarks.gpu_kernels", _ROWS,
         {"block_M": 16, "block_N": 16, "threads": 32, "rows": 16}, _TALL, _TALL_CPU),
    Slow("matmul", "benchmarks.gpu_kernels", ((("M", "K"), "bfloat16"), (("K", "N"), "bfloat16")),
         {"block_M": 64, "block_N": 32, "block_K": 16, "stages": 1}, _SQUARE, _SQUARE_CPU),
    Slow("matmul_nt", "benchmarks.gpu_kernels",
         ((("M", "K"), "bfloat16"), (("N", "K"), "bfloat16")),
         {"block_M": 64, "block_N": 64, "block_K": 32, "stages": 1}, _SQUARE, _SQUARE_CPU,
         {"dtype": "bfloat16"}),
    Slow("matmul_int4", "benchmarks.gpu_kernels",
         ((("M", "K"), "bfloat16"), (("N", "half"), "uint8"), (("N",), "float32")),
         {"block_M": 64, "block_N": 64, "block_K": 32, "stages": 1, "threads": 128},
         {**_SQUARE, "half": 2048}, {**_SQUARE_CPU, "half": 128}),
    Slow("attention", "case_studies.attention",
         ((("batch", "length", "heads", "dim"), "bfloat16"),) * 3,
         {"block_M": 64, "block_N": 32, "stages": 1, "threads": 128}, _HEADS, _HEADS_CPU),
    Slow("matmul_skinny", "benchmarks.gpu_kernels",
         ((("M", "K"), "bfloat16"), (("N", "K"), "bfloat16")),
         {"block_N": 32, "block_K": 64, "stages": 1, "threads": 128}, _FEW, _FEW_CPU,
         {"tokens": 16, "shift": 1}),
)  # fmt: skip
