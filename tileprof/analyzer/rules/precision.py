"""Products of 32-bit floats without tensor cores, on a device that has them.

Static: the name of a library's kernel tells how it multiplies (`sgemm`, `simt`, `f32f32_f32f32`:
plain multiply-adds; `tf32`, `s1688`: tensor cores). Dynamic: its time, and what the device was
measured to do both ways. At the same part of the roof a kernel takes old peak / new peak of its
time, and never less than its operations at the new peak, or its bytes at that of the memory; that
is the most. Tensor cores wait sooner for memory and for the ends of tiles than plain multiply-adds,
so three quarters of that pace are taken for likely, three tenths of it for sure. Where a device was
not measured, the usual peaks of its name count; without these there is no number. Autocast launches
casts besides, so it is not advised where launches come late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.fixes import Autocast, Fix, MatmulPrecision
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.convolutions import kernels_of_convolutions, rounds_to_tf32
from tileprof.analyzer.rules.numbers.work import PRECISION_HIDDEN, PRECISION_PACES
from tileprof.profile import DevicePeak

_PLAIN = re.compile(
    r"sgemm|ffma|simt.*gemm|gemm_f32f32_|implicit_convolve_sgemm|scudnn"
    r"|fprop_f32f32_f32f32|dgrad_f32f32_f32f32|wgrad_f32f32_f32f32",
    re.IGNORECASE,
)
_TENSOR = re.compile(
    r"tf32|bf16|f16|s1688|s16816|h884|h1688|tensorop|3xtf32|dgemm|zgemm", re.IGNORECASE
)
_OLD, _NEW = "fma_float32", "tensor_tf32"
_TF32 = (
    "If 10 bits of mantissa suffice, let products of 32-bit floats use tensor cores:"
    ' torch.set_float32_matmul_precision("high"), torch.backends.cudnn.allow_tf32 = True for'
    " convolutions"
)
_ADVICE = f"{_TF32}; or run the model under torch.autocast with bfloat16."
_WITHOUT_CASTS = (
    f"{_TF32}. Leave torch.autocast for later: it launches a kernel for each cast, and launches"
    " already come late here."
)
_ADVICE_FOR_JAX = (
    "If 10 bits of mantissa suffice, let products of 32-bit floats use tensor cores: set"
    ' jax_default_matmul_precision, or precision= of the operation, to "tensorfloat32"; or compute'
    " in bfloat16."
)
_FIXES: tuple[Fix, ...] = (MatmulPrecision(), Autocast())


def find(program: Program) -> Iterator[Draft]:
    """Such kernels, all together: one setting changes them all."""
    plain = plain_products(program)
    if not plain:
        return
    tree = Contexts(program)
    time = sum(tree.in_steps(case) for case in plain)
    share = tree.share(time)
    node = plain[0].nodes[0]
    place = tree.place(node)
    nodes = tuple(each for case in plain for each in case.nodes)
    advice, fixes = (_ADVICE_FOR_JAX, ()) if tree.jax[node] else (_ADVICE, _FIXES)
    if not tree.jax[node] and 1 - tree.exposed_recorded(nodes) >= PRECISION_HIDDEN:
        advice, fixes = _WITHOUT_CASTS, _FIXES[:1]
    static = Evidence("static", f"{plain[0].name} multiplies 32-bit floats without tensor cores")
    if not time:
        yield Draft("warning", _title(len(plain)), place, (static,), advice, fixes=fixes)
        return
    text = f"{len(plain)} such kernels take {percent(share)} of {tree.whose}"
    evidence = [static, Evidence("activities", text)]
    if share < COLD:
        yield Draft("ignore", "32-bit products without tensor cores that take little time", place,
                    tuple(evidence), "Leave it: they hardly run.", confidence="high")  # fmt: skip
        return
    saving, told = _saving(tree, plain)
    evidence += [Evidence("activities", told)] if told else []
    yield Draft("suggestion", _title(len(plain)), place, tuple(evidence), advice, "", saving,
                nodes=nodes, fixes=fixes)  # fmt: skip


def plain_products(program: Program) -> list[KernelCase]:
    """Return the kernels that a setting would change.

    Of convolutions none, where others of them round to TF32: it is allowed there, and `convolution`
    tells of those for which the library has, or takes, no such kernel.
    """
    found = [case for case in program.kernels if _is_plain(case.name) and case.nodes]
    if not found:
        return []
    of_convolutions = kernels_of_convolutions(program.profile)
    allowed = any(
        rounds_to_tf32(case.name) and of_convolutions[list(case.nodes)].any()
        for case in program.kernels
    )
    return [case for case in found if not (allowed and of_convolutions[list(case.nodes)].all())]


def _is_plain(name: str) -> bool:
    return bool(_PLAIN.search(name)) and not _TENSOR.search(name)


def _title(count: int) -> str:
    return f"{count} kernel{'s' * (count > 1)} multiply 32-bit floats without tensor cores"


def _saving(tree: Contexts, plain: list[KernelCase]) -> tuple[Saving | None, str]:
    """What tensor cores save, and by which peaks; nothing where these were not measured."""
    roofs = Floors(tree)
    peaks = [each for case in plain if {_OLD, _NEW} <= (each := roofs.roofs(case).peaks).keys()]
    if len(peaks) < len(plain):
        return None, ""
    ratio = peaks[0][_OLD].value / peaks[0][_NEW].value

    def saved(pace: float) -> float:
        times = ((tree.in_steps(each), _floor(tree, each, peaks[0])) for each in plain)
        return sum(max(0.0, t - max(t * ratio / pace, floor)) for t, floor in times)

    saving = tree.saving(*map(saved, PRECISION_PACES))
    old, new = (peaks[0][name].value / 1e12 for name in (_OLD, _NEW))
    device = "the device was" if plain[0].roofs.peaks else "another device of this name was"
    told = f"{device} measured at {old:.3g} TFLOP/s without and {new:.3g} with tensor cores"
    return saving, told


def _floor(tree: Contexts, case: KernelCase, peaks: Mapping[str, DevicePeak]) -> float:
    """The least time of a kernel's work by measured peaks, ns; 0 where its work is not known."""
    nodes = list(case.nodes)
    flops, moved = float(tree.flops[nodes].sum()), float(tree.bytes[nodes].sum())
    memory = peaks.get("hbm_copy") or peaks.get("hbm_read")
    compute = flops / peaks[_NEW].value * 1e9
    return max(compute, moved / memory.value * 1e9 if memory else 0.0)


RULE = ProgramRule("precision", find)
