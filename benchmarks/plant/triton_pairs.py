"""Pairs of Triton kernels: what is planted in which, without Triton.

In: nothing.  Out: cases, as `twins.Case` has them as far as they are run and scored. A twin is a
function of `triton_cases` and its launch options; its lines are those of that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["CASES", "TritonCase", "Twin"]

SOURCE = Path(__file__).parent / "triton_cases.py"


@dataclass(frozen=True)
class Twin:
    """How a kernel is launched."""

    kernel: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TritonCase:
    """Two launches that do the same work."""

    work: str
    """A function of `triton_cases` that makes inputs, the call and the reference."""
    defect: str
    shape: Mapping[str, int]
    defective: Twin
    fixed: Twin
    at: tuple[str, ...]
    """Pieces of the lines of the defective kernel where the defect is."""
    also: tuple[str, ...] = ()
    why: str = ""
    kind: str = "defect"
    controls: Mapping[str, Any] = field(default_factory=dict)
    family: str = "Triton"

    @property
    def name(self) -> str:
        """`triton-product/small-grid/512x512x8192`."""
        return f"triton-{self.work}/{self.defect}/{'x'.join(map(str, self.shape.values()))}"

    @property
    def rules(self) -> tuple[str, ...]:
        """What is planted."""
        return (self.defect,)

    @property
    def functions(self) -> tuple[str, ...]:
        """The kernels' names."""
        return (self.defective.kernel, self.fixed.kernel)

    @cached_property
    def guilty(self) -> tuple[int, ...]:
        """Lines of the defective kernel, and that of its name."""
        lines = SOURCE.read_text().split("\n")
        start = lines.index(f"def {self.defective.kernel}(")
        end = next(
            at for at, line in enumerate([*lines, ""][start + 1 :], start + 1)
            if line.startswith(("@", "def ")) or at == len(lines)
        )  # fmt: skip
        body = enumerate(lines[start:end], start + 1)
        return tuple(at for at, line in body if any(text in line for text in self.at))

    def twins(self) -> Iterator[tuple[str, Twin]]:
        """Both."""
        yield "defective", self.defective
        yield "fixed", self.fixed


_TILE = {"m": 128, "n": 128, "k": 64, "group": 8, "num_warps": 8, "num_stages": 3}


def _product(defect: str, shape: tuple[int, int, int], bad: Mapping[str, Any],
             good: Mapping[str, Any], at: tuple[str, ...], **more: Any) -> TritonCase:  # fmt: skip
    return TritonCase(
        "product", defect, dict(zip("MNK", shape)), Twin("product", {**_TILE, **good, **bad}),
        Twin("product", {**_TILE, **good}), at, **more,
    )  # fmt: skip


CASES: tuple[TritonCase, ...] = (
    _product("pipeline-too-shallow", (4096, 4096, 4096), {"num_stages": 1}, {},
             ("tl.load", "tl.dot"), also=("missed-async-copy",)),
    _product("spill-hot", (4096, 4096, 4096), {"num_warps": 4}, {"m": 128, "n": 256},
             ("tl.dot", "def product"), also=("wgmma-serialized",)),
    _product("small-grid", (512, 512, 16384), {"m": 128, "n": 128},
             {"m": 64, "n": 32, "num_warps": 4}, ("def product", "tl.program_id")),
    _product("excess-traffic", (4096, 65536, 2048), {"group": 1}, {}, ("tl.program_id", "group")),
    _product("wasted-lanes", (65536, 64, 4096), {"n": 256}, {"n": 64}, ("tl.dot", "columns")),
    TritonCase("product32", "tensor-core-missed", {"M": 2048, "N": 2048, "K": 2048},
               Twin("product", {**_TILE, "k": 32, "precision": "ieee"}),
               Twin("product", {**_TILE, "k": 32, "precision": "tf32"}), ("tl.dot",)),
    TritonCase("scaled", "narrow-access", {"N": 1 << 27},
               Twin("scaled_any", {"block": 1024}), Twin("scaled", {"block": 1024}),
               ("tl.load", "tl.store"), why="The compiler may not know that n divides by 16."),
    TritonCase("copied", "uncoalesced-global", {"M": 8192, "N": 8192},
               Twin("copied_down", {"rows": 64, "columns": 64}),
               Twin("copied", {"rows": 64, "columns": 64}), ("tl.load", "tl.store")),
    TritonCase("softmax", "slow-math", {"M": 8192, "N": 4096},
               Twin("softmax_double", {"block": 4096}), Twin("softmax", {"block": 4096}),
               ("tl.exp",)),
    TritonCase("column_sum", "epilogue-drain", {"M": 16384, "N": 8192},
               Twin("column_sum", {"rows": 16, "columns": 128, "turns": 1}),
               Twin("column_sum", {"rows": 16, "columns": 128, "turns": 64}),
               ("tl.atomic_add",)),
    TritonCase("mixed", "icache-unroll", {"N": 1 << 24},
               Twin("mixed_unrolled", {"block": 4096}), Twin("mixed", {"block": 4096}),
               ("tl.static_range", "x = ", "y = ")),
)  # fmt: skip
