"""Which arithmetic a library's kernel does, by its name.

In: the name of a kernel.  Out: the roof of its arithmetic, as roofs of devices are named.
"""

from __future__ import annotations

import re

_TYPES = (
    (re.compile(r"e4m3|e5m2|fp8|float8", re.I), "tensor_float8_e4m3"),
    (re.compile(r"bf16|bfloat16|nvjet_[a-z]*t[a-z]*_", re.I), "tensor_bfloat16"),
    (re.compile(r"f16|half|h884|h1688|h16816|nvjet_h", re.I), "tensor_float16"),
    (re.compile(r"tf32|s1688|nvjet_s", re.I), "tensor_tf32"),
    (re.compile(r"sgemm|ffma|simt|f32f32|scudnn|f32", re.I), "fma_float32"),
    # What cuBLAS and cuDNN have without tensor cores: the type is an argument of a template, as in
    # `gemmSN_TN_kernel<float, …>` and `cudnn::cnn::wgrad_alg0_engine<float, …>`.
    (
        re.compile(r"(gemm|gemv|conv|winograd|[dw]grad|fft)\w*(::\w+)*<.*\bfloat\b", re.I),
        "fma_float32",
    ),
)
"""The first that matches counts."""


def roofs_by_name(name: str) -> tuple[str, ...]:
    """Return the roofs that a kernel's name fits, the likeliest first; none where it tells none."""
    return tuple(roof for pattern, roof in _TYPES if pattern.search(name))
