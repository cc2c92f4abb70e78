"""Functions of the host that launch Triton kernels: their names, and what is bound to them.

In: the text of a file, and the kernels it launches.  Out: by function its launches, what each name
is bound to, and where the tensor that it stands for is used.

A name that a function binds again, as in `x = x.float()`, is another one from there on where
nothing but the order of statements decides that. Views of a tensor are the tensor: after
`rows = x.view(-1, n)` a use of `rows` is one of `x`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from tileprof.analyzer.numbers.programs import TENSOR_NAMES
from tileprof.analyzer.program.calls import called, parsed
from tileprof.analyzer.program.triton.functions import (
    TritonKernel,
    given_for,
    imported_names,
    is_kernel,
)
from tileprof.analyzer.program.triton.kernels import launched
from tileprof.once import cached_property

CASTS = ("double", "long", "float", "int", "half", "bfloat16")
"""Methods that cast a tensor, by the type that they name."""
EMPTY = ("empty", "empty_like", "new_empty", "empty_strided")
"""Calls that make a tensor without writing it."""
FILLED = ("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full",
           "full_like", "new_full")  # fmt: skip
"""Calls that make a tensor of one number."""
_OF_SHAPE = ("shape", "dtype", "device", "ndim", "size", "stride", "numel", "nelement", "dim",
             "element_size", "itemsize", "nbytes", "is_contiguous", "is_cuda", "new_empty",
             "new_zeros", "new_ones", "new_full")  # fmt: skip
"""Attributes that read no element of a tensor."""
VIEWS = ("view", "reshape", "view_as", "reshape_as", "unflatten", "flatten", "ravel", "squeeze",
         "unsqueeze", "detach")  # fmt: skip
"""Methods whose result begins where the tensor does, and has the same elements."""
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like")
_OF_OBJECT = ("isinstance", "len", "type", "is_tensor", *_LIKE)
"""Functions that read no element of a tensor."""
_DESCRIBED = "from_tensor"
"""Function that describes a tensor to a kernel: `TensorDescriptor.from_tensor(x, …)`."""


def functions_of(text: str) -> Iterator[ast.FunctionDef]:
    """Yield the functions of the host."""
    tree = parsed(text)
    imported = imported_names(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and not is_kernel(node, imported):
            yield node


@lru_cache(maxsize=64)
def callables_of(text: str) -> Mapping[str, ast.FunctionDef]:
    """Return the functions that any line of a file may call by a name: those in no other one, and
    `Name.apply` of a class with a function `forward`, as autograd's functions are."""
    tree, found = parsed(text), dict[str, ast.FunctionDef]()
    held = set(functions_of(text))
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node in held:
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            forward = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}.apply": each for each in forward if each.name == "forward"}
    return found


class HostFunction:
    """The calls and names of one function of the host."""

    def __init__(
        self, function: ast.FunctionDef, kernels: Mapping[str, TritonKernel],
        others: Mapping[str, ast.FunctionDef],
    ) -> None:  # fmt: skip
        self.kernels = kernels
        self.others = others
        """Functions of the file, as `callables_of` returns them."""
        self.nodes = [node for each in function.body for node in ast.walk(each)]
        self.above = {
            child: node for node in (function, *self.nodes) for child in ast.iter_child_nodes(node)
        }
        self.launches = [
            held for node in self.nodes
            if isinstance(node, ast.Call) and (held := launched(node, kernels)) is not None
        ]  # fmt: skip
        self._uses: dict[str, list[ast.Name]] = {}
        self._bound: dict[str, list[ast.expr | None]] = {}
        """What is bound to each name; None where that is not plain."""
        arguments = function.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._bound[each.arg] = [None]
        self._again: dict[str, int] = {}
        """How often each name was bound again."""
        self._names: dict[ast.Name, str] = {}
        self._read(function.body)
        for node, name in self._names.items():
            if isinstance(node.ctx, ast.Load):
                self._uses.setdefault(name, []).append(node)

    def _read(self, body: list[ast.stmt]) -> None:
        """Tell the names of statements in order: a name that is bound again is another one."""
        for statement in body:
            names = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
            if isinstance(statement, ast.With):
                held = {each for part in statement.body for each in ast.walk(part)}
                names = [each for each in names if each not in held]
            plain = isinstance(statement, (ast.Assign, ast.AnnAssign))
            for each in sorted(names, key=lambda each: not isinstance(each.ctx, ast.Load)):
                value = None if isinstance(each.ctx, ast.Load) else self._value(each)
                if plain and value is not None and self._name(each.id) in self._bound:
                    self._again[each.id] = self._again.get(each.id, 0) + 1
                self._names[each] = self._name(each.id)
                if isinstance(each.ctx, ast.Store):
                    self._bound.setdefault(self._names[each], []).append(value)
            if isinstance(statement, ast.With):
                self._read(statement.body)

    def _name(self, name: str) -> str:
        return f"{name} {again}" if (again := self._again.get(name)) else name

    def _value(self, target: ast.Name) -> ast.expr | None:
        """What a statement binds to a name, where it is an assignment of one value, or of as many
        as it has targets."""
        above = self.above.get(target)
        if isinstance(above, (ast.Assign, ast.AnnAssign)):
            return above.value
        outer = self.above.get(above) if isinstance(above, ast.Tuple) else None
        if not isinstance(above, ast.Tuple) or not isinstance(outer, ast.Assign):
            return None
        values = outer.value.elts if isinstance(outer.value, ast.Tuple) else []
        same = len(values) == len(above.elts)
        return values[above.elts.index(target)] if same else None

    def once(self, name: ast.expr) -> ast.expr | None:
        """The value of a name that is bound but once; None for other expressions."""
        values = self._bound.get(self._names[name], []) if isinstance(name, ast.Name) else []
        return values[0] if len(values) == 1 else None

    def made(self, given: ast.expr) -> ast.expr:
        """What makes the tensor that an expression is or is a view of: a call, or a name of which
        no more is known."""
        *_, name = self._earlier(given)
        return viewed(self.once(name) or name)

    def first_name(self, given: ast.expr) -> ast.expr | None:
        """The first name of the tensor that an expression is or is a view of; None if it has
        none."""
        *_, name = self._earlier(given)
        return name if isinstance(name, ast.Name) else None

    def _earlier(self, given: ast.expr) -> Iterator[ast.expr]:
        """Yield the names that a tensor had before, the first one last."""
        for _ in range(TENSOR_NAMES):
            given = viewed(given)
            yield given
            value = self.once(given)
            if value is None or not isinstance(viewed(value), ast.Name):
                return
            given = value

    def uses(self, name: ast.expr, most: int = TENSOR_NAMES) -> list[ast.expr]:
        """The uses of a name's tensor, each with the views around it, those by other names too."""
        found = list[ast.expr]()
        for each in self._uses.get(self._names[name], ()) if isinstance(name, ast.Name) else ():
            node: ast.expr = each
            while (around := self._view_around(node)) is not None:
                node = around
            target = self.bound_to(node)
            found += [node] if target is None or not most else self.uses(target, most - 1)
        return found

    def _view_around(self, node: ast.expr) -> ast.Call | None:
        method = self.above.get(node)
        if isinstance(method, ast.Call) and called(method) == _DESCRIBED:
            return method
        if not isinstance(method, ast.Attribute) or method.attr not in VIEWS:
            return None
        call = self.above.get(method)
        return call if isinstance(call, ast.Call) and call.func is method else None

    def bound_to(self, node: ast.expr) -> ast.Name | None:
        """The name that a statement binds an expression to, and nothing else to that name."""
        above = self.above.get(node)
        above = self.above.get(above) if isinstance(above, ast.Tuple) else above
        for target in above.targets if isinstance(above, ast.Assign) else ():
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Name) and self.once(each) is node:
                    return each
        return None

    def is_of_shape(self, use: ast.expr) -> bool:
        """Whether a use of a tensor reads no element: `x.shape`, `torch.empty_like(x)`, or a call
        of a function of the file that only asks for its shape."""
        above = self.above.get(use)
        if isinstance(above, ast.Attribute):
            return above.attr in _OF_SHAPE
        if isinstance(above, ast.Compare):
            return all(isinstance(op, (ast.Is, ast.IsNot)) for op in above.ops)
        if not isinstance(above, ast.Call):
            return False
        return called(above) in _OF_OBJECT or self._only_checks(above, use)

    def given_to(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """Return the arguments of a call of a function of the file, by its name for each; None for
        other calls."""
        function = self.others.get(ast.unparse(call.func))
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        if function is None or starred or any(each.arg is None for each in call.keywords):
            return None
        arguments = function.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        return given_for(names[isinstance(call.func, ast.Attribute) :], call)

    def is_argument(self, name: ast.expr, argument: str) -> bool:
        """Whether a name stands for an argument of the function, which nothing is bound to."""
        known = isinstance(name, ast.Name) and self._names[name] == argument
        return known and self._bound.get(argument) == [None]

    def _only_checks(self, call: ast.Call, use: ast.expr) -> bool:
        """Whether a function of the file only asks for the shape of an argument."""
        given = self.given_to(call) or {}
        name = next((each for each, value in given.items() if value is use), None)
        if name is None:
            return False
        function = self.others[ast.unparse(call.func)]
        nodes = [node for each in function.body for node in ast.walk(each)]
        above = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        held = [above.get(each) for each in nodes if isinstance(each, ast.Name) and each.id == name]
        return all(isinstance(each, ast.Attribute) and each.attr in _OF_SHAPE for each in held)

    @cached_property
    def _loaded(self) -> set[ast.expr]:
        """Arguments of kernels that only load from them."""
        return {
            argument
            for launch in self.launches
            for parameter, argument in launch.given.items()
            if launch.kernel.only_loads(parameter)
        }

    def is_loaded_alone(self, name: ast.expr, line: int = 0) -> bool:
        """Whether all uses of a name's tensor, from a line on, are arguments of such kernels."""
        later = [each for each in self.uses(name) if each.lineno > line]
        return all(each in self._loaded or self.is_of_shape(each) for each in later)

    def tensor_of(self, node: ast.expr) -> ast.Name | None:
        """The name of the tensor that an expression is a part or another order of: `x` of
        `x[1:].t()`; None where it is none."""
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                node = node.func
            if not isinstance(node, (ast.Attribute, ast.Subscript)):
                return None
            node = node.value
        return node

    def same(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two names stand for the same."""
        names = (each for each in (one, other) if isinstance(each, ast.Name))
        known = [self._names[each] for each in names]
        return len(known) == 2 and known[0] == known[1]

    def call_around(self, use: ast.expr) -> ast.Call | None:
        """The call that a use is the tensor of: `x.to(…)`, `torch.clone(x)`, `y.copy_(x)`."""
        above = self.above.get(use)
        if isinstance(above, ast.Attribute):
            above = self.above.get(above)
        return above if isinstance(above, ast.Call) else None


def viewed(node: ast.expr) -> ast.expr:
    """Return the tensor that methods give a view of, or that is described: `x` of
    `x.view(-1).unsqueeze(0)`."""
    while isinstance(node, ast.Call):
        method = node.func
        if called(node) == _DESCRIBED and node.args:
            node = node.args[0]
        elif isinstance(method, ast.Attribute) and method.attr in VIEWS:
            node = method.value
        else:
            break
    return node


def lines_of(node: ast.expr) -> range:
    """Return the numbers of an expression's lines."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
