"""Proofs against all blocks of small random kernels: what is proved has no counterexample."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spread import examples
from tests.strategies import Case, cases
from tests.verified import parse
from tileprof.checker import LaunchVerdict, check_proofs
from tileprof.checker.covered import covers
from tileprof.checker.disjoint import Box
from tileprof.checker.explore import Explorer
from tileprof.compiler.passes.affine import Atom, Linear
from tileprof.runtime.events.access import listening
from tileprof.runtime.interpreter import InterpreterExecutable

EXTENT = 4096
"""Extent of each dimension: no index of the drawn expressions reaches it."""


@dataclass(frozen=True)
class Index:
    """`(a·bx + b·by + c·i + d·k + e) // q`, or its rest by q."""

    factors: tuple[int, int, int, int]
    offset: int
    divisor: int
    rest: bool

    def value(self, *numbers: int) -> int:
        """The index of a block's point."""
        whole = self.offset + sum(f * n for f, n in zip(self.factors, numbers))
        return whole % self.divisor if self.rest else whole // self.divisor

    def text(self, name: str) -> str:
        """Ops that compute it."""
        lines = [f"%{name}s0 = constant {self.offset} : index"]
        for at, (factor, variable) in enumerate(zip(self.factors, ("bx", "by", "i", "k"))):
            lines += [
                f"%{name}f{at} = constant {factor} : index",
                f"%{name}p{at} = mul %{variable}, %{name}f{at} : index",
                f"%{name}s{at + 1} = add %{name}s{at}, %{name}p{at} : index",
            ]
        kind = "floormod" if self.rest else "floordiv"
        lines += [
            f"%{name}q = constant {self.divisor} : index",
            f"%{name} = {kind} %{name}s4, %{name}q : index",
        ]
        return "\n".join(lines)


INDEX = st.builds(
    Index,
    st.tuples(*[st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12])] * 4),
    st.integers(0, 3),
    st.sampled_from([1, 1, 1, 2, 3, 4]),
    st.booleans(),
)


def kernel(grid: tuple[int, int], points: int, trips: int, reads: list[Index],
           writes: list[Index], first_only: bool) -> str:  # fmt: skip
    """A kernel whose points read one element and write another one."""
    rank = len(writes)
    shape = ", ".join([str(EXTENT)] * rank)
    body = "\n".join(x.text(f"r{at}") for at, x in enumerate(reads))
    body += "\n" + "\n".join(x.text(f"w{at}") for at, x in enumerate(writes))
    read = ", ".join(f"%r{at}" for at in range(rank))
    write = ", ".join(f"%w{at}" for at in range(rank))
    store = f"store %v, %x, [{write}]"
    if first_only:
        store = f"%is = eq %bx, %c0 : bool\nif %is then {{ {store} }} otherwise {{ }}"
    return f"""
kernel @k(%x: global<{shape}, float32>) {{
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %gx = constant {grid[0]} : index
  %gy = constant {grid[1]} : index
  %n = constant {points} : index
  %t = constant {trips} : index
  launch [%gx, %gy] {{threads = [32]}} body(%bx: index, %by: index) {{
    for serial %c0, %t, %c1 body(%k: index) {{
      parallel [%n] body(%i: index) {{
        {body}
        %v = load %x, [{read}] : float32
        {store}
      }}
    }}
  }}
}}
"""


def races(grid: tuple[int, int], points: int, trips: int, reads: list[Index],
          writes: list[Index], first_only: bool) -> bool:  # fmt: skip
    """Whether one block writes an element that another one reads or writes."""
    read: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    written: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for bx, by, i, k in itertools.product(*map(range, (*grid, points, trips))):
        read.setdefault(tuple(x.value(bx, by, i, k) for x in reads), set()).add((bx, by))
        if not first_only or bx == 0:
            written.setdefault(tuple(x.value(bx, by, i, k) for x in writes), set()).add((bx, by))
    return any(len(who | read.get(where, set())) > 1 for where, who in written.items())


def verdict(text: str) -> LaunchVerdict:
    """The verdicts of a kernel's only launch."""
    (launch,) = check_proofs(parse(text)).launches
    return launch


DRAWN = st.integers(1, 2).flatmap(
    lambda rank: st.tuples(
        st.tuples(st.integers(1, 4), st.integers(1, 3)),
        st.integers(1, 4),
        st.integers(1, 3),
        *[st.lists(INDEX, min_size=rank, max_size=rank)] * 2,
        st.booleans(),
    )
)


@settings(max_examples=examples(100), deadline=None)
@given(DRAWN, st.booleans())
def test_what_is_proved_has_no_counterexample(drawn: Any, in_place: bool) -> None:
    """Over all blocks, points and iterations."""
    grid, points, trips, reads, writes, first_only = drawn
    case = (grid, points, trips, writes if in_place else reads, writes, first_only)
    if verdict(kernel(*case)).verdicts["races"].status == "proved":
        assert not races(*case)


def flat(a: int, b: int, c: int, d: int, divisor: int = 1, rest: bool = False) -> Index:
    """An index of these factors."""
    return Index((a, b, c, d), 0, divisor, rest)


@pytest.mark.parametrize(
    ("grid", "points", "trips", "index", "first_only"),
    [
        pytest.param((4, 3), 4, 1, [flat(4, 0, 1, 0), flat(0, 1, 0, 0)], False, id="tiles"),
        pytest.param((4, 3), 4, 1, [flat(4, 16, 1, 0)], False, id="row-major tiles"),
        pytest.param((4, 1), 4, 3, [flat(12, 0, 1, 4)], False, id="loop inside a tile"),
        pytest.param((4, 1), 4, 3, [flat(4, 0, 1, 16)], False, id="grid stride"),
        pytest.param(
            (6, 1), 4, 1, [flat(1, 0, 0, 0, 3), flat(1, 0, 0, 0, 3, True)], False, id="quotient"
        ),
        pytest.param(
            (4, 1), 1, 3, [flat(1, 0, 0, 4, 3), flat(1, 0, 0, 4, 3, True)], False, id="persistent"
        ),
        pytest.param((4, 1), 4, 1, [flat(0, 0, 1, 0)], True, id="one block"),
        pytest.param((1, 1), 4, 1, [flat(0, 0, 0, 0)], False, id="one block in the grid"),
    ],
)
def test_usual_forms_are_proved(
    grid: tuple[int, int], points: int, trips: int, index: list[Index], first_only: bool
) -> None:
    """Writes of usual kernels; where only one block writes, all read elsewhere."""
    reads = [Index((0, 0, 0, 0), EXTENT - 1, 1, False) for _ in index]
    case = (grid, points, trips, index if not first_only else reads, index, first_only)
    assert not races(*case)
    assert verdict(kernel(*case)).verdicts["races"].status == "proved"


def test_extents_may_be_symbols() -> None:
    """A proof holds for all extents; a row-major index needs one that is a number."""
    text = """
kernel @k(%x: out global<m, n, float32>, %y: out global<l, float32>)
    symbols(%m, %n, %l) {
  %c64 = constant 64 : index
  %f = constant 1.0 : float32
  launch [%m, %n] {threads = [32]} body(%bx: index, %by: index) {
    store %f, %x, [%bx, %by]
    %row = mul %bx, %n : index
    %at = add %row, %by : index
    store %f, %y, [%at]
  }
}
"""
    races_of = verdict(text).verdicts["races"]
    assert races_of.status == "unchecked"
    assert [(each.buffer, each.why) for each in races_of.unproved] == [("y", "form")]


WRITTEN = """
kernel @k(%x: global<8, float32>, %n: index) {{
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %c4 = constant 4 : index
  %c7 = constant 7 : index
  %c8 = constant 8 : index
  %f = constant 1.0 : float32
  launch [%c1] {{threads = [32]}} body(%bx: index) {{
    %s = alloc shared {{shape = [8]}} : shared<8, float32>
    {body}
    copy %s, %x
  }}
}}
"""
SPLIT = """for serial %c0, {outer}, %c1 body(%o: index) {{
  %first = mul %o, %c2 : index
  parallel [{inner}] body(%i: index) {{
    %at = add %first, %i : index
    store %f, %s, [%at]
  }}
}}"""


@pytest.mark.parametrize(
    ("body", "proved"),
    [
        ("fill %s, %f", True),
        ("parallel [%c8] body(%i: index) { store %f, %s, [%i] }", True),
        ("for serial %c0, %c8, %c1 body(%i: index) { store %f, %s, [%i] }", True),
        ("for serial %c0, %c8, %c1 body(%i: index) { fill %s, %f }", True),
        ("%t = eq %n, %c0 : bool\nif %t then { fill %s, %f } otherwise { fill %s, %f }", True),
        ("", False),
        ("parallel [%c7] body(%i: index) { store %f, %s, [%i] }", False),
        ("parallel [%c8] body(%i: index) { store %f, %s, [%c0] }", False),
        ("for serial %c1, %c8, %c1 body(%i: index) { store %f, %s, [%i] }", False),
        ("for serial %c0, %n, %c1 body(%i: index) { fill %s, %f }", False),
        ("%t = eq %n, %c0 : bool\nif %t then { fill %s, %f } otherwise { }", False),
        (
            "for serial %c0, %c8, %c1 body(%i: index) {\n"
            "%t = eq %n, %c0 : bool\nif %t then { break } otherwise { }\nfill %s, %f }",
            False,
        ),
        (
            "parallel [%c8] body(%i: index) {\n"
            "%t = eq %i, %c0 : bool\nif %t then { store %f, %s, [%i] } otherwise { } }",
            False,
        ),
        ("%v = view %s, [%c1] {sizes = [7]} : shared<7, float32>\nfill %v, %f", False),
        ("%v = reinterpret %s {shape = [4, 2]} : shared<4, 2, float32>\nfill %v, %f", True),
        (
            "%v = view %s, [%c1] {sizes = [4]} : shared<4, float32>\n"
            "%w = reinterpret %v {shape = [2, 2]} : shared<2, 2, float32>\nfill %w, %f",
            False,
        ),
        (SPLIT.format(outer="%c4", inner="%c2"), True),
        (SPLIT.format(outer="%c3", inner="%c2"), False),
        (SPLIT.format(outer="%c4", inner="%c1"), False),
    ],
)
def test_a_buffer_counts_as_written_when_all_of_it_is(body: str, proved: bool) -> None:
    """On every way through the program."""
    found = verdict(WRITTEN.format(body=body)).verdicts["initialization"]
    assert (found.status == "proved") == proved


HANDED_OVER = """
kernel @k(%p: out global<20, 8, float32>, %x: global<20, 8, float32>, %n: index) {{
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %c4 = constant 4 : index
  %c8 = constant 8 : index
  %f = constant 1.0 : float32
  launch [%c3, {second}] {{threads = [32]}} body(%bx: index, %by: index) {{
    %s = alloc shared {{shape = [8, 4]}} : shared<8, 4, float32>
    fill %s, %f
    %row = mul %bx, {rows} : index
    %column = mul %by, %c4 : index
    {body}
  }}
  launch [%c1] {{threads = [32]}} body(%b: index) {{
    copy %p, %x
  }}
}}
"""
TILE = (
    "%v = view %p, [%row, %column] {sizes = [8, 4]} : global<8, 4, float32>\ncopy %s, %v"
)  # fmt: skip


@pytest.mark.parametrize(
    ("second", "rows", "body", "proved"),
    [
        ("%c2", "%c8", TILE, True),
        ("%c2", "%c4", TILE, False),  # rows from 16 on
        ("%c1", "%c8", TILE, False),  # columns from 4 on
        ("%n", "%c8", TILE, False),
        ("%c2", "%c8", f"%t = eq %n, %c0 : bool\nif %t then {{ {TILE} }} otherwise {{ }}", False),
        ("%c2", "%c8", f"for serial %c0, %c1, %c1 body(%k: index) {{ {TILE} }}", True),
        ("%c2", "%c8", f"for serial %c0, %n, %c1 body(%k: index) {{ {TILE} }}", False),
        (
            "%c2", "%c8",
            "parallel [%c8, %c4] body(%i: index, %j: index) {\n%r = add %row, %i : index\n"
            "%c = add %column, %j : index\nstore %f, %p, [%r, %c] }",
            True,
        ),
        (
            "%c2", "%c8",
            "parallel [%c8] body(%i: index) {\n%r = add %row, %i : index\n"
            "store %f, %p, [%r, %i] }",
            False,
        ),
        (
            "%c2", "%c8",
            "parallel [%c8, %c4] body(%i: index, %j: index) {\n%r = add %row, %i : index\n"
            "%d = add %column, %j : index\n%c = add %d, %c1 : index\nstore %f, %p, [%r, %c] }",
            False,
        ),
    ],
)  # fmt: skip
def test_a_launch_may_read_what_all_blocks_of_the_one_before_wrote(
    second: str, rows: str, body: str, proved: bool
) -> None:
    """Where they leave out no element, whatever the scalar is."""
    text = HANDED_OVER.format(second=second, rows=rows, body=body)
    found = check_proofs(parse(text)).launches[1].verdicts["initialization"]
    assert (found.status == "proved") == proved


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_what_counts_as_covered_is(data: st.DataObject) -> None:
    """Against every element that a write reaches, over all numbers of its counters."""
    few = st.integers(1, 4)
    counts = {Atom(n, 0, 10): data.draw(few) for n in range(3)}
    factors = st.dictionaries(st.sampled_from(list(counts)), st.integers(1, 8), max_size=2)
    starts = [Linear(data.draw(st.sampled_from((0, 0, 1))), data.draw(factors)) for _ in range(2)]
    sizes, extents = ([data.draw(st.integers(1, most)) for _ in range(2)] for most in (4, 12))
    box = Box(tuple(starts), tuple(map(Linear, sizes)), ())
    reached = set()
    for numbers in itertools.product(*map(range, counts.values())):
        at = dict(zip(counts, numbers))
        first = [int(s.constant + sum(f * at[a] for a, f in s.terms.items())) for s in starts]
        reached |= set(itertools.product(*(range(f, f + n) for f, n in zip(first, sizes))))
    if covers(box, tuple(map(Linear, extents)), counts):
        assert reached >= set(itertools.product(*map(range, extents)))


@settings(max_examples=examples(20), deadline=None)
@given(cases())
def test_random_legal_kernels_have_no_finding(case: Case) -> None:
    """No false alarm from a run, whatever the kernel is made of."""
    watch = Explorer()
    with listening(watch):
        InterpreterExecutable(case.kernel).run(case.arguments(), case.extents)
    assert [run.findings for run in watch.runs] == [{}]
    check_proofs(case.kernel)


@pytest.mark.sweep
def test_proofs_end_at_a_limit_of_work() -> None:
    """A kernel with many accesses that do not compare is given up, not worked on for minutes."""
    body = "\n".join(
        f"""
      %j{j} = constant {j} : index
      %a{j} = mul %bx, %n : index
      %b{j} = add %a{j}, %by : index
      %d{j} = add %b{j}, %k : index
      %e{j} = add %d{j}, %j{j} : index
      %f{j} = floordiv %e{j}, %c7 : index
      %g{j} = floormod %d{j}, %c7 : index
      %w{j} = load %at, [%j{j}] : index
      %h{j} = add %f{j}, %w{j} : index
      store %one, %x, [%h{j}, %g{j}]"""
        for j in range(150)
    )
    text = f"""
kernel @k(%x: global<4096, 8, float32>, %at: global<4096, index>) {{
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c7 = constant 7 : index
  %n = constant 16 : index
  %one = constant 1.0 : float32
  launch [%n, %n, %n] {{threads = [32]}} body(%bx: index, %by: index, %bz: index) {{
    for serial %c0, %n, %c1 body(%k: index) {{{body}
    }}
  }}
}}
"""
    assert "effort" in {each.why for each in verdict(text).verdicts["races"].unproved}
