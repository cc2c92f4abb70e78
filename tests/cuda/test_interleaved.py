"""Neighbours that a point asks for one by one: which are one access, and the same numbers."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.cuda.elementwise_support import compare_together, launch, numbers
from tests.spread import examples
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate

LAYOUTS = {
    "side by side": "regs (0,1) (0,2) | lanes (0,4) (0,8) (0,16) (1,0) (2,0) | warps (4,0) (8,0)",
    "apart": "regs (0,16) (8,0) | lanes (0,1) (0,2) (0,4) (0,8) (1,0) | warps (2,0) (4,0)",
    "along rows": "regs (1,0) (2,0) | lanes (0,1) (0,2) (0,4) (0,8) (0,16) | warps (4,0) (8,0)",
    "copies": (
        "regs (0,1) (2,0) (4,0) (8,0) | lanes (0,2) (0,4) (0,8) (0,16) (0,0) | warps (1,0) (0,0)"
    ),
}
"""16 × 32 points of 128 threads, by where a thread's points are."""


@dataclass(frozen=True)
class Case:
    """Kernel that exchanges what a point finds at its neighbouring elements."""

    text: str
    rows: int
    columns: int
    dtype: str


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Loads and stores at `size` neighbours of a point, of which some may be missing or twice, in
    any order, with a start, guards and ends of rows that may part them."""
    layout = draw(st.sampled_from([*LAYOUTS.values()]))
    dtype = draw(st.sampled_from(["float32", "float16", "int8"]))
    size = draw(st.sampled_from([2, 3, 4, 8]))
    start = draw(st.sampled_from([0, 0, 0, 1, 2, 16]))
    shared = draw(st.booleans())
    in_place = draw(st.booleans())
    columns, rows = 32 * size + start + draw(st.sampled_from([0, 1, 2])), 16
    if not shared:
        # Some accesses are then outside of the tensor, and guards leave them out.
        columns -= draw(st.sampled_from([0, 0, size, 8 * size, 5]))
        rows -= draw(st.sampled_from([0, 3]))
    read = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size + 1))
    written = draw(st.permutations(range(size)))[: draw(st.integers(1, size))]
    guard = draw(st.sampled_from(["", "rows", "columns", "some"]))
    mixed = draw(st.booleans())
    lines = [
        f"      %s = constant {size} : index",
        f"      %b = constant {start} : index",
        "      %m = mul %j, %s : index",
        "      %f = add %m, %b : index",
    ]
    for k in range(size):
        lines += [f"      %k{k} = constant {k} : index", f"      %at{k} = add %f, %k{k} : index"]
    indent = "      "
    if guard:
        limit = {"rows": "%i, %c11", "columns": "%j, %c28", "some": "%j, %c7"}[guard]
        lines += [f"      %in = lt {limit} : bool", "      if %in then {"]
        indent = "        "
    at = "%h" if shared else "%x"
    target = at if in_place else ("%g" if shared else "%y")
    loads = [f"{indent}%v{n} = load {at}, [%i, %at{k}] : {dtype}" for n, k in enumerate(read)]
    stores = []
    for n, k in enumerate(written):
        held = f"%v{n % len(read)}"
        if n % 2 and mixed:
            stores.append(f"{indent}%w{n} = add {held}, {held} : {dtype}")
            held = f"%w{n}"
        stores.append(f"{indent}store {held}, {target}, [%i, %at{k}]")
    if draw(st.booleans()):
        # Loads follow stores, as far as what they load is not needed before.
        late = loads[len(written) :]
        loads, stores = loads[: len(written)], [stores[0], *late, *stores[1:]]
    lines += [*loads, *stores]
    if guard:
        lines.append("      } otherwise {\n      }")
    body = f"""
    parallel [%c16, %c32] {{layout = "{layout}"}} body(%i: index, %j: index) {{
{chr(10).join(lines)}
    }}"""
    if shared:
        size_of = columns * np.dtype(dtype).itemsize
        forms = ["rows", "pad=8", *(["swizzle=128"] if size_of % 128 == 0 else [])]
        form = draw(st.sampled_from(forms))
        body = _through_shared(body, f"{rows}, {columns}", dtype, form)
    held = f"global<{rows}, {columns}, {dtype}>"
    text = launch(f"%x: {held}, %y: {held}", body)
    text = text.replace("threads = [128]", "threads = [128], schedule = [[shared, 65536]]")
    return Case(text, rows, columns, dtype)


def _through_shared(body: str, shape: str, dtype: str, form: str) -> str:
    """Return a loop over tiles of shared memory, into which tensors are copied and back."""
    made, back = "", ""
    extents = ", ".join(f"%c{n}" for n in shape.split(", "))
    for at, (tensor, tile) in enumerate((("%x", "%h"), ("%y", "%g"))):
        made += (
            f"    {tile} = alloc shared {{shape = [{shape}], "
            f'layout = "{form}", offset = {at * 32768}}} : shared<{shape}, {dtype}>\n'
        )
        for source, target in ((tensor, tile), (tile, tensor)):
            copied = f"""
    parallel [{extents}] body(%i: index, %j: index) {{
      %v = load {source}, [%i, %j] : {dtype}
      store %v, {target}, [%i, %j]
    }}
    barrier"""
            made, back = (made + copied, back) if target == tile else (made, back + copied)
        made += "\n"
    return f"{made}{body}\n    barrier{back}"


@settings(max_examples=examples(4), deadline=None)
@given(st.lists(cases(), min_size=10, max_size=10))
def test_neighbours_are_what_the_interpreter_says(drawn: list[Case]) -> None:
    """However many are accessed together, each element is that of its own access."""
    compare_together([
        (case.text, [numbers(case.dtype, case.rows, case.columns, seed=s) for s in (0, 1)], ())
        for case in drawn
    ])  # fmt: skip


def _lowered(function: object, target: str = "sm_90a") -> CudaProgram:
    kernel = tileprof.compile(function).program.kernel  # type: ignore[arg-type]
    return compile_cuda(kernel, find_target(target))


@T.prim_func
def rotated(
    X: T.Tensor((64, 256), "float16"),
    C: T.Tensor((64, 128), "float32"),
    S: T.Tensor((64, 128), "float32"),
) -> None:
    """Turns pairs of neighbours, in place."""
    with T.Kernel(8, threads=128) as bx:
        for i, j in T.Parallel(8, 128):
            a = T.cast(X[bx * 8 + i, 2 * j], "float32")
            b = T.cast(X[bx * 8 + i, 2 * j + 1], "float32")
            c, s = C[bx * 8 + i, j], S[bx * 8 + i, j]
            X[bx * 8 + i, 2 * j] = a * c - b * s
            X[bx * 8 + i, 2 * j + 1] = a * s + b * c


@T.prim_func
def product(
    X: T.Tensor((2048, 2), "float32"),
    Y: T.Tensor((2048, 2), "float32"),
    Z: T.Tensor((2048, 2), "float32"),
) -> None:
    """Multiplies complex numbers, whose parts are the last dimension."""
    with T.Kernel(2, threads=128) as bx:
        for i in T.Parallel(1024):
            n = bx * 1024 + i
            a, b, c, d = X[n, 0], X[n, 1], Y[n, 0], Y[n, 1]
            Z[n, 0] = a * c - b * d
            Z[n, 1] = a * d + b * c


@T.prim_func
def cut(X: T.Tensor((2045, 2), "float32"), Y: T.Tensor((2045, 2), "float32")) -> None:
    """Exchanges the parts of numbers; the last block is not full, and nor is a vector of it."""
    with T.Kernel(2, threads=128) as bx:
        for i in T.Parallel(1024):
            Y[bx * 1024 + i, 1] = X[bx * 1024 + i, 0]
            Y[bx * 1024 + i, 0] = X[bx * 1024 + i, 1]


@T.prim_func
def in_shared(X: T.Tensor((2048,), "float16"), Y: T.Tensor((2048,), "float16")) -> None:
    """Sums and differences of neighbours in shared memory, in place."""
    with T.Kernel(1, threads=128):
        t = T.alloc_shared((2048,), "float16")
        T.copy(X, t)
        for i in T.Parallel(1024):
            a, b = t[2 * i], t[2 * i + 1]
            t[2 * i] = a + b
            t[2 * i + 1] = a - b
        T.copy(t, Y)


@T.prim_func
def under_condition(
    X: T.Tensor((2048,), "float16"), n: T.int32, Y: T.Tensor((2048,), "float16")
) -> None:
    """Exchanges neighbours of some of the points."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(1024):
            if i < n:
                a, b = X[2 * i], X[2 * i + 1]
                Y[2 * i] = b
                Y[2 * i + 1] = a


@T.prim_func
def asked_twice(X: T.Tensor((4096,), "float32"), Y: T.Tensor((4096,), "float32")) -> None:
    """Each element is read twice."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(4096):
            Y[i] = X[i] * T.exp(X[i])


@T.prim_func
def scaled(X: T.Tensor((2048, 2), "float32")) -> None:
    """Scales numbers in place, one part after the other."""
    with T.Kernel(2, threads=128) as bx:
        for i in T.Parallel(1024):
            n = bx * 1024 + i
            X[n, 0] = X[n, 0] * 2.0
            X[n, 1] = X[n, 1] * 3.0


@T.prim_func
def kept_apart(X: T.Tensor((2050,), "float32"), Y: T.Tensor((2048,), "float32")) -> None:
    """Pairs that do not begin at an even element, are read between stores, or under conditions."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(1024):
            a = X[2 * i + 1]
            b = X[2 * i + 2]
            Y[2 * i] = a
            Y[2 * i + 1] = Y[2 * i] + b
        for i in T.Parallel(1024):
            X[2 * i] = 1.0
            if i > 3:
                X[2 * i + 1] = 2.0


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (rotated, "get_global<4>:2 get_global<8>:1 put_values_global<8>:1"),
        (product, "get_global<4>:2 put_global<4>:1"),
        (cut, "get_global<2>:1 get_global<4>:1 put_global<2>:1 put_global<4>:1"),
        (
            in_shared,
            "get_global<8>:1 get_shared<8>:2 put_global<8>:1 put_shared<8>:1"
            " put_values_shared<8>:1",
        ),
        (
            under_condition,
            "get_global<2>:1 get_global<8>:1 put_global<2>:1 put_global<8>:1",
        ),
        (kept_apart, ""),
        (scaled, "get_global<4>:1 put_global<4>:1"),
        (asked_twice, "get_global<4>:1 put_global<4>:1"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_neighbours_of_points_are_one_vector(function: object, expected: str) -> None:
    """Pairs of several points fill 16 bytes; where a vector may be cut, each point has its own."""
    text = _lowered(function).source.text
    found = re.findall(r"tp_((?:get|put)_(?:\w+_)?(?:global|shared)(?:_where)?<\d+>)\(", text)
    assert " ".join(f"{name}:{found.count(name)}" for name in sorted({*found})) == expected


def test_remarks_say_what_is_one_access_and_what_keeps_others_apart() -> None:
    """The first access of a window stands for its neighbours; each other pair names its reason."""
    remarks = [str(each) for each in _lowered(rotated).remarks]
    assert sum("one access with its neighbours" in each for each in remarks) == 2
    twice = [str(each) for each in _lowered(asked_twice).remarks]
    assert sum("loaded once, with the same element of line" in each for each in twice) == 1
    apart = "\n".join(str(each) for each in _lowered(kept_apart).remarks)
    assert apart.count("nothing says that the first of them is at a multiple of 2") == 2
    assert apart.count("`Y` is accessed between it and its neighbour of line") == 2
    assert apart.count("accesses its neighbour under another condition") == 2


@pytest.mark.parametrize(("extent", "pairs"), [(16, 1), (15, 0)])
def test_half_of_a_pair_that_is_outside_is_left_out(extent: int, pairs: int) -> None:
    """Pairs that a list chooses are loaded at once where each is inside or outside as a whole."""

    @T.prim_func
    def gathered(
        X: T.Tensor((extent,), "float32"),
        rows: T.Tensor((128,), "int32"),
        Y: T.Tensor((256,), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                row = rows[i]
                Y[2 * i] = X[2 * row]
                Y[2 * i + 1] = X[2 * row + 1]

    made = _lowered(gathered)
    assert made.source.text.count("tp_get_global<2>(X_in") == pairs
    x, y = np.arange(1, extent + 1, dtype=np.float32), np.full(256, np.nan, np.float32)
    rows = np.arange(128, dtype=np.int32) % 9
    emulate(made.source, made.kernel, [x, rows, y], seed=1)
    at = 2 * rows[:, None] + np.arange(2)
    expected = np.where(at < extent, np.append(x, [0] * 4)[np.minimum(at, extent)], 0)
    np.testing.assert_array_equal(y, expected.ravel())
