"""The strongest lead inside a kernel: what its warps spend most of their time on, and where.

In: a kernel with samples.  Out: `Lead`: the line, facts in plain English, what is worth a trial,
and the run that would tell more.

Stall reasons are put together by what would have to change: some say that a warp waits for its turn
to issue, two that it waits for shared memory. A warp that waits for its turn is a sign of too many
instructions only as far as schedulers are busy, so those samples count by that share. A wait for an
answer stands at who needs it, so it is counted at the line that asked (`blames`), where that is
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.numbers.reports import LEADS_PART
from tileprof.errors import Location

__all__ = ["Lead", "strongest"]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Reasons that one change would end."""

    reasons: tuple[str, ...]
    what: str
    """What warps do meanwhile, behind "of the samples"."""
    advice: str
    run: str = ""
    """Options of `tileprof run` that tell more."""


_TURNS = _Kind(
    (ISSUED, "not_selected", "math_pipe_throttle", "dispatch_stall", "wait", "no_instructions"),
    "issue, or wait for an issue slot",
    "Reduce the number of instructions: see whether what is computed there is needed each time, and"
    " whether lanes work on elements that count.",
    "--metrics instructions",
)
_KINDS = (
    _TURNS,
    _Kind(
        ("long_scoreboard", "misc"), "wait for global memory",
        "Have more bytes in flight: loads that start before they are needed (a pipelined loop,"
        " cp.async), several independent loads per thread, wider ones, more warps; and see whether"
        " the same bytes are loaded again.",
        "--metrics memory",
    ),
    _Kind(
        ("lg_throttle", "tex_throttle"), "find the queue for global memory full",
        "Move the bytes by fewer accesses: 16 bytes per thread, neighbouring threads at"
        " neighbouring addresses, and no access that is repeated.",
        "--metrics instructions",
    ),
    _Kind(
        ("mio_throttle", "short_scoreboard"),
        "wait for shared memory, exchanges between lanes, or special functions",
        "Use fewer and wider accesses to shared memory, without bank conflicts; fewer exchanges"
        " between lanes (conversions of layouts, reductions in a loop that could come behind it);"
        " fewer exponentials and divisions.",
        "--metrics instructions",
    ),
    _Kind(
        ("barrier",), "wait for other warps at a barrier",
        "Use fewer barriers (fewer, larger steps), the same work for all warps between them, or"
        " more blocks on a multiprocessor.",
        "--instrument sample",
    ),
    _Kind(
        ("warpgroup_arrive", "gmma"), "wait for matrix products",
        "Let products follow one another, and other work run beside them.",
    ),
    _Kind(
        ("membar", "drain", "sleeping"), "wait until their writes are complete, or for other warps",
        "Use fewer stores, atomics and fences, and wider ones.",
    ),
    _Kind(
        ("branch_resolving", "imc_miss"), "wait for branches, or constants",
        "Use fewer branches in the hot loop, and code that is short enough for its cache.",
    ),
)  # fmt: skip
_CLASSES = (
    ("matrix products", ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "IMMA", "QMMA", "DMMA")),
    ("accesses of global memory", (
        "LDG", "STG", "LDGSTS", "RED", "REDG", "ATOM", "ATOMG", "UTMALDG", "UTMASTG", "UBLKCP",
    )),
    ("shared memory and exchanges", ("LDS", "STS", "LDSM", "STSM", "ATOMS", "SHFL", "MOVM")),
    ("local memory (spills)", ("LDL", "STL")),
    ("conversions", ("F2F", "F2FP", "F2I", "I2F", "I2FP", "F2IP", "I2I", "FRND")),
    ("special functions", ("MUFU",)),
    ("arithmetic of doubles", ("DADD", "DMUL", "DFMA", "DSETP")),
    ("floating-point arithmetic", (
        "FADD", "FMUL", "FFMA", "FMNMX", "FSETP", "FSEL", "FSET", "HADD2", "HMUL2", "HFMA2",
        "HMNMX2", "HSETP2", "HSET2",
    )),
    ("barriers and branches", (
        "BRA", "BAR", "BSSY", "BSYNC", "EXIT", "WARPSYNC", "DEPBAR", "LDGDEPBAR", "SYNCS", "NOP",
        "WARPGROUP", "CALL", "RET", "MEMBAR", "CCTL", "ERRBAR", "FENCE",
    )),
)  # fmt: skip
_REST = "integers, addresses and moves"
_MOSTLY = {
    _REST: "What depends on no loop variable can stand before the loop (divisions by extents,"
    " conditions, rows' addresses); an access of 16 bytes needs one address where eight of 2 bytes"
    " need eight.",
    "floating-point arithmetic": "Sums of products of tiles are done by tensor cores; a value that"
    " several threads need can be computed by one of them.",
    "conversions": "Convert each value once, where it is loaded, or compute in the type it has.",
    "special functions": "Use the approximations (`exp2`, reciprocals), or fewer of them.",
    "arithmetic of doubles": "Floats do if the result is one: see which constant, or function, is a"
    " double.",
}
"""What would have fewer instructions, by what most of them are."""
_CLASS_OF = {name: title for title, names in _CLASSES for name in names}


@dataclass(frozen=True, slots=True)
class Lead:
    """Where most of a kernel's time goes, and for what."""

    place: Place
    evidence: tuple[Evidence, ...]
    advice: str


def strongest(case: KernelCase) -> Lead | None:
    """Return the lead with the most samples; None where the kernel was not sampled."""
    code = case.sampled
    if code is None or not code.whole:
        return None
    reasons = code.by_reason()
    held = {each: sum(reasons.get(name, 0) for name in each.reasons) for each in _KINDS}
    busy = busy_share(code) if code.n(idle=True) else 1.0
    kind = max(held, key=lambda each: held[each] * (busy if each is _TURNS else 1.0))
    samples = held[kind]
    if not samples:
        return None
    lines = _lines(case, code, kind)
    line, most = max(lines.items(), key=lambda item: item[1], default=(None, 0.0))
    named = [name for name in reasons if name in kind.reasons and reasons[name]]
    text = f"in {percent(samples / code.whole, 0)} of the samples warps {kind.what}"
    text += f" ({', '.join(named[:LEADS_PART])})"
    if line is not None and most > 0:
        text += f", in {percent(most / code.whole, 0)} because of line {line.line} alone"
    evidence = (Evidence("samples", text, samples), *_mix(code))
    advice = [kind.advice]
    if kind is _TURNS and (issued := _issued(code)):
        advice.append(_MOSTLY.get(issued.most_common(1)[0][0], ""))
    if kind.run:
        advice.append(f"`tileprof run {kind.run} SCRIPT` shows more.")
    return Lead(case.place(line, case.op_at(line)), evidence, " ".join(filter(None, advice)))


def _lines(case: KernelCase, code: KernelCode, kind: _Kind) -> dict[Location, float]:
    """By line of the kernel's own source, samples of a kind; a wait is its who is waited for."""
    held = {each.offset: each for each in code.instructions}
    asked = dict[tuple[int, str], list[int]]()
    for blame in code.function.blames:
        asked.setdefault((blame.offset, blame.stall), []).append(blame.producer)
    known, found = dict[int, Location | None](), Counter[Location]()
    reasons, at, counts = code.reasons, code.at.tolist(), code.counts.tolist()
    for row in code.rows(reasons=kind.reasons).nonzero()[0].tolist():
        if at[row] < 0:
            continue
        offset = code.instructions[at[row]].offset
        for each in (from_ := asked.get((offset, reasons[row]), [offset])):
            if each not in known:
                known[each] = case.line_of(held[each]) if each in held else None
            if (line := known[each]) is not None:
                found[line] += counts[row] / len(from_)
    return dict(found)


def _issued(code: KernelCode) -> Counter[str]:
    """Samples of warps that issue, by kind of instruction."""
    issued = Counter[str]()
    at, counts = code.at.tolist(), code.counts.tolist()
    for row in code.rows(reasons=(ISSUED,)).nonzero()[0].tolist():
        if at[row] >= 0:
            name = code.instructions[at[row]].name
            issued[_CLASS_OF.get(name, _REST)] += counts[row]
    return issued


def _mix(code: KernelCode) -> Iterator[Evidence]:
    """How busy schedulers are, and with what."""
    issued = _issued(code)
    if not (whole := issued.total()):
        return
    busy = ""
    if code.n(idle=True):
        busy = f"schedulers issue in {percent(busy_share(code), 0)} of the cycles; "
    parts = ", ".join(
        f"{percent(count / whole, 0)} {title}" for title, count in issued.most_common(LEADS_PART)
    )
    yield Evidence("samples", f"{busy}of what is issued {parts}", whole)
