"""Operations of HLO instructions that need their operands whole: products and convolutions.

In: a `dot`, a `convolution`, or a call of cuBLAS or cuDNN, with the shapes of its operands.  Out:
its floating-point operations. Those of calls that this module does not know raise `Unknown`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof.profiler.frameworks.hlo_text import Array, Instruction, Shape, Unknown, split

_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")
_CONVOLUTIONS = (
    "__cudnn$convForward",
    "__cudnn$convBiasActivationForward",
    "__cudnn$convForwardGraph",
    "__cudnn$convBackwardInput",
    "__cudnn$convBackwardFilter",
)
_ATTENTION = re.compile(r"__cudnn\$fmha(ScaleBias)?Softmax(Dropout)?$")
"""Forward passes of cuDNN's attention."""
_ONCE = ("__cub$DeviceRadixSort", "__gpu$TopK")
"""Calls that read and write their tensors and compute nothing."""
_LABELS = re.compile(r"(\w+)_(\w+)->(\w+)$")


def operations_of(each: Instruction, shapes: Sequence[Shape]) -> int:
    """Return the floating-point operations of an instruction, by the shapes of its operands.

    0 for sorts; Unknown for others that are no product, and for calls of other libraries.
    """
    if each.opcode == "dot":
        return _product(_array(shapes[0]), each.array, _dimensions(each))
    if each.opcode == "convolution":
        return _convolved(_array(shapes[0]), _array(shapes[1]), each.array, each.attributes)
    if each.opcode != "custom-call":
        if each.opcode == "sort":
            return 0
        raise Unknown(f"operations of {each.opcode}")
    target = each.attributes.get("custom_call_target", "")
    if target in _ONCE:
        return 0
    if target in _PRODUCTS:
        return _product(_array(shapes[0]), each.leaves[0], _dimensions_of_call(each))
    if _ATTENTION.match(target):
        return _attended(_array(shapes[0]), _array(shapes[1]), _array(shapes[2]), each)
    if target not in _CONVOLUTIONS:
        raise Unknown(f"custom call of {target}")
    first, second, result = _array(shapes[0]), _array(shapes[1]), each.leaves[0]
    # Window and names of dimensions are always those of the forward convolution.
    if target.endswith("BackwardInput"):
        return _convolved(result, second, first, each.attributes)
    if target.endswith("BackwardFilter"):
        return _convolved(first, result, second, each.attributes)
    return _convolved(first, second, result, each.attributes)


def _array(shape: Shape) -> Array:
    if isinstance(shape, tuple):
        raise Unknown("an operand is a tuple")
    return shape


def _product(left: Array, result: Array, contracted: Sequence[int]) -> int:
    depth = math.prod(left.extents[at] for at in contracted)
    return 2 * result.elements * depth if result.floating else 0


def _dimensions(each: Instruction) -> list[int]:
    """Return the dimensions of the left operand that a `dot` sums over."""
    return [int(at) for at in split(each.attributes["lhs_contracting_dims"].strip("{}"))]


def _configured(each: Instruction, library: str) -> Any:
    """Return the configuration of a call, which is JSON, or a string of it in older versions."""
    config: Any = json.loads(each.attributes["backend_config"].replace('\\"', '"'))
    return config.get(library, config)


def _dimensions_of_call(each: Instruction) -> list[int]:
    """Return the dimensions of the left operand that a call of cuBLAS sums over."""
    config = _configured(each, "gemm_backend_config")
    return [int(at) for at in config["dot_dimension_numbers"]["lhs_contracting_dimensions"]]


def _attended(query: Array, key: Array, value: Array, each: Instruction) -> int:
    """Return the operations of both products of an attention's forward pass.

    Under a causal mask, those of the pairs that it leaves. Other masks have no known number.
    """
    config = _configured(each, "cudnn_fmha_backend_config")
    if int(config.get("sliding_window_length", 0)) > 0:
        raise Unknown("attention in a window")
    first, second = config["bmm1_dot_dimension_numbers"], config["bmm2_dot_dimension_numbers"]
    width = math.prod(query.extents[int(at)] for at in first["lhs_contracting_dimensions"])
    keys, values = _rest(key, first), _rest(value, second)
    heads = math.prod(query.extents[int(at)] for at in first["lhs_batch_dimensions"])
    queries = query.elements // max(width * heads, 1)
    pairs = queries * keys
    if config["mask_type"] == "CAUSAL" and queries == keys:
        pairs = queries * (queries + 1) // 2
    elif config["mask_type"] != "NO_MASK":
        raise Unknown(f"attention under {config['mask_type']}")
    return 2 * heads * pairs * (width + values)


def _rest(right: Array, said: Any) -> int:
    """Return the extent of a right operand's dimensions that are neither batch nor summed over."""
    names = ("rhs_batch_dimensions", "rhs_contracting_dimensions")
    out = {int(at) for name in names for at in said[name]}
    return math.prod(extent for at, extent in enumerate(right.extents) if at not in out)


@dataclass(frozen=True, slots=True)
class Window:
    """Windows of a convolution, by dimension of space."""

    sizes: list[int]
    strides: list[int]
    before: list[int]
    """Padding in front of the first element."""
    spread: list[int]
    """Distance of two elements of the input, with what is put between them."""
    dilation: list[int]


def window_of(text: str) -> Window:
    """Parse the attribute of a convolution or window reduction; no sizes where it is empty."""
    said = dict(part.split("=", 1) for part in text.strip("{}").split())
    sizes = [int(each) for each in said["size"].split("x")] if said else []

    def numbers(name: str, otherwise: int) -> list[int]:
        if name not in said:
            return [otherwise] * len(sizes)
        return [int(each.partition("_")[0]) for each in said[name].split("x")]

    return Window(
        sizes,
        numbers("stride", 1),
        numbers("pad", 0),
        numbers("lhs_dilate", 1),
        numbers("rhs_dilate", 1),
    )


def _convolved(image: Array, kernel: Array, result: Array, said: Mapping[str, str]) -> int:
    """Return the operations of a convolution, those on padding left out."""
    labels = _LABELS.match(said["dim_labels"])
    if labels is None:
        raise Unknown("dimensions of a convolution")
    if not result.floating:
        return 0
    of_image = dict(zip(labels[1], image.extents, strict=True))
    of_kernel = dict(zip(labels[2], kernel.extents, strict=True))
    of_result = dict(zip(labels[3], result.extents, strict=True))
    window = window_of(said.get("window", ""))
    count: int = of_result["b"] * of_result["f"] * of_kernel["i"]
    for at, size in enumerate(window.sizes):
        first = np.arange(of_result[str(at)]) * window.strides[at] - window.before[at]
        places = first[:, None] + np.arange(size) * window.dilation[at]
        inside = (places >= 0) & (places <= (of_image[str(at)] - 1) * window.spread[at])
        count *= int((inside & (places % window.spread[at] == 0)).sum())
    return 2 * count
