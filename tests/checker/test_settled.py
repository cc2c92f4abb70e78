"""Arguments that decide a kernel's accesses, compared with runs in which other arguments differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tileprof
from tests.checker import settled_kernels as kernels
from tests.spread import examples
from tests.strategies import Case, cases
from tests.verified import parse
from tileprof import ir
from tileprof.checker.settled import UNKNOWN, Deciders
from tileprof.errors import TileprofError
from tileprof.runtime.events.access import Access, listening
from tileprof.runtime.interpreter import InterpreterExecutable


class Elements:
    """A listener that keeps which elements each op accesses in each block."""

    def __init__(self) -> None:
        self.found: dict[tuple[ir.OpBase, str], list[tuple[Any, ...]]] = defaultdict(list)

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Start a run."""

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch."""

    def note(self, access: Access) -> None:
        """Keep the elements of an access."""
        block, element = access.flat()
        if len(block):
            self.found[access.op, access.kind] += zip(block.tolist(), element.tolist())

    def sets(self) -> dict[tuple[ir.OpBase, str], set[tuple[Any, ...]]]:
        """Return the elements of each op and kind of access."""
        return {key: set(held) for key, held in self.found.items()}


def elements(case: Case, arguments: Sequence[Any]) -> dict[Any, set[tuple[Any, ...]]]:
    """Run a kernel; return which elements its ops access."""
    watch = Elements()
    with listening(watch):
        InterpreterExecutable(case.kernel).run(arguments, case.extents)
    return watch.sets()


@settings(max_examples=examples(25), deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_accesses_change_only_with_what_decides_them(case: Case, random: Any) -> None:
    """One argument has other values: what it does not decide accesses the same elements."""
    deciders, arguments = Deciders(case.kernel), case.arguments()
    arrays = [
        at
        for at, (each, param) in enumerate(zip(arguments, case.kernel.params))
        if isinstance(each, np.ndarray) and each.size and param.role == "in"
    ]
    assume(arrays)
    at = random.choice(arrays)
    before = elements(case, case.arguments())
    arguments[at] = np.roll(arguments[at][::-1], 1).copy()
    try:
        after = elements(case, arguments)
    except TileprofError:
        assume(False)
    changed = case.kernel.param_values()[at]
    for key in before.keys() | after.keys():
        deciding = deciders.of_access(key[0])
        if UNKNOWN not in deciding and changed not in deciding:
            assert before.get(key) == after.get(key)


DECIDED = """
kernel @k(%x: global<8, float32>, %at: global<8, int32>, %n: index, %s: out global<8, int32>)
    symbols() {{
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c8 = constant 8 : index
  %f = constant 1.0 : float32
  %i1 = constant 1 : int32
  launch [%c8] {{threads = [32]}} body(%bx: index) {{
    {body}
  }}
}}
"""
STORE = "store %f, %x, [%j]"


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (f"%j = add %bx, %n : index\n{STORE}", {"n"}),
        (f"%v = load %at, [%bx] : int32\n%j = cast %v : index\n{STORE}", {"at"}),
        (
            f"%v = load %x, [%bx] : float32\n%w = cast %v : int32\n%j = cast %w : index\n{STORE}",
            None,
        ),
        (
            "%v = load %x, [%bx] : float32\n%t = lt %v, %f : bool\n"
            "if %t then { store %f, %x, [%bx] } otherwise { }",
            None,
        ),
        (
            "for serial %c0, %c8, %c1 body(%j: index) {\n%v = load %at, [%j] : int32\n"
            f"%t = lt %v, %i1 : bool\nif %t then {{ break }} otherwise {{ }}\n{STORE} }}",
            {"at"},
        ),
        (f"%v = atomic add %i1, %s, [%c0] : int32\n%j = cast %v : index\n{STORE}", None),
        (
            f"store %i1, %s, [%bx]\n%v = load %s, [%bx] : int32\n%j = cast %v : index\n{STORE}",
            set(),
        ),
        (
            "%v = load %x, [%bx] : float32\n%t = lt %v, %f : bool\n"
            "if %t then { store %i1, %s, [%bx] } otherwise { }\n"
            f"%w = load %s, [%bx] : int32\n%j = cast %w : index\n{STORE}",
            None,
        ),
    ],
    ids=["scalar", "integers", "floats", "condition", "break", "atomic", "own memory", "branch"],
)
def test_what_decides_a_store(body: str, given: set[str] | None) -> None:
    """Names of parameters; None where floats or the order of blocks decide."""
    kernel = parse(DECIDED.format(body=body))
    deciders = Deciders(kernel)
    (found,) = [
        deciders.of_access(op)
        for op in kernel.ops()
        if isinstance(op, ir.Store) and op.buffer.name == "x"
    ]
    assert (None if UNKNOWN in found else {value.name for value in found}) == given


def test_a_run_proves_what_integers_decide() -> None:
    """Rows by offsets; a store under a condition of floats is explored."""
    offsets = np.array([0, 3, 3, 8], np.int32)
    rows = np.ones((8, 4), np.float32)
    (launch,) = tileprof.check(kernels.ragged, rows, offsets).launches
    verdict = launch.verdicts["races"]
    assert (verdict.status, verdict.given) == ("enumerated", ("Offsets",))
    (launch,) = tileprof.check(kernels.by_floats, rows, rows[:, 0]).launches
    assert launch.verdicts["races"].status == "explored"


def test_overlapping_rows_are_still_found() -> None:
    """Offsets that fall let two blocks write one row."""
    offsets = np.array([0, 5, 3, 8], np.int32)
    report = tileprof.check(kernels.ragged, np.ones((8, 4), np.float32), offsets)
    assert {each.code for each in report.findings} == {"race-between-blocks"}
    assert report.launches[0].verdicts["races"].status == "refuted"
