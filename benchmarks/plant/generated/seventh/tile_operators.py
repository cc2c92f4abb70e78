"""Operators on tile kernels that came after the sixth test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They keep means in place of sums, watch
the greatest number, cut loops into short ones, clean or ask about operands in each iteration, split
exponentials, and reduce in shared memory by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.fresh.tile_operators import _index
from plant.generated.operators import Operator, Site
from plant.generated.programs import Program, dotted, walk
from plant.generated.tile_operators import dotted_base
from plant.generated.tile_rewrites import _Buffer, _buffers, _launch, _tensors

__all__ = ["OPERATORS", "averaged", "chopped", "cleaned", "skipped", "split", "watched"]

_LOOPS = ("T.Pipelined", "T.serial")
_ALLOC = ("T.alloc_shared", "T.alloc_fragment")
_FLOATS = ("T.float32", "T.float16", "T.bfloat16")
_REDUCTIONS = {
    "T.reduce_sum": ("0", "T.atomic_add", "{0} + {1}"),
    "T.reduce_max": ("-T.infinity({0})", "T.atomic_max", "T.max({0}, {1})"),
    "T.reduce_min": ("T.infinity({0})", "T.atomic_min", "T.min({0}, {1})"),
}
"""What each reduction begins with, the atomic that adds to it, and how two of its values join."""


def _uses(node: ast.AST, name: str) -> int:
    """Return how often a name is in a node."""
    return sum(isinstance(each, ast.Name) and each.id == name for each in walk(node))


def _free(program: Program, *names: str) -> bool:
    """Whether a kernel has one launch, and none of these names."""
    taken = {each.id for each in walk(program.body) if isinstance(each, ast.Name)}
    return _launch(program) is not None and not taken & set(names)


def _loaded(program: Program) -> Iterator[tuple[ast.Call, _Buffer]]:
    """Yield copies of tensors to whole tiles of floats in shared memory, in loops."""
    tiles, tensors = _buffers(program, "T.alloc_shared"), _tensors(program)
    for call in program.calls("T.copy"):
        held = tiles.get(dotted(call.args[1])) if len(call.args) == 2 else None
        if held is None or held.dtype not in _FLOATS or dotted_base(call.args[0]) not in tensors:
            continue
        if program.turns(call, *_LOOPS):
            yield call, held


def _points(held: _Buffer) -> tuple[str, str]:
    """Return the head of a loop over a tile, and the tile's element in it."""
    names = ", ".join(("pr", "pc", "po")[: len(held.sizes)])
    return f"for {names} in T.Parallel({', '.join(held.sizes)}):", f"{held.name}[{names}]"


# -- both languages: loops


def averaged(program: Program) -> Iterator[Site]:
    """Keep the mean of what a loop has added up so far, and multiply it by the count at the end."""
    causes = ("slow-arithmetic", "redundant-arithmetic", "spill", "low-occupancy")
    fragments = _buffers(program, "T.alloc_fragment")
    for loop, call in program.loops("T.Parallel"):
        points = [program.segment(each) for each in walk(loop.target) if isinstance(each, ast.Name)]
        around = program.turns(loop, *_LOOPS)
        if around is None or not isinstance(around.iter, ast.Call) or len(around.iter.args) != 1:
            continue
        if program.turns(around, *_LOOPS) or not isinstance(around.target, ast.Name):
            continue
        if program.parents[loop] is not around:
            continue
        for node in loop.body:
            if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
                continue
            target = node.target
            held = fragments.get(dotted_base(target))
            if held is None or not isinstance(target, ast.Subscript) or held.dtype != "T.float32":
                continue
            alone = list(map(program.segment, _index(target))) == points
            cleared = any(dotted(each.args[0]) == held.name for each in program.calls("T.clear"))
            if not alone or not cleared or _uses(around, held.name) != 1:
                continue
            spot, count = program.segment(target), program.segment(around.iter.args[0])
            number = f"T.cast({around.target.id} + 1, T.float32)"
            mean = f"{spot} += (({program.segment(node.value)}) - {spot}) / {number}"
            head = f"for {program.segment(loop.target)} in {program.segment(call)}:"
            edits = (program.replace(node, mean),
                     program.after(around, f"{head}\n    {spot} = {spot} * ({count})"))  # fmt: skip
            yield Site(edits, (node.lineno,), causes, f"{held.name} as a mean")


def chopped(program: Program) -> Iterator[Site]:
    """Cut a loop into parts of four iterations, at whose ends nothing is loaded ahead."""
    causes = ("shallow-pipeline", "synchronous-copy", "serial-products", "serial-work")
    for loop, call in program.loops(*_LOOPS):
        if program.turns(loop, "T.Parallel") or len(call.args) != 1:
            continue
        reads = [each for each in program.calls("T.copy", inside=loop)
                 if dotted_base(each.args[0]) in _tensors(program)]  # fmt: skip
        if not reads or not isinstance(loop.target, ast.Name):
            continue
        name, count = loop.target.id, program.segment(call.args[0])
        more = "".join(f", {program.segment(each)}" for each in call.keywords)
        heads = (
            f"for {name}_part in T.serial(T.ceildiv({count}, 4)):",
            f"for {name}_step in {dotted(call.func)}(T.min(4, {count} - {name}_part * 4){more}):",
            f"{name} = {name}_part * 4 + {name}_step",
        )
        yield Site(tuple(program.deeper(loop, heads)), (loop.lineno,), causes, f"{name} in parts")


# -- both languages: operands


def watched(program: Program) -> Iterator[Site]:
    """Note the greatest number of what is loaded or stored, as scales of a later run need it."""
    causes = ("early-reduction", "late-warps", "atomic-traffic", "long-end", "serial-work",
              "redundant-arithmetic", "layout-change", "shallow-pipeline")  # fmt: skip
    launch = _launch(program)
    if launch is None or not _free(program, "Amax", "row_top", "tile_top", "o"):
        return
    begun = "\n".join((
        "Amax = T.alloc_global((1,), T.float32)",
        "with T.Kernel(1, threads=32) as o:",
        "    Amax[o] = 0.0",
    ))  # fmt: skip
    found = [(call, held, True) for call, held in _loaded(program)]
    fragments = _buffers(program, "T.alloc_fragment")
    for call in program.calls("T.copy"):
        held = fragments.get(dotted(call.args[0])) if len(call.args) == 2 else None
        if held is not None and held.dtype == "T.float32" and not dotted(call.args[1]):
            found.append((call, held, False))
    for call, held, behind in found:
        if len(held.sizes) not in (1, 2):
            continue
        made, lines = _top(held)
        lines += "\nT.atomic_max(Amax[0], tile_top[0])"
        statement = program.statement(call)
        edit = program.after(statement, lines) if behind else program.before(statement, lines)
        edits = (program.before(launch.node, begun),
                 program.after(program.statement(held.call), made), edit)  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"greatest number of {held.name} kept")


def _top(held: _Buffer) -> tuple[str, str]:
    """Return lines that make room for a tile's greatest size, and lines that find it."""
    made = f"tile_top = T.alloc_fragment((1,), {held.dtype})"
    if len(held.sizes) == 1:
        return made, f"T.reduce_absmax({held.name}, tile_top, dim=0)"
    made += f"\nrow_top = T.alloc_fragment(({held.sizes[0]},), {held.dtype})"
    return made, (f"T.reduce_absmax({held.name}, row_top, dim=1)\n"
                  "T.reduce_max(row_top, tile_top, dim=0)")  # fmt: skip


def cleaned(program: Program) -> Iterator[Site]:
    """Put zeros in the place of what is no number, in each tile that is loaded."""
    causes = ("redundant-arithmetic", "synchronous-copy", "shallow-pipeline", "bank-conflict",
              "late-warps", "layout-change", "serial-products")  # fmt: skip
    if not _free(program, "pr", "pc", "po"):
        return
    for call, held in _loaded(program):
        head, spot = _points(held)
        zero = f"T.cast(0.0, {held.dtype})"
        lines = f"{head}\n    {spot} = T.if_then_else({spot} == {spot}, {spot}, {zero})"
        edit = program.after(program.statement(call), lines)
        yield Site((edit,), (call.lineno,), causes, f"{held.name} without what is no number")


def skipped(program: Program) -> Iterator[Site]:
    """Multiply only where a tile has another number than zero, which all have."""
    causes = ("early-reduction", "late-warps", "shallow-pipeline", "synchronous-copy",
              "serial-products", "redundant-arithmetic", "layout-change",
              "serial-work")  # fmt: skip
    if not _free(program, "row_top", "tile_top"):
        return
    loaded = {held.name: held for _, held in _loaded(program)}
    for call in program.calls("T.gemm"):
        if any(each.arg == "clear_accum" for each in call.keywords):
            continue
        for operand in call.args[:2]:
            held = loaded.get(dotted(operand))
            if held is None or len(held.sizes) != 2:
                continue
            made, lines = _top(held)
            text = f"{lines}\nif tile_top[0] > 0:\n    {program.segment(call)}"
            pad = "\n" + " " * program.statement(call).col_offset
            edits = (program.after(program.statement(held.call), made),
                     program.replace(call, text.replace("\n", pad)))  # fmt: skip
            yield Site(edits, (call.lineno,), causes, f"zeros of {held.name} looked for")


# -- both languages: arithmetic


def split(program: Program) -> Iterator[Site]:
    """Take the exponential of the whole part and of the rest, as where one table is too short."""
    for call in program.calls("T.exp", "T.exp2", "T.__exp2"):
        if not program.turns(call, "T.Parallel") or len(call.args) != 1:
            continue
        name, text = dotted(call.func), program.segment(call.args[0])
        whole = f"T.floor({text})"
        edit = program.replace(call, f"({name}({whole}) * {name}(({text}) - {whole}))")
        yield Site((edit,), (call.lineno,), ("slow-arithmetic", "redundant-arithmetic"),
                   "an exponential of two parts")  # fmt: skip


# -- reductions


def _reduced(program: Program) -> Iterator[tuple[ast.Call, _Buffer, str, int, bool]]:
    """Yield reductions of fragments: the call, what is reduced, to what, along which axis, and
    whether what was there before is forgotten."""
    fragments = _buffers(program, "T.alloc_fragment")
    for call in program.calls(*_REDUCTIONS):
        given = {each.arg: each.value for each in call.keywords}
        held = fragments.get(dotted(call.args[0]))
        axis, clear = given.get("dim"), given.get("clear")
        if held is None or len(call.args) != 2 or not isinstance(axis, ast.Constant):
            continue
        if dotted(call.args[1]) not in fragments or not isinstance(axis.value, int):
            continue
        if held.dtype in ("T.float32", "T.int32") and len(held.sizes) in (1, 2):
            yield call, held, dotted(call.args[1]), axis.value, clear is None


def _piled(program: Program) -> Iterator[Site]:
    """Let every element of a tile be added to its sum in shared memory by an atomic."""
    causes = ("atomic-traffic", "bank-conflict", "late-warps", "serial-work", "early-reduction",
              "layout-change", "long-end")  # fmt: skip
    if not _free(program, "pile", "pr", "pc"):
        return
    for call, held, result, axis, clear in _reduced(program):
        begin, atomic, _ = _REDUCTIONS[dotted(call.func)]
        rest = [size for at, size in enumerate(held.sizes) if at != axis] or ["1"]
        head, spot = _points(held)
        place = "0" if len(held.sizes) == 1 else ("pc", "pr")[axis]
        first = f"T.fill(pile, {begin.format(held.dtype)})" if clear else f"T.copy({result}, pile)"
        lines = (first, head, f"    {atomic}(pile[{place}], {spot})", f"T.copy(pile, {result})")
        made = f"pile = T.alloc_shared(({rest[0]},), {held.dtype})"
        pad = "\n" + " " * program.statement(call).col_offset
        edits = (program.after(program.statement(held.call), made),
                 program.replace(call, pad.join(lines)))  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"{held.name} piled up in shared memory")


def _halved(program: Program) -> Iterator[Site]:
    """Reduce a tile in shared memory by halves, with a barrier after each."""
    causes = ("bank-conflict", "late-warps", "layout-change", "idle-lanes", "low-occupancy",
              "serial-work", "early-reduction")  # fmt: skip
    if not _free(program, "tree", "half", "pr", "pc"):
        return
    known = {each.name: each.value for group in program.bindings() for each in group}
    for call, held, result, axis, clear in _reduced(program):
        width = held.sizes[-1]
        size = known.get(width, int(width) if width.isdigit() else 0)
        if axis != len(held.sizes) - 1 or size < 2 or size & (size - 1):
            continue
        join = _REDUCTIONS[dotted(call.func)][2]
        one = len(held.sizes) == 1
        rows = "" if one else f"{held.sizes[0]}, "
        names, row = ("pc", "pr") if one else ("pr, pc", "pr")
        at, other, last = "pc", "pc + half", "0"
        if not one:
            at, other, last = "pr, pc", "pr, pc + half", "pr, 0"
        total = f"tree[{last}]" if clear else join.format(f"{result}[{row}]", f"tree[{last}]")
        lines = (
            f"T.copy({held.name}, tree)",
            f"for half in {[size >> n + 1 for n in range(size.bit_length() - 1)]}:",
            f"    for {names} in T.Parallel({rows}half):",
            f"        tree[{at}] = {join.format(f'tree[{at}]', f'tree[{other}]')}",
            f"for pr in T.Parallel({'1' if one else held.sizes[0]}):",
            f"    {result}[pr] = {total}",
        )
        shape = f"({width},)" if one else f"({', '.join(held.sizes)})"
        pad = "\n" + " " * program.statement(call).col_offset
        edits = (
            program.after(program.statement(held.call),
                          f"tree = T.alloc_shared({shape}, {held.dtype})"),
            program.replace(call, pad.join(lines)),
        )  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"{held.name} by halves")


_TILE = frozenset(("tile",))
OPERATORS: tuple[Operator, ...] = (
    Operator("pile-in-shared", "defect", _TILE, _piled, "Threads add to one address in turns."),
    Operator("tree-in-shared", "defect", _TILE, _halved, "Barriers, and ever fewer threads."),
)
