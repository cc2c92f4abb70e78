"""A recurrence written as a loop: a small cell, called repeatedly with its own result.

Static: the text of the program, as the profile keeps it: a `for` loop in a function calls always
the same function with a name that it assigns the result to, or assigns a name a formula that
multiplies it, so iterations cannot run together. Layers in a loop are called by the loop's own name
and are no recurrence. A loop that chooses from each result, as decoding does, has its own advice:
there is no sequence to give to one call. Of that and of formulas no gain is stated: what replaces
them was not measured. Dynamic: operations of that call run
many times in a visit of the function around the loop; their time. On the host what is not products
is mostly the beginning and the end of operations, and likely goes; PyTorch's own cell takes a
twentieth of the loop's time at best; a cell that it does not have may stay as it is. On devices
`small-kernels` and `launch-bound` have the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.program.calls import Carried, carried
from tileprof.analyzer.program.training_steps import is_engine
from tileprof.analyzer.rules.program.numbers import (
    RECURRENCE_MOST,
    RECURRENCE_SHARE,
    RECURRENCE_TURNS,
    SMALL_KERNELS_SHORT,
)

_PRODUCT = re.compile(r"mm\b|Mm|matmul|linear|conv", re.IGNORECASE)
_ADVICE = (
    "Give the whole sequence to one call, where the cell is one that PyTorch has (nn.LSTM, nn.GRU);"
    " else multiply the inputs of all iterations at once before the loop, and compile the cell"
    " (torch.compile){graph}."
)
_GRAPH = ", or capture the loop in a CUDA graph"
_SCAN = (
    "Compute all iterations together, as a scan (torch.cumsum and torch.cumprod, or"
    " torch.associative_scan where the formula is linear in {name}), by a library's kernel, or"
    " compile the loop (torch.compile){graph}."
)
_CHOICE = re.compile(r"aten::(topk|argmax|multinomial)$")
_DECODE = (
    "An iteration waits for what the one before chose ({choice}), so a sequence's iterations cannot"
    " run together. Work on more sequences in one batch, keep the choice on the device (no int(),"
    " .item() or .tolist() in the loop), and compile an iteration with inputs of fixed size"
    " (torch.compile){graph}."
)


def find(program: Program) -> Iterator[Draft]:
    """Each such loop."""
    tree = Contexts(program)
    for file, text in tree.texts.items():
        for loop in carried(text):
            yield from _find(tree, file, loop)


def _find(tree: Contexts, file: str, loop: Carried) -> Iterator[Draft]:
    lines = _lines(tree, file, loop.line, loop.line)
    if not lines.any():
        return
    body = _lines(tree, file, loop.head, loop.last)
    inside = tree.below(lines if loop.is_call else body)
    if (inside & tree.where(is_engine)).any():
        return  # It takes gradients, as a training step does that returns the new parameters.
    functions = {int(tree.parents[node]) for node in np.flatnonzero(lines).tolist()}
    beside = np.isin(tree.parents, list(functions)) & _lines(tree, file, 0, 2**31)
    beside &= ~body
    turns, visits = _often(tree, tree.below(lines)), _often(tree, tree.below(beside))
    # What runs once is no step.
    if visits <= 1 or turns < RECURRENCE_TURNS * visits:
        return
    operations = tree.outermost(tree.kind("op") & inside & ~tree.backward)
    every = sum(
        _often(tree, tree.below(tree.of([node]))) for node in np.flatnonzero(lines).tolist()
    )
    count = float(tree.count[operations].sum())
    runs = "runs" if loop.is_call else "is computed"
    what = (
        f"{loop.call} {runs} {turns / visits:,.0f} times in a visit of the loop in line"
        f" {loop.head}, {count / every:,.0f} operations each, one iteration after the other"
    )
    node = int(np.flatnonzero(lines)[0])
    small = f"{turns / visits:,.0f} small iterations at {tree.told(node)}"
    body &= np.isin(tree.parents, list(functions))
    chosen = tree.below(body) & tree.where(lambda each: bool(_CHOICE.match(each.name)))
    title, advice = f"a recurrence of {small}", _ADVICE
    if chosen.any():
        choice = tree.profile.names[int(np.flatnonzero(chosen)[0])]
        title, advice = f"a loop that decodes in {small}", _DECODE.replace("{choice}", choice)
    elif not loop.is_call:
        advice = _SCAN.replace("{name}", loop.call)
    measured = loop.is_call and not chosen.any()
    for draft in _draft(tree, inside, node, title, what, advice):
        yield draft if measured else replace(draft, severity="symptom", saving=None)


def _draft(
    tree: Contexts, inside: Mask, node: int, title: str, what: str, advice: str
) -> Iterator[Draft]:
    evidence = Evidence("activities", what)
    if tree.time.any():
        kernels = inside & tree.kind("kernel") & (tree.time > 0)
        time, launches = float(tree.time[kernels].sum()), float(tree.count[kernels].sum())
        if not launches or time >= SMALL_KERNELS_SHORT * launches:
            return
        if tree.share(time) < RECURRENCE_SHARE:
            return
        text = (
            f"its kernels take {duration(time / launches)} each, {percent(tree.share(time))} of"
            f" {tree.whose}"
        )
        yield Draft("symptom", title, tree.place(node), (evidence, Evidence("activities", text)),
                    advice.format(graph=_GRAPH))  # fmt: skip
        return
    host = tree.program.host
    products = tree.below(
        tree.where(lambda each: each.kind == "op" and bool(_PRODUCT.search(each.name)))
    )
    whole, rest = (float(host.column[mask].sum()) for mask in (inside, inside & ~products))
    if not host.whole or rest < RECURRENCE_SHARE * host.whole:
        return
    text = (
        f"it takes {percent(whole / host.whole)} of {host.whose}, {percent(rest / host.whole)} in"
        " operations other than matrix products"
    )
    likely, most = (each / host.whole for each in (rest, RECURRENCE_MOST * whole))
    yield Draft(
        "suggestion", title, tree.place(node), (evidence, Evidence("activities", text)),
        advice.format(graph=""), "", Saving(0, min(likely, most), most), confidence="low",
    )  # fmt: skip


def _lines(tree: Contexts, file: str, first: int, last: int) -> Mask:
    """Frames in these lines of a file."""
    return tree.where(
        lambda each: (
            each.kind == "frame"
            and each.location is not None
            and each.location.file == file
            and first <= each.location.line <= last
        )
    )


def _often(tree: Contexts, inside: Mask) -> float:
    """Number of times that a place ran: the least count of its outermost forward operations."""
    operations = tree.outermost(tree.kind("op") & inside & ~tree.backward)
    counts = tree.count[operations]
    return float(np.min(counts)) if len(counts) else 0.0


RULE = ProgramRule("recurrence", find)
