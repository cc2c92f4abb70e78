"""Functions of the host that launch Triton kernels: their names, and what is bound to them.

In: the text of a file, and the kernels it launches.  Out: by function its launches, what each name
is bound to, and where it is used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tileprof.analyzer.program.calls import called, parsed
from tileprof.analyzer.program.triton_kernels import (
    TritonKernel,
    imported_names,
    is_kernel,
    launched,
)
from tileprof.once import cached_property

CASTS = ("double", "long", "float", "half", "bfloat16")
"""Methods that cast a tensor, by the type that they name."""
EMPTY = ("empty", "empty_like", "new_empty", "empty_strided")
"""Calls that make a tensor without writing it."""
FILLED = ("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full",
           "full_like", "new_full")  # fmt: skip
"""Calls that make a tensor of one number."""
_OF_SHAPE = ("shape", "dtype", "device", "ndim", "size", "stride", "numel", "dim", "element_size",
             "is_contiguous", "new_empty", "new_zeros")  # fmt: skip
"""Attributes that read no element of a tensor."""
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like")


def functions_of(text: str) -> Iterator[ast.FunctionDef]:
    """Yield the functions of the host that are in no other one."""
    tree = parsed(text)
    imported = imported_names(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and not is_kernel(node, imported):
            yield node


class HostFunction:
    """The calls and names of one function of the host."""

    def __init__(self, function: ast.FunctionDef, kernels: Mapping[str, TritonKernel]) -> None:
        self.nodes = [node for each in function.body for node in ast.walk(each)]
        self.above = {
            child: node for node in (function, *self.nodes) for child in ast.iter_child_nodes(node)
        }
        self.launches = [
            held for node in self.nodes
            if isinstance(node, ast.Call) and (held := launched(node, kernels)) is not None
        ]  # fmt: skip
        self.uses: dict[str, list[ast.Name]] = {}
        self.bound: dict[str, list[ast.expr | None]] = {}
        """What is bound to each name; None where that is not plain."""
        arguments = function.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self.bound[each.arg] = [None]
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.uses.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Name):
                self.bound.setdefault(node.id, []).append(self._value(node))

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

    def once(self, name: str) -> ast.expr | None:
        """The value of a name that is bound but once."""
        values = self.bound.get(name, [])
        return values[0] if len(values) == 1 else None

    def is_of_shape(self, use: ast.Name) -> bool:
        """Whether a use of a name reads no element: `x.shape`, or `torch.empty_like(x)`."""
        above = self.above.get(use)
        if isinstance(above, ast.Attribute):
            return above.attr in _OF_SHAPE
        return isinstance(above, ast.Call) and called(above) in _LIKE

    @cached_property
    def _loaded(self) -> set[ast.expr]:
        """Arguments of kernels that only load from them."""
        return {
            argument
            for launch in self.launches
            for parameter, argument in launch.given.items()
            if launch.kernel.only_loads(parameter)
        }

    def is_loaded_alone(self, name: str, line: int = 0) -> bool:
        """Whether all uses of a name, from a line on, are arguments of such kernels."""
        later = [each for each in self.uses.get(name, ()) if each.lineno > line]
        return all(each in self._loaded or self.is_of_shape(each) for each in later)

    def call_around(self, use: ast.Name) -> ast.Call | None:
        """The call that a use is the tensor of: `x.to(…)`, `torch.clone(x)`, `y.copy_(x)`."""
        above = self.above.get(use)
        if isinstance(above, ast.Attribute):
            above = self.above.get(above)
        return above if isinstance(above, ast.Call) else None


def lines_of(node: ast.expr) -> range:
    """Return the numbers of an expression's lines."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
