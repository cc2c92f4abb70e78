"""What the interpreter refuses, and what it says: each message in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interpreter.kernels import VECTOR_ADD
from tests.interpreter.running import run
from tests.verified import parse
from tileprof.errors import (
    ArgumentError,
    BoundsError,
    DeviceAssertError,
    ExecutionError,
    InternalError,
    RaceError,
    ShapeError,
    TileprofError,
    UninitializedError,
    UsageError,
)
from tileprof.runtime.interpreter import InterpreterExecutable

HEAD = """
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %c4 = constant 4 : index
  %c8 = constant 8 : index
  %zero = constant 0.0 : float32
  %one = constant 1.0 : float32
"""


def kernel(params: str, grid: str, body: str) -> str:
    """A kernel over a grid of constants `%c0` … `%c8`; its blocks are `%bx`, `%by`."""
    args = ", ".join(f"%{n}: index" for n, _ in zip(("bx", "by"), grid.split(",")))
    return (
        f"kernel @k({params}) {{{HEAD}launch [{grid}] {{threads = [32]}} body({args}) {{{body}}}}}"
    )


def refusal(kind: type[TileprofError], text: str, *values: Any, **options: Any) -> str:
    """The message with which a run ends."""
    with pytest.raises(kind) as caught:
        run(text, *values, **options)
    return str(caught.value)


X = np.zeros((4, 8), np.float32)
AT = 'loc("f.py":9:4-9:11 "f")'


def test_index_outside_a_shared_buffer() -> None:
    """Only global tensors are guarded."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2, %c3",
        f"""
        %s = alloc shared {{shape = [4, 6]}} : shared<4, 6, float32>
        fill %s, %zero
        parallel [%c4, %c4] body(%i: index, %j: index) {{
          %at = add %j, %by : index
          %far = add %at, %bx : index
          store %one, %s, [%i, %far] {AT}
        }}""",
    )
    assert refusal(BoundsError, text, X) == (
        "f.py:9:5: `s` is written at [0, 6], outside its shape [4, 6],"
        " in block (1, 2), point (i=0, j=3)\n"
        "Only global tensors are guarded; a shared buffer is not. Keep the index below the extent,"
        " or guard the access with `if`."
    )


def test_negative_index() -> None:
    """A negative index is an error everywhere, global tensors included."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c4",
        f"""
        %at = sub %bx, %c2 : index
        %v = load %x, [%c0, %at] {AT} : float32""".replace(f"{AT} : float32", f": float32 {AT}"),
    )
    assert refusal(BoundsError, text, X) == (
        "f.py:9:5: `x` is read at [0, -2]: the index is negative, in block (0)\n"
        "Only a number known at compile time counts from the end, as in `A[-1]`;"
        " guard the access with `if`."
    )


def test_negative_offset_of_a_tile() -> None:
    """A tile may pass the upper edge but not the lower one."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c4",
        f"""
        %s = alloc shared {{shape = [2, 2]}} : shared<2, 2, float32>
        %up = add %bx, %bx : index
        %at = sub %c3, %up : index
        %v = view %x, [%c0, %at] {{sizes = [2, 2]}} : global<2, 2, float32>
        copy %v, %s {AT}""",
    )
    assert refusal(BoundsError, text, X) == (
        "f.py:9:5: `x` is read at [0, -1]: the index is negative, in block (2)\n"
        "Only a number known at compile time counts from the end, as in `A[-1]`;"
        " guard the access with `if`."
    )


def test_tile_outside_a_fragment() -> None:
    """A view of a block's buffer must lie inside; the message names the first element outside."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c4",
        f"""
        %s = alloc fragment {{shape = [4, 4]}} : fragment<4, 4, float32>
        %v = view %s, [%c1, %bx] {{sizes = [2, 2]}} : fragment<2, 2, float32>
        fill %v, %zero {AT}""",
    )
    assert refusal(BoundsError, text, X) == (
        "f.py:9:5: `s` is written at [1, 4], outside its shape [4, 4], in block (3)\n"
        "Only global tensors are guarded; a fragment buffer is not. Keep the index below the"
        " extent, or guard the access with `if`."
    )


def test_masked_lanes_may_point_anywhere() -> None:
    """An access that a block or a point does not make is not checked."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        """
        %s = alloc shared {shape = [4]} : shared<4, float32>
        fill %s, %one
        parallel [%c8] body(%i: index) {
          %inside = lt %i, %c4 : bool
          if %inside then {
            %v = load %s, [%i] : float32
            store %v, %s, [%i]
            %at = sub %c3, %i : index
            %w = load %s, [%at] : float32
            store %w, %x, [%bx, %i]
          } otherwise {
          }
        }""",
    )
    x = np.zeros((4, 8), np.float32)
    assert run(text, x).guarded == 0
    assert x.sum() == 8


PROVED = kernel(
    "%x: global<4, 8, float32>",
    "%c4",
    f"""
    %at = add %bx, %c2 : index
    store %one, %x, [%at, %c0] {{in_bounds = true}} {AT}""",
)


PROVED_VIEW = kernel(
    "%x: global<4, 8, float32>",
    "%c4",
    f"""
    %at = mul %bx, %c2 : index
    %v = view %x, [%c0, %at] {{sizes = [4, 4], in_bounds = true}} : global<4, 4, float32>
    %s = alloc shared {{shape = [4, 4]}} : shared<4, 4, float32>
    copy %v, %s {AT}""",
)


def test_wrong_proof_of_a_view() -> None:
    """The same for a tile."""
    assert refusal(InternalError, PROVED_VIEW, X) == (
        "f.py:9:5: `x` is read at [0, 8], outside its shape [4, 8], although the access was"
        " proved to be inside, in block (3)\nPlease report this with the kernel."
    )


def test_wrong_proof() -> None:
    """An access that a pass marked as inside and that is not is a fault of ours."""
    assert refusal(InternalError, PROVED, X.copy()) == (
        "f.py:9:5: `x` is written at [4, 0], outside its shape [4, 8], although the access was"
        " proved to be inside, in block (2)\nPlease report this with the kernel."
    )


STRICT = kernel(
    "%x: global<4, 8, float32>",
    "%c4",
    f"""
    %s = alloc shared {{shape = [2, 8]}} : shared<2, 8, float32>
    %at = mul %bx, %c2 : index
    %v = view %x, [%at, %c0] {{sizes = [2, 8]}} : global<2, 8, float32>
    copy %v, %s {AT}
    parallel [%c8] body(%i: index) {{
      %far = add %at, %i : index
      %w = load %x, [%far, %c0] : float32
    }}""",
)


def test_strict_bounds() -> None:
    """With strict bounds a tile must have some element inside; without, it is guarded."""
    assert run(STRICT, X).guarded == 2 * 16 + 4 + 6 + 8 + 8
    assert refusal(BoundsError, STRICT, X, strict_bounds=True) == (
        "f.py:9:5: `x` is read from [4, 0] on, where no element lies inside its shape [4, 8],"
        " in block (2)\n"
        "Strict bounds (--debug, TILEPROF_CHECK=1) refuse an access that is guarded as a whole."
        " Check the grid and the offsets, or skip such blocks with `if`."
    )


def test_strict_bounds_of_elements() -> None:
    """All points of a box together make one access; a block outside of any makes one of its own."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c3",
        f"""
        parallel [%c4] body(%i: index) {{
          %b = mul %bx, %c3 : index
          %at = add %b, %i : index
          %v = load %x, [%at, %c0] : float32 {AT}
        }}""",
    )
    assert run(text, X).guarded == 3 + 4
    assert refusal(BoundsError, text, X, strict_bounds=True).startswith(
        "f.py:9:5: `x` is read from [6, 0] on, where no element lies inside its shape [4, 8],"
        " in block (2), point (i=0)\n"
    )


WRITE_FIRST = "Write it first, with T.clear, T.fill, T.copy or an assignment."


def test_read_of_an_unwritten_element() -> None:
    """Elements are followed one by one: three of four were written."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"""
        %s = alloc shared {{shape = [4]}} : shared<4, float32>
        parallel [%c3] body(%i: index) {{
          store %one, %s, [%i]
        }}
        parallel [%c4] body(%i: index) {{
          %at = sub %c3, %i : index
          %v = load %s, [%at] : float32 {AT}
        }}""",
    )
    assert refusal(UninitializedError, text, X) == (
        "f.py:9:5: `s` is read at [3] before anything was written there, in block (0), point (i=0)"
        f"\n{WRITE_FIRST}"
    )


def test_gemm_into_an_unwritten_accumulator() -> None:
    """`c += a @ b` reads `c`; only blocks that did not clear it are to blame."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c4",
        f"""
        %acc = alloc fragment {{shape = [4, 4]}} : fragment<4, 4, float32>
        %first = lt %bx, %c2 : bool
        if %first then {{
          fill %acc, %zero
        }} otherwise {{
        }}
        %v = view %x, [%c0, %c0] {{sizes = [4, 8]}} : global<4, 8, float32>
        gemm %v, %v, %acc {{transpose_b = true}} {AT}""",
    )
    assert refusal(UninitializedError, text, X) == (
        "f.py:9:5: `acc` is read at [0, 0] before anything was written there, in block (2)"
        f"\n{WRITE_FIRST}"
    )


def test_what_a_point_wrote_is_gone_after_its_loop() -> None:
    """A variable that one loop writes and the next one reads: the way out says whose it is."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"""
        %v = alloc local {{shape = []}} : local<float32>
        parallel [%c4] body(%i: index) {{
          store %one, %v, []
        }}
        parallel [%c4] body(%i: index) {{
          %r = load %v, [] : float32 {AT}
        }}""",
    )
    assert refusal(UninitializedError, text, X) == (
        "f.py:9:5: `v` is read before anything was written there, in block (0), point (i=0)\n"
        "Each point of a `T.Parallel` has its own: what a point writes there is gone after its "
        "loop. Write it before it is read, or use a fragment, which all points share."
    )


def test_unwritten_variable() -> None:
    """A scalar variable is followed too."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c4",
        f"""
        %v = alloc local {{shape = []}} : local<float32>
        %some = eq %bx, %c2 : bool
        if %some then {{
        }} otherwise {{
          store %one, %v, []
        }}
        %r = load %v, [] : float32 {AT}""",
    )
    assert refusal(UninitializedError, text, X) == (
        f"f.py:9:5: `v` is read before anything was written there, in block (2)\n{WRITE_FIRST}"
    )


def test_local_buffers_are_undefined_after_parallel() -> None:
    """What points wrote into a variable from outside is gone after them."""
    for shape, index in (("", ""), ("1", "%c0")):
        text = kernel(
            "%x: global<4, 8, float32>",
            "%c2",
            f"""
            %v = alloc local {{shape = [{shape}]}} : local<{shape + ", " if shape else ""}float32>
            store %zero, %v, [{index}]
            parallel [%c4] body(%i: index) {{
              store %one, %v, [{index}]
            }}
            %r = load %v, [{index}] : float32 {AT}""",
        )
        at = "" if not shape else " at [0]"
        assert refusal(UninitializedError, text, X) == (
            f"f.py:9:5: `v` is read{at} before anything was written there, in block (0)"
            f"\n{WRITE_FIRST}"
        )


OUTPUT = kernel(
    "%x: global<4, 8, float32>, %y: out global<4, 8, float32>",
    "%c4",
    f"""
    store %one, %y, [%bx, %c3]
    %s = alloc shared {{shape = [8]}} : shared<8, float32>
    %v = view %y, [%bx, %c2] {{sizes = [1, 8]}} : global<1, 8, float32>
    copy %v, %s
    %r = load %s, [%c1] : float32
    store %r, %y, [%bx, %c3]
    %q = load %s, [%c3] : float32 {AT}""",
)


def test_read_of_an_output() -> None:
    """An output starts with nothing in it, also where its array has old numbers."""
    text = OUTPUT.replace("copy %v, %s", f"copy %v, %s {AT}")
    assert refusal(UninitializedError, text, X, np.ones_like(X)) == (
        "f.py:9:5: `y` is read at [0, 2] before anything was written there, in block (0)\n"
        "It is an output, allocated by the call with no values in it: write it first."
    )


def test_unwritten_elements_may_be_dropped() -> None:
    """A copy whose target drops an element does not read it."""
    text = kernel(
        "%x: global<4, 8, float32>, %y: out global<6, float32>",
        "%c2",
        """
        %s = alloc shared {shape = [4]} : shared<4, float32>
        parallel [%c2] body(%i: index) {
          store %one, %s, [%i]
        }
        %at = mul %bx, %c4 : index
        %v = view %y, [%at] {sizes = [4]} : global<4, float32>
        %last = eq %bx, %c1 : bool
        if %last then {
          copy %s, %v
        } otherwise {
        }""",
    )
    y = np.zeros(6, np.float32)
    assert run(text, X, y).guarded == 2
    assert y.tolist() == [0, 0, 0, 0, 1, 1]
    assert refusal(UninitializedError, text.replace("eq %bx, %c1", "eq %bx, %c0"), X, y) == (
        "`s` is read at [2] before anything was written there, in block (0)\n" + WRITE_FIRST
    )


ORDER = "They run in any order: give each its own elements, or combine with T.atomic_add."
UPDATES = (
    "`x[i] += …` from several of them loses updates: use T.atomic_add, or T.reduce_sum over a tile."
)


def test_two_blocks_write_one_element() -> None:
    """Blocks 1 and 2 are the first that meet, whatever the batch."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c8",
        f"""
        %odd = add %bx, %c1 : index
        %row = floordiv %odd, %c2 : index
        store %one, %x, [%row, %c3] {AT}""",
    )
    assert refusal(RaceError, text, X.copy()) == (
        "f.py:9:5: block (1) and block (2) both write `x` at [1, 3] of shape [4, 8]\n" + ORDER
    )


def test_two_blocks_accumulate() -> None:
    """`x[0, 0] += 1` in every block gets the advice that fits."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2, %c3",
        f"""
        %old = load %x, [%c0, %c0] : float32
        %new = add %old, %one : float32
        store %new, %x, [%c0, %c0] {AT}""",
    )
    assert refusal(RaceError, text, X.copy()) == (
        "f.py:9:5: block (0, 0) and block (1, 0) both write `x` at [0, 0] of shape [4, 8]\n"
        + UPDATES
    )


def test_tiles_of_two_blocks_overlap() -> None:
    """The tiles start two apart and are three wide."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c3",
        f"""
        %at = mul %bx, %c2 : index
        %v = view %x, [%c1, %at] {{sizes = [2, 3]}} : global<2, 3, float32>
        fill %v, %zero {AT}""",
    )
    assert refusal(RaceError, text, X.copy()) == (
        "f.py:9:5: block (0) and block (1) both write `x` at [1, 2] of shape [4, 8]\n" + ORDER
    )


def test_two_points_write_one_element() -> None:
    """Points of one box meet in a shared buffer."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"""
        %s = alloc shared {{shape = [4]}} : shared<4, float32>
        parallel [%c4, %c2] body(%i: index, %j: index) {{
          %at = floordiv %i, %c2 : index
          %k = add %at, %j : index
          store %one, %s, [%k] {AT}
        }}""",
    )
    assert refusal(RaceError, text, X) == (
        "f.py:9:5: point (i=0, j=0) and point (i=1, j=0) of one T.Parallel in block (0) both write"
        " `s` at [0] of shape [4]\n" + ORDER
    )


def test_points_accumulate() -> None:
    """`s[0] += x[i]` over the points of a box gets the advice that fits."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"""
        %s = alloc shared {{shape = [1]}} : shared<1, float32>
        fill %s, %zero
        parallel [%c4] body(%i: index) {{
          %v = load %x, [%i, %c0] : float32
          %old = load %s, [%c0] : float32
          %new = add %old, %v : float32
          store %new, %s, [%c0] {AT}
        }}""",
    )
    assert refusal(RaceError, text, X) == (
        "f.py:9:5: point (i=0) and point (i=1) of one T.Parallel in block (0) both write `s` at [0]"
        " of shape [1]\n" + UPDATES
    )


def test_points_meet_in_two_stores() -> None:
    """Two stores of one box, each with elements of its own, may still meet."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"""
        %s = alloc shared {{shape = [5]}} : shared<5, float32>
        parallel [%c4] body(%i: index) {{
          store %one, %s, [%i]
          %next = add %i, %c1 : index
          store %zero, %s, [%next] {AT}
        }}""",
    )
    assert refusal(RaceError, text, X) == (
        "f.py:9:5: point (i=0) and point (i=1) of one T.Parallel in block (0) both write `s` at [1]"
        " of shape [5]\n" + ORDER
    )


NESTED_RACE = kernel(
    "%x: global<4, 8, float32>",
    "%c1",
    f"""
    %s = alloc shared {{shape = [8]}} : shared<8, float32>
    parallel [%c2] body(%i: index) {{
      %four = mul %i, %c4 : index
      parallel [%c2] body(%j: index) {{
        %first = add %four, %j : index
        store %one, %s, [%first]
      }}
      parallel [%c2] body(%k: index) {{
        %turned = sub %c1, %k : index
        %second = add %four, %turned : index
        store %one, %s, [%second] {AT}
      }}
    }}""",
)


def test_nested_points_meet() -> None:
    """An outer point may write again in its next inner box; two inner points or two outer points
    may not meet."""
    run(NESTED_RACE, X)
    inner = NESTED_RACE.replace("sub %c1, %k", "sub %c1, %c1")
    assert refusal(RaceError, inner, X) == (
        "f.py:9:5: point (i=0, k=0) and point (i=0, k=1) of one T.Parallel in block (0) both write"
        " `s` at [0] of shape [8]\n" + ORDER
    )
    outer = NESTED_RACE.replace("add %four, %turned", "add %c4, %turned")
    assert refusal(RaceError, outer, X) == (
        "f.py:9:5: point (i=1) and point (i=0, k=0) of one T.Parallel in block (0) both write"
        " `s` at [5] of shape [8]\n" + ORDER
    )


def test_points_of_a_global_tensor_meet() -> None:
    """Within one block the points are named."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"""
        parallel [%c4] body(%i: index) {{
          store %one, %x, [%bx, %c0] {AT}
        }}""",
    )
    assert refusal(RaceError, text, X.copy()) == (
        "f.py:9:5: point (i=0) and point (i=1) of one T.Parallel in block (0) both write `x` at"
        " [0, 0] of shape [4, 8]\n" + ORDER
    )


def test_division_by_zero() -> None:
    """Integers have no infinity."""
    text = kernel(
        "%n: global<4, int32>",
        "%c4",
        f"""
        %v = load %n, [%bx] : int32
        %w = floormod %v, %v : int32 {AT}""",
    )
    assert refusal(ExecutionError, text, np.array([3, 1, 0, 0], np.int32)) == (
        "f.py:9:5: an integer is divided by zero, in block (2)\nGuard the division with `if`."
    )


def test_loop_with_step_zero() -> None:
    """A step of 0 is refused, where one block has it and where all have."""
    for step in ("sub %c2, %bx", "sub %c2, %c2"):
        text = kernel(
            "%x: global<4, 8, float32>",
            "%c4",
            f"""
            %s = {step} : index
            for serial %c0, %c8, %s body(%i: index) {{
            }} """,
        )
        block = 2 if "bx" in step else 0
        assert refusal(ExecutionError, text, X) == (
            f"the step of a loop is 0, in block ({block})\nA loop with step 0 never ends."
        )


def test_endless_while() -> None:
    """A `while` that does not end is stopped, and the message says how to let it run."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c4",
        f"""
        while {AT} condition {{
          %on = eq %bx, %c2 : bool
          yield [%on]
        }} body {{
        }}""",
    )
    assert refusal(ExecutionError, text, X, while_limit=1000) == (
        "f.py:9:5: a `while` still runs after 1,000 iterations, in block (2)\n"
        "Where it does end, set TILEPROF_WHILE_LIMIT to a larger number."
    )


def test_while_limit_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is read when the kernel is made ready; nonsense is refused."""
    monkeypatch.setenv("TILEPROF_WHILE_LIMIT", "77")
    assert InterpreterExecutable(parse(VECTOR_ADD)).options.while_limit == 77
    monkeypatch.setenv("TILEPROF_WHILE_LIMIT", "lots")
    with pytest.raises(UsageError) as caught:
        InterpreterExecutable(parse(VECTOR_ADD))
    assert str(caught.value) == "TILEPROF_WHILE_LIMIT is `lots`\nGive it a number of iterations."


def test_device_assert(tmp_path: Path) -> None:
    """The message, the block and the source line with a caret."""
    source = tmp_path / "kernel.py"
    source.write_text("def f():\n    T.device_assert(x > 0, 'x is positive')\n")
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2, %c3",
        f"""
        %sum = add %bx, %by : index
        %small = lt %sum, %c3 : bool
        assert "x is positive" %small loc("{source}":2:4-2:41 "f")""",
    )
    assert refusal(DeviceAssertError, text, X) == (
        f"{source}:2:5: the kernel's assertion failed: x is positive, in block (1, 2)\n"
        "    T.device_assert(x > 0, 'x is positive')\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_errors_tell_where_a_macro_was_called() -> None:
    """An op that was inlined names its caller."""
    text = PROVED.replace(AT, 'loc("m.py":3:4-3:9 "inner" <- "k.py":8:2-8:9 "outer")')
    assert refusal(InternalError, text, X.copy()).splitlines()[1] == (
        "  in `inner`, called from k.py:8:3"
    )


def test_reinterpret_of_another_size() -> None:
    """A view under another shape moves nothing, so sizes must agree."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"%s = reinterpret %x {{shape = [5, 8]}} : global<5, 8, float32> {AT}",
    )
    assert refusal(ShapeError, text, X) == (
        "f.py:9:5: `x` of 128 bytes cannot be seen as [5, 8] of float32, which has 160\n"
        "A view moves nothing: both must have the same size."
    )


def test_reinterpret_of_a_strided_argument() -> None:
    """An argument whose elements do not lie in order has no other shape."""
    text = kernel(
        "%x: global<4, 8, float32>",
        "%c2",
        f"%s = reinterpret %x {{shape = [32]}} : global<32, float32> {AT}",
    )
    assert refusal(ArgumentError, text, np.zeros((8, 4), np.float32).T) == (
        "f.py:9:5: `x` is seen under another shape, but its elements do not lie in order:"
        " strides [4, 16] bytes for shape [4, 8]\nPass a contiguous copy."
    )


def test_read_only_argument() -> None:
    """An array that may not be written is refused before anything runs, if the kernel writes it."""
    a, b, c = np.zeros((3, 8), np.float32)
    for each in (a, c):
        each.flags.writeable = False
    text = VECTOR_ADD.replace("out ", "")
    assert refusal(ArgumentError, text, a, b, FrozenArray(c), symbols=(8,)) == (
        "`c` is written by the kernel, but the array is read-only\n"
        "Pass a copy, which can be written."
    )


class FrozenArray(np.ndarray[Any, Any]):
    """An array whose copies are read-only as well."""

    def __new__(cls, values: np.ndarray[Any, Any]) -> FrozenArray:
        """The same values."""
        made = values.copy().view(cls)
        made.flags.writeable = False
        return made

    def copy(self, order: Any = "C") -> FrozenArray:
        """A read-only copy."""
        return FrozenArray(np.array(self, order=order))


def test_argument_of_another_type() -> None:
    """Whoever calls with other elements than the kernel was compiled for is told."""
    a = np.zeros(8, np.float64)
    assert refusal(ArgumentError, VECTOR_ADD, a, a, a, symbols=(8,)) == (
        "`a` has elements of float64, not float32\nConvert it: `a.astype(...)`."
    )


def test_faults_of_ours_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong inside becomes one error with the op and its line."""
    text = kernel("%x: global<4, 8, float32>", "%c2", f"%v = exp %one : float32 {AT}")
    monkeypatch.setitem(
        __import__("tileprof.runtime.interpreter.arithmetic", fromlist=["UNARY"]).UNARY,
        "exp",
        lambda x: x.nothing,
    )
    message = refusal(InternalError, text, X)
    assert message.startswith("f.py:9:5: the interpreter failed in `exp`: AttributeError: ")
    assert message.endswith("Please report this with the kernel and its arguments.")
