"""Attention written as separate operations: a product, a softmax of its result, another product.

Static: names of operations: a softmax, and two batched products for each of it, in one function;
at the top of a module, where lines of all kinds stand side by side, those from the first of these
operations to the last. What runs inside of `scaled_dot_product_attention` is not written out,
however PyTorch computes it.
Dynamic: their time. A fused kernel (`scaled_dot_product_attention`) keeps the scores on the chip:
what scales, masks and normalises them, and drops some, goes; and the products no longer write and
read them. Half of the first goes for sure; nine tenths of it and a quarter of the products' time
likely; at most all of it and two thirds of the products. Products of 32-bit floats likely take as
long as before: flash attention does not take them, and PyTorch's other kernel rounds each pair to
three products on tensor cores, by instructions of older GPUs. No more than a judgement: it has not
been measured on many programs.

Where launches come late, it is the host that gains: of n launches of an attention one is left in
the forward pass, and two of each of its operations' gradients together, so (n - 1) / n of the gaps
before them go, as far as they are there without a recording, and (n - 2) / n in the backward pass.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import LATE, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.convolutions import rounds_to_tf32
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.precision import plain_products
from tileprof.analyzer.rules.program.numbers import (
    EAGER_ATTENTION_BETWEEN,
    EAGER_ATTENTION_LAUNCHES,
    EAGER_ATTENTION_PRODUCTS,
)

_SOFTMAX = re.compile(r"aten::_?(safe_)?softmax$")
_FUNCTIONAL = re.compile(r"^softmax$|^Softmax\.forward$")
"""PyTorch's own functions around the operation, which may be what the attention calls."""
_FORWARD = re.compile(r"aten::(bmm|baddbmm)$")
_PRODUCT = re.compile(r"aten::(bmm|baddbmm)$|BmmBackward0|BaddbmmBackward0")
PRODUCT_NAMES = "gemm|gemv|cutlass|xmma|wgmma|nvjet|conv"
"""Parts of names of libraries' kernels that multiply."""
_OTHERS = re.compile(PRODUCT_NAMES, re.IGNORECASE)
"""Kernels of linear layers in the same function."""
_FUSED = re.compile(r"aten::_?scaled_dot_product")
_MODULE = "<module>"
_ADVICE = (
    "Use torch.nn.functional.scaled_dot_product_attention, with is_causal=True in place of a causal"
    ' mask (attn_implementation="sdpa" in Hugging Face models): one kernel that never writes the'
    " scores."
)


def find(program: Program) -> Iterator[Draft]:
    """All functions that do so, together."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    functions = written_out(tree)
    # Kernels of PyTorch's operations in these lines, not of other functions that they call.
    around = tree.nearest(tree.users | functions)
    inside = (around >= 0) & functions[around] & (tree.ops >= 0)
    inside &= tree.kind("kernel") & (tree.time > 0)
    products = inside & _products(tree)
    linear = tree.where(lambda symbol: bool(_OTHERS.search(symbol.name)))
    parts = (inside & ~products & ~linear, products)
    between, multiplied = (float(tree.time[mask].sum()) for mask in parts)
    share = tree.share(between + multiplied)
    of_attention = inside & ~linear
    gaps, late = _late(tree, of_attention, functions)
    if not functions.any() or share + tree.share(late) < COLD:
        return
    first = int(np.flatnonzero(inside)[np.argmax(tree.time[inside])])
    text = (
        f"it takes {percent(share)} of {tree.whose}, {percent(tree.share(between))} of it in what"
        " scales, masks and normalises the scores and copies them"
    )
    evidence = [Evidence("activities", text)]
    if late:
        lost = (
            f"another {percent(tree.share(late))} is lost in gaps before launches that would "
            f"disappear"
        )
        evidence += [Evidence("activities", lost), Evidence("activities", tree.recording)]
    pairs = zip(EAGER_ATTENTION_BETWEEN, EAGER_ATTENTION_PRODUCTS, strict=True)
    low, mid, high = (part * between + other * multiplied for part, other in pairs)
    plain = {case.name for case in plain_products(program)}
    wide = tree.where(lambda symbol: symbol.name in plain or rounds_to_tf32(symbol.name))
    mid -= EAGER_ATTENTION_PRODUCTS[1] * float(tree.time[products & wide].sum())
    likely = tree.unrecorded * late
    yield Draft(
        "suggestion", f"Attention is written as separate operations at {tree.told(first)}, not as "
        "one fused kernel",
        tree.place(first), tuple(evidence), _ADVICE, "",
        tree.saving(low, mid + likely, high + late, likely, late), confidence="low",
        nodes=nodes_of(of_attention), gaps=nodes_of(gaps),
    )  # fmt: skip


def _late(tree: Contexts, kernels: Mask, functions: Mask) -> tuple[Mask, float]:
    """Gaps before late launches of attention, and the time of those whose launches go, ns."""
    gaps = tree.idle(LATE) & ~tree.compiling & tree.beside(kernels)
    softmax = tree.where(lambda symbol: bool(_SOFTMAX.match(symbol.name))) & tree.below(functions)
    often = float(tree.count[tree.outermost(softmax) & ~tree.backward].sum())
    goes, called = 0.0, tree.backward[np.maximum(tree.parents, 0)]
    for backward, left in zip((False, True), EAGER_ATTENTION_LAUNCHES, strict=True):
        of_pass = called == backward
        launches = float(tree.count[kernels & of_pass & tree.kind("kernel")].sum())
        part = max(0.0, 1 - left * often / launches) if launches else 0.0
        goes += part * tree.avoidable(gaps & of_pass)
    return gaps, goes


def written_out(tree: Contexts) -> Mask:
    """Lines of functions in which a softmax runs beside two batched products for each of it."""
    softmax = tree.where(lambda symbol: bool(_SOFTMAX.match(symbol.name)))
    softmax &= ~tree.below(tree.where(lambda symbol: bool(_FUSED.match(symbol.name))))
    found = np.zeros_like(softmax)
    if not softmax.any():
        return found
    frames = tree.kind("frame", "scope")
    around = tree.nearest(frames)
    lines = dict[Hashable, list[int]]()
    for node in np.flatnonzero(frames).tolist():
        lines.setdefault(tree.visit(node), []).append(node)
    products = tree.where(lambda symbol: bool(_FORWARD.match(symbol.name)))
    for node in np.flatnonzero(softmax & (around >= 0)).tolist():
        at = int(around[node])
        if _FUNCTIONAL.search(tree.profile.names[at]) and tree.parents[at] >= 0:
            at = int(around[tree.parents[at]])
        if at < 0:
            continue
        visit = lines[tree.visit(at)]
        if tree.profile.names[at] == _MODULE:
            visit = _between(tree, at, visit, products)
        mates = np.zeros_like(found)
        mates[visit] = True
        of_products = float(tree.count[tree.below(mates) & products].sum())
        if of_products >= 2 * tree.count[node]:
            found |= mates
    return found


def _between(tree: Contexts, softmax: int, lines: list[int], products: Mask) -> list[int]:
    """Return those of a module's lines that run from its first product or softmax to the last.

    Products in functions that the module calls do not count: they are no lines beside the softmax.
    """
    around = tree.nearest(tree.users)[products]
    number = {
        line: place.line for line in lines if (place := tree.profile.locations[line]) is not None
    }
    ends = [number[line] for line in (softmax, *around.tolist()) if line in number]
    return [line for line in lines if min(ends) <= number.get(line, 0) <= max(ends)]


def _products(tree: Contexts) -> Mask:
    """Nodes in batched products, forward or backward."""
    return tree.below(tree.where(lambda symbol: bool(_PRODUCT.search(symbol.name))))


RULE = ProgramRule("attention", find)
