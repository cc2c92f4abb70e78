"""Let a library that asks for a Hopper GPU see one: the stand-ins put its tensors on the CPU.

Executed before the tests of a collection are read.
"""

from __future__ import annotations

import contextlib
import runpy
from pathlib import Path

import tilelang_host
import torch

tilelang_host.as_hopper()
runpy.run_path(str(Path(tilelang_host.__file__).with_name("suites") / "asks_for_gpu.py"))
torch.cuda.device = contextlib.nullcontext
torch.cuda.is_current_stream_capturing = lambda: False
