"""Attention that is written out: a product, a softmax over its result, and another product.

Static: names of operations: a softmax, and two batched products for each of it, in one function.
Dynamic: their time. A fused kernel (`scaled_dot_product_attention`) keeps the scores on the chip:
what scales, masks and normalises them, and drops some, goes; and the products no longer write and
read them. Half of the first goes for sure; nine tenths of it and a quarter of the products' time
likely; at most all of it and two thirds of the products. No more than a judgement: it has not been
measured on many programs.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.numbers import COLD
from tileprof.analyzer.rules.numbers import EAGER_ATTENTION_BETWEEN, EAGER_ATTENTION_PRODUCTS

_SOFTMAX = re.compile(r"aten::_?(safe_)?softmax$")
_FUNCTIONAL = re.compile(r"^softmax$|^Softmax\.forward$")
"""PyTorch's own functions around the operation, which may be what the attention calls."""
_FORWARD = re.compile(r"aten::(bmm|baddbmm)$")
_PRODUCT = re.compile(r"aten::(bmm|baddbmm)$|BmmBackward0|BaddbmmBackward0")
PRODUCT_NAMES = "gemm|gemv|cutlass|xmma|wgmma|nvjet|conv"
"""Parts of names of libraries' kernels that multiply."""
_OTHERS = re.compile(PRODUCT_NAMES, re.IGNORECASE)
"""Kernels of linear layers in the same function."""
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
    inside = tree.below(functions) & tree.kind("kernel") & (tree.time > 0)
    products = inside & _products(tree)
    linear = tree.where(lambda symbol: bool(_OTHERS.search(symbol.name)))
    parts = (inside & ~products & ~linear, products)
    between, multiplied = (float(tree.time[mask].sum()) for mask in parts)
    share = tree.share(between + multiplied)
    if not functions.any() or share < COLD:
        return
    first = int(np.flatnonzero(inside)[np.argmax(tree.time[inside])])
    text = (
        f"it takes {percent(share)} of {tree.whose}, {percent(tree.share(between))} of it in what"
        " scales, masks and normalises the scores and copies them"
    )
    pairs = zip(EAGER_ATTENTION_BETWEEN, EAGER_ATTENTION_PRODUCTS, strict=True)
    saving = tree.saving(*(part * between + other * multiplied for part, other in pairs))
    yield Draft(
        "suggestion", f"Attention is written out at {tree.told(first)}, not one fused kernel",
        tree.place(first), (Evidence("activities", text),), _ADVICE, "", saving, confidence="low",
        nodes=tuple(np.flatnonzero(inside & ~linear).tolist()),
    )  # fmt: skip


def written_out(tree: Contexts) -> Mask:
    """Lines of functions in which a softmax runs beside two batched products for each of it."""
    softmax = tree.where(lambda symbol: bool(_SOFTMAX.match(symbol.name)))
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
        mates = np.zeros_like(found)
        mates[lines[tree.visit(at)]] = True
        of_products = float(tree.count[tree.below(mates) & products].sum())
        if of_products >= 2 * tree.count[node]:
            found |= mates
    return found


def _products(tree: Contexts) -> Mask:
    """Nodes in batched products, forward or backward."""
    return tree.below(tree.where(lambda symbol: bool(_PRODUCT.search(symbol.name))))


RULE = ProgramRule("attention", find)
