"""Arrays that stand for arguments nobody gave: random, of the same values each time.

In: a shape, an element type, a device.  Out: a NumPy array on the host, a PyTorch tensor on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import from_extra

SEED = 0
_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn", "index": "int64"}
"""PyTorch's names of element types that it calls otherwise."""


def made_array(
    shape: tuple[int, ...], dtype: ir.DType, device: str, random: np.random.Generator
) -> Any:
    """Return normally distributed floats, or integers 0 and 1, which are valid as most indices."""
    if device.startswith("cuda"):
        return _tensor(shape, dtype, device)
    values: Any = (
        random.standard_normal(shape, np.float32)
        if dtype.is_float
        else random.integers(0, 2, shape)
    )
    return values.astype(dtype.to_numpy())


def _tensor(shape: tuple[int, ...], dtype: ir.DType, device: str) -> Any:
    with from_extra("torch"):
        import torch
    generator = torch.Generator(device).manual_seed(SEED)
    name = _TORCH_NAMES.get(dtype.name, dtype.name)
    made = (
        torch.randn(shape, device=device, generator=generator)
        if dtype.is_float
        else torch.randint(0, 2, shape, device=device, generator=generator)
    )
    return made.to(getattr(torch, name))


def moved_array(value: Any, device: str) -> Any:
    """Return a NumPy array as a PyTorch tensor on a GPU, those of ml_dtypes' types too."""
    with from_extra("torch"):
        import torch
    array = np.ascontiguousarray(value)
    name = _TORCH_NAMES.get(array.dtype.name, array.dtype.name)
    raw = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
    return raw.to(device).view(getattr(torch, name)).reshape(array.shape)
