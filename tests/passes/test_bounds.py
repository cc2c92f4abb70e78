"""Which accesses `prove_bounds` proves, and that each proof holds for every index."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.passes.index_kernels import SYMBOL, accesses, index_kernels
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.passes import affine, decide, prove_bounds, simplify

CASES = {
    # name: (grid, extent of x, index of the load as ops ending in %r, whether it is proved)
    "whole tiles": ("%c4", "256", "%o = mul %bx, %c64 : index\n%r = add %o, %i : index", True),
    "one too few": ("%c4", "255", "%o = mul %bx, %c64 : index\n%r = add %o, %i : index", False),
    "m // 64 blocks": (
        "%whole",
        "m",
        "%o = mul %bx, %c64 : index\n%r = add %o, %i : index",
        True,
    ),
    "ceildiv(m, 64) blocks": (
        "%ceil",
        "m",
        "%o = mul %bx, %c64 : index\n%r = add %o, %i : index",
        False,
    ),
    "m blocks": ("%m", "m", "%r = add %bx, %zero : index", True),
    "below": ("%m", "m", "%one = constant 1 : index\n%r = sub %bx, %one : index", False),
    "swizzled": ("%c4", "64", "%r = xor %i, %bx : index", True),
    "shifted by the block": (
        "%c4",
        "64",
        "%one = constant 1 : index\n%o = shl %one, %bx : index\n%r = xor %i, %o : index",
        True,
    ),
    "shifted too far": (
        "%c64",
        "64",
        "%one = constant 1 : index\n%o = shl %one, %bx : index\n%r = xor %i, %o : index",
        False,
    ),
    "shifted down": ("%c4", "64", "%r = shr %i, %bx : index", True),
    "shifted by less than nothing": (
        "%c4",
        "64",
        "%one = constant 1 : index\n%d = sub %bx, %one : index\n%r = shr %i, %d : index",
        False,
    ),
    "quotient and remainder": (
        "%c4",
        "64",
        "%c8 = constant 8 : index\n%q = floordiv %i, %c8 : index\n%p = mul %q, %c8 : index\n"
        "%s = floormod %i, %c8 : index\n%r = add %p, %s : index",
        True,
    ),
    "a remainder of multiples of 4, and 3": (
        "%c4",
        "64",
        "%k = constant 3 : index\n%f = mul %i, %c4 : index\n%s = floormod %f, %c64 : index\n"
        "%r = add %s, %k : index",
        True,
    ),
    "a remainder of multiples of 4 and 1, and 3": (
        "%c4",
        "64",
        "%k = constant 3 : index\n%f = mul %i, %c4 : index\n%one = constant 1 : index\n"
        "%g = add %f, %one : index\n%s = floormod %g, %c64 : index\n%r = add %s, %k : index",
        False,
    ),
    "clamped": (
        "%ceil",
        "m",
        "%o = mul %bx, %c64 : index\n%t = add %o, %i : index\n%one = constant 1 : index\n"
        "%last = sub %m, %one : index\n%u = min %t, %last : index\n%r = max %u, %zero : index",
        False,
    ),
    "clamped to a number": (
        "%ceil",
        "64",
        "%o = mul %bx, %c64 : index\n%t = add %o, %i : index\n%c63 = constant 63 : index\n"
        "%r = min %t, %c63 : index",
        True,
    ),
    "loaded": (
        "%c4",
        "64",
        "%l = load %y, [%i] : int32\n%r = cast %l : index",
        False,
    ),
    "loaded, then masked": (
        "%c4",
        "64",
        "%l = load %y, [%i] : int32\n%w = cast %l : index\n%c63 = constant 63 : index\n"
        "%r = and %w, %c63 : index",
        True,
    ),
    "narrow arithmetic that may wrap around": (
        "%c4",
        "256",
        "%a = cast %i : int8\n%k = constant 4 : int8\n%b = mul %a, %k : int8\n%r = cast %b : index",
        False,
    ),
}


def _kernel(grid: str, extent: str, index: str) -> ir.Kernel:
    return ir.parse(f"""
kernel @k(
  %x: global<{extent}, float32>, %y: global<64, int32>, %z: global<m, float32>
) symbols(%m) {{
  %zero = constant 0 : index
  %c4 = constant 4 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  %whole = floordiv %m, %c64 : index
  %up = add %m, %c63 : index
  %ceil = floordiv %up, %c64 : index
  launch [{grid}] {{threads = [64]}} body(%bx: index) {{
    parallel [%c64] body(%i: index) {{
      {index}
      %v = load %x, [%r] : float32
      print v %v
    }}
  }}
}}
""")


def _proved(kernel: ir.Kernel, kind: type[ir.Load | ir.View] = ir.Load) -> list[bool]:
    """`in_bounds` of the accesses of floats, in order."""
    ir.verify(kernel)
    return [
        op.in_bounds for op in kernel.ops() if isinstance(op, kind) and op.results[0].dtype.is_float
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_index(case: tuple[str, str, str, bool]) -> None:
    """An index of a launch over blocks of 64 is proved or not."""
    grid, extent, index, expected = case
    kernel = prove_bounds(simplify(_kernel(grid, extent, index)))
    assert _proved(kernel) == [expected]


TEXTS = """
kernel @k(%x: global<m, 64, float32>, %y: global<130, float32>, %n: int32) symbols(%m) {
  %zero = constant 0 : index
  %one = constant 1 : index
  %c32 = constant 32 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  %c128 = constant 128 : index
  %up = add %m, %c63 : index
  %ceil = floordiv %up, %c64 : index
  launch [%ceil] {threads = [64]} body(%bx: index) {
    %row = mul %bx, %c64 : index
    %tile = view %x, [%row, %zero] {sizes = [64, 64]} : global<64, 64, float32>
    %line = view %x, [%bx, %zero] {sizes = [1, 64]} : global<1, 64, float32>
    %s = alloc shared {shape = [64, 64]} : shared<64, 64, float32>
    copy %tile, %s
    for serial %zero, %c128, %c32 body(%k: index) {
      %part = view %y, [%k] {sizes = [32]} : global<32, float32>
      %next = view %y, [%k] {sizes = [35]} : global<35, float32>
      print part %part
      print next %next
    }
    parallel [%c64] body(%i: index) {
      %r = add %row, %i : index
      %inside = lt %r, %m : bool
      if %inside then {
        %a = load %x, [%r, %i] : float32
        print a %a
      } otherwise {
        %b = load %x, [%r, %i] : float32
        print b %b
      }
      %w = cast %n : index
      %positive = ge %w, %zero : bool
      %small = lt %w, %c64 : bool
      %both = and %positive, %small : bool
      if %both then {
        %c = load %s, [%w, %i] : float32
        print c %c
      } otherwise {
      }
    }
    print line %line
  }
}
"""


def test_views_loops_and_branches(golden: Callable[[str], None]) -> None:
    """A tile at the edge is not proved, a row is, and so is what stands behind a test."""
    golden(ir.print_kernel(prove_bounds(ir.parse(TEXTS))))


def test_nothing_proved_is_nothing_changed() -> None:
    """A kernel without a proof is given back as it is."""
    kernel = _kernel("%c4", "m", "%r = add %bx, %zero : index")
    assert prove_bounds(kernel) is kernel


@pytest.mark.sweep
@given(index_kernels())
@settings(max_examples=examples(80), deadline=None)
def test_what_is_proved_is_so_for_every_index(kernel: ir.Kernel) -> None:
    """For all small extents, each load that is marked reads an element that is there."""
    ir.verify(kernel)
    marked = prove_bounds(kernel)
    extent = marked.params[0].type.shape[0]  # type: ignore[union-attr]
    for m in range(10):
        size = m if extent == SYMBOL else extent
        wrong = [i for op, i in accesses(marked, m) if op.in_bounds and not 0 <= i < int(size)]
        assert not wrong, (m, wrong, ir.print_kernel(marked))


def test_a_view_of_a_view_ends_at_the_edge_of_the_buffer() -> None:
    """Being inside a tile that is guarded proves nothing; inside one that is proved, it does."""
    text = """
kernel @k(%x: global<100, float32>) {
  %c0 = constant 0 : index
  %c32 = constant 32 : index
  %c64 = constant 64 : index
  %c2 = constant 2 : index
  launch [%c2] {threads = [32]} body(%bx: index) {
    %o = mul %bx, %c64 : index
    %tile = view %x, [%o] {sizes = [64]} : global<64, float32>
    %low = view %tile, [%c0] {sizes = [32]} : global<32, float32>
    %high = view %tile, [%c32] {sizes = [32]} : global<32, float32>
    print low %low
    print high %high
  }
}
"""
    assert _proved(prove_bounds(ir.parse(text)), ir.View) == [False, True, False]


CHAINED = 50


def _hostile(accesses: int, kind: str) -> ir.Kernel:
    """Return a kernel whose indices are sums over one long chain of `min` and `max`."""
    lines = ["%c5 = constant 5 : index", "%m0 = sub %i, %c5 : index", "%s0 = add %m0, %i : index"]
    for n in range(1, CHAINED):
        lines += [
            f"%o{n} = constant {n - 9} : index",
            f"%b{n} = add %m0, %o{n} : index",
            f"%m{n} = {('min', 'max')[n % 2]} %m{n - 1}, %b{n} : index",
            f"%s{n} = add %s{n - 1}, %m{n} : index",
        ]
    last = f"%s{CHAINED - 1}"
    for n in range(64 if kind == "conditions" else 0):
        lines.append(f"%y{n} = add %m{n % CHAINED}, {last} : index")
        lines.append(f"%z{n} = lt %y{n}, %s{n % CHAINED} : bool")
        lines.append(f"%w{n} = and %w{n - 1}, %z{n} : bool" if n else "%w0 = and %z0, %z0 : bool")
    for n in range(accesses):
        load = f"%l{n} = load %x, [%f{n}] : float32"
        lines.append(f"%d{n} = constant {n % 9 + 2} : index")
        lines.append(f"%e{n} = add {last}, %m{n % CHAINED} : index")
        match kind:
            case "quotients":
                lines += [f"%f{n} = floordiv %e{n}, %d{n} : index", load]
            case "extremes":
                lines += [f"%f{n} = max %e{n}, %s{n % CHAINED} : index", load]
            case _:
                lines.append(f"%f{n} = add %e{n}, %d{n} : index")
                lines.append(f"if %w63 then {{\n{load}\n}} otherwise {{\n}}")
    body = "\n".join(lines)
    return ir.parse(f"""
kernel @k(%x: global<100, float32>) {{
  %c4 = constant 4 : index
  launch [%c4] {{threads = [32]}} body(%bx: index) {{
    parallel [%c4] body(%i: index) {{
      {body}
    }}
  }}
}}
""")


@pytest.mark.spread(without=["conditions"])
@pytest.mark.parametrize("kind", ["quotients", "extremes", "conditions"])
def test_proofs_of_a_hostile_kernel_add_up_a_bounded_number_of_terms(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proofs of 2,000 accesses, which branch at every step, share one limit."""
    kernel, touched, add = _hostile(2_000, kind), 0, affine.Linear.__add__

    def counted(self: affine.Linear, other: affine.Linear) -> affine.Linear:
        nonlocal touched
        touched += len(self.terms) + len(other.terms)
        return add(self, other)

    monkeypatch.setattr(affine.Linear, "__add__", counted)
    for rewrite in (prove_bounds, decide):
        touched = 0
        rewrite(kernel)
        assert touched < 4 * affine.MOST_TERMS


BITS = """
kernel @k(%x: global<128, float32>) {{
  %zero = constant 0 : index
  %one = constant 1 : index
  %c7 = constant 7 : index
  %c128 = constant 128 : index
  launch [%one] {{threads = [64]}} body(%bx: index) {{
    for serial %zero, %c7, %one body(%p: index) {{
      %q = add %p, %one : index
      for serial %zero, {stop}, %one body(%s: index) {{
        %d = sub %p, %s : index
        %bit = shl %one, %d : index
        parallel [%c128] body(%i: index) {{
          %j = xor %i, %bit : index
          %v = load %x, [%j] : float32
          print v %v
        }}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize(("stop", "expected"), [("%q", True), ("%c7", False)])
def test_a_partner_in_a_sorting_network(stop: str, expected: bool) -> None:
    """The bit falls from that of the outer loop to the lowest; below, it would be no bit."""
    assert _proved(prove_bounds(ir.parse(BITS.format(stop=stop)))) == [expected]


@pytest.mark.parametrize(
    ("condition", "proved"),
    [
        # where `i` is not 0, what is before it is there; where it is not 63, what is behind it
        ("eq %i, %zero", [False, True, True, False]),
        ("ne %zero, %i", [True, False, False, True]),
        ("ne %i, %c63", [False, True, True, False]),
        ("eq %i, %c4", [True, True, False, False]),
    ],
)
def test_a_number_that_is_not_at_the_end_has_neighbours(condition: str, proved: list[bool]) -> None:
    """Loads before and behind `i` of 0 to 63, where a condition holds and where it does not."""
    kernel = ir.parse(f"""
kernel @k(%x: global<64, float32>) {{
  %zero = constant 0 : index
  %one = constant 1 : index
  %c4 = constant 4 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  launch [%one] {{threads = [64]}} body(%bx: index) {{
    parallel [%c64] body(%i: index) {{
      %before = sub %i, %one : index
      %behind = add %i, %one : index
      %c = {condition} : bool
      if %c then {{
        %a = load %x, [%before] : float32
        %b = load %x, [%behind] : float32
        print a %a
        print b %b
      }} otherwise {{
        %d = load %x, [%before] : float32
        %e = load %x, [%behind] : float32
        print d %d
        print e %e
      }}
    }}
  }}
}}
""")
    assert _proved(prove_bounds(kernel)) == proved
