"""Bytes that the instructions of an HLO module have to move at least, and their operations.

In: a module after XLA's optimisations.  Out: `Work` by name of every instruction that XLA runs by
itself: a fusion, a call of a library, or another one outside of fusions. It is None for
those whose work is not known, as custom calls of other libraries.

A fusion reads each of its operands once, as far as its results need them: of an operand that is
only sliced or gathered from, as many elements as are taken. It writes each of its results once;
where a result is an operand of which a part is replaced, only this part. So the bytes are never
more than those of all operands and results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tileprof.profiler.frameworks.hlo_products import operations_of, window_of
from tileprof.profiler.frameworks.hlo_text import (
    Array,
    Computation,
    Instruction,
    Module,
    Unknown,
    split,
)

_ARITHMETIC = frozenset({
    "acos", "acosh", "add", "asin", "asinh", "atan2", "atanh", "cbrt", "cosh", "cosine",
    "divide", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one",
    "logistic", "maximum", "minimum", "multiply", "negate", "power", "remainder", "rsqrt",
    "sine", "sinh", "sqrt", "subtract", "tan", "tanh",
})  # fmt: skip
"""Operations on single elements that count as one floating-point operation each."""
_PASSING = _ARITHMETIC | frozenset({
    "abs", "and", "bitcast", "bitcast-convert", "broadcast", "ceil", "clamp", "compare",
    "complex", "concatenate", "convert", "copy", "count-leading-zeros", "floor", "imag",
    "is-finite", "map", "not", "opt-barrier", "or", "pad", "popcnt", "real",
    "reduce-precision", "reshape", "reverse", "round-nearest-afz", "round-nearest-even",
    "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
    "stochastic-convert", "transpose", "xor",
})  # fmt: skip
"""Operations that need at most one element of each operand for one of the result."""
_WHOLE = frozenset({
    "cholesky", "convolution", "dot", "fft", "select-and-scatter", "sort",
    "triangular-solve",
})  # fmt: skip
"""Operations that need all elements of their operands."""
_MAKING = frozenset({
    "constant", "iota", "parameter", "partition-id", "replica-id",
})  # fmt: skip
"""Operations without operands."""
_NOT_RUN = _MAKING - {"iota"} | frozenset({
    "add-dependency", "after-all", "bitcast", "call", "conditional", "domain",
    "get-tuple-element", "opt-barrier", "reshape", "tuple", "while",
})  # fmt: skip
"""Operations that are no work of a device, or whose parts are instructions of their own."""
_LATER_PARTS = ("-done", "-update")
"""Ends of the names of operations that only wait for one that runs beside others."""
_BODIES = ("body", "calls", "condition", "false_computation", "to_apply", "true_computation")
_MOST_DEPTH = 32
"""Most fusions inside one another."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one run of an instruction."""

    bytes: int
    """Least bytes that have to be read and written."""
    flops: int
    """Floating-point operations on elements that are needed; a multiply-add counts as two."""
    multiplied: str = ""
    """XLA's name of the type that its matrix products and convolutions multiply, that of the
    largest; '' where it has none."""


def work_of(module: Module) -> dict[str, Work | None]:
    """Return the work of each instruction that runs by itself; None where it is not known."""
    found = dict[str, Work | None]()
    for computation in _running(module):
        for each in computation.instructions.values():
            if each.opcode in _NOT_RUN or each.opcode.endswith(_LATER_PARTS):
                continue
            try:
                found[each.name] = _work(module, computation, each)
            except (Unknown, KeyError, IndexError, ValueError, TypeError, AttributeError):
                # Not known, or written in another way than known versions write it.
                found[each.name] = None
    return found


def _running(module: Module) -> Iterator[Computation]:
    """Yield the computations whose instructions XLA runs one by one."""
    waiting, seen = [module.entry], {module.entry}
    while waiting:
        computation = module.computations.get(waiting.pop())
        if computation is None:
            continue
        yield computation
        for each in computation.instructions.values():
            if each.opcode not in ("while", "conditional", "call", "async-start"):
                continue
            named = [each.attributes.get(name, "") for name in _BODIES]
            branches = each.attributes.get("branch_computations", "").strip("{}")
            for name in [*named, *split(branches)]:
                name = name.lstrip("%")
                if name and name not in seen:
                    seen.add(name)
                    waiting.append(name)


def _work(module: Module, around: Computation, run: Instruction) -> Work:
    if run.opcode == "async-start":
        wrapped = module.computations[run.called]
        return _work(module, wrapped, wrapped.instructions[wrapped.root])
    if run.opcode.endswith("-start") and isinstance(run.shape, tuple):
        # XLA's shorter form of the same, as `fusion-start(%x), calls=%fused`: its shape is a tuple
        # of the operands, the result and more.
        run = replace(run, opcode=run.opcode.removesuffix("-start"), shape=run.shape[1])
    operands = [around.instructions[name] for name in run.operands]
    body = module.computations[run.called] if run.opcode == "fusion" else _alone(run, operands)
    moved = _Needs(module, body).moved()
    read = dict[str, int]()
    for name, size in zip(run.operands, moved.reads, strict=True):
        read[name] = read.get(name, 0) + size
    limits = {each.name: sum(leaf.bytes for leaf in each.leaves) for each in operands}
    whole = sum(min(size, limits[name]) for name, size in read.items())
    return Work(whole + moved.writes, moved.flops, moved.largest.kind)


def _alone(run: Instruction, operands: Sequence[Instruction]) -> Computation:
    """Return the computation that would be the fusion of one instruction."""
    names = [f"operand {at}" for at in range(len(operands))]
    parameters = {
        name: Instruction(name, each.shape, "parameter", literal=str(at))
        for at, (name, each) in enumerate(zip(names, operands, strict=True))
    }
    result = Instruction(run.name, run.shape, run.opcode, tuple(names), run.attributes, run.literal)
    return Computation(run.name, {**parameters, run.name: result}, run.name)


@dataclass(frozen=True, slots=True, order=True)
class _Product:
    """Operations of a matrix product or convolution, and the type that it multiplies."""

    flops: int = 0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes that a computation reads of each of its parameters and writes, and its flops."""

    reads: list[int]
    elements: list[int]
    """Elements that it reads of each parameter; of a tuple, of its first part."""
    writes: int
    flops: int
    largest: _Product
    """Product with the most operations."""


class _Needs:
    """Elements of each instruction of a fusion that its results need."""

    def __init__(self, module: Module, computation: Computation, depth: int = 0) -> None:
        if depth > _MOST_DEPTH:
            raise Unknown("fusions inside one another without an end")
        self._module = module
        self._depth = depth
        self._computation = computation
        self._of = computation.instructions
        self._users = dict.fromkeys(self._of, 0)
        for each in self._of.values():
            for name in each.operands:
                self._users[name] += 1
        self._taken = dict.fromkeys(self._of, 0)
        """Elements that are sliced or gathered, which are others each time."""
        self._wanted = dict.fromkeys(self._of, 0)
        """Most elements that one other user needs."""
        self._parts = dict.fromkeys(self._of, 0)
        """Bytes that are needed of parameters that are tuples."""
        self._replaced = dict[str, Instruction]()
        """Results that are operands of which a part is replaced, by name."""
        self._flops = 0
        self._largest = _Product()

    def moved(self) -> _Moved:
        """Follow the needs from the results to the parameters."""
        writes = 0
        for name in self._results(self._computation.root):
            writes += self._written(name)
        for each in reversed(list(self._of.values())):
            if each.name in self._replaced:
                self._replace(each)
                continue
            needed = min(_size(each), max(self._taken[each.name], self._wanted[each.name]))
            if needed:
                self._pass_on(each, needed)
        reads, elements = list[int](), list[int]()
        for each in self._computation.parameters:
            needed = min(_size(each), max(self._taken[each.name], self._wanted[each.name]))
            elements.append(needed)
            whole = isinstance(each.shape, tuple)
            reads.append(self._parts[each.name] if whole else each.array.bytes_of(needed))
        return _Moved(reads, elements, writes, self._flops, self._largest)

    def _results(self, name: str) -> Iterator[str]:
        each = self._of[name]
        if each.opcode != "tuple":
            yield name
            return
        for operand in each.operands:
            yield from self._results(operand)

    def _written(self, name: str) -> int:
        """Note a result's need, and return the bytes that are written of it."""
        inner, only = self._of[name], True
        while inner.opcode == "bitcast":
            inner = self._of[inner.operands[0]]
            only = only and self._users[inner.name] == 1
        if inner.opcode in ("dynamic-update-slice", "scatter") and only:
            target = self._of[inner.operands[0]]
            while target.opcode == "bitcast":
                target = self._of[target.operands[0]]
            single = not isinstance(inner.shape, tuple)
            if target.opcode == "parameter" and single and self._users[inner.name] <= 1:
                self._replaced[inner.name] = inner
                update = self._of[inner.operands[_update(inner)]]
                return inner.array.bytes_of(min(_size(update), _size(inner)))
        each = self._of[name]
        self._want(name, _size(each))
        leaves = each.leaves
        if each.opcode == "custom-call" and len(leaves) > 1 and _is_workspace(leaves[-1]):
            leaves = leaves[:-1]
        return sum(leaf.bytes for leaf in leaves)

    def _replace(self, each: Instruction) -> None:
        """Pass on what a result needs of which only a part is written."""
        at = _update(each)
        replaced = min(_size(self._of[each.operands[at]]), _size(each))
        for place, name in enumerate(each.operands):
            if place:
                self._want(name, _size(self._of[name]))
        if each.opcode == "scatter":
            combiner = self._module.computations[each.called]
            # What is put in the place of an element needs none of it.
            if _depends(combiner, combiner.root, combiner.parameters[0].name):
                self._taken[each.operands[0]] += replaced
            self._flops += replaced * _operations(combiner)

    def _want(self, name: str, elements: int) -> None:
        each = self._of[name]
        self._wanted[name] = max(self._wanted[name], min(elements, _size(each)))

    def _pass_on(self, each: Instruction, needed: int) -> None:
        """Pass an instruction's need on to its operands, and count its operations."""
        code, operands = each.opcode, each.operands
        if code in _MAKING:
            return
        if code in _PASSING:
            for name in operands:
                self._want(name, needed if code != "bitcast" else self._part(name, each, needed))
            if code in _ARITHMETIC and each.array.floating:
                self._flops += needed
            elif code == "map":
                self._flops += needed * _operations(self._module.computations[each.called])
        elif code in ("slice", "dynamic-slice", "gather"):
            self._taken[operands[0]] += needed
            for name in operands[1:]:
                self._want(name, self._part(name, each, needed))
        elif code == "dynamic-update-slice":
            update = _size(self._of[operands[1]])
            self._want(operands[0], min(needed, max(_size(each) - update, 0)))
            for name in operands[1:]:
                self._want(name, needed)
        elif code == "get-tuple-element":
            self._pass_part_on(each, needed)
        elif code in ("reduce", "reduce-window"):
            self._reduce(each, needed)
        elif code == "scatter":
            if isinstance(each.shape, tuple):
                raise Unknown("a scatter of several arrays")
            for name in operands:
                self._want(name, _size(self._of[name]))
            updates = _size(self._of[operands[_update(each)]])
            self._flops += updates * _operations(self._module.computations[each.called])
        elif code == "tuple":
            for name in operands:
                self._want(name, _size(self._of[name]))
        elif code in ("fusion", "call"):
            inner = _Needs(self._module, self._module.computations[each.called], self._depth + 1)
            moved = inner.moved()
            for name, elements in zip(operands, moved.elements, strict=True):
                self._want(name, elements)
            self._flops += moved.flops
            self._largest = max(self._largest, moved.largest)
        elif code in _WHOLE or code == "custom-call":
            for name in operands:
                self._want(name, _size(self._of[name]))
            flops = operations_of(each, [self._of[name].shape for name in operands])
            self._flops += flops
            if flops:
                kind = self._of[operands[0]].array.kind
                self._largest = max(self._largest, _Product(flops, kind))
        else:
            raise Unknown(f"operation {code}")

    def _pass_part_on(self, each: Instruction, needed: int) -> None:
        source = self._of[each.operands[0]]
        self._want(source.name, needed)
        if source.opcode == "parameter":
            self._parts[source.name] += each.array.bytes_of(needed)

    def _reduce(self, each: Instruction, needed: int) -> None:
        data = each.operands[: len(each.operands) // 2]
        first, combining = self._of[data[0]], _operations(self._module.computations[each.called])
        if each.opcode == "reduce":
            read = self._part(first.name, each, needed)
            self._flops += combining * max(read - needed, 0)
        else:
            window = math.prod(window_of(each.attributes.get("window", "")).sizes)
            read = _size(first) if needed == _size(each) else needed * window
            self._flops += combining * needed * (window - 1)
        for name in each.operands:
            self._want(name, read)

    def _part(self, name: str, each: Instruction, needed: int) -> int:
        """Return as large a part of an operand as is needed of an instruction."""
        return -(-_size(self._of[name]) * needed // max(_size(each), 1))


def _size(each: Instruction) -> int:
    """Elements of an instruction; of a tuple, the most of its parts."""
    return max((leaf.elements for leaf in each.leaves), default=0)


def _update(each: Instruction) -> int:
    """Return which operand is what is put in."""
    return 1 if each.opcode == "dynamic-update-slice" else 2


def _is_workspace(leaf: Array) -> bool:
    """Whether the last result of a library's call is memory that it works in."""
    return leaf.kind in ("s8", "u8") and len(leaf.extents) == 1


def _operations(combiner: Computation) -> int:
    """Return the floating-point operations of a computation of single elements."""
    return sum(
        each.opcode in _ARITHMETIC and each.array.floating
        for each in combiner.instructions.values()
    )


def _depends(computation: Computation, name: str, on: str) -> bool:
    waiting, seen = [name], set[str]()
    while waiting:
        at = waiting.pop()
        if at == on:
            return True
        if at not in seen:
            seen.add(at)
            waiting += computation.instructions[at].operands
    return False
