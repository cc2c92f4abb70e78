"""Memory accesses and matrix products of a Triton kernel, found in its program.

In: the functions of a module (`triton_ir`).  Out: `Work`: which arguments are loaded and stored,
elements of each access, and how often what is around it runs, as expressions of the launch.  On
request also every operation on tiles (`Step`), for a model of the kernel's time.

Pointers are traced back to the arguments that they come from. `Unknown` is raised where one comes
from elsewhere (from memory, from an integer), may come from two arguments, or is in an operation
that is not known here: what a kernel accesses is known completely or not at all.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tileprof.once import cached_property
from tileprof.profiler.frameworks import triton_numbers as numbers
from tileprof.profiler.frameworks.triton_ir import Function, Operation, Unknown
from tileprof.profiler.frameworks.triton_numbers import Expression

_AXES = {"x": 0, "y": 1, "z": 2}
_EVERYWHERE = frozenset({-1, -2, -3})
"""Axes of the grid, in the form of `_Value.differs`."""
_POINTER = ("!tt.ptr", "tensordesc")
_DIALECTS = ("arith.", "math.", "tt.", "ub.")
"""Dialects whose operations access no memory but through pointers among their operands."""
_FOLLOWS = {
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.addptr", "tt.bitcast", "tt.reshape",
    "tt.trans", "tt.unsplat", "tt.advance", "tt.make_tensor_ptr", "tt.make_tensor_descriptor",
}  # fmt: skip
"""Operations whose result points where their first operand does."""
_ACCESSES = {
    "tt.load": (True, False), "tt.store": (False, True), "tt.atomic_rmw": (True, True),
    "tt.atomic_cas": (True, True), "tt.descriptor_load": (True, False),
    "tt.descriptor_gather": (True, False), "tt.descriptor_store": (False, True),
    "tt.descriptor_scatter": (False, True), "tt.descriptor_reduce": (True, True),
}  # fmt: skip
"""Whether an access loads, and whether it stores; its first operand is where."""
LOADS = frozenset(name for name, (loads, _) in _ACCESSES.items() if loads)
STORES = frozenset(name for name, (_, stores) in _ACCESSES.items() if stores)
"""Operations that load and that store; an atomic one does both."""
_HARMLESS = ("gpu.barrier", "llvm.intr.assume")
"""Operations of other dialects that access no memory."""
_REDUCTIONS = ("tt.reduce", "tt.scan", "tt.map_elementwise")
"""Operations with a region that works on elements alone."""
_IMPURE = ("tt.atomic_rmw", "tt.atomic_cas", "tt.elementwise_inline_asm", "tt.extern_elementwise")
"""Operations that may give something else each time, of the same operands."""

_ELEMENTS = (
    re.compile(r"tensor<(?P<shape>(?:\d+x)+)!tt\.ptr<(?P<type>[^<>,]+)"),
    re.compile(r"!tt\.ptr<tensor<(?P<shape>(?:\d+x)+)(?P<type>[^<>,]+)"),
    re.compile(r"!tt\.ptr<(?P<shape>)(?P<type>[^<>,]+)"),
)
_TENSOR = re.compile(r"tensor<(?P<shape>(?:\d+x)+)(?P<type>[^<>,]+)")
_ATTRIBUTES = re.compile(r" \{[^{}]*\}")
_BITS = re.compile(r"[a-z]+(\d+)")
_CONSTANT = re.compile(r"(-?\d+|true|false)(?: : (?:i\d+|index))?$")
_FLAG = re.compile(r": i1 to | to i1$")
"""Conversions from and to a single bit, which is -1 where it is taken as signed."""
_CARRIED = re.compile(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)")
_FOR = re.compile(r"(?:unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)(?: iter_args\((.*?)\))?")
_CALLEE = re.compile(r"@([^\s(]+)\(")
_LABEL = re.compile(r"\^(\w+)")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_MOST = 100_000
"""Most operations that are followed through calls and loops, a second or so."""
_DEEPEST = 16
"""Most calls within one another."""

Factors: TypeAlias = tuple[Expression | None, ...]
"""Trips of each loop and branch around something; None where they depend on what is in memory."""


@dataclass(frozen=True)
class Access:
    """Elements of an argument that are loaded or stored at one place of the program."""

    argument: int
    """Position among the arguments of the kernel's program."""
    loads: bool
    stores: bool
    bytes: int
    """Bytes of one execution by one program, those that a mask leaves out too."""
    factors: Factors
    """Trips of the loops and branches around it, without loops that access the same elements in
    each iteration."""
    axes: frozenset[int]
    """Axes of the grid along which programs access different elements, or may do so."""


@dataclass(frozen=True)
class Product:
    """A matrix product."""

    flops: int
    """Floating-point operations of one execution by one program."""
    factors: Factors


@dataclass(frozen=True)
class Step:
    """An operation on tiles, or an access to memory."""

    name: str
    """Its name with the dialect, such as `arith.addf`."""
    shape: tuple[int, ...]
    """Shape of the tile that it makes, reads or stores; of a product M, N and K."""
    kind: str
    """Element type of that tile; of a product of its first operand."""
    around: tuple[tuple[int, Expression | None], ...]
    """Loops and branches around it, each with its trips, from the outermost."""
    argument: int = -1
    """Position of the argument that is accessed; -1: no access."""
    place: int = 0
    """The same for accesses to the same elements."""
    where: tuple[Expression, ...] = ()
    """Numbers from which the place of an access follows, and which differ between programs."""
    axes: frozenset[int] = frozenset()
    """Axes of the grid along which programs access different elements, or may do so."""
    moves: frozenset[int] = frozenset()
    """Loops whose iterations may each access other elements."""
    exact: bool = False
    """Whether a product of 32-bit numbers keeps their precision (`inputPrecision = ieee`)."""


@dataclass(frozen=True)
class Work:
    """Everything that a kernel accesses, and its matrix products."""

    arguments: tuple[str, ...]
    """Types of the arguments of the kernel's program."""
    accesses: tuple[Access, ...]
    products: tuple[Product, ...]
    steps: tuple[Step, ...] = ()
    """All operations on tiles, where they were asked for."""


@dataclass(frozen=True)
class _Value:
    key: int
    """The same for values that are equal."""
    origins: frozenset[int] = frozenset()
    """Arguments that a pointer may come from; none of what is no pointer."""
    lost: bool = False
    """Whether it is a pointer from elsewhere."""
    number: Expression | None = None
    differs: frozenset[int] = frozenset()
    """Loops whose iterations may each have another value; axes of the grid below 0."""
    scalars: frozenset[int] = frozenset()
    """Keys of the numbers, different between programs, from which a tile of offsets is made."""


def work_of(functions: dict[str, Function], *, steps: bool = False) -> Work:
    """Return what the kernel of a module accesses and multiplies; `steps`: each operation too."""
    kernels = [each for each in functions.values() if each.public]
    if len(kernels) != 1:
        raise Unknown(f"a module with {len(kernels)} kernels")
    return _Walk(functions, keeps_steps=steps).kernel(kernels[0])


_Names: TypeAlias = dict[str, _Value]


@dataclass(eq=False)
class _Walk:
    """Follows values through a program."""

    functions: dict[str, Function]
    accesses: dict[tuple[object, ...], Access] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)
    around: list[tuple[int, Expression | None]] = field(default_factory=list)
    """Loops, and branches as loops that run at most once, from the outermost."""
    depth: int = 0
    returned: list[list[_Value]] = field(default_factory=list)
    keys: dict[tuple[object, ...], int] = field(default_factory=dict)
    expressions: dict[int, Expression] = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    done: int = 0
    keeps_steps: bool = False
    steps: list[Step] = field(default_factory=list)
    numbers: dict[int, Expression] = field(default_factory=dict)
    """Numbers by the keys of their values: those that tiles of offsets are made of."""

    def kernel(self, function: Function) -> Work:
        names = {}
        for at, (name, kind) in enumerate(function.arguments):
            if kind.startswith(("!tt.ptr", "!tt.tensordesc")):
                names[name] = _Value(self.key("argument", at), frozenset({at}))
            else:
                number = ("argument", at) if re.fullmatch(r"i\d+", kind) else None
                names[name] = _Value(self.key("argument", at), number=number)
        self.block(function.body, names)
        types = tuple(kind for _, kind in function.arguments)
        accesses = tuple(self.accesses.values())
        return Work(types, accesses, tuple(self.products), tuple(self.steps))

    def key(self, *of: object) -> int:
        """Return the number of a value that is made so: equal values have the same."""
        return self.keys.setdefault(of, next(self.counter))

    def shared(self, expression: Expression, *of: object) -> Expression:
        """Return the first expression that was made so."""
        return self.expressions.setdefault(self.key(expression[0], *of), expression)

    def unique(self) -> int:
        return self.key("unique", next(self.counter))

    # -- what runs how often

    @contextmanager
    def inside(self, loop: int, trips: Expression | None) -> Iterator[None]:
        self.around.append((loop, trips))
        yield
        self.around.pop()

    def factors(self, value: _Value | None = None) -> Factors:
        """Return the trips of what is around; for a value without loops in which it is the same."""
        return tuple(
            trips
            for loop, trips in self.around
            if value is None or loop in value.differs or is_branch(trips)
        )

    # -- operations

    def block(self, body: list[Operation], names: _Names) -> list[_Value]:
        """Follow operations; return what the last one hands out."""
        depth, handed = len(self.around), list[_Value]()
        labels = set[str]()
        for operation in body:
            self.done += 1
            if self.done > _MOST:
                raise Unknown("a program of too many operations")
            if operation.name == "^":
                labels.add(operation.rest)
                for name in operation.results:
                    names.setdefault(name, self.anything())
            elif operation.name in ("cf.br", "cf.cond_br"):
                if labels & set(_LABEL.findall(operation.rest)):
                    raise Unknown("a jump back")
                self.around.append((self.unique(), numbers.MAYBE))
            elif operation.name in ("scf.yield", "scf.condition"):
                handed = [self.value(each, names) for each in operation.operands]
            elif operation.name == "tt.return":
                self.returned.append([self.value(each, names) for each in operation.operands])
            else:
                results = self.operation(operation, names)
                if len(results) != len(operation.results):
                    raise Unknown(operation.name)
                names.update(zip(operation.results, results, strict=True))
        del self.around[depth:]
        return handed

    def value(self, name: str, names: _Names) -> _Value:
        if name not in names:
            raise Unknown(f"{name} is not defined")
        return names[name]

    def anything(self) -> _Value:
        """Return a value of which nothing is known."""
        loops = {loop for loop, _ in self.around}
        return _Value(self.unique(), lost=True, differs=_EVERYWHERE | loops)

    def operation(self, operation: Operation, names: _Names) -> list[_Value]:
        name = operation.name
        if name in _NESTED:
            return _NESTED[name](self, operation, names)
        if operation.regions and name not in _REDUCTIONS:
            raise Unknown(name)
        operands = [self.value(each, names) for each in operation.operands]
        if name == "tt.call":
            return self.call(operation, operands)
        result = self.plain(operation, operands)
        if name in _ACCESSES:
            return self.access(operation, operands, result)
        if name in _FOLLOWS:
            result = replace(result, origins=operands[0].origins, lost=operands[0].lost)
        elif name == "arith.select":
            origins = operands[-2].origins | operands[-1].origins
            result = replace(result, origins=origins, lost=operands[-2].lost or operands[-1].lost)
        elif name == "tt.int_to_ptr":
            result = replace(result, lost=True)
        elif name != "ub.poison" and (
            not (name.startswith(_DIALECTS) or name in _HARMLESS)
            or any(each.origins for each in operands)
            or any(each in operation.rest for each in _POINTER)
        ):
            raise Unknown(name)
        if name in ("tt.dot", "tt.dot_scaled"):
            self.multiply(operation)
        if self.keeps_steps:
            self.keep(operation)
        return [
            replace(result, key=self.key(result.key, at)) for at in range(len(operation.results))
        ]

    def keep(self, operation: Operation) -> None:
        """Keep an operation that is no access as a step."""
        tensors = list(_TENSOR.finditer(operation.rest))
        if not tensors:
            return
        product = operation.name in ("tt.dot", "tt.dot_scaled")
        # A reduction does something for each element of what it reduces.
        of = tensors[0] if operation.regions or product else tensors[-1]
        shape = tuple(_shape(of["shape"]))
        if product:
            shape = (*_shape(tensors[-1]["shape"]), shape[-1])
        exact = "inputPrecision = ieee" in operation.rest
        around = tuple(self.around)
        self.steps.append(Step(operation.name, shape, of["type"], around, exact=exact))

    def plain(self, operation: Operation, operands: list[_Value]) -> _Value:
        """Return the result of an operation as far as it does not point anywhere."""
        name, rest = operation.name, operation.rest
        differs = frozenset[int]().union(*(each.differs for each in operands))
        if name in _IMPURE:
            differs |= _EVERYWHERE | {loop for loop, _ in self.around}
        if operation.regions or name in _IMPURE:
            return _Value(self.unique(), differs=differs)
        keys = iter([str(each.key) for each in operands])
        key = self.key(name, _VALUE.sub(lambda _: f"%{next(keys)}", rest))
        if name in ("tt.get_program_id", "tt.get_num_programs"):
            axis = _AXES[rest.split()[0]]
            if name == "tt.get_num_programs":
                return _Value(key, number=("programs", axis))
            return _Value(key, number=("program", axis), differs=frozenset({-1 - axis}))
        number = _number(operation, operands)
        scalars = self.scalars(operands) if self.keeps_steps and number is None else frozenset()
        return _Value(key, number=number, differs=differs, scalars=scalars)

    def scalars(self, operands: list[_Value]) -> frozenset[int]:
        """Return the keys of numbers from which what is made of operands differs by program."""
        made = frozenset[int]().union(*(each.scalars for each in operands))
        for each in operands:
            if each.number is not None and any(axis < 0 for axis in each.differs):
                self.numbers[each.key] = each.number
                made |= {each.key}
        return made

    def access(self, operation: Operation, operands: list[_Value], result: _Value) -> list[_Value]:
        pointer = operands[0]
        if pointer.lost or len(pointer.origins) != 1:
            raise Unknown(f"{operation.name} of a pointer that comes from no one argument")
        loads, stores = _ACCESSES[operation.name]
        if operation.name == "tt.atomic_rmw" and self.is_store(operation):
            loads = False
        shape, kind = _elements(operation)
        axes = frozenset(-1 - each for each in pointer.differs if each < 0)
        scalars = pointer.scalars
        (argument,) = pointer.origins
        size = math.prod(shape) * _width(kind)
        if operation.name.startswith("tt.descriptor"):
            # Where in the tensor is said by the other operands.
            for each in operands[1:]:
                pointer = replace(pointer, differs=pointer.differs | each.differs)
            axes = frozenset(-1 - each for each in pointer.differs if each < 0)
            scalars = self.scalars(operands)
            place = self.key("descriptor", *(each.key for each in operands))
        else:
            place = pointer.key
        made = Access(argument, loads, stores, size, self.factors(pointer), axes)
        # The same elements again, as in a second pass over a row, are not more of them.
        self.accesses[place, loads, stores, *map(id, made.factors)] = made
        if self.keeps_steps:
            around = tuple(self.around)
            loops = frozenset(loop for loop, trips in around if not is_branch(trips))
            known = all(each in self.numbers for each in scalars)
            self.steps.append(
                Step(
                    operation.name, tuple(shape), kind, around, argument, place,
                    tuple(self.numbers[each] for each in sorted(scalars)) if known else (), axes,
                    loops & pointer.differs,
                )
            )  # fmt: skip
        # A pointer that was in memory may point anywhere.
        return [replace(result, lost=kind.startswith("!tt.ptr"))] if operation.results else []

    def is_store(self, operation: Operation) -> bool:
        """Return whether an atomic operation is an exchange of which nobody takes the result: what
        was there before need not be read."""
        return operation.rest.lstrip().startswith("exch,") and not self.used & set(
            operation.results
        )

    @cached_property
    def used(self) -> frozenset[str]:
        """Names that an operation of any function has among its operands."""
        waiting = [each for function in self.functions.values() for each in function.body]
        found = set[str]()
        while waiting:
            operation = waiting.pop()
            found.update(operation.operands)
            waiting += [each for region in operation.regions for each in region]
        return frozenset(found)

    def multiply(self, operation: Operation) -> None:
        tensors = list(_TENSOR.finditer(operation.rest))
        scaled = operation.name == "tt.dot_scaled"
        if len(tensors) < 3 or (scaled and tensors[0]["type"] == "i8"):
            # Elements of 4 bits share a byte, along one axis or the other.
            self.products.append(Product(0, (None,)))
            return
        depth = _shape(tensors[0]["shape"])[-1]
        flops = 2 * math.prod(_shape(tensors[-1]["shape"])) * depth
        self.products.append(Product(flops, self.factors()))

    def call(self, operation: Operation, operands: list[_Value]) -> list[_Value]:
        found = _CALLEE.search(operation.rest)
        function = self.functions.get(found.group(1)) if found else None
        if function is None or self.depth == _DEEPEST:
            raise Unknown(operation.rest)
        names = {name: each for (name, _), each in zip(function.arguments, operands, strict=True)}
        before, self.returned = self.returned, []
        self.depth += 1
        self.block(function.body, names)
        self.depth -= 1
        returned, self.returned = self.returned, before
        return [self.joined(*each) for each in zip(*returned, strict=True)]

    def joined(self, *values: _Value) -> _Value:
        """Return a value that is one of several."""
        first = values[0]
        if all(each.key == first.key for each in values):
            return first
        return _Value(
            self.unique(),
            frozenset().union(*(each.origins for each in values)),
            any(each.lost for each in values),
            None,
            frozenset().union(*(each.differs for each in values)),
            frozenset().union(*(each.scalars for each in values)),
        )

    # -- loops and branches

    def loop(
        self,
        loop: int,
        trips: Expression | None,
        begin: list[_Value],
        run: Callable[[list[_Value]], list[_Value]],
    ) -> list[_Value]:
        """Follow a loop until what it carries stays what it is; return what it ends with."""
        carried = [
            _Value(
                self.unique(), each.origins, each.lost, None, each.differs | {loop}, each.scalars
            )
            for each in begin
        ]  # fmt: skip
        accesses, products, steps = dict(self.accesses), len(self.products), len(self.steps)
        while True:
            with self.inside(loop, trips):
                after = run(carried)
            if len(after) != len(carried):
                raise Unknown("a loop that carries another number of values")
            merged = [
                replace(
                    old,
                    origins=old.origins | new.origins,
                    lost=old.lost or new.lost,
                    differs=old.differs | new.differs,
                    scalars=old.scalars | new.scalars,
                )
                for old, new in zip(carried, after, strict=True)
            ]
            if merged == carried:
                break
            carried, self.accesses = merged, dict(accesses)
            del self.products[products:]
            del self.steps[steps:]
        return [replace(each, key=self.unique(), differs=each.differs - {loop}) for each in carried]

    def scf_for(self, operation: Operation, names: _Names) -> list[_Value]:
        found = _FOR.match(operation.rest.strip())
        if found is None:
            raise Unknown(operation.rest)
        counter, *limits, carried = found.groups()
        begin, end, step = (self.value(each.rstrip(","), names) for each in limits)
        loop, known = self.unique(), [each.number for each in (begin, end, step)]
        trips = None
        if None not in known:
            trips = self.shared(("trips", *known), begin.key, end.key, step.key)
        # Where it ends does not change what the counter is in one iteration.
        differs = frozenset({loop}) | begin.differs | step.differs
        number = ("iteration", begin.number, end.number) if None not in known[:2] else None
        key = self.key("iteration", begin.key, end.key, step.key)
        pairs = _CARRIED.findall(carried or "")
        inner = [name for name, _ in pairs]

        def run(values: list[_Value]) -> list[_Value]:
            own = {counter: _Value(key, number=number, differs=differs)}
            return self.block(
                operation.regions[0], {**names, **own, **dict(zip(inner, values, strict=True))}
            )

        given = [self.value(name, names) for _, name in pairs]
        ended = self.loop(loop, trips, given, run)
        outside = begin.differs | end.differs | step.differs
        return [replace(each, differs=each.differs | outside) for each in ended]

    def scf_while(self, operation: Operation, names: _Names) -> list[_Value]:
        before, after = operation.regions
        head = operation.rest.split(") : (", 1)[0]
        pairs = _CARRIED.findall(head)
        inner = [name for name, _ in pairs]
        ended: list[_Value] = []

        def run(values: list[_Value]) -> list[_Value]:
            nonlocal ended
            bound = dict(zip(inner, values, strict=True))
            condition, *handed = self.block(before, {**names, **bound})
            ended = [replace(each, differs=each.differs | condition.differs) for each in handed]
            label = [each for each in after if each.name == "^"][:1]
            bound = dict(zip(label[0].results if label else (), handed, strict=True))
            return self.block(after, {**names, **bound})

        loop = self.unique()
        self.loop(loop, None, [self.value(name, names) for _, name in pairs], run)
        return [
            replace(each, key=self.unique(), number=None, differs=each.differs - {loop})
            for each in ended
        ]

    def scf_if(self, operation: Operation, names: _Names) -> list[_Value]:
        condition = self.value(operation.operands[0], names)
        holds = condition.number or numbers.MAYBE
        then = self.shared(("branch", holds), condition.key)
        otherwise = self.shared(("branch", ("eq", holds, ("constant", 0))), condition.key, "else")
        handed = []
        for region, trips in zip(operation.regions, (then, otherwise), strict=False):
            with self.inside(self.unique(), trips):
                handed.append(self.block(region, dict(names)))
        if not operation.results:
            return []
        results = [self.joined(*each) for each in zip(*handed, strict=True)]
        return [replace(each, differs=each.differs | condition.differs) for each in results]


_NESTED = {"scf.for": _Walk.scf_for, "scf.while": _Walk.scf_while, "scf.if": _Walk.scf_if}


def is_branch(trips: Expression | None) -> bool:
    """Return whether trips are those of a branch, which runs at most once."""
    return trips is not None and trips[0] in ("branch", "maybe")


def _number(operation: Operation, operands: list[_Value]) -> Expression | None:
    rest = _ATTRIBUTES.sub("", operation.rest)
    if "tensor<" in rest or len(operation.results) != 1:
        return None
    if operation.name == "arith.constant":
        found = _CONSTANT.match(rest.strip())
        if found is None:
            return None
        text = found.group(1)
        return ("constant", int(text) if text not in ("true", "false") else int(text == "true"))
    if _FLAG.search(rest):
        return None
    given = [each.number for each in operands]
    known = [each for each in given if each is not None]
    attribute = rest.strip().split(",", 1)[0]
    return numbers.combined(operation.name, attribute, known) if len(known) == len(given) else None


def _shape(text: str) -> list[int]:
    return [int(each) for each in text.split("x") if each]


def _elements(operation: Operation) -> tuple[list[int], str]:
    """Return shape and element type of an access."""
    if operation.name.startswith("tt.descriptor"):
        tensors = list(_TENSOR.finditer(operation.rest))
        found = tensors[-1] if tensors else None
    else:
        tried = (pattern.search(operation.rest) for pattern in _ELEMENTS)
        found = next((each for each in tried if each is not None), None)
    if found is None:
        raise Unknown(operation.rest)
    return _shape(found["shape"]), found["type"]


def _width(kind: str) -> int:
    """Return the bytes of an element type."""
    if kind.startswith("!tt.ptr"):
        return 8
    bits = _BITS.match(kind)
    if bits is None:
        raise Unknown(kind)
    return -(-int(bits.group(1)) // 8)
