"""Functions of a program that Triton compiles: which these are, and what is known of one.

In: the text of a file, as a profile keeps it.  Out: `TritonKernel`, the full names of what a file
imports, and what a call gives for each parameter.

A kernel is a function that `triton.jit` decorates, alone or among others as `triton.autotune`, by
whichever name the file imports it.  Names whose import is not in the text mean what they mean in
Triton's own examples.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.program.calls import parsed

__all__ = ["TritonKernel", "given_for", "imported_names", "is_kernel"]

_JIT = ("triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit", "gluon.jit", "jit",
        "triton.experimental.gluon.jit")  # fmt: skip
"""Full names of the decorators that compile a kernel, and those without an import in the text."""


@dataclass(frozen=True, eq=False)
class TritonKernel:
    """A kernel with its parameters, and what it does with the tensors they stand for."""

    name: str
    parameters: tuple[str, ...]
    loads: Mapping[str, tuple[int, ...]]
    """Lines of the loads, by parameter."""
    stores: Mapping[str, tuple[int, ...]]
    added: frozenset[str]
    """Parameters whose tensors atomic operations add to."""
    unknown: frozenset[str]
    """Parameters that are given to functions which are not read here, or to other atomic
    operations; "" stands for accesses to what no parameter names."""
    fills: frozenset[str]
    """Parameters that it only stores to, in each program and iteration, at addresses and below
    bounds that nothing in memory decides."""
    partly: frozenset[str]
    """Parameters of whose tensors what is in memory leaves elements out: each load has a mask, or
    is in a loop or branch, that depends on loaded values."""
    placed: frozenset[str]
    """Parameters, numbers as well, that addresses of stores are made of."""
    indices: frozenset[str]
    """Parameters from whose tensors it loads numbers that other addresses are made of."""
    inclusive: Mapping[int, str]
    """By line of an access whose mask says `at <= n - 1`, the parameter n."""
    multiplies: bool
    """Whether it multiplies tiles."""

    def only_loads(self, parameter: str) -> bool:
        """Return whether it loads from a parameter's tensor and changes nothing there."""
        others = {*self.stores, *self.added, *self.unknown}
        return parameter in self.loads and parameter not in others

    def only_stores(self, parameter: str) -> bool:
        """Return whether it stores to a parameter's tensor and reads nothing there."""
        others = {*self.loads, *self.added, *self.unknown}
        return parameter in self.stores and parameter not in others


@lru_cache(maxsize=64)
def imported_names(text: str) -> Mapping[str, str]:
    """Return the full name of what each name stands for that a file imports: `triton.language` for
    `tl`; none of its own package."""
    tree, found = parsed(text), dict[str, str]()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            for each in node.names:
                root = each.name.partition(".")[0]
                found[each.asname or root] = each.name if each.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {e.asname or e.name: f"{node.module}.{e.name}" for e in node.names}
    return found


def is_kernel(function: ast.FunctionDef, imported: Mapping[str, str]) -> bool:
    """Return whether Triton compiles a function, by its decorators."""
    for each in function.decorator_list:
        root, dot, rest = ast.unparse(each).partition("(")[0].partition(".")
        if imported.get(root, root) + dot + rest in _JIT:
            return True
    return False


def given_for(parameters: Sequence[str], call: ast.Call) -> dict[str, ast.expr]:
    """Return the arguments of a call by parameter: all that are told, which those of a `**` are
    not, nor those from a `*` on."""
    named = {each.arg: each.value for each in call.keywords if each.arg is not None}
    starred = [at for at, each in enumerate(call.args) if isinstance(each, ast.Starred)]
    plain = call.args[: min(starred, default=None)]
    return {**dict(zip(parameters, plain)), **named}
