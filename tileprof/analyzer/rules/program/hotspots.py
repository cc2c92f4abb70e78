"""Lines that take most of the host's time, in a program without timed devices.

Static: none; so these are symptoms. Dynamic: the host's time by the user's lines, operations and
scopes, each with the innermost one that it is in, so that nothing counts twice. What faster parts
would be worth is Amdahl's law, 1 / (1 - p (1 - 1 / k)) for a part p of the time that becomes k
times as fast (AFIPS 1967), a table and no promise.

Where several threads ran, shares are of the wall time, and gains are at most what the other threads
leave of it (`analyzer/program/threads.py`).

Where devices were timed this rule reports nothing: the account says where their time goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Column, Contexts, Ids, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.fixes import CHANNELS_LAST, Fix, OptimizerForm, compiled_at
from tileprof.analyzer.numbers.reports import NOISE
from tileprof.analyzer.numbers.shared import MOST_OF_A_KIND
from tileprof.analyzer.program.masks import inclusive
from tileprof.analyzer.program.threads import WAITS_FOR_THREADS
from tileprof.analyzer.program.training_steps import is_engine
from tileprof.analyzer.rules.program.numbers import (
    HOTSPOTS_ALL,
    HOTSPOTS_EVERYTHING,
    HOTSPOTS_HOT,
    HOTSPOTS_LEAST_OF_HOST,
    HOTSPOTS_THE_SAME,
    HOTSPOTS_TIMES,
    HOTSPOTS_WAITING,
    HOTSPOTS_WAITS,
)
from tileprof.profile import Symbol, is_installed, optimizers_work
from tileprof.profile.node_names import OPTIMIZER_SCOPE

_ADVICE = {
    "op": (
        "Start with this operation: ask whether it must run this often, and on this many "
        "elements; then whether another operation, dtype or layout, or a GPU, does the same in "
        "less time."
    ),
    "scope": "Start with this scope: see which operations and lines in it take the time.",
}
_ADVICE_FOR_LINES = (
    "Start with this line: its Python code, and what it calls outside of PyTorch's operations,"
    " takes the time."
)
_ADVICE_WITHOUT_OPERATIONS = (
    "Start with this line: its Python code, and the libraries that it calls, take the time."
)
_BELOW = " `tileprof view` shows the functions below it."
_NOTHING_BELOW = " Written over several lines, it would show which of its calls takes the time."

_ADVICE_FOR_OPTIMIZERS = (
    "This is the optimizer's own work. Pass fused=True to torch.optim.{0}: one pass over the"
    " parameters does the whole step; `tileprof try` compares results and times."
)
_SETS = re.compile(r"::(uniform|normal|zero|fill|erfinv)_$")
"""Names of operations that give parameters their first values."""
_ADVICE_FOR_PARAMETERS = (
    "This gives a model's parameters their first values, once. Where a checkpoint replaces them,"
    ' make the model under torch.device("meta") and load with assign=True; else leave it.'
)
_ADVICE_FOR_ENGINE = (
    "PyTorch's backward engine takes this time between its operations: it passes on from one small"
    " operation to the next, or waits in hooks, as DistributedDataParallel has them to exchange"
    " gradients with other processes."
)
_ADVICE_FOR_CONVOLUTIONS = (
    " For convolutions, the memory format channels_last may be faster:"
    " model.to(memory_format=torch.channels_last), the input too; `tileprof try` compares results"
    " and times."
)
_ADVICE_FOR_LOADERS = (
    "The program waits for its loader's workers here. Give it more of them (num_workers), keep them"
    " from epoch to epoch (persistent_workers=True: each start imports the program's libraries"
    " again), or make each item cheaper."
)
_NO_GAIN = "a faster one gains nothing: the program ends when its other threads do"
_LEAVE = "Leave it: first shorten what the other threads do meanwhile."
_WORKERS = re.compile(r"enumerate\(.*\)#_MultiProcessing")
"""Scope in which a program waits for processes that load its data, as PyTorch names it."""
_LOADS = re.compile(r"enumerate\(.*\)#_SingleProcess")
"""Scope in which a program loads its data itself: `loader` says what that is worth."""
_WAITS = (
    (
        re.compile(r"(multiprocessing/\w+|concurrent/futures/process|subprocess)\.py$"),
        "The program waits here for its worker processes. Each of them has its own file, which the"
        " last message of the run names: view them together.",
    ),
    (
        WAITS_FOR_THREADS,
        "The program waits here for its other threads: they take the time.",
    ),
    (
        re.compile(r"selectors\.py$"),
        "The program waits here for its sockets and timers: none of its own code runs.",
    ),
    (
        re.compile(r"jax/_src/array\.py$"),
        "The program waits here for results of JAX, whose functions return before their work is"
        " done. The time is that of the compiled functions that were called before.",
    ),
)
"""Files of libraries that wait, or call what waits, and what that says of the line that calls them;
the first that matches."""
_OPTIMIZER = re.compile(rf"{OPTIMIZER_SCOPE}(Adam|AdamW|SGD|Adagrad)\.step")
"""Steps of the optimizers of PyTorch that have a fused form."""
_FUSED_STEP = re.compile(r"aten::_fused_")
_STEP = re.compile(OPTIMIZER_SCOPE)
_CONVOLUTION = re.compile(r"convolution|conv2d", re.IGNORECASE)
_PRODUCT = re.compile(r"mm$|matmul|linear|bmm|MmBackward|attention|lstm|gru", re.IGNORECASE)
"""Operations that a library does as a whole, so that compiling what is around them changes little.
"""


@dataclass(frozen=True, eq=False)
class _Hot:
    kind: str
    name: str
    inside: Mask
    """What is in it and in no other one of its kind."""
    time: float
    count: float
    node: int
    """Where most of it is."""


def find(program: Program) -> Iterator[Draft]:
    """The places with the most of the host's time; none where devices were timed."""
    tree = Contexts(program)
    if tree.time.any():
        return
    # Trials and compiling are told by `compiling`.
    time = program.host.column * np.where(tree.compiling, 0.0, 1.0)
    told: list[_Hot] = []
    for kind, at in _kinds(tree):
        for each in _hottest(tree, kind, at, time):
            if not _stands_for(told, each, time, program.host.whole):
                told.append(each)
    threads = program.host.threads
    if threads.several:
        told.sort(
            key=lambda hot: (
                _only_surrounds(tree, hot),
                -threads.gain(hot.inside, np.inf),
                -hot.time,
            )
        )
    else:
        told.sort(key=lambda hot: (_only_surrounds(tree, hot), -hot.time))
    for each in told:
        yield _draft(tree, each, time)


def _kinds(tree: Contexts) -> Iterator[tuple[str, Ids]]:
    """Kinds of places, and by node the innermost place of the kind around it; -1 for none."""
    updates = optimizers_work(tree.profile)
    # Of an optimizer that can be fused the whole step counts: it is one pass over the parameters.
    yield "op", np.where(tree.below(_to_fuse(tree)) & updates, -1, tree.ops)
    yield "line", np.where((tree.ops >= 0) | _in_scope_of_line(tree), -1, tree.lines)
    steps = tree.where(lambda symbol: bool(_STEP.match(symbol.name)))
    closures = (tree.scopes >= 0) & steps[tree.scopes] & ~updates
    yield "scope", np.where(closures, -1, tree.scopes)


def _to_fuse(tree: Contexts) -> Mask:
    """Return steps of optimizers that have a fused form and do not use it yet."""
    fused = tree.where(lambda symbol: bool(_FUSED_STEP.match(symbol.name)))
    steps = tree.where(lambda symbol: bool(_OPTIMIZER.match(symbol.name)))
    found: Mask = steps & (inclusive(tree.profile, fused.astype(np.float64)) == 0)
    return found


def _in_scope_of_line(tree: Contexts) -> Mask:
    """Nodes in a scope that the line around them has opened: the scope is the closer place."""
    scope = tree.scopes
    inside: Mask = (scope >= 0) & (tree.lines[scope] == tree.lines) & (scope != tree.lines)
    return inside


def _hottest(tree: Contexts, kind: str, at: Ids, time: Column) -> Iterator[_Hot]:
    host, sums = tree.program.host, tree.summed(time, at, at >= 0)
    by_name = dict[str, list[int]]()
    for node in np.flatnonzero((sums > 0) & ~host.step_scopes).tolist():
        name = tree.told(node) if kind == "line" else tree.profile.names[node]
        by_name.setdefault(name, []).append(node)
    times = {name: float(sums[nodes].sum()) for name, nodes in by_name.items()}
    shares = {name: time / host.whole for name, time in times.items()} if host.whole else {}
    if host.threads.several:
        # A place where one thread is all the while counts as much as one where 200 are.
        shares = {
            name: host.threads.in_part(np.isin(at, nodes))[0] / host.threads.wall
            for name, nodes in by_name.items()
        }
    order = sorted(shares, key=lambda each: (-shares[each], -times[each]))
    for rank, name in enumerate(order[:MOST_OF_A_KIND]):
        least = HOTSPOTS_LEAST_OF_HOST if kind == "op" and not rank else HOTSPOTS_HOT
        if shares[name] >= least:
            nodes = by_name[name]
            most = max(nodes, key=lambda node: float(sums[node]))
            own = np.isin(at, nodes)
            # A line is a place of Python, and nobody counted how often it ran.
            count = 0.0 if kind == "line" else float(tree.count[nodes].sum())
            yield _Hot(kind, name, own, times[name], count, most)


def _only_surrounds(tree: Contexts, each: _Hot) -> bool:
    """Whether it is a scope that has nothing of its own to change: what is in it comes first."""
    known = _to_fuse(tree)[each.node] or _WORKERS.match(each.name)
    return each.kind == "scope" and not known


def _stands_for(told: list[_Hot], each: _Hot, time: Column, whole: float) -> bool:
    """Whether what was told, or another rule, already says all that this place would."""
    if each.kind == "scope" and _LOADS.match(each.name):
        return True
    if told and each.kind == "scope" and each.time >= HOTSPOTS_EVERYTHING * whole:
        return True
    known = [other.inside for other in told if other.kind != each.kind]
    within = np.logical_or.reduce(known) if known else np.zeros_like(each.inside)
    return float(time[each.inside & within].sum()) > HOTSPOTS_THE_SAME * each.time


def _draft(tree: Contexts, each: _Hot, time: Column) -> Draft:
    host = tree.program.host
    if host.threads.several:
        return _draft_of_threads(tree, each, time)
    share = each.time / host.whole
    often = f", {each.count:,.0f} times {duration(each.time / each.count)}" if each.count else ""
    text = (
        f"{percent(share)} of {host.whose} ({duration(host.whole)}){often}, most of it at"
        f" {tree.told(each.node)}"
    )
    measured = Evidence("host", text)
    table = Evidence("host", f"by Amdahl's law, all else unchanged: {_table(share, host.part)}")
    outside = ", outside of operations" if each.kind == "line" else ""
    title = f"{each.name} takes {percent(share, 0)} of {host.whose}{outside}"
    advice = _advice(tree, each, time)
    return Draft("symptom", title, tree.place(each.node), (measured, table), advice,
                 confidence="high", fixes=_fixes(tree, each))  # fmt: skip


def _draft_of_threads(tree: Contexts, each: _Hot, time: Column) -> Draft:
    """Return the draft of a place in a program whose threads ran side by side."""
    host, threads = tree.program.host, tree.program.host.threads
    alone, count = threads.in_part(each.inside)
    # Threads that are there one after the other take up to the sum of their times.
    together = threads.most(each.inside)
    low, high = (percent(time / threads.wall, 0) for time in (alone, together))
    span, spent = f"up to {high}", duration(alone)
    if low != high:
        span, spent = f"{low} to {high}", f"{spent} to {duration(together)}"
    often = f", {each.count:,.0f} times" if each.count else ""
    where = f"{count:,}{' or more' * threads.pooled} threads" if count > 1 else "one thread"
    text = (
        f"{spent} of {host.wall} ({duration(threads.wall)}) in {where}{often}, most of it"
        f" at {tree.told(each.node)}"
    )
    measured = Evidence("host", text)
    outside = ", outside of operations" if each.kind == "line" else ""
    title = f"{each.name} takes {span} of {host.wall}, in {where}{outside}"
    advice = _advice(tree, each, time)
    if each.kind == "line" and _waits(tree, each, time):
        others = Evidence("host", "what it waits for takes the time, not this code")
        return Draft("symptom", title, tree.place(each.node), (measured, others), advice,
                     confidence="high")  # fmt: skip
    if threads.gain(each.inside, np.inf) < NOISE:
        rest = Evidence("host", _NO_GAIN)
        title += ", but other threads work all the while"
        return Draft("ignore", title, tree.place(each.node), (measured, rest), _LEAVE,
                     confidence="high")  # fmt: skip
    told = [
        f"{times:g}× faster here makes {host.part} {threads.gain(each.inside, times):.2f}× faster"
        for times in HOTSPOTS_TIMES
    ]
    if np.isfinite(least := threads.gain(each.inside, np.inf)) and least * (1 - HOTSPOTS_ALL) < 1:
        told.append(f"no time here, {least:.2f}×")
    if (used := threads.processor_share(each.inside)) < HOTSPOTS_WAITING:
        text += (
            f". Its threads use a processor in at most {percent(used, 0)} of their time, and wait"
            " in the rest, for the interpreter's lock (GIL), a processor, files or timers"
        )
        measured = Evidence("host", text)
    bounds = "at most, as the other threads' work stays"
    table = Evidence("host", f"by Amdahl's law over {host.wall}, {bounds}: {'; '.join(told)}")
    return Draft("symptom", title, tree.place(each.node), (measured, table), advice,
                 confidence="high", fixes=_fixes(tree, each))  # fmt: skip


def _advice(tree: Contexts, each: _Hot, time: Column) -> str:
    if (found := _OPTIMIZER.match(each.name)) and _to_fuse(tree)[each.node]:
        return _ADVICE_FOR_OPTIMIZERS.format(found[1])
    if _WORKERS.match(each.name):
        return _ADVICE_FOR_LOADERS
    if each.kind == "line":
        if waits := _waits(tree, each, time):
            return waits
        engine = tree.below(tree.where(is_engine)) & ~tree.below(tree.kind("op"))
        if float(time[each.inside & engine].sum()) >= HOTSPOTS_WAITS * each.time:
            return _ADVICE_FOR_ENGINE
        lines = np.flatnonzero(np.isin(tree.lines, tree.lines[each.inside]))
        operates = bool((tree.ops[lines] >= 0).any())
        calls = bool((tree.users & np.isin(tree.parents, lines) & (tree.parents >= 0)).any())
        advice = _ADVICE_FOR_LINES if operates else _ADVICE_WITHOUT_OPERATIONS
        return advice + (_BELOW if calls else _NOTHING_BELOW)
    if each.kind == "op" and _SETS.search(each.name):
        makes = tree.below(tree.where(_makes_objects))
        if float(time[each.inside & makes].sum()) >= HOTSPOTS_WAITS * each.time:
            return _ADVICE_FOR_PARAMETERS
    return _ADVICE[each.kind] + _ADVICE_FOR_CONVOLUTIONS * _is_convolution(each)


def _makes_objects(symbol: Symbol) -> bool:
    """Whether a frame makes an object, such as a module with its parameters."""
    return symbol.kind == "frame" and symbol.name.endswith(".__init__")


def _is_convolution(each: _Hot) -> bool:
    return each.kind == "op" and bool(_CONVOLUTION.search(each.name))


def _waits(tree: Contexts, each: _Hot, time: Column) -> str:
    """Return what a line waits for that mostly waits; "" for others."""
    files = [place.file if (place := symbol.location) else "" for symbol in tree.profile.symbols]
    symbol = tree.profile.symbol
    of_user = np.array([bool(file) and not is_installed(file) for file in files], bool)[symbol]
    for pattern, advice in _WAITS:
        known = np.array([is_installed(file) and bool(pattern.search(file)) for file in files])
        # What a library calls, as a pool of threads does its tasks, is not the library's waiting.
        around = tree.nearest(known[symbol] | (of_user & tree.kind("frame")))
        waiting = (around >= 0) & known[symbol][around] & each.inside
        if float(time[waiting].sum()) >= HOTSPOTS_WAITS * each.time:
            return advice
    return ""


def _fixes(tree: Contexts, each: _Hot) -> tuple[Fix, ...]:
    """Return changes that are worth a trial, though nothing says what they would bring."""
    node, to_fuse = each.node, _to_fuse(tree)
    while node >= 0:
        if found := _OPTIMIZER.match(tree.profile.names[node]):
            return (OptimizerForm("fused", found[1]),) if to_fuse[node] else ()
        node = int(tree.profile.parents[node])
    if each.kind != "op" or _PRODUCT.search(each.name):
        return ()
    if _is_convolution(each):
        return (CHANNELS_LAST,)
    return compiled_at(tree.line(each.node))


def _table(share: float, part: str) -> str:
    told = [
        f"{times:g}× faster here makes {part} {_gain(share, times):.2f}× faster"
        for times in HOTSPOTS_TIMES
    ]
    if share < HOTSPOTS_ALL:
        told.append(f"no time here, {_gain(share, float('inf')):.2f}×")
    return "; ".join(told)


def _gain(share: float, times: float) -> float:
    return 1 / (1 - share * (1 - 1 / times))


RULE = ProgramRule("hotspot", find, sharper=("host",))
