"""Decisions of the compiler about an op, what it did not choose, and why.

    matmul.py:31:9: view A: guarded
      not without a guard: in dimension 0, nothing says that the index stays below `m`

Remarks are kept with the program and in the profile; a `missed` one is a wish of the author that
was not met, an `info` one is a choice that could have gone otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileprof import ir
from tileprof.errors import KernelError
from tileprof.instrument.placement.stages import buffer_name
from tileprof.remarks import Candidate, Decision, Reason, Rejection, Remark, Severity
from tileprof.remarks.common import InLayout, Stages
from tileprof.remarks.host import (
    Applied,
    BlockThread,
    CpuCopies,
    Guarded,
    IterationsInOrder,
    LeftOut,
    NoBanks,
    NoWarps,
    OwnOrder,
    Policy,
    RowMajor,
    Unguarded,
)
from tileprof.remarks.measured import NotMeasured, OwnSite, PointsUnordered

from .passes.bounds import guard_reasons


def refuse_missed(remarks: Sequence[Remark]) -> None:
    """Raise KernelError with all remarks about a faster form that the author could have, at the
    line of the first, as `strict` asks; do nothing where there is none."""
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
    found = dict.fromkeys(remark for op in kernel.ops() for remark in _about(op, reasons.get(op)))
    return tuple(found)


def _about(op: ir.OpBase, guard: Reason | None) -> Iterator[Remark]:
    if guard is not None:
        yield _remark(op, *_access_name(op), Guarded(), Unguarded(), guard)
    match op:
        case ir.For(kind="pipelined", num_stages=stages, body=body) if stages:
            name = body.args[0].name
            yield _remark(op, "loop", name, IterationsInOrder(), Stages(stages), CpuCopies())
        case ir.Alloc(layout=layout) if layout:
            name = op.result.name
            yield _remark(op, "buffer", name, RowMajor(), InLayout(layout), NoBanks())
        case ir.Gemm(policy=policy) if policy != "square":
            yield _remark(op, "gemm", "", BlockThread(), Policy(policy), NoWarps())
        case ir.Annotate(name=name, target=target):
            on = "" if target is None else f"of {buffer_name(target)}"
            reason = NoBanks() if "layout" in name else OwnOrder()
            yield _remark(op, name, on, LeftOut(), Applied(), reason)
        case ir.Parallel(body=body):
            yield from _unmeasured(body)
        case _:
            pass


def _remark(
    op: ir.OpBase,
    kind: str,
    name: str,
    decision: Decision,
    candidate: Candidate,
    reason: Reason,
    severity: Severity = "info",
) -> Remark:
    return Remark(decision, kind, name, op.span, (Rejection(candidate, reason),), severity)


def _access_name(op: ir.OpBase) -> tuple[str, str]:
    match op:
        case ir.View(base=buffer):
            return "tile", f"of {buffer_name(buffer)}"
        case ir.Load(buffer=buffer) | ir.Store(buffer=buffer) | ir.Atomic(buffer=buffer):
            return op.SPEC.name, buffer_name(buffer)
        case _:
            return op.mnemonic, ""


def _unmeasured(points: ir.Block) -> Iterator[Remark]:
    for op in ir.walk(points):
        if isinstance(op, ir.Scope):
            made = (NotMeasured(), OwnSite(), PointsUnordered())
            yield _remark(op, "scope", op.name, *made, severity="missed")
