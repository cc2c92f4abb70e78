"""Let tests that run on a GPU only run: the stand-ins put their tensors on the CPU.

Executed before the tests of a collection are read.
"""

from __future__ import annotations

import os

import torch

os.environ["RUN_TILELANG_SMOKE"] = "1"
torch.cuda.device_count = lambda: 1
torch.cuda.is_available = lambda: True
torch.cuda.reset_peak_memory_stats = lambda *device: None
for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
    setattr(torch.cuda, name, lambda *device: 0)
torch.Tensor.is_cuda = property(lambda tensor: True)
