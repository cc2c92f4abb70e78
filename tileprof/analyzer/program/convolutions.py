"""Convolutions of a program: the kernels of their operations, and what names of kernels say.

In: a profile.  Out: masks of kernels: those that multiply, those that only change the layout for
them, and by name the gradient that one computes, the layout of its data, and its types.
Names are those of cuDNN 7 to 9, of CUTLASS within it, and of PyTorch's own depthwise kernels.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from tileprof.analyzer.program.masks import Mask, below, kind, where
from tileprof.profile import Profile

Gradient: TypeAlias = Literal["", "data", "weight"]

_OPERATION = re.compile(r"convolution|conv_?(transpose)?_?(depthwise)?[123]d", re.IGNORECASE)
_LAYOUT = re.compile(
    r"nchw.?to.?nhwc|nhwc.?to.?nchw|transpose_?readwrite|tensorTransform|convert_?layout"
    r"|layout_?(convert|transform)",
    re.IGNORECASE,
)
_PRODUCT = re.compile(
    r"gemm|gemv|dot_kernel|fmha|flash|attention|sdpa|conv(?!ert)|fprop|[dw]grad|winograd|fft|cutlass|xmma|cudnn_\w*engine|nvjet|_engine<",
    re.IGNORECASE,
)
_GRADIENTS: tuple[tuple[re.Pattern[str], Gradient], ...] = (
    (re.compile(r"wgrad|weight_?grad|backward_?(weight|filter)|grad_?weight", re.I), "weight"),
    (re.compile(r"dgrad|backward_?(data|input)|grad_?input", re.I), "data"),
)
_CHANNELS_FIRST = re.compile(
    r"nchw|ncdhw|implicit_convolve|winograd|fft|[dw]grad(2d)?_(alg\d|engine)|scudnn"
    r"|conv_depthwise[23]d",
    re.IGNORECASE,
)
_PLAIN_PRODUCT = re.compile(r"gemm", re.IGNORECASE)
_IMPLICIT = re.compile(r"implicit|nhwc|fprop|[dw]grad", re.IGNORECASE)
_POOLS_CHANNELS_FIRST = re.compile(r"pool\w*_nchw", re.IGNORECASE)
_NORM_OF_PLANES = re.compile(r"bn_\w*1C11|batch_norm_(collect_statistics|backward)_kernel(?!_ch)")
"""Batch norms whose blocks have a channel each, of cuDNN and of PyTorch."""
_SHORT = re.compile(r"bf16|bfloat16|half|f16|s16816|h16816|h1688|h884|nvjet_h|e4m3|e5m2", re.I)
_TF32 = re.compile(r"tf32|s1688", re.IGNORECASE)


def changes_layout(name: str) -> bool:
    """Return whether a library's kernel only changes the layout of a tensor, by its name."""
    return bool(_LAYOUT.search(name))


def multiplies(name: str) -> bool:
    """Return whether a kernel of an operation with products does these, by its name."""
    return bool(_PRODUCT.search(name)) and not changes_layout(name)


def gradient_of(name: str) -> Gradient:
    """Return the gradient that a kernel computes, by its name; nothing where it does not tell."""
    return next((which for pattern, which in _GRADIENTS if pattern.search(name)), "")


def has_channels_first(name: str) -> bool:
    """Return whether a kernel of a convolution takes, or gives, tensors with channels first."""
    return bool(_CHANNELS_FIRST.search(name)) and not changes_layout(name)


def is_plain_product(name: str) -> bool:
    """Return whether a kernel of a convolution is a matrix product, as those of 1 x 1 are."""
    return bool(_PLAIN_PRODUCT.search(name)) and not _IMPLICIT.search(name)


def pools_channels_first(name: str) -> bool:
    """Return whether a kernel is a pooling of tensors with channels first."""
    return bool(_POOLS_CHANNELS_FIRST.search(name))


def has_a_block_per_channel(name: str) -> bool:
    """Return whether a kernel is a batch norm of channels first with a block for each channel."""
    return bool(_NORM_OF_PLANES.search(name))


def has_short_types(name: str) -> bool:
    """Return whether a library's kernel multiplies numbers of 16 bits or fewer, by its name."""
    return bool(_SHORT.search(name))


def rounds_to_tf32(name: str) -> bool:
    """Return whether a library's kernel multiplies 32-bit floats on tensor cores, by its name."""
    return bool(_TF32.search(name)) and not has_short_types(name)


def kernels_of_convolutions(profile: Profile) -> Mask:
    """Return the kernels that operations of a convolution, or of its gradients, launch."""
    operations = where(
        profile, lambda symbol: symbol.kind == "op" and bool(_OPERATION.search(symbol.name))
    )
    found: Mask = kind(profile, "kernel") & below(profile, operations)
    return found


def layouts_of_convolutions(profile: Profile) -> Mask:
    """Return the kernels that only change the layout of a tensor for a convolution."""
    found: Mask = kernels_of_convolutions(profile) & where(
        profile, lambda symbol: changes_layout(symbol.name)
    )
    return found
