"""Triton kernels in the text of a program, and the calls that launch them.

In: the text of a file, as a profile keeps it.  Out: its kernels, with what each does with the
tensors that it is given; `launched` reads a call that launches one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.program.calls import parsed
from tileprof.analyzer.program.triton.functions import (
    TritonKernel,
    given_for,
    imported_names,
    is_kernel,
)
from tileprof.analyzer.program.triton.reader import MODULES, read_kernels

__all__ = ["Launch", "kernels_of", "launched", "triton_kernels"]

_LANGUAGES = ("triton", "triton.language", "triton.experimental.gluon.language")
"""Modules of Triton that a file may import by other names."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A call `kernel[grid](arguments)`."""

    kernel: TritonKernel
    call: ast.Call
    grid: ast.expr
    given: Mapping[str, ast.expr]
    """Arguments by the parameter that they are given for, those that are told."""


@lru_cache(maxsize=64)
def triton_kernels(text: str) -> tuple[TritonKernel, ...]:
    """Return all kernels of a file; none where it is no Python."""
    tree = parsed(text)
    if tree is None:
        return ()
    imported = imported_names(text)
    functions = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and is_kernel(node, imported)
    ]  # fmt: skip
    modules = {name for name, full in imported.items() if full in _LANGUAGES} - {*MODULES}
    if modules:
        functions = [_Renamed(modules).visit(deepcopy(each)) for each in functions]
    return read_kernels(functions)


def kernels_of(texts: Iterable[str], text: str = "") -> tuple[TritonKernel, ...]:
    """Return the kernels of a text, and those of the others whose name no other one has.

    One kernel may be there several times: code that was compiled before names another copy of it.
    """
    found: dict[str, list[TritonKernel]] = {}
    for each in (kernel for other in texts for kernel in triton_kernels(other)):
        found.setdefault(each.name, []).append(each)
    own = {each.name: each for each in triton_kernels(text)}
    others = (held[0] for name, held in found.items() if name not in own and len(held) == 1)
    return (*own.values(), *others)


def launched(node: ast.AST, kernels: Mapping[str, TritonKernel]) -> Launch | None:
    """Return the launch that a call or a statement is; None where it is none. `kernels`: by
    name."""
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Subscript):
        return None
    function = call.func.value
    if isinstance(function, ast.Call) and len(function.args) == 1:
        function = function.args[0]  # `wrap_triton(kernel)[grid](…)`
    kernel = kernels.get(ast.unparse(function).rpartition(".")[2])
    if kernel is None:
        return None
    return Launch(kernel, call, call.func.slice, given_for(kernel.parameters, call))


class _Renamed(ast.NodeTransformer):
    """Gives modules the name that Triton's own examples have for them."""

    def __init__(self, modules: set[str]) -> None:
        self.modules = modules

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Return the name, or `tl` for one of these modules."""
        return ast.copy_location(ast.Name("tl"), node) if node.id in self.modules else node
