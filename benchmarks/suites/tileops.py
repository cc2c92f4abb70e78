"""Surroundings of TileOPs' tests beside the stand-ins, as `tilelang_suites.py --setup` runs it.

Their operators ask each tensor whether it is on a GPU, from inside of operators of PyTorch, where
no function mode answers; their kernels without tensor arguments are expected to give tensors; and
markers of their tracing are calls that a pass over TVM's trees takes out before a kernel is built.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import torch
from tileops.trace import markers

from tileprof.lang.compiled import Kernel

markers._emit = lambda *args, **kwargs: None
STATE = torch.zeros(16, dtype=torch.uint8)
ANSWERS = {
    "is_available": True, "device_count": 1, "get_device_name": "NVIDIA H200",
    "manual_seed_all": None, "empty_cache": None, "get_rng_state": STATE, "set_rng_state": None,
}  # fmt: skip
for name, answer in ANSWERS.items():
    mock.patch.object(torch.cuda, name, return_value=answer).start()
mock.patch.object(torch.cuda, "Event", mock.MagicMock()).start()

_cpu, _call = torch.Tensor.cpu, Kernel.__call__


def _to_host(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    made = _cpu(tensor, *args, **kwargs)
    made = made.view_as(made)
    made._on_host = True  # type: ignore[attr-defined]
    return made


def _tensors(kernel: Kernel, *args: Any, **kwargs: Any) -> Any:
    made = _call(kernel, *args, **kwargs)
    several = isinstance(made, tuple)
    held = tuple(_tensor(each) for each in (made if several else (made,)))
    return held if several else held[0]


def _tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


torch.Tensor.is_cuda = property(  # type: ignore[assignment,method-assign]
    lambda tensor: not getattr(tensor, "_on_host", False)
)
torch.Tensor.cpu = _to_host  # type: ignore[assignment,method-assign]
Kernel.__call__ = _tensors  # type: ignore[method-assign]
