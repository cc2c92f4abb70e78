"""What the compiler decided about an op, what it did not choose, and why.

    matmul.py:31:9: view A: guarded
      not without a guard: in dimension 0, nothing says that the index stays below `m`

Remarks are kept with the program and in the profile; a `missed` one is a wish of the author that
was not met, an `info` one is a choice that could have gone otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tileprof import ir
from tileprof.errors import KernelError, Location
from tileprof.instrument.placement.stages import buffer_name

from .passes.bounds import guard_reasons

__all__ = ["Remark", "Severity", "collect", "refuse_missed"]

Severity = Literal["info", "missed"]


@dataclass(frozen=True, slots=True)
class Remark:
    """One decision about one op."""

    op: str
    location: Location | None
    chosen: str
    rejected: tuple[tuple[str, str], ...] = ()
    """Each candidate that was not chosen, and the reason."""
    severity: Severity = "info"

    def __str__(self) -> str:
        place = "" if self.location is None else f"{self.location}: "
        lines = [f"{place}{self.op}: {self.chosen}"]
        lines += [f"  not {candidate}: {reason}" for candidate, reason in self.rejected]
        return "\n".join(lines)


def refuse_missed(remarks: Sequence[Remark]) -> None:
    """What `strict` asks for: KernelError with all remarks about a faster form that the author
    could have, at the line of the first; nothing where there is none."""
    missed = [each for each in remarks if each.severity == "missed"]
    if not missed:
        return
    places = [each.location for each in missed if each.location is not None]
    number = "a faster form is" if len(missed) == 1 else f"{len(missed)} faster forms are"
    shown = "\n".join(map(str, missed))
    raise KernelError(
        f"{number} missed, which `strict` does not allow",
        location=places[0] if places else None,
        hint=f"{shown}\nRemove the reasons, or compile without `strict`.",
    )


def collect(kernel: ir.Kernel) -> tuple[Remark, ...]:
    """The remarks about a kernel on the `cpu` device, in the order of the program, each once."""
    reasons = guard_reasons(kernel)
    found = dict.fromkeys(
        remark for op in kernel.ops() for remark in _about(op, reasons.get(op, ""))
    )
    return tuple(found)


def _about(op: ir.OpBase, guard: str) -> Iterator[Remark]:
    if guard:
        yield Remark(_access_name(op), op.span, "guarded", (("without a guard", guard),))
    match op:
        case ir.For(kind="pipelined", num_stages=stages, body=body) if stages:
            name = f"loop {body.args[0].name}".rstrip()
            reason = "the cpu has no asynchronous copies to overlap"
            yield Remark(name, op.span, "iterations in order", ((f"{stages} stages", reason),))
        case ir.Alloc(layout=layout) if layout:
            name = f"buffer {op.result.name}".rstrip()
            yield Remark(name, op.span, "row-major", ((f"layout {layout}", _NO_BANKS),))
        case ir.Gemm(policy=policy) if policy != "square":
            yield Remark("gemm", op.span, "one thread a block", ((f"policy {policy}", _NO_WARPS),))
        case ir.Annotate(name=name, target=target):
            on = "" if target is None else f" of {buffer_name(target)}"
            reason = _NO_BANKS if "layout" in name else _OWN_ORDER
            yield Remark(f"{name}{on}", op.span, "left out", (("applied", reason),))
        case ir.Parallel(body=body):
            yield from _unmeasured(body)
        case _:
            pass


_NO_BANKS = "memory of the cpu has no banks to spread over"
_NO_WARPS = "on the cpu a block has no warps to divide the tile among"
_OWN_ORDER = "the cpu device runs blocks in its own order and leaves caching to the hardware"


def _access_name(op: ir.OpBase) -> str:
    match op:
        case ir.View(base=buffer):
            return f"tile of {buffer_name(buffer)}"
        case ir.Load(buffer=buffer) | ir.Store(buffer=buffer) | ir.Atomic(buffer=buffer):
            return f"{op.SPEC.name} {buffer_name(buffer)}"
        case _:
            return op.mnemonic


def _unmeasured(points: ir.Block) -> Iterator[Remark]:
    for op in ir.walk(points):
        if isinstance(op, ir.Scope):
            reason = "the points of a parallel loop run in any order, none has a time of its own"
            rejected = (("a site of its own", reason),)
            yield Remark(f"scope {op.name}", op.span, "not measured", rejected, "missed")
