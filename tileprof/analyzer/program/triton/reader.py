"""What the body of a Triton kernel does with the tensors that it is given.

In: the syntax trees of a file's kernels.  Out: by kernel, the parameters whose tensors it loads
from, stores to, adds to by atomics, or hands to code that is not read here; and those of which it
stores each element that a bound lets it store, whatever is in memory.

Addresses are followed through assignments: in `at = x + offset; tl.load(at)` the kernel loads from
`x`. What was loaded is no address, but an address that is made with it depends on memory. Of what
an address is made, parameters that are multiplied, compared or added to a pointer are numbers. A
kernel that calls another one of its file does what that one does, with its own arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tileprof.analyzer.program.calls import called
from tileprof.analyzer.program.triton.functions import TritonKernel, given_for

__all__ = ["MODULES", "read_kernels"]

_Access: TypeAlias = Literal["load", "store", "add"]
_Loaded: TypeAlias = Callable[[ast.Call], set[str]]
_FOREIGN = ("inline_asm_elementwise", "extern_elementwise")
MODULES = ("tl", "triton", "language", "libdevice", "math", "core")
"""Names before a function of Triton's, as in `tl.load`."""
_PRODUCTS = ("dot", "dot_scaled")
_LOADED = "*"
"""Before a parameter's name: what its tensor holds."""
_ROUNDED = ("cdiv", "min", "max", "minimum", "maximum", "num_programs")
"""Functions whose result is the same in all programs where their arguments are."""
_SUMS = (ast.Add, ast.Sub)
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def read_kernels(functions: Sequence[ast.FunctionDef]) -> tuple[TritonKernel, ...]:
    """Return what each kernel of a file does."""
    file = _File({each.name: each for each in functions})
    return tuple(_Reader(each, file).kernel() for each in functions)


@dataclass(frozen=True, slots=True)
class _Callee:
    """A function that a kernel calls: what it does, and what its result is."""

    kernel: TritonKernel
    numbers: frozenset[str]
    """Parameters that are no pointers."""
    addressed: frozenset[str]
    """Parameters that addresses are made of."""
    placing: frozenset[str]
    """Parameters that addresses or masks are made of."""
    returned: frozenset[str]
    """Parameters that its result is made of; with a mark, those whose tensors it loads it from."""


@dataclass(frozen=True, slots=True)
class _Called:
    """A call of such a function, with what it is given for each parameter."""

    callee: _Callee
    given: Mapping[str, ast.expr]

    def placing(self) -> list[ast.expr]:
        """Arguments that addresses or masks are made of."""
        return [self.given[each] for each in self.callee.placing & {*self.given}]


class _File:
    """The kernels of a file, each of which others may call."""

    def __init__(self, functions: Mapping[str, ast.FunctionDef]) -> None:
        self._functions = functions
        self._read: dict[str, _Callee | None] = {}

    def called(self, call: ast.AST) -> _Called | None:
        """Return the kernel that a call is of; None for a call of anything else, of a kernel that
        calls itself, and unless all arguments are told."""
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        name = call.func.id
        if name in self._functions and name not in self._read:
            self._read[name] = None
            self._read[name] = _Reader(self._functions[name], self).callee()
        callee = self._read.get(name)
        told = all(each.arg is not None for each in call.keywords)
        if callee is None or not told or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        return _Called(callee, given_for(callee.kernel.parameters, call))


class _Reader:
    """Follows the names of one kernel's body, in which order does not matter."""

    def __init__(self, function: ast.FunctionDef, file: _File) -> None:
        self.function = function
        self.file = file
        arguments = function.args
        self.parameters = tuple(
            each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        )
        self.nodes = [node for each in function.body for node in ast.walk(each)]
        self.above = {
            child: node
            for node in (function, *self.nodes)
            for child in ast.iter_child_nodes(node)
        }  # fmt: skip
        self.made: dict[str, list[ast.expr]] = {}
        """What is assigned to each name."""
        for node in self.nodes:
            for target, value in _assigned(node):
                self.made.setdefault(target, []).append(value)
        self.roots = self._followed(_nothing)
        """Parameters that the value of a name is made of, loaded values left out."""
        loaded = {
            name: {each.removeprefix(_LOADED) for each in held if each.startswith(_LOADED)}
            for name, held in self._followed(self._loaded).items()
        }
        self.from_memory = {name: held for name, held in loaded.items() if held}
        """By name whose value depends on what is in memory, the parameters of these tensors; ""
        stands for what no parameter names."""

    def kernel(self) -> TritonKernel:
        held: dict[_Access, dict[str, list[int]]] = {"load": {}, "store": {}, "add": {}}
        unknown, partly, placed, indices = set[str](), set[str](), set[str](), set[str]()
        surely = set[str]()
        """Parameters of whose tensors some load is not left out by what is in memory."""
        inclusive, numbers = dict(self._inclusive()), self._numbers()
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            if (within := self.file.called(node)) is not None:
                kernel = within.callee.kernel
                for parameter, given in within.given.items():
                    made_of = self._made_of(given)
                    names = made_of - numbers
                    for name in names:
                        held["load"].setdefault(name, []).extend(kernel.loads.get(parameter, ()))
                        held["store"].setdefault(name, []).extend(kernel.stores.get(parameter, ()))
                        held["add"].setdefault(name, []).extend([0] * (parameter in kernel.added))
                    unknown |= names if parameter in kernel.unknown else set()
                    if parameter in {*kernel.loads} - kernel.partly:
                        surely |= set() if self._left_out(node, within.placing()) else names
                    placed |= made_of if parameter in kernel.placed else set()
                    indices |= names if parameter in kernel.indices else set()
                    if parameter in within.callee.addressed:
                        indices |= self._from_memory(given)
                    if parameter in kernel.stores and not (
                        parameter in kernel.fills and self._in_all(node, names)
                        and not any(map(self._depends, within.placing()))
                    ):  # fmt: skip
                        partly |= names
                    last = ast.unparse(given)
                    inclusive |= {
                        line: last for line, name in kernel.inclusive.items()
                        if name == parameter and last in self.parameters
                    }  # fmt: skip
                unknown |= {""} & kernel.unknown
                continue
            if (found := self._accessed(node)) is None:
                if self._leaves(node):
                    given_ = (self._made_of(each) for each in ast.iter_child_nodes(node))
                    unknown |= set[str]().union(*given_) - numbers
                continue
            kind, made_of = found
            indices |= self._numbered(node)
            if kind != "load":  # a description's method has the place for an argument
                placed.update(made_of, *(self._made_of(each) for each in node.args[:1]))
            names = made_of - numbers
            if not names or (kind == "add" and called(node) != "atomic_add"):
                unknown |= names or {""}
                continue
            for name in names:
                held[kind].setdefault(name, []).append(node.lineno)
            if kind == "store" and not (self._bounded(node) and self._in_all(node, names)):
                partly |= names
            if kind == "load" and not self._left_out(node, _masks(node, plain=True)):
                surely |= names
        loads, stores, added = (
            {name: tuple(sorted(lines)) for name, lines in held[kind].items() if lines}
            for kind in held
        )
        fills = set(stores) - set(loads) - set(added) - unknown - partly
        return TritonKernel(
            self.function.name, self.parameters, loads, stores, frozenset(added),
            frozenset(unknown), frozenset() if self._leaves_early() else frozenset(fills),
            frozenset({*loads} - surely),
            frozenset(placed), frozenset(indices - {""} - numbers), inclusive,
            any(self._multiplies(each) for each in self.nodes),
        )  # fmt: skip

    def callee(self) -> _Callee:
        """What a kernel that calls this one has to know of it."""
        addressed, masks, returned = set[str](), set[str](), set[str]()
        for node in self.nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                returned |= self._made_of(node.value)
                returned |= {_LOADED + each for each in self._from_memory(node.value)}
            elif (within := self.file.called(node)) is not None:
                known = within.callee.addressed & {*within.given}
                addressed |= set[str]().union(*(self._made_of(within.given[e]) for e in known))
                masks |= set[str]().union(*(self._made_of(each) for each in within.placing()))
            elif isinstance(node, ast.Call) and (found := self._accessed(node)) is not None:
                addressed.update(found[1], *(self._made_of(each) for each in node.args[:1]))
                masks |= set[str]().union(*map(self._made_of, _masks(node, plain=True)))
        return _Callee(
            self.kernel(), frozenset(self._numbers()), frozenset(addressed),
            frozenset(addressed | masks), frozenset(returned),
        )  # fmt: skip

    def _multiplies(self, node: ast.AST) -> bool:
        within = self.file.called(node)
        multiplies = isinstance(node, ast.Call) and called(node) in _PRODUCTS
        return multiplies or (within is not None and within.callee.kernel.multiplies)

    def _leaves(self, node: ast.AST) -> bool:
        """Whether a call hands its arguments to code that is not read."""
        if not isinstance(node, ast.Call) or not _leaves(node):
            return False
        method = isinstance(node.func, ast.Attribute) and node.func.attr not in _FOREIGN
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if method and isinstance(of, ast.Name) and of.id in {*self.made, *self.parameters}:
            return False  # a method of a value
        return self.file.called(node) is None

    def _numbers(self) -> set[str]:
        """Parameters that are no pointers."""
        arguments = (*self.function.args.args, *self.function.args.kwonlyargs)
        found = {
            each.arg for each in arguments
            if each.annotation is not None and "constexpr" in ast.unparse(each.annotation)
        }  # fmt: skip
        parts, sums = list[ast.expr](), list[tuple[ast.expr, ast.expr]]()
        for node in self.nodes:
            if isinstance(node, ast.BinOp):
                pair = node.left, node.right
                if isinstance(node.op, _SUMS):
                    sums.append(pair)
                else:
                    parts += pair
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, _SUMS):
                sums.append((node.target, node.value))
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], _ORDERED):
                parts += [node.left, *node.comparators]
            elif (within := self.file.called(node)) is not None:
                parts += [within.given[e] for e in within.callee.numbers & {*within.given}]
            elif isinstance(node, ast.Call) and not self._leaves(node):
                given = [*node.args, *(each.value for each in node.keywords)]
                of_range = called(node) == "range"
                parts += [e for e in given if of_range or isinstance(e, (ast.Tuple, ast.List))]
        found.update(*(self._made_of(each) for each in parts))
        for left, right in sums:
            if self._made_of(left) - found:
                found |= self._made_of(right)
        return found

    def _accessed(self, call: ast.Call) -> tuple[_Access, set[str]] | None:
        """Return whether a call loads, stores or adds, and the parameters that its address is made
        of; None where it accesses no memory."""
        if (kind := _kind(call)) is None or not isinstance(call.func, ast.Attribute):
            return None
        place = call.func.value
        if isinstance(place, ast.Name) and place.id in MODULES:
            if not call.args:
                return None
            place = call.args[0]
        return kind, self._made_of(place)

    def _in_all(self, call: ast.Call, names: set[str]) -> bool:
        """Whether a call runs in each iteration of all loops around it, or another one that stores
        to the same tensors runs where it does not."""
        node: ast.AST = call
        while (above := self.above.get(node)) is not None and above is not self.function:
            if isinstance(above, ast.If) and not self._depends(above.test):
                if node in above.body and self._bounds_programs(above.test):
                    node = above
                    continue
                other = above.orelse if node in above.body else above.body
                if not any(self._stores(each, names) for part in other for each in ast.walk(part)):
                    return False
            elif isinstance(above, (ast.If, ast.IfExp, ast.Try)):
                return False
            if isinstance(above, (ast.For, ast.While)) and self._depends(
                above.iter if isinstance(above, ast.For) else above.test
            ):
                return False
            node = above
        return True

    def _left_out(self, call: ast.Call, masks: Sequence[ast.expr]) -> bool:
        """Whether what is in memory decides how much of an access is done, or how often."""
        node: ast.AST = call
        while (above := self.above.get(node)) is not None:
            asked = None
            if isinstance(above, (ast.If, ast.While)):
                asked = above.test
            elif isinstance(above, ast.For):
                asked = above.iter
            if asked is not None and asked is not node and self._depends(asked):
                return True
            node = above
        return any(map(self._depends, masks))

    def _stores(self, node: ast.AST, names: set[str]) -> bool:
        """Whether a call stores to some tensors."""
        if (within := self.file.called(node)) is not None:
            stores = within.callee.kernel.stores
            return any(names <= self._made_of(within.given[e]) for e in stores if e in within.given)
        found = self._accessed(node) if isinstance(node, ast.Call) else None
        return found is not None and found[0] == "store" and names <= found[1]

    def _bounded(self, call: ast.Call) -> bool:
        """Whether a store's addresses and bounds do not depend on memory."""
        assert isinstance(call.func, ast.Attribute)
        plain = isinstance(call.func.value, ast.Name) and call.func.value.id in MODULES
        places = [call.args[0]] if plain else [call.func.value, *call.args[:1]]
        if any(self._depends(each) for each in places):
            return False
        return all(self._bounds(each) for each in _masks(call, plain))

    def _inclusive(self) -> Mapping[int, str]:
        """By line of an access, the parameter whose predecessor is the last index of its mask."""
        found = dict[int, str]()
        for node in self.nodes:
            if isinstance(node, ast.Call) and self._accessed(node) is not None:
                for each in _masks(node, plain=True):
                    found |= dict.fromkeys((node.lineno,) if (n := self._last(each)) else (), n)
        return found

    def _last(self, mask: ast.expr) -> str:
        """The parameter n of a mask that says `at <= n - 1`; nothing for others."""
        for each in self._parts(mask):
            if isinstance(each, ast.Compare) and len(each.ops) == 1:
                left, right = each.left, each.comparators[0]
                if isinstance(each.ops[0], ast.GtE):
                    left, right = right, left
                elif not isinstance(each.ops[0], ast.LtE):
                    continue
                after = self._one_more(left, ast.Add) is not None
                found = self._once(right) if after else self._one_more(self._once(right), ast.Sub)
                if isinstance(found, ast.Name) and found.id in self.parameters:
                    return found.id
        return ""

    def _one_more(self, node: ast.expr, op: type[ast.operator]) -> ast.expr | None:
        """What 1 is added to, or taken from, in an expression; None for others."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, op):
            return None
        one = isinstance(node.right, ast.Constant) and node.right.value == 1
        return self._once(node.left) if one else None

    def _once(self, node: ast.expr) -> ast.expr:
        """What a name stands for that is assigned once and is no parameter, else the expression."""
        for _ in range(8):
            values = self.made.get(node.id, []) if isinstance(node, ast.Name) else []
            if len(values) != 1 or (isinstance(node, ast.Name) and node.id in self.parameters):
                break
            node = values[0]
        return node

    def _parts(self, mask: ast.expr, depth: int = 0) -> Iterator[ast.AST]:
        """Yield what a mask is made of, the values of names that are assigned once included."""
        for each in ast.walk(mask):
            values = self.made.get(each.id, []) if isinstance(each, ast.Name) else []
            if len(values) == 1 and depth < 8:
                yield from self._parts(values[0], depth + 1)
            yield each

    def _bounds(self, mask: ast.expr, depth: int = 0) -> bool:
        """Whether a mask only says that indices are below bounds."""
        if depth > 8 or self._depends(mask):
            return False
        if isinstance(mask, ast.Name):
            values = self.made.get(mask.id, [])
            return mask.id in self.parameters or (
                bool(values) and all(self._bounds(each, depth + 1) for each in values)
            )
        if isinstance(mask, ast.Subscript):
            return self._bounds(mask.value, depth + 1)
        if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
            return all(self._bounds(each, depth + 1) for each in (mask.left, mask.right))
        if isinstance(mask, ast.BoolOp) and isinstance(mask.op, ast.And):
            return all(self._bounds(each, depth + 1) for each in mask.values)
        if not isinstance(mask, ast.Compare):
            return False
        sides = (mask.left, *mask.comparators)
        return all(map(self._is_bound, sides, mask.ops, sides[1:]))

    def _is_bound(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool:
        """Whether a comparison only says that an index is below a bound, or not below 0."""
        if isinstance(op, (ast.Gt, ast.GtE)):
            left, right = right, left
        if isinstance(left, ast.Constant) and left.value == 0:
            return isinstance(op, (ast.LtE, ast.GtE))
        below = isinstance(op, ast.Lt) or (isinstance(op, ast.Gt) and self._is_of_launch(right))
        return below or (isinstance(op, (ast.LtE, ast.GtE)) and self._is_of_launch(right))

    def _is_of_launch(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether a number is the same in all programs and iterations."""
        if isinstance(node, ast.Name):
            values = self.made.get(node.id, [])
            return (node.id in self.parameters and not values) or (
                len(values) == 1 and depth < 8 and self._is_of_launch(values[0], depth + 1)
            )
        if isinstance(node, ast.BinOp):
            return all(self._is_of_launch(each, depth) for each in (node.left, node.right))
        if isinstance(node, ast.Call):
            of = called(node) in _ROUNDED and not node.keywords
            return of and all(self._is_of_launch(each, depth) for each in node.args)
        return isinstance(node, ast.Constant)

    def _leaves_early(self) -> bool:
        """Whether some programs may return before the end, others than those behind a bound."""
        for node in self.nodes:
            above = self.above.get(node) if isinstance(node, ast.Return) else self.function
            if above is self.function:
                continue
            if not isinstance(above, ast.If) or not self._bounds_programs(above.test, True):
                return True
        return False

    def _bounds_programs(self, test: ast.expr, behind: bool = False) -> bool:
        """Whether a condition says that a place is below (or, with `behind`, not below) a number of
        the launch."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or self._depends(test):
            return False
        wanted = (ast.Gt, ast.GtE) if behind else (ast.Lt, ast.LtE)
        return isinstance(test.ops[0], wanted) and self._is_of_launch(test.comparators[0])

    # -- names

    def _followed(self, loaded: _Loaded) -> dict[str, set[str]]:
        """By name, the parameters that its value is made of; `loaded` tells it of a load."""
        roots = {name: {name} for name in self.parameters}
        changed = True
        while changed:
            changed = False
            for name, values in self.made.items():
                held = roots.setdefault(name, set())
                found = set[str]().union(*(self._made(each, roots, loaded) for each in values))
                changed |= not found <= held
                held |= found
        return roots

    def _made_of(self, node: ast.AST) -> set[str]:
        """Parameters that an expression is made of, loaded values left out."""
        return self._made(node, self.roots, _nothing)

    def _made(self, node: ast.AST, roots: Mapping[str, set[str]], loaded: _Loaded) -> set[str]:
        """Parameters that an expression is made of; `loaded` tells it of a load.

        Addresses that functions return which are not read here are made of nothing.
        """
        if isinstance(node, ast.Call) and _kind(node) is not None:
            return loaded(node)
        if (within := self.file.called(node)) is not None:
            found = set[str]()
            for parameter, given in within.given.items():
                made_of = self._made(given, roots, loaded)
                if parameter in within.callee.returned:
                    found |= made_of
                if _LOADED + parameter in within.callee.returned and loaded is not _nothing:
                    found |= {_LOADED + each.removeprefix(_LOADED) for each in made_of or {""}}
            if loaded is not _nothing:
                found |= {_LOADED} & within.callee.returned
            return found
        if loaded is _nothing and (self._leaves(node) or _is_type(node)):
            return set()
        if isinstance(node, ast.Name):
            return roots.get(node.id, set())
        nodes = ast.iter_child_nodes(node)
        return set[str]().union(*(self._made(each, roots, loaded) for each in nodes))

    def _from_memory(self, node: ast.AST) -> set[str]:
        """Parameters of the tensors that an expression's value is loaded from; "" for others."""
        found = set[str]()
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                found |= self.from_memory.get(each.id, set())
            elif isinstance(each, ast.Call):
                held = self._made(each, {}, self._loaded)
                found |= {e.removeprefix(_LOADED) for e in held if e.startswith(_LOADED)}
        return found

    def _loaded(self, call: ast.Call) -> set[str]:
        """Parameters of the tensor that an access is of, marked as loaded."""
        found = self._accessed(call)
        return {_LOADED + each for each in (found[1] if found else ()) or {""}}

    def _numbered(self, call: ast.Call) -> set[str]:
        """Parameters from whose tensors the numbers come that an access's address is made of."""
        assert isinstance(call.func, ast.Attribute)
        plain = isinstance(call.func.value, ast.Name) and call.func.value.id in MODULES
        places = call.args[:1] if plain else (call.func.value, *call.args[:1])
        return set[str]().union(*(self._from_memory(each) for each in places))

    def _depends(self, node: ast.AST) -> bool:
        """Whether an expression depends on what is in memory."""
        return any(
            (isinstance(each, ast.Call) and _kind(each) is not None)
            or (isinstance(each, ast.Name) and each.id in self.from_memory)
            or (isinstance(each, ast.Call) and self._returns_loaded(each))
            for each in ast.walk(node)
        )

    def _returns_loaded(self, call: ast.Call) -> bool:
        within = self.file.called(call)
        return within is not None and any(e.startswith(_LOADED) for e in within.callee.returned)


def _nothing(_: ast.Call) -> set[str]:
    """A loaded value is made of no parameter, as it is no address."""
    return set()


def _is_type(node: ast.AST) -> bool:
    """Whether an expression is the type of a value: `out.dtype`."""
    return isinstance(node, ast.Attribute) and node.attr in ("dtype", "type")


def _masks(call: ast.Call, plain: bool) -> list[ast.expr]:
    """The masks of an access; with `plain`, of a function of Triton's."""
    at = 1 if called(call) == "load" else 2
    given = call.args[at : at + 1] if plain else []
    return [*(each.value for each in call.keywords if each.arg == "mask"), *given]


def _kind(call: ast.Call) -> _Access | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name.startswith("atomic_"):
        return "add"
    if name in ("load", "gather"):
        # `tl.gather` is an exchange between threads, `descriptor.gather` a load.
        of_triton = isinstance(call.func, ast.Attribute) and (
            isinstance(call.func.value, ast.Name) and call.func.value.id in MODULES
        )
        return "load" if name == "load" or not of_triton else None
    return "store" if name in ("store", "scatter") else None


def _leaves(call: ast.Call) -> bool:
    """Whether a call hands its arguments to code that is not Triton's."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id not in ("range", "min", "max", "abs", "len", "print", "float", "int")
    if not isinstance(function, ast.Attribute):
        return True
    of_module = isinstance(function.value, ast.Name) and function.value.id not in MODULES
    # A method of a value has other values for arguments; only a module's function takes pointers.
    return function.attr in _FOREIGN or (of_module and bool(call.args))


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with what a statement assigns to them."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        pairs = [(node.target, node.value)] if node.value is not None else []
    elif isinstance(node, ast.For):
        pairs = [(node.target, node.iter)]
    for target, value in pairs:
        targets, values = (
            each.elts if isinstance(each, ast.Tuple) else [each] for each in (target, value)
        )
        if len(targets) == len(values):
            for one, of in zip(targets, values):
                yield from ((each.id, of) for each in ast.walk(one) if isinstance(each, ast.Name))
        else:
            names = (each for each in ast.walk(target) if isinstance(each, ast.Name))
            yield from ((each.id, value) for each in names)
