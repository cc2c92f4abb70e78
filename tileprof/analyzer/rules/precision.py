"""Products of 32-bit floats without tensor cores, on a device that has them.

Static: the name of a library's kernel tells how it multiplies (`sgemm`, `simt`, `f32f32_f32f32`:
plain multiply-adds; `tf32`, `s1688`: tensor cores). A kernel whose operations come faster than
multiply-adds without tensor cores can is none of these. Dynamic: its time, and what the device was
measured to do both ways. At the same part of the roof a kernel takes old peak / new peak of its
time, and never less than its bytes at the memory's peak; that is the most. Tensor cores wait sooner
for memory and for the ends of tiles than plain multiply-adds, so three quarters of that pace are
taken for likely, three tenths of it for sure. Where a product hardly multiplies, something else
sets its time, and likely stays. Where a device was not measured, the usual peaks of its name count;
without these there is no number.

There are two changes, and each has a finding with its own gain. TF32 changes products alone.
bfloat16 is faster there, and where a program only infers, weights and activations in it halve the
bytes of all other kernels too: of these, the time that the bytes take at the memory's peak halves,
not what is spent on indices. That holds too where products round to TF32 already. In training,
autocast casts the operands of products, which takes time, and launches a kernel for each cast, so
it is not advised where launches come late; neither is bfloat16 beside TF32, with which ten of
13 models became slower there (H200, 2026-11). Operations between products get 16 bits by autocast,
but for those that it runs in 32, and sums with tensors that stay in 32. Where bfloat16 brings no
more than TF32, it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.findings import plain as shortened
from tileprof.analyzer.fixes import Autocast, Fix, MatmulPrecision
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COLD, COOL, HARDLY_MULTIPLIES
from tileprof.analyzer.program.convolutions import (
    changes_layout,
    has_short_types,
    kernels_of_convolutions,
    rounds_to_tf32,
)
from tileprof.analyzer.program.masks import kind, nearest
from tileprof.analyzer.rules.numbers.work import (
    PRECISION_BETWEEN,
    PRECISION_BEYOND,
    PRECISION_HALVED,
    PRECISION_HIDDEN,
    PRECISION_MEMORY,
    PRECISION_OF_BYTES,
    PRECISION_OF_TF32,
    PRECISION_PACES,
)
from tileprof.profile import DevicePeak, is_module

_PLAIN = re.compile(
    r"sgemm|ffma|simt.*gemm|gemm_f32f32_|implicit_convolve_sgemm|scudnn"
    r"|fprop_f32f32_f32f32|dgrad_f32f32_f32f32|wgrad_f32f32_f32f32",
    re.IGNORECASE,
)
_TENSOR = re.compile(
    r"tf32|bf16|f16|s1688|s16816|h884|h1688|tensorop|3xtf32|dgemm|zgemm", re.IGNORECASE
)
_OTHER_TYPES = re.compile(r"bf16|f16|bfloat16|half|double|\blong\b|\bint\b|\bbool\b", re.IGNORECASE)
_FLOATS = re.compile(r"\bfloat\b|f32", re.IGNORECASE)
_WIDE = re.compile(
    r"^aten::(_?(log_)?softmax|(native_)?(layer|group)_norm|pow|exp|log|sum|prod|cumsum|mean|norm"
    r"|linalg_vector_norm|rsqrt|softplus|\w*_loss\w*)$"
)
"""Operations that autocast runs in 32 bits, as PyTorch 2.13 lists them, that models have."""
_OLD, _NEW, _NARROW = "fma_float32", "tensor_tf32", "tensor_bfloat16"
_TF32 = (
    "If 10 bits of mantissa suffice, let products of 32-bit floats use tensor cores:"
    ' torch.set_float32_matmul_precision("high"), torch.backends.cudnn.allow_tf32 = True for'
    " convolutions"
)
_BOTH = f"{_TF32}; or run the model under torch.autocast with bfloat16."
_WITHOUT_CASTS = (
    f"{_TF32}. Leave torch.autocast for later: it launches a kernel for each cast, and launches"
    " already come late here."
)
_NARROWER = "Weights and activations are 32-bit floats, which bfloat16 would halve"
_BFLOAT16 = (
    "If 7 bits of mantissa suffice, keep weights and activations in bfloat16:"
    " model.to(torch.bfloat16), and inputs too. Check the results: products still add up in 32"
    " bits, but all that is stored is rounded."
)
_AUTOCAST = (
    "If 7 bits of mantissa suffice, run forward passes under"
    " torch.autocast(device_type, dtype=torch.bfloat16): products get operands of 16 bits, weights"
    " stay in 32. Check that the loss still falls."
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
    tree = Contexts(program)
    roofs = Floors(tree)
    if not plain:
        yield from _beside_tf32(tree, roofs)
        return
    plain = [case for case in plain if not _beyond_multiply_adds(tree, roofs, case)]
    if not plain:
        return
    time = sum(tree.in_steps(case) for case in plain)
    share = tree.share(time)
    node = plain[0].nodes[0]
    place = tree.place(node)
    nodes = tuple(each for case in plain for each in case.nodes)
    advice, fixes = (_ADVICE_FOR_JAX, ()) if tree.jax[node] else (_BOTH, _FIXES)
    late = 1 - tree.exposed_recorded(nodes) >= PRECISION_HIDDEN
    if not tree.jax[node] and late:
        advice, fixes = _WITHOUT_CASTS, _FIXES[:1]
    name = shortened(plain[0].name)
    static = Evidence("static", f"{name} multiplies 32-bit floats without tensor cores")
    if not time:
        yield Draft("warning", _title(len(plain)), place, (static,), advice, fixes=fixes)
        return
    text = f"{len(plain)} such kernels take {percent(share)} of {tree.whose}"
    evidence = [static, Evidence("activities", text + _pace(tree, plain))]
    if share < COLD:
        yield Draft("ignore", "32-bit products without tensor cores that take little time", place,
                    tuple(evidence), "Leave it: they hardly run.", confidence="high")  # fmt: skip
        yield from _beside_tf32(tree, roofs)
        return
    known = _peaks(roofs, plain, _NEW)
    saved = _saved(tree, plain, known, _NEW) if known else None
    narrow = None
    if _peaks(roofs, plain, _NARROW) and saved is not None and not tree.jax[node]:
        if not late:
            advice, fixes = f"{_TF32}.", _FIXES[:1]
        narrow = _in_bfloat16(tree, roofs, plain, known, late)
    if narrow is not None and saved is not None and _brings_more(tree, narrow, nodes, saved[1]):
        told = (*evidence, _measured(plain, known, _NARROW), *narrow.evidence)
        at = int(tree.ops[node])
        whole = tree.place(at if at >= 0 else node)
        yield Draft("suggestion", narrow.title, whole, told, narrow.advice, "",
                    tree.saving(*narrow.times), nodes=narrow.nodes, fixes=_FIXES[1:])  # fmt: skip
    evidence += [_measured(plain, known, _NEW)] if known else []
    saving = None if saved is None else tree.saving(*saved)
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


def set_by_libraries(case: KernelCase) -> bool:
    """Return whether a kernel is a library's below an operation, whose setting changes it."""
    profile = case.program.profile
    at = nearest(profile, kind(profile, "op"))[list(case.nodes)]
    return _is_plain(case.name) and bool(len(at)) and bool((at >= 0).all())


def _is_plain(name: str) -> bool:
    return bool(_PLAIN.search(name)) and not _TENSOR.search(name)


def _title(count: int) -> str:
    what = "kernels multiply" if count > 1 else "kernel multiplies"
    return f"{count} {what} 32-bit floats without tensor cores"


def _brings_more(tree: Contexts, narrow: _Narrow, nodes: tuple[int, ...], saved: float) -> bool:
    """Return whether bfloat16 makes the program likely shorter than TF32 does, which saves that
    much of the products' time, ns."""
    most = tree.unrecorded_time - tree.host_least
    more = min(narrow.times[1] * tree.exposed(narrow.nodes, narrow.times[1]), most)
    return tree.share(more - min(saved * tree.exposed(nodes, saved), most)) >= COOL


def _beyond_multiply_adds(tree: Contexts, roofs: Floors, case: KernelCase) -> bool:
    """Return whether a kernel computes faster than the device does without tensor cores."""
    peak = roofs.roofs(case).peaks.get(_OLD)
    nodes = list(case.nodes)
    flops, time = float(tree.flops[nodes].sum()), float(tree.time[nodes].sum())
    return peak is not None and flops > PRECISION_BEYOND * peak.value * time / 1e9


def _pace(tree: Contexts, plain: list[KernelCase]) -> str:
    """Words for what the kernels reach by the shapes of their operations, where these are known."""
    nodes = [node for case in plain for node in case.nodes if tree.flops[node] > 0]
    time = float(tree.time[nodes].sum())
    rate = float(tree.flops[nodes].sum()) / time / 1e3 if time else 0.0
    return f", at {rate:.3g} TFLOP/s by the shapes of their operations" if rate else ""


def _peaks(roofs: Floors, plain: list[KernelCase], name: str) -> Mapping[str, DevicePeak]:
    """Return the peaks of the first kernel's device; none where some device lacks one of them."""
    found = [roofs.roofs(case).peaks for case in plain]
    return found[0] if all({_OLD, name} <= peaks.keys() for peaks in found) else {}


def _measured(plain: list[KernelCase], peaks: Mapping[str, DevicePeak], new: str) -> Evidence:
    """Evidence of a device's peaks with and without tensor cores."""
    before, after = (peaks[name].value / 1e12 for name in (_OLD, new))
    device = "the device was" if plain[0].roofs.peaks else "another device of this name was"
    told = f"{device} measured at {before:.3g} TFLOP/s without and {after:.3g} with tensor cores"
    return Evidence("activities", told)


def _saved(
    tree: Contexts, plain: list[KernelCase], peaks: Mapping[str, DevicePeak], new: str,
    width: float = 1.0, cast: float = 0.0,
) -> tuple[float, float, float]:  # fmt: skip
    """Return what tensor cores save of the products' time, ns: at least, likely, at most.

    `width` is the operands' size as a part of now, `cast` how many times the bytes of a product are
    moved by casts at most.
    """
    memory = peaks.get("hbm_copy") or peaks.get("hbm_read")
    nodes = [node for case in plain for node in case.nodes]
    time = tree.time[nodes]
    moved = tree.bytes[nodes] / memory.value * 1e9 if memory else np.zeros(len(nodes))
    ratio = peaks[_OLD].value / peaks[new].value
    # Of a kernel that computes far less than it could, something else sets the time.
    multiplying = tree.flops[nodes] / peaks[_OLD].value * 1e9
    slow = (multiplying > 0) & (multiplying < HARDLY_MULTIPLIES * time)
    found = list[float]()
    for pace, reached, casts in zip(PRECISION_PACES, PRECISION_MEMORY, (1.0, 0.5, 0), strict=True):
        least = np.maximum(time * ratio / pace, width * moved / reached)
        left = np.where(slow & (pace < 1), time, np.minimum(least, time)) + casts * cast * moved
        found.append(max(0.0, float((time - left).sum())))
    return found[0], found[1], found[2]


class _Narrow(NamedTuple):
    """What bfloat16 brings."""

    times: tuple[float, float, float]
    """Time that goes in steps, ns: at least, likely, at most."""
    nodes: tuple[int, ...]
    title: str
    advice: str
    evidence: tuple[Evidence, ...]


def _in_bfloat16(
    tree: Contexts, roofs: Floors, plain: list[KernelCase], peaks: Mapping[str, DevicePeak],
    late: bool,
) -> _Narrow | None:  # fmt: skip
    """Return what bfloat16 brings, with the kernels that it changes; None where its casts would be
    launched late."""
    products = tuple(node for case in plain for node in case.nodes)
    if tree.where(lambda symbol: symbol.phase.endswith("backward")).any():
        title = "Products of 32-bit floats could have bfloat16 operands under autocast"
        low, mid, high = _saved(tree, plain, peaks, _NARROW, width=0.5, cast=1.0)
        others = sorted(set(_narrowed_by_autocast(tree, roofs)) - set(products))
        floors, time = (float(each[others].sum()) for each in (roofs.floor, tree.time))
        times = (low, mid + PRECISION_BETWEEN * floors / 2, high + time / 2)
        between = (_halves(tree, others, floors, "may halve"),) if others else ()
        return None if late else _Narrow(times, (*products, *others), title, _AUTOCAST, between)
    others = sorted(set(_moving_floats(tree, roofs)) - set(products))
    low, mid, high = _saved(tree, plain, peaks, _NARROW, width=0.5)
    floors, time = (float(each[others].sum()) for each in (roofs.floor, tree.time))
    low += PRECISION_HALVED * floors / 2
    evidence = (_halves(tree, others, floors),) if others else ()
    times = (low, max(low, mid + floors / 2), max(low, mid + floors / 2, high + time / 2))
    return _Narrow(times, (*products, *others), _NARROWER, _BFLOAT16, evidence)


def _beside_tf32(tree: Contexts, roofs: Floors) -> Iterator[Draft]:
    """What bfloat16 brings to a program that only infers, and multiplies on tensor cores already:
    halved bytes, and products of twice the rate."""
    names = tree.profile.names
    working = tree.kind("kernel") & (tree.time > 0) & ~tree.compiling & (tree.ops >= 0)
    products = working & tree.where(lambda symbol: rounds_to_tf32(symbol.name))
    short = working & tree.where(lambda symbol: has_short_types(symbol.name))
    narrower = tree.time[short].sum() >= tree.time[products].sum()
    if narrower or tree.backward.any() or tree.jax[products].any():
        return
    layouts = working & tree.where(lambda symbol: changes_layout(symbol.name))
    others = [node for node in _moving_floats(tree, roofs) if working[node] and not products[node]]
    floors, time = (float(each[others].sum()) for each in (roofs.floor, tree.time))
    multiplied = float(tree.time[products | layouts].sum())
    pairs = zip(PRECISION_OF_BYTES, PRECISION_OF_TF32, strict=True)
    low, mid, high = (part * floors / 2 + other * multiplied for part, other in pairs)
    nodes = (*np.flatnonzero(products | layouts).tolist(), *others)
    late = bool(nodes) and 1 - tree.exposed_recorded(nodes) >= PRECISION_HIDDEN
    if late or tree.share(mid) < COOL:
        return
    first = int(np.flatnonzero(products)[tree.time[products].argmax()])
    told = f"{shortened(names[first])} multiplies 32-bit floats, rounded to TF32"
    yield Draft(
        "suggestion", _NARROWER, tree.place(int(tree.ops[first])),
        (Evidence("static", told), *([_halves(tree, others, floors)] if others else [])),
        _BFLOAT16, "", tree.saving(low, mid, max(mid, high + (time - floors) / 2)),
        confidence="low", nodes=nodes,
    )  # fmt: skip


def _moving_floats(tree: Contexts, roofs: Floors) -> list[int]:
    """Return kernels at work on 32-bit floats whose least time is that of their bytes."""
    return [
        node for node, limit in roofs.limits.items()
        if limit == "memory" and _of_floats(tree.profile.names[node]) and not tree.compiling[node]
    ]  # fmt: skip


def _narrowed_by_autocast(tree: Contexts, roofs: Floors) -> list[int]:
    """Return kernels of the model whose operations autocast leaves in the type of their inputs."""
    wide = tree.below(tree.where(lambda symbol: bool(_WIDE.search(symbol.name))))
    inside = tree.below(tree.where(is_module)) & ~wide
    return [node for node in _moving_floats(tree, roofs) if inside[node]]


def _halves(
    tree: Contexts, nodes: list[int], floors: float, how: Literal["halve", "may halve"] = "halve"
) -> Evidence:
    """Evidence of kernels whose bytes halve; these take `floors` ns at the memory's peak."""
    text = (
        f"{len(nodes)} kernels that move 32-bit floats take"
        f" {percent(tree.share(float(tree.time[nodes].sum())))} of {tree.whose}; their bytes {how},"
        f" which take {percent(tree.share(floors))} of it at the memory's peak"
    )
    return Evidence("activities", text)


def _of_floats(name: str) -> bool:
    """Return whether a kernel may work on 32-bit floats: its name says so, or names no type."""
    return bool(_FLOATS.search(name)) or not _OTHER_TYPES.search(name)


RULE = ProgramRule("precision", find)
