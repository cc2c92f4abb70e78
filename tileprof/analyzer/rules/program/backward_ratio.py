"""Operations whose gradient takes far longer than they do themselves.

Static: none. Dynamic: time on devices of an operation, and of the node of the backward pass that it
made, which hangs below it. A gradient is expected to take as much longer as it has more operations
to do (twice for a product), where the profile knows both; else as it has more bytes to move: it
reads what the operation read and its result's gradient, and writes one more, 3 / 2. Above three
times, and above 1.5 times what is expected, it counts as slow. What only views its input has no
work of its own, so a gradient that copies is all above it, and how much of that a change saves is
not known. Of what is above the expected by operations half goes likely, as kernels of the gradient
need not reach the pace of the operation's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Column, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, percent, plain
from tileprof.analyzer.numbers.shared import COLD, MOST_OF_A_KIND
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.program.gathered_rows import written_out
from tileprof.analyzer.rules.program.numbers import (
    BACKWARD_RATIO_ABOVE,
    BACKWARD_RATIO_BY_BYTES,
    BACKWARD_RATIO_SLOW,
)
from tileprof.profile import DEVICE_WORK, Symbol

_VIEWS = re.compile(
    r"aten::(_unsafe_)?(view|reshape|_reshape_alias|permute|transpose|t|unbind|select|slice|split"
    r"|split_with_sizes|chunk|narrow|squeeze|unsqueeze|flatten|unflatten|movedim|as_strided"
    r"|diagonal|alias|unfold)"
)
_COMPILED = "CompiledFunction"
_VIEW = (
    "The view itself costs nothing, but its gradient is copied into one tensor. Let the next"
    " operation take the whole tensor (for example packed queries, keys and values), or split it"
    " with one operation, in the layout that the previous operation produces."
)
_PRODUCT = (
    "See which kernels its gradient runs: matrix products with transposed operands may get slower"
    ' ones (see what torch.compile with mode="max-autotune" chooses), and a bias adds a sum over'
    " all rows."
)
_GRADIENT = (
    "See which kernel its gradient runs: gathers add up their gradients by sorting or by atomic"
    " additions (a product with one-hot rows, or fewer indices, may be faster;"
    " torch.use_deterministic_algorithms makes them slower); for others write the backward pass as"
    " one fused function, or let torch.compile do so."
)


@dataclass
class _Op:
    """The visits of an operation at a line of the user's."""

    node: int
    views: bool
    """Whether it makes but a view of its input."""
    forward: float = 0.0
    backward: float = 0.0
    flops: list[float] = field(default_factory=lambda: [0.0, 0.0])
    kernels: dict[int, float] = field(default_factory=dict)
    gradients: list[int] = field(default_factory=list)
    """Their nodes."""

    @property
    def expected(self) -> float:
        """Times that the gradient takes of the operation's time."""
        if self.views and not self.forward:
            return 0.0
        return self.flops[1] / self.flops[0] if all(self.flops) else BACKWARD_RATIO_BY_BYTES

    @property
    def excess(self) -> float:
        return max(0.0, self.backward - self.expected * self.forward)

    @property
    def slow(self) -> bool:
        if not self.views and not self.forward:
            return False  # where its own time is not known, there is no ratio
        return (
            self.backward
            > max(BACKWARD_RATIO_SLOW, BACKWARD_RATIO_ABOVE * self.expected) * self.forward
        )


def find(program: Program) -> Iterator[Draft]:
    """The operations whose gradients take the most time above what is expected."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    slow = [each for each in _operations(tree) if each.slow and each.excess > 0]
    for each in sorted(slow, key=lambda op: -op.excess)[:MOST_OF_A_KIND]:
        if tree.share(each.excess) >= COLD:
            yield _draft(tree, each)


def _operations(tree: Contexts) -> Iterator[_Op]:
    """Operations with gradients, those of one name and line together."""
    gradients = _gradients(tree)
    makers = np.zeros(len(tree.profile), bool)
    makers[tree.parents[gradients]] = True
    forward, backward = _sums(tree, makers, ~tree.backward), _sums(tree, gradients, tree.backward)
    found = dict[tuple[str, object], _Op]()
    longest = _longest_kernels(tree, gradients)
    for gradient in np.flatnonzero(gradients).tolist():
        maker = int(tree.parents[gradient])
        line = tree.line(maker)
        key = (tree.profile.names[maker], (line.file, line.line) if line else None)
        op = found.setdefault(key, _Op(maker, bool(_VIEWS.fullmatch(key[0]))))
        op.backward += backward["time"][gradient]
        op.flops[1] += backward["flops"][gradient]
        op.forward += forward["time"][maker]
        op.flops[0] += forward["flops"][maker]
        forward["time"][maker] = forward["flops"][maker] = 0.0  # once, of several gradients
        if gradient in longest:
            op.kernels[longest[gradient]] = float(tree.time[longest[gradient]])
        op.gradients.append(gradient)
    yield from found.values()


def _gradients(tree: Contexts) -> Mask:
    """Nodes of the backward pass right below what made them.

    Not where a checkpoint has its forward pass run again within one of them, nor of what was
    compiled, whose parts are not known, nor of gathered rows, of which `fusion` tells.
    """
    backward = tree.backward & tree.kind("op")
    above = np.maximum(tree.parents, 0)
    made = backward & (tree.parents >= 0) & tree.kind("op")[above] & ~tree.backward[above]
    for each in written_out(tree):
        made &= ~tree.below(each.operations)
    return made & ~tree.below(tree.where(_has_no_ratio))


def _has_no_ratio(symbol: Symbol) -> bool:
    place = symbol.location
    again = place is not None and place.file.replace("\\", "/").endswith("utils/checkpoint.py")
    return again or (symbol.kind == "op" and symbol.name.startswith(_COMPILED))


def _sums(tree: Contexts, around: Mask, counted: Mask) -> dict[str, Column]:
    """By node of `around`, what is in it, and in no other one of them, of what is counted."""
    at = tree.nearest(around)
    counted = counted & ~tree.compiling
    columns = (("time", tree.time), ("flops", tree.own("flops")))
    return {name: tree.summed(column, at, counted) for name, column in columns}


def _longest_kernels(tree: Contexts, gradients: Mask) -> dict[int, int]:
    """By gradient, the kernel in it that takes the most time."""
    at, found = tree.nearest(gradients), dict[int, int]()
    for node in np.flatnonzero(tree.kind("kernel", "memcpy") & (at >= 0)).tolist():
        gradient = int(at[node])
        if gradient not in found or tree.time[node] > tree.time[found[gradient]]:
            found[gradient] = node
    return found


def _draft(tree: Contexts, op: _Op) -> Draft:
    name = tree.profile.names[op.node]
    times = f"{duration(op.backward)} backward and {duration(op.forward)} forward"
    told = percent(tree.share(op.backward))
    text = f"{times}: {told} of {tree.whose} is the backward part"
    evidence = [Evidence("activities", text)]
    if op.kernels:
        longest = max(op.kernels, key=lambda node: op.kernels[node])
        text = f"most of it in the kernel {plain(tree.profile.names[longest])}"
        evidence.append(Evidence("activities", text))
    inside = tree.below(tree.of(op.gradients)) & tree.kind(*DEVICE_WORK)
    nodes = nodes_of(inside)
    if not op.expected:
        saving = tree.saving(0, op.excess / 2, op.excess)
        return Draft(
            "suggestion", f"the gradient of {name} copies data, although a view is free",
            tree.place(op.node), tuple(evidence), _VIEW, "", saving, confidence="low", nodes=nodes,
        )  # fmt: skip
    by = "operations" if all(op.flops) else "bytes"
    evidence.append(Evidence("activities", f"the number of {by} suggests {op.expected:.1f} times"))
    low, high = (
        max(0.0, op.backward - times * op.forward)
        for times in (max(BACKWARD_RATIO_SLOW, BACKWARD_RATIO_ABOVE * op.expected), op.expected)
    )
    title = f"the gradient of {name} takes {op.backward / op.forward:.1f} times its forward time"
    mid, advice = ((low + high) / 2, _PRODUCT) if all(op.flops) else (high, _GRADIENT)
    return Draft("suggestion", title, tree.place(op.node), tuple(evidence), advice, "",
                 tree.saving(low, mid, high), nodes=nodes)  # fmt: skip


RULE = ProgramRule("backward-ratio", find)
