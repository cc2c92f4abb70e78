"""Tensors and masks that slow a Triton kernel down, as the program's text tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.analyzer.made import FILE, Made, found, only, program
from tileprof.analyzer.program.only_for import Alone, only_for
from tileprof.analyzer.program.tensor_faults import tensor_faults
from tileprof.analyzer.program.triton.kernels import triton_kernels
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, NumberArgument, Profile, TensorArgument

TEXT = """\
import torch
import triton
import triton.language as tl

@triton.jit
def shift(x, order, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    at = tl.load(order + at)
    real = at <= n - 1
    tl.store(out + at, tl.load(x + at, mask=real) + 1, mask=real)

@triton.jit
def both(x, kept, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = tl.load(x + at, mask=at < n)
    tl.store(kept + at, held, mask=at < n)
    tl.store(out + at, 2 * held, mask=at < n)

def run(x, n, taken):
"""
LINE = TEXT.count("\n") + 1
NEW = "kept, out = torch.empty_like(x), torch.empty(n + 1)"
PEAKS = {"hbm_read": 4e12, "hbm_copy": 4e12, "hbm_write": 4e12}


def text(*statements: str) -> str:
    """The kernels, and a function of statements, the first of them at `LINE`."""
    return TEXT + "".join(f"    {each}\n" for each in statements)


def faults(*statements: str) -> list[tuple[str, str]]:
    """The kinds of fault of the tensors in a function of statements, and their parameters."""
    whole = text(*statements)
    return [(each.kind, each.parameter) for each in tensor_faults(whole, triton_kernels(whole))]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["shift[g](x, torch.arange(n, device=x.device), taken, n, 64)"], [("counted", "order")]),
        (["at = torch.arange(0, n).int()", "shift[g](x, at, taken, n, 64)"],
         [("counted", "order")]),
        (["shift[g](x, torch.arange(1, n), taken, n, 64)"], []),
        (["shift[g](x, torch.arange(0, n, 2), taken, n, 64)"], []),
        (["shift[g](x, torch.randperm(n), taken, n, 64)"], []),
        (["at = torch.arange(n)", "at[3] = 7", "shift[g](x, at, taken, n, 64)"], []),
        (["at = torch.arange(n)", "both[g](at, taken, taken, n, 64)"], []),
        ([NEW, "both[g](x, kept, out, n, 64)", "return out"], [("unread", "kept")]),
        ([NEW, "both[g](x, kept, out, n, kept.shape[0])", "return out"], [("unread", "kept")]),
        ([NEW, "both[g](x, kept, out, n, 64)", "return out, kept"], []),
        ([NEW, "both[g](x, kept, out, n, 64)", "print(kept)", "return out"], []),
        ([NEW, "both[g](x, kept, out, n, 64)"], []),
        (["out = torch.empty(n + 1)[1:].view(x.shape)", "both[g](x, taken, out, n, 64)",
          "return out"], [("unaligned", "out")]),
        (["both[g](x.flatten()[3:], taken, taken, n, 64)"], [("unaligned", "x")]),
        (["both[g](x[1:], taken, taken, n, 64)"], []),
        (["held = torch.empty(n + 8)", "out = held[8:].view(x.shape)",
          "both[g](x, taken, out, n, 64)", "return out"], [("unaligned", "out")]),
        ([NEW, "both[g](x, torch.empty_like(x), out, n, 64)", "return out"], [("unread", "kept")]),
        ([NEW, "flat = kept.view(-1)", "both[g](x, flat, out, n, 64)", "return out"],
         [("unread", "kept")]),
        ([NEW, "flat = kept.view(-1)", "both[g](x, flat, out, n, 64)", "return out, kept"], []),
        (["both[g](x.view(-1)[:3], taken, taken, n, 64)"], []),
    ],
    ids=["counted", "by name", "from 1", "even ones", "another order", "changed", "no addresses",
         "unread", "its shape", "returned", "printed", "nothing is read", "behind a begin",
         "flat", "rows", "behind the begin of another", "without a name", "a view",
         "a view, returned", "up to"],
)  # fmt: skip
def test_faults_of_tensors(statements: list[str], expected: list[tuple[str, str]]) -> None:
    """Numbers in order by which rows are taken, what is stored for nobody, and odd begins."""
    assert faults(*statements) == expected


def seen(
    made: Made, statement: str, *arguments: TensorArgument | NumberArgument, before: Sequence[str]
) -> Profile:
    """A kernel that was recorded with its text and one launch of a statement."""
    profile = program(made, peaks=PEAKS)
    place = Location(FILE, LINE + len(before))
    launch = LaunchVariant(made.name, place, made.launches, 0, arguments)
    sources = {FILE: text(*before, statement, "return out")}
    return replace(profile, tables=replace(profile.tables, sources=sources, launches=(launch,)))


ONE_BY_ONE = [
    ("LDG.E R8, desc[UR4][R2.64]", {"long_scoreboard": 0, "selected": 400}, 0, 8),
    ("IMAD.WIDE R4, R8, 0x4, R6", {"selected": 800, "long_scoreboard": 800}, 0, 10),
    ("LDG.E R9, desc[UR4][R4.64]", {"selected": 2000}, 0, 10),
    ("FADD R9, R9, 1", {"long_scoreboard": 4000}, 0, 10),
    ("STG.E desc[UR4][R4.64], R9", {"selected": 2000}, 0, 10),
]


@pytest.mark.parametrize("width", ["", ".128"])
def test_elements_that_are_taken_by_numbers_in_order(width: str) -> None:
    """Accesses of 4 bytes behind the numbers go; of 16 they are rows, which cost nothing more."""
    code = [(each[0].replace(".E ", f".E{width} "), *each[1:]) for each in ONE_BY_ONE]
    made = Made("shift", code=code, blames=[(3, "long_scoreboard", 2)], metrics={"bytes": 1.2e9})
    order = TensorArgument("order", "int64", 1 << 24, 8, 1)
    profile = seen(made, "shift[g](x, torch.arange(n), out, n, 64)", order, before=())
    titles = [each.title for each in found(profile, "needless-pass")]
    assert titles == ([] if width else ["shift takes its elements by a list that is 0, 1, 2, …"])


@pytest.mark.parametrize("lines", [(LINE + 1,), (LINE + 1, 3)], ids=["one launch", "another line"])
def test_tensor_that_is_stored_for_nobody(lines: tuple[int, ...]) -> None:
    """A third of what memory moves goes, if all launches are those of the text."""
    code = [
        ("FADD R8, R8, 1", {"selected": 5000}, 0, 15),
        ("STG.E.128 desc[UR4][R4.64], R8", {"lg_throttle": 5000}, 0, 16),
    ]
    attributes = {"grid": "1000×1×1", "block": "128×1×1"}
    made = Made("both", code=code, metrics={"bytes": 3e9}, attributes=attributes)
    kept = TensorArgument("kept", "float32", 250_000_000, 4, 1)
    profile = seen(made, "both[g](x, kept, out, n, 64)", kept, before=[NEW])
    (launch,) = profile.tables.launches
    launches = tuple(replace(launch, place=Location(FILE, line)) for line in lines)
    profile = replace(profile, tables=replace(profile.tables, launches=launches))
    gains = [
        each.kernel_gain.mid for each in found(profile, "redundant-traffic") if each.kernel_gain
    ]
    assert gains == ([pytest.approx(1 / (1 - 1e9 / 4e12 * 1e3))] if len(lines) == 1 else [])


def test_small_tensor_that_a_loop_stores_for_nobody() -> None:
    """Its bytes are next to nothing; exchanges before the store take 0.6 of the samples, of which
    waits for a load stay."""
    code = [
        ("LDG.E R8, desc[UR4][R2.64]", {"selected": 4000}, 1, 15),
        ("STS [R9], R8", {"long_scoreboard": 2000, "selected": 1000}, 1, 16),
        ("LDS R10, [R11]", {"barrier": 2000}, 1, 16),
        ("STG.E desc[UR4][R4.64], R10", {"short_scoreboard": 1000}, 1, 16),
    ]
    attributes = {"grid": "1000×1×1", "block": "128×1×1"}
    made = Made("both", code=code, metrics={"bytes": 3e8}, attributes=attributes)
    kept = TensorArgument("kept", "float32", 1000, 4, 1)
    said = only(seen(made, "both[g](x, kept, out, n, 64)", kept, before=[NEW]), "redundant-traffic")
    assert said.title == "kept is stored, and nothing reads it"
    assert said.kernel_gain is not None
    assert said.kernel_gain.mid == pytest.approx(1 / (1 - 0.98 * 0.4))


@pytest.mark.parametrize(
    ("n", "statement", "reason"),
    [
        (4096.0, "both[g](x, taken, out, n, 64)", "out begins at an odd address"),
        (4096.0, "shift[g](x, taken, out, n, 64)", "a mask says `<= n - 1`"),
        (4095.0, "shift[g](x, taken, out, n, 64)", ""),
    ],
    ids=["an odd begin", "the last index", "a last index within 16 bytes"],
)
def test_reasons_of_narrow_accesses(n: float, statement: str, reason: str) -> None:
    """Text and launches tell why neighbours are accessed one by one."""
    name = statement.partition("[")[0]
    before = ["out = torch.empty(n + 1)[1:].view(x.shape)"] if name == "both" else []
    line = 17 if name == "both" else 10
    code = [
        ("S2R R0, SR_TID.X", {"selected": 1000}, 0, 14),
        ("IMAD.WIDE R4, R0, 0x4, R6", {"selected": 1000}, 0, line),
        ("STG.E desc[UR4][R4.64], R9", {"selected": 3000}, 0, line),
        ("EXIT", {"selected": 5000}, 0, line + 1),
    ]
    out = TensorArgument("out", "float32", 4096, 4, 1)
    made = Made(name, code=code, metrics={"bytes": 4e8})
    profile = seen(made, statement, out, NumberArgument("n", n, n), before=before)
    said = found(profile, "narrow-access")
    assert [each.title.partition(",")[0] for each in said] == ([reason] if reason else [])


LOOP = """\
def kernel(x, out, n):
    less = 0
    for at in range(n):
        own = tl.load(x + at)
        {more}
        rank = {rank}
        twice = (
            rank + rank)
        tl.store(out, twice)
"""


@pytest.mark.parametrize(
    ("more", "rank", "expected"),
    [
        ("less += own", "tl.sum(less, 1)", Alone(frozenset({6, 7, 8, 9}), True)),
        ("less += tl.sum(own, 1)", "tl.sum(less, 1)", Alone(frozenset({6, 7, 8, 9}), False)),
        ("less += twice + own", "less + 1", Alone(frozenset({9}), False)),
        ("less = less + own", "less + 1", Alone(frozenset({6, 7, 8, 9}), False)),
    ],
    ids=["a sum", "another sum", "used by the next iteration", "what it goes on with"],
)
def test_what_a_loop_does_for_a_store_alone(more: str, rank: str, expected: Alone) -> None:
    """Statements that only make what is stored; a sum over iterations is not among them."""
    assert only_for(LOOP.format(more=more, rank=rank), 9) == expected


def test_loop_of_no_text() -> None:
    """Nothing is known of a line that no loop has."""
    assert only_for(LOOP, 2) == only_for("", 2) == Alone()


def test_indices_of_a_kernel() -> None:
    """Parameters whose values are parts of addresses, and the last index of masks."""
    shift, both = triton_kernels(text("pass"))
    assert (set(shift.indices), set(both.indices)) == ({"order"}, set())
    assert (shift.inclusive, both.inclusive) == ({10: "n"}, {})


@pytest.mark.parametrize(
    ("real", "last"),
    [
        ("at <= (n - 1)", "n"),
        ("n - 1 >= at", "n"),
        ("at + 1 <= n", "n"),
        ("(at >= 0) & (at <= end)", "n"),
        ("at + 2 <= n", ""),
        ("at <= n", ""),
    ],
)
def test_masks_up_to_the_last_index(real: str, last: str) -> None:
    """However the comparison is written, and whether the last index has a name."""
    text = TEXT.replace("real = at <= n - 1", f"end = n - 1; real = {real}")
    shift, _ = triton_kernels(text + "    pass\n")
    assert shift.inclusive == ({10: last} if last else {})


def test_only_finding_has_its_line() -> None:
    """The finding of a list is at the line that loads its numbers."""
    made = Made("shift", code=ONE_BY_ONE, metrics={"bytes": 1.2e9})
    order = TensorArgument("order", "int64", 1 << 24, 8, 1)
    profile = seen(made, "shift[g](x, torch.arange(n), out, n, 64)", order, before=())
    place = only(profile, "needless-pass").place.location
    assert place is not None
    assert place.line == 8
