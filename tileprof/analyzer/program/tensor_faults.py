"""Tensors that a function of the host gives a Triton kernel, and that slow it down.

In: the text of a file, and kernels.  Out: a `TensorFault` for each such tensor: numbers in order,
by which a kernel takes its rows, what it stores for nobody, and elements that begin at an odd
place.

    kernel[grid](x, torch.arange(n), out)  addresses are made of what is loaded of the numbers
    kept = torch.empty_like(x)             the kernel stores to it, and nothing else has it
    kernel[grid](x, kept, out)
    out = torch.empty(n + 1)[1:].view(…)   no address is known to be a multiple of 16 bytes
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from tileprof.analyzer.program.calls import called
from tileprof.analyzer.program.host_functions import (
    CASTS,
    EMPTY,
    FILLED,
    HostFunction,
    callables_of,
    functions_of,
    lines_of,
    viewed,
)
from tileprof.analyzer.program.triton.functions import TritonKernel
from tileprof.analyzer.program.triton.kernels import Launch

Fault: TypeAlias = Literal["counted", "unread", "unaligned"]


@dataclass(frozen=True, slots=True)
class TensorFault:
    """A tensor that a function gives a kernel, which is faster without it, or with another one."""

    kind: Fault
    call: str
    """Text of the call that makes it."""
    lines: range
    """Lines of that call."""
    tensor: str
    """Its name, or the text of the call."""
    kernel: str
    parameter: str
    """The kernel's name for the tensor that it is given."""
    accesses: tuple[int, ...]
    """Lines of the kernel that load from or store to it."""
    launch: range
    """Lines of the call that launches the kernel."""
    offset: int = 0
    """Elements that it begins behind the begin of its memory."""


@lru_cache(maxsize=64)
def tensor_faults(text: str, kernels: tuple[TritonKernel, ...]) -> tuple[TensorFault, ...]:
    """Return all such tensors of a file, none where it is no Python."""
    known = {each.name: each for each in kernels}
    others = callables_of(text)
    return tuple(
        found
        for function in functions_of(text)
        for found in _Faults(function, known, others).faults()
    )


class _Faults(HostFunction):
    """The tensors of one function's launches."""

    def faults(self) -> Iterator[TensorFault]:
        """Yield the tensors of all launches that slow their kernels down."""
        for launch in self.launches:
            kernel = launch.kernel
            unread = {each for each in launch.given if self._unread(launch, each)}
            if not {*kernel.stores, *kernel.added} - unread:
                unread = set()  # then nothing of the kernel is read, as in a measurement of it
            for parameter, given in launch.given.items():
                made = self.made(given)
                accesses = {*kernel.loads.get(parameter, ()), *kernel.stores.get(parameter, ())}
                offset = self._offset(made) if accesses else 0
                found: dict[Fault, bool] = {
                    "counted": self._counts(launch, parameter), "unread": parameter in unread,
                    "unaligned": offset > 0,
                }  # fmt: skip
                for kind in (each for each in found if found[each]):
                    yield TensorFault(
                        kind, ast.unparse(made), lines_of(made), ast.unparse(given), kernel.name,
                        parameter, tuple(sorted(accesses)), lines_of(launch.call), offset,
                    )  # fmt: skip

    def _counts(self, launch: Launch, parameter: str) -> bool:
        """Whether a kernel takes its rows by 0, 1, 2, …, which nothing changes."""
        kernel, given = launch.kernel, launch.given[parameter]
        if parameter not in kernel.indices or not kernel.only_loads(parameter):
            return False
        name = self.first_name(given)
        alone = name is None or self.is_loaded_alone(name)
        return alone and _numbers_in_order(self.made(given))

    def _unread(self, launch: Launch, parameter: str) -> bool:
        """Whether a kernel alone has a new tensor, and only stores to it."""
        given = launch.given[parameter]
        if not launch.kernel.only_stores(parameter):
            return False
        made, name = self.made(given), self.first_name(given)
        fresh = isinstance(made, ast.Call) and called(made) in (*EMPTY, *FILLED)
        uses = [] if name is None else self.uses(name)
        return fresh and all(each is given or self.is_of_shape(each) for each in uses)

    def _offset(self, node: ast.expr) -> int:
        """Elements that a slice of a tensor of one axis leaves out before it; 0 for what is
        none."""
        node = viewed(node)
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
            return 0
        lower, of = node.slice.lower, self.once(node.value) or node.value
        if not isinstance(lower, ast.Constant) or not isinstance(lower.value, int):
            return 0
        return lower.value if isinstance(of, ast.Call) and _has_one_axis(of) else 0


def _numbers_in_order(node: ast.expr) -> bool:
    """Whether an expression is `torch.arange` from 0 in steps of 1, whatever type it is cast to."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if ast.unparse(node.func) == "torch.arange":
            first, step = node.args[:-1][:1], node.args[2:]
            counted = not {"start", "step"} & {each.arg for each in node.keywords}
            given = (*zip(first, (0,)), *zip(step, (1,)))
            return counted and all(
                isinstance(each, ast.Constant) and each.value == at for each, at in given
            )
        if called(node) not in (*CASTS, "to", "type", "cuda", "contiguous"):
            return False
        node = node.func.value
    return False


def _has_one_axis(call: ast.Call) -> bool:
    """Whether a call makes a tensor of one axis, by its text."""
    name, given = called(call), call.args
    if name in (*EMPTY, *FILLED) and len(given) == 1:
        return not isinstance(given[0], (ast.Tuple, ast.List, ast.Starred, ast.Name))
    flat = name in ("view", "reshape") and [ast.unparse(each) for each in given] == ["-1"]
    return flat or name in ("flatten", "ravel")
