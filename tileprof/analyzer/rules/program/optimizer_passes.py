"""An optimizer that passes over its parameters once per operation.

Static: names of the operations of a step (`aten::_foreach_…`). Dynamic: their time. Each of them
reads and writes whole lists of tensors, so its time is its number of passes over memory; a fused
optimizer reads parameter, gradient and states and writes parameter and states once. The time of one
pass is that of all operations by all their passes; a tenth more or less is the range, and a fused
kernel may be a third slower than its passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.fixes import OptimizerForm
from tileprof.analyzer.rules.program.numbers import (
    OPTIMIZER_PASSES_COLD,
    OPTIMIZER_PASSES_SLOWER,
    OPTIMIZER_PASSES_UNSURE,
)
from tileprof.profile import Symbol


@dataclass(frozen=True)
class _Form:
    """An optimizer of PyTorch: tensors that are read or written for each parameter."""

    name: str
    fused: int
    """By its fused form: parameter, gradient and states read, parameter and states written."""
    passes: Mapping[str, int]
    """By each operation of its steps on lists of tensors."""


_MOMENTS = {"lerp": 3, "mul": 2, "addcmul": 3, "sqrt": 2, "div": 2, "add": 2, "addcdiv": 4}
_FORMS = (
    _Form("AdamW", 7, _MOMENTS),
    _Form("Adam", 7, _MOMENTS),
    _Form("Adagrad", 5, {"addcmul": 3, "sqrt": 2, "add": 2, "mul": 2, "addcdiv": 4}),
    _Form("SGD", 5, {"mul": 2, "add": 3}),
)
"""As torch.optim of PyTorch 2.11 works on lists (`foreach`), 2026-11."""
_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")
_LIST = re.compile(r"aten::_foreach_([a-z]+)")


def find(program: Program) -> Iterator[Draft]:
    """Each kind of optimizer that has a fused form and does not use it."""
    tree = Contexts(program)
    for form in _FORMS:
        yield from _find(tree, form)


def _find(tree: Contexts, form: _Form) -> Iterator[Draft]:
    def is_step(symbol: Symbol) -> bool:
        found = _STEP.match(symbol.name)
        return found is not None and found[1] == form.name

    steps = tree.outermost(tree.where(is_step))
    kernels = np.flatnonzero(tree.below(steps) & tree.kind("kernel") & (tree.time > 0))
    operations = dict[int, int]()
    for node in kernels.tolist():
        found = _LIST.match(tree.op(node))
        if found is not None and found[1] in form.passes:
            operations[int(tree.ops[node])] = form.passes[found[1]]
    visits = float(tree.count[steps].sum())
    if not operations or not visits:
        return
    passes = sum(each * float(tree.count[op]) / visits for op, each in operations.items())
    nodes = [node for node in kernels.tolist() if int(tree.ops[node]) in operations]
    time = float(tree.time[nodes].sum())
    if passes <= form.fused or tree.share(time) < OPTIMIZER_PASSES_COLD:
        return
    left = form.fused / passes
    text = (
        f"its operations read and write {passes:.0f} tensors for each parameter, a fused step"
        f" {form.fused}; they take {percent(tree.share(time))} of {tree.whose}"
    )
    parts = (
        max(0.0, 1 - slower * left)
        for slower in (OPTIMIZER_PASSES_SLOWER, OPTIMIZER_PASSES_UNSURE, 1.0)
    )
    saving = tree.saving(*(time * part for part in parts))
    first = max(nodes, key=lambda node: float(tree.time[node]))
    title = f"{form.name} passes over its parameters in {len(operations)} operations instead of one"
    advice = f"Pass fused=True to torch.optim.{form.name}: one kernel does the whole step."
    evidence = (Evidence("activities", text),)
    yield Draft("suggestion", title, tree.place(first), evidence, advice, "", saving,
                nodes=tuple(nodes), fixes=(OptimizerForm("fused", form.name),))  # fmt: skip


RULE = ProgramRule("optimizer-passes", find)
