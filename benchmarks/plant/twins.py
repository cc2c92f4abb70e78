"""A case, and the sources of its twins.

In: a kernel's file and changes of its lines.  Out: two texts with the same number of lines at the
same places; the defective one has `# planted` behind the lines that are guilty.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

__all__ = ["FAMILIES", "MARK", "Case", "Kind", "Swap", "frozen_hash", "load"]

KERNELS = Path(__file__).parent / "kernels"
MARK = "  # planted"
Kind = Literal["defect", "decoy", "clean", "compound"]
FAMILIES = {
    "gemm": "GEMM", "gated": "GEMM", "gate_pair": "GEMM", "two_products": "GEMM",
    "batched": "GEMM", "row_bias": "GEMM", "outer": "GEMM", "alibi": "attention",
    "attention": "attention", "softmax": "softmax/norm", "norm": "softmax/norm",
    "layer_norm": "softmax/norm", "balance": "softmax/norm", "cross_entropy": "softmax/norm",
    "add_norm": "softmax/norm", "mu_law": "elementwise", "oscillate": "elementwise",
    "moments": "reduce", "pair_gather": "gather",
    "elementwise": "elementwise", "rounds": "elementwise", "rotary": "elementwise",
    "row_sum": "reduce", "row_top": "reduce", "column_sum": "reduce", "table": "gather",
    "gather": "gather", "transpose": "transpose", "transpose_flat": "transpose",
    "residual": "GEMM", "scores": "GEMM", "w8a8": "GEMM", "causal": "attention",
    "log_softmax": "softmax/norm", "quantise": "softmax/norm", "swiglu": "elementwise",
    "neurons": "elementwise", "cosine": "reduce", "channels_last": "transpose", "bag": "gather",
    "split_k": "GEMM", "retention": "attention", "softmax_grad": "softmax/norm",
    "adam": "elementwise", "matvec": "reduce", "cast_transpose": "transpose", "pages": "gather",
}  # fmt: skip

_LAUNCH = {
    **dict.fromkeys(("small-grid", "tail-wave", "occupancy-limited", "excess-traffic"),
                    ("T.Kernel(",)),
    "wasted-lanes": ("T.Kernel(", "T.gemm("),
    "pipeline-too-shallow": ("T.copy(", "T.gemm(", "T.Pipelined("),
}  # fmt: skip
"""What a rule may name that is about the whole of a launch, or of a loop."""


@dataclass(frozen=True)
class Swap:
    """A change of a text that is in the kernel once."""

    fixed: str
    planted: str
    rule: str = ""
    """In a compound case, the defect that it plants."""


@dataclass(frozen=True)
class Case:
    """A kernel with something planted, or with nothing."""

    kernel: str
    """The name of its file and function."""
    defect: str
    """The rule that has to find it; in decoys the one that must not suggest it."""
    shape: Mapping[str, int]
    swaps: tuple[Swap, ...] = ()
    kind: Kind = "defect"
    base: tuple[Swap, ...] = ()
    """What both twins have other than the file."""
    also: tuple[str, ...] = ()
    """Rules that name the same defect in other words: neither right nor false."""
    controls: Mapping[str, Any] = field(default_factory=dict)
    """Of the defective twin, where the source alone cannot plant it: taken out of the profile
    before it is analysed."""
    at: tuple[str, ...] = ()
    """Pieces of lines where the defect is too, beside those that plant it."""
    static: str = ""
    """What the defective twin's remarks or SASS show and the fixed twin's do not: an expression."""
    why: str = ""

    @property
    def name(self) -> str:
        """`gemm/small-grid/1024x1024x8192`."""
        what = f"{self.kind}-" if self.kind != "defect" else ""
        return f"{self.kernel}/{what}{self.defect}/{'x'.join(map(str, self.shape.values()))}"

    @property
    def family(self) -> str:
        """GEMM, attention, …"""
        return FAMILIES[self.kernel]

    @property
    def functions(self) -> tuple[str, ...]:
        """The kernels' names."""
        return (self.kernel,)

    @property
    def rules(self) -> tuple[str, ...]:
        """What is planted, by rule."""
        if self.kind == "clean":
            return ()
        return (self.defect, *dict.fromkeys(swap.rule for swap in self.swaps if swap.rule))

    @cached_property
    def fixed(self) -> str:
        """The kernel as it should be."""
        return self._swapped((KERNELS / f"{self.kernel}.py").read_text(), self.base)

    @cached_property
    def compiled(self) -> str:
        """What is compiled with the defect: without marks."""
        return "\n".join(line.removesuffix(MARK) for line in self.defective.split("\n"))

    @cached_property
    def defective(self) -> str:
        """The kernel with the defect; its guilty lines are marked."""
        lines = self._swapped(self.fixed, self.swaps).split("\n")
        held = self.fixed.split("\n")
        return "\n".join(new if new == old else new + MARK for new, old in zip(lines, held))

    def _swapped(self, text: str, swaps: tuple[Swap, ...]) -> str:
        """A text with swaps made, one after the other."""
        lines = text.count("\n")
        for swap in swaps:
            if text.count(swap.fixed) != 1:
                raise ValueError(f"{self.name}: {swap.fixed!r} is there {text.count(swap.fixed)}×")
            text = text.replace(swap.fixed, swap.planted)
        if text.count("\n") != lines:
            raise ValueError(f"{self.name}: a swap has to keep the number of lines")
        return text

    @property
    def guilty(self) -> tuple[int, ...]:
        """Numbers of the lines where the defect is: those that plant it, and those it is at."""
        also = (*self.at, *_LAUNCH.get(self.defect, ()))
        lines = enumerate(self.defective.split("\n"), 1)
        return tuple(
            at for at, line in lines if line.endswith(MARK) or any(text in line for text in also)
        )

    def twins(self) -> Iterator[tuple[str, str]]:
        """The name of each twin and its text; a clean kernel has one."""
        if self.swaps or self.controls:
            yield "defective", self.compiled
        yield "fixed", self.fixed


def frozen_hash(cases: Sequence[Case]) -> dict[str, str]:
    """SHA-256, by case, of both sources and of everything that decides how they run."""
    found = {}
    for case in cases:
        facts = (
            case.fixed, case.defective, sorted(case.shape.items()), sorted(case.rules), case.kind,
            case.guilty, sorted(case.also), sorted(case.controls.items()),
        )  # fmt: skip
        found[case.name] = hashlib.sha256(repr(facts).encode()).hexdigest()
    return found


def load(case: Case, text: str, folder: Path) -> Any:
    """The kernel of a text, from a file whose name says nothing of which twin it is."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = folder / digest / f"{case.kernel}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"{case.kernel}_{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, case.kernel)
