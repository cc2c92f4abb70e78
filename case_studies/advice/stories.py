"""What is told: a program each, and the changes that advice may ask for.

In: nothing.  Out: `STORIES`; `chosen`, which finding asks for which change.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tileprof.analyzer import Finding

__all__ = ["FOLDER", "ROOT", "STORIES", "Change", "Story", "chosen", "module_of"]

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


@dataclass(frozen=True)
class Change:
    """A change of a program, and the advice that asks for it."""

    name: str
    """A version of a kernel, or a fix of the training script."""
    rules: tuple[str, ...]
    said: str
    """A piece of the finding's title, which tells findings of one rule apart."""
    text: str
    """What is done, in a sentence."""

    def answers(self, finding: Finding) -> bool:
        """Whether the finding asks for it, with a gain."""
        asked = finding.rule in self.rules and self.said in finding.title
        return asked and finding.severity == "suggestion"


@dataclass(frozen=True)
class Story:
    """A program, and what may be changed."""

    name: str
    title: str
    text: str
    file: str
    """Its module in this folder."""
    gain: Literal["kernel", "program"]
    """Which of a finding's gains is measured."""
    changes: tuple[Change, ...]
    in_order: bool = True
    """Each change is on top of those before; else the report says which comes next."""


STORIES: tuple[Story, ...] = (
    Story(
        "tile", "A kernel of tile code: a product with bias and GELU",
        "The first half of a layer, gelu(X Wᵀ + bias). Weights are float32, as training keeps them,"
        " and the kernel converts a tile of them while it copies; two stages seem enough.",
        "tile_kernel.py", "kernel",
        (
            Change("cast_once", ("missed-async-copy",), "",
                   "Weights are cast once, when they are loaded, and the kernel copies tiles in"
                   " their own type."),
            Change("deeper", ("pipeline-too-shallow",), "", "Four stages instead of two."),
        ),
    ),
    Story(
        "triton", "A kernel of Triton: the loss of a language model and its gradient",
        "A row of 32,000 scores a program. It is launched with as many warps as Triton gives by"
        " default (4), and adds up in float64 for safety.",
        "triton_kernel.py", "kernel",
        (
            Change("more_warps", ("spill-hot",), "",
                   "`num_warps=16`, so that a thread has 64 elements instead of 256."),
            Change("floats", ("slow-math",), "", "Sums in float32: Triton adds up in a tree."),
        ),
    ),
    Story(
        "training", "A training script of PyTorch: a transformer over pictures",
        "A model, a data loader, a log of loss and gradients at each step, an optimizer written"
        " tensor by tensor, and PyTorch's defaults. The report says which change comes next.",
        "training.py", "program",
        (
            Change("tf32", ("precision",), "", "Products of 32-bit floats may use tensor cores."),
            Change("pin", ("transfers",), "pageable",
                   "Batches come from pinned memory, and are copied without waiting."),
            Change("sync", ("transfers",), ".item()",
                   "The log keeps tensors of the device, and reads none of them at each step."),
            Change("fused", ("small-kernels",), "",
                   "PyTorch's fused optimizer takes the place of the one by hand."),
        ),
        in_order=False,
    ),
)  # fmt: skip


def chosen(
    findings: Iterable[Finding], candidates: Sequence[Change]
) -> tuple[Finding, Change] | None:
    """The first finding that asks for one of these changes, and that change; None for none."""
    for finding in findings:
        for change in candidates:
            if change.answers(finding):
                return finding, change
    return None


def module_of(story: Story) -> Any:
    """The story's program, imported only now: not every machine has Triton."""
    return importlib.import_module(f"case_studies.advice.{story.file.removesuffix('.py')}")
