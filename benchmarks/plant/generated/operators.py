"""Operators: their parts, and those that change numbers: tiles, threads, stages, splits.

In: a program.  Out: sites, each with its edits, the lines where its defect is, and its causes.
Operators are written from what a change does to a machine; none asks what the analyzer has found.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from .programs import Binding, Edit, Program, dotted, once, walk

__all__ = ["NUMBERS", "Kind", "Operator", "Site", "launch_lines"]

Kind = Literal["defect", "decoy"]
SPLITS = ("lanes", "splits", "parts", "turns")
"""Names of what a reduction is split into."""
THREADS = ("threads", "num_warps")
STAGES = ("stages", "num_stages")
GROUPS = ("group",)
"""Names of how many rows of blocks are walked together."""
_MOST = {"threads": 1024, "num_warps": 32}
_LEAST = {"threads": 32, "num_warps": 1}


@dataclass(frozen=True)
class Site:
    """One way in which an operator changes a program."""

    edits: tuple[Edit, ...]
    at: tuple[int, ...]
    """Lines of the old text where the defect is, beside those that are edited."""
    causes: tuple[str, ...]
    note: str
    """Change as a table tells it, as `rows 128 to 32`."""
    blocks: tuple[str, str, int, int] | None = None
    """Names of two extents of the shape, and the tile's elements along each, by which a grid's
    waves are filled."""
    fault: str = ""
    """Why the changed program cannot run, or computes something else; nothing draws such a site. It
    stays in its place, as later sites are named by their number."""
    counts: tuple[str, ...] = ()
    """Numbers of blocks along the second and third axis of the grid, as expressions of extents."""


@dataclass(frozen=True)
class Operator:
    """A change of sources."""

    name: str
    kind: Kind
    languages: frozenset[str]
    sites: Callable[[Program], Iterator[Site]]
    why: str
    """Cost of the change on a machine, as a sentence."""


def launch_lines(program: Program) -> tuple[int, ...]:
    """Return lines that stand for a whole launch: its head, and each loop and copy of tiles."""
    lines = {program.body.lineno}
    for call in program.calls("T.Kernel", "T.Pipelined", "T.gemm", "tl.dot", "tl.program_id"):
        lines.add(call.lineno)
    return tuple(sorted(lines))


def _everywhere(program: Program) -> tuple[int, ...]:
    """Return lines that a choice for a whole launch may be seen at."""
    return (*launch_lines(program), *_access_lines(program))


def _access_lines(program: Program) -> tuple[int, ...]:
    """Return lines that read or write tiles."""
    names = ("T.copy", "tl.load", "tl.store", "tl.atomic_add", "T.Parallel", "T.atomic_add")
    return tuple(sorted({call.lineno for call in program.calls(*names)}))


# -- numbers


@once
def _named(program: Program) -> list[list[Binding]]:
    """Return numbers that are bound to names, and those that a launch is given by keywords."""
    found = list(program.bindings())
    entry = program.function(program.entry)
    for call in sorted(program.calls("T.Kernel", "T.Pipelined", inside=entry), key=_place):
        found.append(list(_keywords(call)))
    for node in walk(entry):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            found.append(list(_keywords(node)))
    return found


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _keywords(call: ast.Call) -> Iterator[Binding]:
    for each in call.keywords:
        if each.arg and isinstance(each.value, ast.Constant) and type(each.value.value) is int:
            yield Binding(each.arg, each.value)


def _only(program: Program, names: Iterable[str]) -> Iterator[Binding]:
    wanted = set(names)
    for group in _named(program):
        yield from (each for each in group if each.name in wanted)


def _tiles(program: Program) -> Iterator[list[Binding]]:
    """Yield sizes of tiles, those of one statement together."""
    others = {*SPLITS, *THREADS, *STAGES, *GROUPS}
    for group in program.bindings():
        sizes = [each for each in group if each.name not in others and each.value >= 1]
        if sizes:
            yield sizes


def _set(program: Program, changes: Iterable[tuple[Binding, int]], at: Iterable[int],
         causes: tuple[str, ...]) -> Site:  # fmt: skip
    held = list(changes)
    note = ", ".join(f"{each.name} {each.value} to {value}" for each, value in held)
    edits = tuple(program.replace(each.node, str(value)) for each, value in held)
    lines = {line for each, _ in held for line in program.uses(each.name)}
    return Site(edits, tuple(sorted({*lines, *at})), causes, note)


def _shrunk(program: Program) -> Iterator[Site]:
    causes = ("redundant-traffic", "low-occupancy", "shallow-pipeline", "small-grid", "long-end",
              "narrow-access", "scattered-access", "atomic-traffic", "serial-work", "idle-lanes",
              "late-warps", "masked-work")  # fmt: skip
    for group in _tiles(program):
        for each in group:
            for factor in (2, 4, 8):
                if each.value % factor == 0 and each.value // factor >= 1:
                    yield _set(program, [(each, each.value // factor)],
                               _everywhere(program), causes)  # fmt: skip


def _grown(program: Program) -> Iterator[Site]:
    causes = ("low-occupancy", "spill", "small-grid", "tail-wave", "masked-work", "idle-lanes",
              "serial-products", "redundant-traffic", "serial-work")  # fmt: skip
    for group in _tiles(program):
        for each in group:
            for factor in (2, 4, 8):
                yield _set(program, [(each, each.value * factor)],
                           _everywhere(program), causes)  # fmt: skip


def _skewed(program: Program) -> Iterator[Site]:
    causes = ("redundant-traffic", "scattered-access", "narrow-access", "bank-conflict",
              "idle-lanes", "masked-work", "layout-change", "serial-products", "late-warps",
              "low-occupancy", "atomic-traffic", "long-end")  # fmt: skip
    for group in _tiles(program):
        for one in group:
            for other in group:
                for factor in (4, 16):
                    if one is not other and other.value % factor == 0:
                        changes = [(one, one.value * factor), (other, other.value // factor)]
                        yield _set(program, changes,
                                   _everywhere(program), causes)  # fmt: skip


def _fewer_threads(program: Program) -> Iterator[Site]:
    causes = ("spill", "low-occupancy", "serial-products", "shallow-pipeline")
    for each in _only(program, THREADS):
        for factor in (2, 4, 8):
            if each.value // factor >= _LEAST[each.name]:
                yield _set(program, [(each, each.value // factor)],
                           _everywhere(program), causes)  # fmt: skip


def _more_threads(program: Program) -> Iterator[Site]:
    causes = ("low-occupancy", "idle-lanes", "late-warps", "masked-work", "spill",
              "narrow-access", "tail-wave", "serial-work", "layout-change")  # fmt: skip
    for each in _only(program, THREADS):
        for factor in (2, 4):
            if each.value * factor <= _MOST[each.name]:
                yield _set(program, [(each, each.value * factor)],
                           _everywhere(program), causes)  # fmt: skip


def _fewer_stages(program: Program) -> Iterator[Site]:
    causes = ("shallow-pipeline", "synchronous-copy", "low-occupancy")
    for each in _only(program, STAGES):
        for value in {1, each.value - 1} - {0, each.value}:
            yield _set(program, [(each, value)],
                       _everywhere(program), causes)  # fmt: skip


def _more_stages(program: Program) -> Iterator[Site]:
    causes = ("low-occupancy", "tail-wave")
    for each in _only(program, STAGES):
        for value in (each.value + 2, each.value * 2):
            yield _set(program, [(each, value)],
                       _everywhere(program), causes)  # fmt: skip


def _split_badly(program: Program) -> Iterator[Site]:
    causes = ("idle-lanes", "late-warps", "small-grid", "atomic-traffic", "long-end",
              "redundant-traffic", "serial-work", "bank-conflict", "narrow-access",
              "scattered-access", "low-occupancy", "tail-wave", "spill")  # fmt: skip
    for each in _only(program, SPLITS):
        for value in {max(1, each.value // 8), max(1, each.value // 32), each.value * 16}:
            if value != each.value:
                yield _set(program, [(each, value)],
                           _everywhere(program), causes)  # fmt: skip


def _ungrouped(program: Program) -> Iterator[Site]:
    causes = ("block-order", "redundant-traffic")
    at = _everywhere(program)
    for each in _only(program, GROUPS):
        if each.value > 1:
            yield _set(program, [(each, 1)], at, causes)
    for call in program.calls("T.use_swizzle"):
        edit = program.replace(call, "pass")
        yield Site((edit,), at, causes, "the order of blocks by rows")


def _swapped_grid(program: Program) -> Iterator[Site]:
    """Walk the grid along its second axis first."""
    at = _everywhere(program)
    causes = ("block-order", "redundant-traffic", "late-warps", "tail-wave")
    for call in program.calls("T.Kernel"):
        item = program.parents[call]
        names = getattr(item, "optional_vars", None)
        if isinstance(names, ast.Tuple) and len(names.elts) >= 2 and len(call.args) >= 2:
            edits = _exchanged(program, call.args[0], call.args[1])
            edits += _exchanged(program, names.elts[0], names.elts[1])
            yield Site(edits, at, causes, "the first two axes of the grid exchanged",
                       counts=(program.segment(call.args[0]),))  # fmt: skip
    held = [
        call for call in program.calls("tl.program_id") if isinstance(call.args[0], ast.Constant)
    ]
    grids = [
        node.slice for node in walk(program.function(program.entry))
        if isinstance(node, ast.Subscript) and dotted(node.value) == program.kernel
        and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) >= 2
    ]  # fmt: skip
    if grids and held:
        axes = {0: "1", 1: "0"}
        changed = [
            program.replace(call.args[0], axes[call.args[0].value])  # type: ignore[attr-defined]
            for call in held if call.args[0].value in axes  # type: ignore[attr-defined]
        ]  # fmt: skip
        edits = (*changed, *_exchanged(program, grids[0].elts[0], grids[0].elts[1]))
        yield Site(edits, at, causes, "the first two axes of the grid exchanged",
                   counts=(program.segment(grids[0].elts[0]),))  # fmt: skip


def _exchanged(program: Program, one: ast.AST, other: ast.AST) -> tuple[Edit, ...]:
    return (
        program.replace(one, program.segment(other)), program.replace(other, program.segment(one)),
    )  # fmt: skip


def _wave(program: Program) -> Iterator[Site]:
    """Make tiles a little smaller, so that a grid that fills its waves has a few blocks more."""
    causes = ("tail-wave", "small-grid", "serial-products")
    by_name = {each.name: each for group in _tiles(program) for each in group}
    for call in program.calls("T.Kernel"):
        pairs = [_tiled(arg) for arg in call.args]
        if len(pairs) != 2 or None in pairs or not list(program.calls("T.gemm")):
            continue
        for (extent, tile), (other, by) in (pairs, pairs[::-1]):  # type: ignore[misc]
            apart = extent != other  # else one axis cannot grow alone
            if apart and tile in by_name and by in by_name and by_name[tile].value >= 128:
                old, high = by_name[tile].value, by_name[by].value
                site = _set(program, [(by_name[tile], old - 16)], launch_lines(program), causes)
                yield Site(site.edits, site.at, causes, site.note, (extent, other, old, high))


def _tiled(node: ast.expr) -> tuple[str, str] | None:
    """Return the names of an extent and of its tile from `T.ceildiv(M, rows)`."""
    if isinstance(node, ast.Call) and dotted(node.func) == "T.ceildiv":
        first, second = node.args
        if isinstance(first, ast.Name) and isinstance(second, ast.Name):
            return first.id, second.id
    return None


_BOTH = frozenset(("tile", "triton"))
NUMBERS: tuple[Operator, ...] = (
    Operator("shrink-tile", "defect", _BOTH, _shrunk, "Less of what is read is used again."),
    Operator("grow-tile", "defect", _BOTH, _grown, "Registers, shared memory or blocks run out."),
    Operator("skew-tile", "defect", _BOTH, _skewed, "A tile as large of another form."),
    Operator("fewer-threads", "defect", _BOTH, _fewer_threads, "More registers a thread."),
    Operator("more-threads", "defect", _BOTH, _more_threads, "Less work a thread."),
    Operator("fewer-stages", "defect", _BOTH, _fewer_stages, "Loads do not run ahead."),
    Operator("more-stages", "defect", _BOTH, _more_stages, "Rings fill shared memory."),
    Operator("split-badly", "defect", _BOTH, _split_badly, "Too few or too many parts of a sum."),
    Operator("ungroup-blocks", "defect", _BOTH, _ungrouped, "Blocks at a time share less."),
    Operator("swap-grid", "defect", _BOTH, _swapped_grid, "Blocks at a time share other tiles."),
    Operator("quantise-wave", "defect", frozenset(("tile",)), _wave, "A last wave of few blocks."),
)  # fmt: skip
