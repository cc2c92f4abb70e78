"""Tensors that a program lays out anew, or computes from indices, for one Triton kernel alone.

In: the text of a file, as a profile keeps it, and the kernels of all files.  Out: calls whose
result one kernel alone loads from, or that alone read what it stored:

    kernel[grid](x.t().contiguous(), out)               turned: the same elements in another order
    kernel[grid](torch.stack((x, y), -1), out)          joined: elements that stand elsewhere
    kernel[grid](x, out, (torch.arange(m) < n).int())   counted: nothing but indices are in it
    return out[..., 0].contiguous()                     packed: a part or another order of it

Whatever is computed from data is left out, as `host_passes` leaves out what it does not know.
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
    HostFunction,
    callables_of,
    functions_of,
    lines_of,
    viewed,
)
from tileprof.analyzer.program.triton.functions import TritonKernel
from tileprof.analyzer.program.triton.kernels import Launch

__all__ = ["LaidOut", "Order", "laid_out"]

Order: TypeAlias = Literal["turned", "joined", "counted", "packed"]

_TURNS = ("t", "transpose", "permute", "movedim", "swapaxes", "T", "mT")
"""Methods and attributes that give another order without moving anything."""
_JOINS = ("stack", "cat", "concat", "concatenate", "dstack", "hstack", "vstack")


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A call that lays a tensor out for one kernel, or packs what it stored."""

    how: Order
    call: str
    """Its text."""
    lines: range
    tensor: str
    """Name of the tensor that the call reads; the call itself where it reads nothing."""
    kernel: str
    parameter: str
    """The kernel's name for the tensor."""
    accesses: tuple[int, ...]
    """Lines of the kernel that load from or store to it."""
    launch: range
    """Lines of the call that launches the kernel."""
    apart: int = 1
    """Elements from one that is needed to the next, where the text tells."""


@lru_cache(maxsize=64)
def laid_out(text: str, kernels: tuple[TritonKernel, ...]) -> tuple[LaidOut, ...]:
    """Return all such calls of a file; none where it is no Python."""
    known = {each.name: each for each in kernels}
    others = callables_of(text)
    return tuple(
        found
        for function in functions_of(text)
        for found in _LaidOut(function, known, others).found()
    )


class _LaidOut(HostFunction):
    """The calls of one function of the host that lay tensors out."""

    def found(self) -> Iterator[LaidOut]:
        """Yield those of all launches."""
        for launch in self.launches:
            for parameter, given in launch.given.items():
                yield from self._before(launch, parameter, given)
                yield from self._after(launch, parameter, given)

    def _before(self, launch: Launch, parameter: str, given: ast.expr) -> Iterator[LaidOut]:
        """Yield tensors that are laid out for kernels that only load from them."""
        name = self.first_name(given)
        if not launch.kernel.only_loads(parameter):
            return
        if name is not None and not self.is_loaded_alone(name):
            return
        made = self.made(given)
        if isinstance(made, ast.Call) and called(made) == "contiguous":
            turned = _without_call(made)
            source = self.tensor_of(turned)
            if source is not None and _is_turned(turned):
                yield _told("turned", made, source, launch, parameter)
        elif isinstance(made, ast.Call) and called(made) in _JOINS and made.args:
            parts = made.args[0].elts if isinstance(made.args[0], (ast.Tuple, ast.List)) else []
            names = {ast.unparse(each) for each in parts}
            if parts and all(isinstance(_moved(each), ast.Name) for each in parts):
                last = len(made.args) > 1 and ast.unparse(made.args[1]) == "-1"
                same = len(parts) if last and len(names) == 1 and called(made) == "stack" else 1
                yield _told("joined", made, parts[0], launch, parameter, same)
        elif self._is_counted(made, launch) and not _is_list(made):
            yield _told("counted", made, made, launch, parameter)

    def _is_counted(self, node: ast.expr, launch: Launch) -> bool:
        """Whether indices and numbers that the kernel is given too are all that is in a tensor."""
        held = _uncast(node)
        if isinstance(held, (ast.BinOp, ast.Compare)):
            pair = (held.left, held.right) if isinstance(held, ast.BinOp) else (
                held.left, *held.comparators
            )  # fmt: skip
            inside = [each for each in pair if not self._is_number(each, launch)]
            return bool(inside) and all(self._is_counted(each, launch) for each in inside)
        return _is_list(held)

    def _is_number(self, node: ast.expr, launch: Launch) -> bool:
        """Whether it is a constant, or what a kernel is given and takes no address from."""
        kernel = launch.kernel
        return isinstance(node, ast.Constant) or any(
            ast.unparse(node) == ast.unparse(given)
            for parameter, given in launch.given.items()
            if not {parameter} & {*kernel.loads, *kernel.stores, *kernel.added, *kernel.unknown}
        )

    def _after(self, launch: Launch, parameter: str, given: ast.expr) -> Iterator[LaidOut]:
        """Yield tensors that are packed of a result that nothing else reads."""
        name = self.first_name(given)
        made = None if name is None else self.made(name)
        if not launch.kernel.only_stores(parameter) or not isinstance(made, ast.Call):
            return
        if name is None or called(made) not in EMPTY:
            return
        others = [e for e in self.uses(name) if not self.is_of_shape(e) and e is not given]
        if len(others) != 1:
            return
        part, above = others[0], self.above.get(others[0])
        apart = 1
        while isinstance(above, (ast.Subscript, ast.Attribute, ast.Call)):
            if isinstance(above, ast.Call) and called(above) == "contiguous":
                if part is not others[0] and (_is_turned(part.value) or apart > 1):  # type: ignore[attr-defined]
                    yield _told("packed", above, name, launch, parameter, apart)
                return
            if isinstance(above, ast.Subscript):
                apart *= _of_last(above, made)
            part, above = above, self.above.get(above)


def _told(
    how: Order, call: ast.expr, tensor: ast.expr, launch: Launch, parameter: str, apart: int = 1
) -> LaidOut:
    kernel = launch.kernel
    accesses = {*kernel.loads.get(parameter, ()), *kernel.stores.get(parameter, ())}
    return LaidOut(
        how, ast.unparse(call), lines_of(call), ast.unparse(tensor), kernel.name, parameter,
        tuple(sorted(accesses)), lines_of(launch.call), apart,
    )  # fmt: skip


def _without_call(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _is_turned(node: ast.expr) -> bool:
    """Whether another order is among the views that an expression is."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute) and node.attr in _TURNS:
            return True
        else:
            node = node.value
    return False


def _moved(node: ast.expr) -> ast.expr:
    """Return the tensor of which an expression is a view, in this or another order."""
    while True:
        node = viewed(node)
        if isinstance(node, ast.Call) and called(node) in _TURNS:
            node = node.func
        if not isinstance(node, ast.Attribute) or node.attr not in _TURNS:
            return node
        node = node.value


def _is_list(node: ast.expr) -> bool:
    """Whether it is the list 0, 1, 2, … itself."""
    return isinstance(node, ast.Call) and called(node) == "arange"


def _uncast(node: ast.expr) -> ast.expr:
    """Return what is cast, or viewed with other extents."""
    while True:
        node = viewed(node)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return node
        if called(node) not in (*CASTS, "to", "contiguous", "bool"):
            return node
        node = node.func.value


def _of_last(part: ast.Subscript, made: ast.Call) -> int:
    """Elements of the last axis of a new tensor of which a part takes one; 1 where unknown."""
    index = part.slice.elts[-1] if isinstance(part.slice, ast.Tuple) else None
    if not isinstance(index, ast.Constant) or not isinstance(index.value, int) or not made.args:
        return 1
    shape = made.args[0].elts if isinstance(made.args[0], (ast.Tuple, ast.List)) else made.args
    last = shape[-1]
    known = isinstance(last, ast.Constant) and isinstance(last.value, int)
    return int(last.value) if known else 1  # type: ignore[attr-defined]
