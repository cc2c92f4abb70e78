"""Useless work: tiles that reach beyond their tensors, instructions for a few of 32 lanes.

Static: extents of tensors beside those of the tiles that cover them; what the compiler says of an
access that keeps its guard. Dynamic: samples of the kernel, or of its loops where a product is
padded; threads that executed an instruction, by 32 times the warps that did, and samples at it.

Tiles: zeros are multiplied, and guarded lanes wait, as long as numbers would. Of the time of the
tiles' work the part goes away that is outside, at most as far as the bytes leave it: nothing is
read or written outside, so where memory is what a kernel waits for, it waits as long without. What
a smaller tile does less well is taken off. Nor does what comes between products shrink, as
exponentials: the kernel is no faster than its work inside lets it (`reach`, and `by_turns` where
exponentials run under products).

Where nobody tells extents, stores tell of them (`masked`): code outside of loops has lanes for so
many bytes, and no element is stored twice. So do numbers that launches of a Triton kernel were
given, where a mask compares the places of a whole tile with one of them (`machine/place_checks`). A
lane that is left out waits and issues as the others of its warp do, and so do whole warps of such
lanes; nearly all of the time goes in proportion.

Lanes: a guard by itself is no fault: it is told beside the lanes, and only the compiler's own words
say whether it is needed. Instructions that one lane runs for all (barriers in shared memory, copies
of tiles) are left out, and so is the code of one lane in kernels that have them. With f of the
lanes at work, (1 - f) of the samples there goes away at most, where lanes are packed. Warps that
wait for latency would wait as long, so likely only in the cycles in which schedulers issue. The
reference takes `selected` samples of the computation of masks alone; what lanes a branch or a
narrow tile leaves idle is then not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel.launches import busy_share, launch_place, launch_shares, sampled_share
from tileprof.analyzer.kernel.threads.masked import masked_of
from tileprof.analyzer.kernel.threads.unused_rows import partly_read
from tileprof.analyzer.machine.code import Instruction, KernelCode
from tileprof.analyzer.machine.jumps import shown
from tileprof.analyzer.machine.place_checks import Axis, wide_axes
from tileprof.analyzer.numbers.shared import COLD, FEWEST_SAMPLES
from tileprof.analyzer.rules.numbers.blocks import (
    WASTED_LANES_FEW,
    WASTED_LANES_GUARDED,
    WASTED_LANES_NOTABLE,
    WASTED_LANES_ONE,
    WASTED_LANES_OUTSIDE,
    WASTED_LANES_SURE,
)
from tileprof.analyzer.rules.tile_program.left_out import left_out
from tileprof.analyzer.rules.tile_program.masked_tails import masked_iterations
from tileprof.analyzer.rules.tile_program.outside import saved_outside
from tileprof.analyzer.rules.tile_program.thin_work import idle_threads
from tileprof.analyzer.tiles.padding import Padded, padded_ops
from tileprof.analyzer.tiles.walks import walk_of
from tileprof.binary.occupancy import WARP
from tileprof.profile import NumberArgument
from tileprof.remarks import Remark
from tileprof.remarks.host import Guarded

_BY_ONE = ("SYNCS", "UTMALDG", "UTMASTG", "UTMACMDFLUSH", "UBLKCP", "ELECT")
"""Opcodes that one lane runs for its warp, or block."""
_PRODUCT = "gemm"
_FITTING = (
    "Let the tile fit: an extent that divides the tensor's, or the next one above it (a smaller"
    " tile, or one for these shapes alone), or pad the data once so that other work fills it."
)
_CHOSEN = "The choice of tiles did not consider the extents, which are known at compile time."
_AUTHOR = (
    "Let all lanes of a warp take the same branch: branch by warps and not by lanes, let a tile's"
    " last"
    " dimension be a multiple of 32 threads, or pad the data once."
)
_COMPILER = "See how threads are mapped to the elements of this op, and what its guard depends on."


def find(case: KernelCase) -> Iterator[Draft]:
    """Tiles that are partly on nothing; hot instructions with few lanes."""
    yield from _outside(case)
    yield from _masked(case)
    yield from left_out(case)
    yield from masked_iterations(case)
    yield from idle_threads(case)
    yield from _idle_lanes(case)


def _outside(case: KernelCase) -> Iterator[Draft]:
    """Of all ops with such tiles, the products if there are any: they are what takes time. Whole
    iterations of a walk that are outside are told by `tail-wave`, and copies that nothing reads to
    their end by `redundant-traffic`."""
    if (walk := walk_of(case.tiles)) is not None and walk.outside:
        return
    shares = launch_shares(case)
    longest = shares.index(max(shares)) if len(shares) > 1 else None
    unread = {each.tensor[1:] for each in partly_read(case.tiles)}
    ops = [
        each for each in padded_ops(case.tiles, longest)
        if each.inside < 1 and not (each.op == "copy" and each.name in unread)
    ]  # fmt: skip
    ops = [each for each in ops if each.op == _PRODUCT] or ops
    if not ops or 1 - ops[0].inside < WASTED_LANES_OUTSIDE:
        return
    worst = ops[0]
    title = f"{percent(1 - worst.inside, 0)} of the work on tiles is outside of their tensors"
    static, place = Evidence("static", _reaching(worst)), _place(case, worst)
    cause, code = Cause(title, place, (static,), _FITTING, _CHOSEN), case.sampled
    if code is None or not case.time:
        yield cause.warning()
        return
    looped = code.where(lambda each: each.depth > 0) if worst.op == _PRODUCT else None
    samples = code.n(looped) or code.whole
    share = samples / code.whole * sampled_share(case)
    saving = saved_outside(case, 1 - worst.inside, share, worst.op == _PRODUCT)
    text = f"{percent(samples / code.whole, 0)} of the samples are in code that works on them"
    if case.roofs.copy_floor:
        text += f"; its bytes take {percent(case.roofs.copy_floor / case.time, 0)} of the time"
    seen = Evidence("samples", text, samples)
    if saving.mid < COLD or samples < FEWEST_SAMPLES:
        leave = "Leave it: the time is spent elsewhere."
        yield cause.ignored(", where it costs nothing", leave, seen)
        return
    yield cause.costs(saving, seen)


def _masked(case: KernelCase) -> Iterator[Draft]:
    """Lanes of a foreign kernel that a guard leaves out, by what its stores have lanes for, or by
    the numbers that it compares the places of its tiles with."""
    code = case.sampled
    if code is None:
        return
    masked, place = masked_of(case, code), launch_place(case)
    outside, text = masked.outside if masked else 0.0, ""
    if masked is not None:
        place = case.at(masked.first)
        text = (
            f"a launch has lanes to store {masked.stored / 1e6:.4g} MB, where all its tensors have"
            f" {masked.held / 1e6:.4g} MB: a guard leaves out {percent(outside, 0)} of them or more"
        )
    for axis in _wide_axes(case, code):
        if 1 - axis.needed / axis.extent > outside:
            outside, place = 1 - axis.needed / axis.extent, case.place(case.line(axis.line))
            text = (
                f"tiles have {axis.extent:,} elements along the axis that is masked by"
                f" {axis.limit}, where {axis.needed:,} are enough for all launches"
            )
    if outside < WASTED_LANES_OUTSIDE:
        return
    title = f"{percent(outside, 0)} of the lanes work on elements that a guard excludes"
    cause = Cause(title, place, (Evidence("static", text),), _FITTING)
    saving = Saving(
        WASTED_LANES_SURE * outside, WASTED_LANES_GUARDED * outside, outside, None, code.whole
    )
    yield cause.costs(saving, sampled(code, code.taken(code.rows()), "are in such code"))


def _wide_axes(case: KernelCase, code: KernelCode) -> tuple[Axis, ...]:
    """Axes of a Triton kernel's tiles that reach far beyond their limit in all launches."""
    seen = [each for each in case.program.profile.tables.launches if each.kernel == case.name]
    if not seen or any(each.others for each in seen):
        return ()
    numbers = dict[str, int]()
    for each in (number for launch in seen for number in launch.arguments):
        if isinstance(each, NumberArgument):
            numbers[each.parameter] = max(numbers.get(each.parameter, 0), int(each.high))
    return wide_axes(code.ttgir, numbers)


def _reaching(op: Padded) -> str:
    said = (
        f"dimension {each.dim} of `{each.tensor}` has {each.extent:,} elements, the tiles reach to"
        f" {each.reach:,}"
        for each in op.beyond
    )
    return "; ".join(dict.fromkeys(said))


def _place(case: KernelCase, op: Padded) -> Place:
    """What the compiler says of the op; else the launch."""
    same = [each for each in case.remarks if (each.op, each.name) == (op.op, op.name)]
    held = same or [each for each in case.remarks if _may_be(each, op)]
    at = op.number if op.op == _PRODUCT and op.number < len(held) else 0
    return case.place(held[at].location, held[at].subject) if held else launch_place(case)


def _may_be(remark: Remark, op: Padded) -> bool:
    """Whether a remark is about the op, or about an access of its tensor that it became."""
    is_access = remark.op in ("load", "store") and remark.name == op.tensor
    return is_access or (remark.op == op.op and remark.names[0] == op.name)


def _idle_lanes(case: KernelCase) -> Iterator[Draft]:
    """Hot instructions with few lanes."""
    code = case.code
    lanes = _lanes(code) if code else {}
    if code is None or not lanes:
        return
    unused = {index: 1 - each for index, each in lanes.items()}
    hot = _worst(code, unused)
    evidence = (*_guards(case, hot), _counted(code, hot, lanes))
    title = f"{WARP * lanes[hot.index]:.0f} of 32 lanes work"
    cause = Cause(title, case.at(hot), evidence, _AUTHOR, _COMPILER)
    if not code.whole:
        if _part(code, unused) >= WASTED_LANES_NOTABLE:
            yield cause.symptom()
        return
    share = np.zeros(len(code.instructions) + 1)
    for index, each in unused.items():
        share[index] = each
    taken = code.taken(code.rows(list(unused))) * share[code.at]
    busy = percent(busy_share(code), 0)
    seen = sampled(code, taken, f"are spent on these lanes, of {busy} busy")
    if code.share(taken) < COLD:
        leave = "Leave it: this code takes no time."
        yield cause.ignored(", where it costs nothing", leave, seen)
        return
    yield cause.costs(eliminated(taken, code.whole, busy_share(code)), seen)


def _lanes(code: KernelCode) -> Mapping[int, float]:
    """By instruction of which lanes are wasted, the part that works."""
    by_one = bool(code.named(*_BY_ONE))
    warps, threads = (_counts(code, each) for each in ("executions", "thread_executions"))
    found = {}
    for each in code.instructions:
        if each.offset not in threads or not warps.get(each.offset) or each.name in _BY_ONE:
            continue
        lanes = threads[each.offset] / warps[each.offset] / WARP
        if lanes < WASTED_LANES_FEW and not (by_one and lanes < WASTED_LANES_ONE):
            found[each.index] = lanes
    return found


def _counts(code: KernelCode, metric: str) -> dict[int, int]:
    """By offset, a count of a kernel's instructions; nothing where it was not asked for."""
    held = code.held.counts
    if metric not in held.metrics:
        return {}
    rows = held.rows_of(code.position)
    column = held.values[rows][:, held.metrics.index(metric)]
    return dict(zip(held.offset[rows].tolist(), column.tolist()))


def _worst(code: KernelCode, unused: Mapping[int, float]) -> Instruction:
    """Where most is lost: of samples, else of executions."""

    def lost(index: int) -> float:
        held = code.n([index]) if code.whole else code.executed([index]) or 0
        return held * unused[index]

    return code.instructions[max(unused, key=lost)]


def _part(code: KernelCode, unused: Mapping[int, float]) -> float:
    """Of all lanes of all executions, those that did not work."""
    whole = code.executed(range(len(code.instructions))) or 1
    return sum((code.executed([i]) or 0) * each for i, each in unused.items()) / whole


def _counted(code: KernelCode, hot: Instruction, lanes: Mapping[int, float]) -> Evidence:
    text = f"{WARP * lanes[hot.index]:.1f} lanes of 32 execute {hot.name} at {shown(hot)}"
    if more := len(lanes) - 1:
        text += f", and {more} more instructions waste lanes"
    return Evidence("counters", text)


def _guards(case: KernelCase, hot: Instruction) -> Iterator[Evidence]:
    """What the compiler says of a guard in that line."""
    here = case.user_line(hot.place)
    for each, _ in case.decided(Guarded):
        if here and each.location and each.location.line == here.line:
            reasons = "; ".join(str(rejected.reason) for rejected in each.rejected)
            yield Evidence("static", f"{each.subject} keeps its guard: {reasons}", remark=each)


RULE = KernelRule("wasted-lanes", find, ("counters", "samples"))
