"""Let tests that run on a GPU only run: the stand-ins put their tensors on the CPU.

Executed before the tests of a collection are read.
"""

from __future__ import annotations

import os

import torch

os.environ["RUN_TILELANG_SMOKE"] = "1"
torch.cuda.device_count = lambda: 1
if "is_cuda" not in vars(torch.Tensor):
    torch.Tensor.is_cuda = property(lambda tensor: True)
