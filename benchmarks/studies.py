"""The case studies: their modules, and arguments with which their programs end quickly.

In: the name of a file in `case_studies`.  Out: its module, imported as other files there import it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "case_studies"
QUICK: Mapping[str, Mapping[str, Any]] = {
    "attention": {"length": 150, "heads": 2, "groups": 1},
    "attention_backward": {"length": 150, "heads": 2, "groups": 1},
    "attention_varlen": {"heads": 2, "groups": 1},
    "block_scaled_gemm": {},
    "chunk_scan": {"heads": 2},
    "flash_attention": {"batch": 1, "heads": 2, "length": 200, "repeat": 1},
    "fp8_attention": {"length": 150, "heads": 2, "groups": 1},
    "fp8_matmul": {},
    "grouped_matmul": {},
    "int4_matmul": {"repeat": 1},
    "matmul": {"m": 300, "n": 200, "k": 100, "repeat": 1},
    "mla_decode": {"batch": 1, "keys": 300},
    "paged_attention": {"heads": 8, "groups": 2, "dim": 64},
    "rms_norm": {"m": 64, "n": 512, "repeat": 1},
    "softmax": {"m": 64, "n": 512, "repeat": 1},
    "sparse_attention": {"length": 300, "heads": 2, "groups": 1},
    "vector_add": {"n": 10_000, "repeat": 1},
}
"""Arguments of the `main` of each program of kernels, for the interpreter."""


def study(name: str) -> Any:
    """Return the module of a case study."""
    return importlib.import_module(f"case_studies.{name}")
