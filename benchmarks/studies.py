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
    "attention": {"length": 150},
    "attention_backward": {"length": 150},
    "attention_varlen": {},
    "chunk_scan": {},
    "flash_attention": {"length": 200, "repeat": 1},
    "fp8_matmul": {},
    "grouped_matmul": {},
    "int4_matmul": {"repeat": 1},
    "matmul": {"m": 300, "n": 200, "k": 100, "repeat": 1},
    "mla_decode": {},
    "paged_attention": {},
    "rms_norm": {"m": 64, "n": 512, "repeat": 1},
    "softmax": {"m": 64, "n": 512, "repeat": 1},
    "sparse_attention": {},
    "vector_add": {"n": 10_000, "repeat": 1},
}
"""Arguments of the `main` of each program of kernels, for the interpreter."""


def study(name: str) -> Any:
    """Return the module of a case study."""
    return importlib.import_module(f"case_studies.{name}")
