# mypy: disable-error-code="valid-type, no-untyped-def"
"""Work of tile kernels that is the same for several points, that comes to nothing, or that threads
do in small pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tileprof
import tileprof.lang as T
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only
from tileprof.analyzer.cases import Program
from tileprof.analyzer.machine.added_sums import added_sums
from tileprof.analyzer.tiles.conditions import masked_tails
from tileprof.analyzer.tiles.masked_loops import masked_loops
from tileprof.analyzer.tiles.per_point import joined_calls, per_point
from tileprof.analyzer.tiles.round_trips import carried
from tileprof.analyzer.tiles.thin_loops import small_chunks, thin_loops
from tileprof.analyzer.tiles.tile_loops import narrow_loops
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.ir import plain_kernel, print_kernel
from tileprof.profile import Profile
from tileprof.profile.storage.ir_text import read


@tileprof.jit
def weighted(X: T.Tensor((4096, 512), T.float32), G: T.Tensor((4096,), T.float32)):  # noqa: ANN201
    """Scale each row by a sigmoid, and divide it by a number."""
    Y = T.empty((4096, 512), T.float32)
    with T.Kernel(128, threads=128) as b:
        for i, j in T.Parallel(32, 512):
            gate = T.sigmoid(G[b * 32 + i])
            Y[b * 32 + i, j] = gate * X[b * 32 + i, j] / G[b * 32 + i]
    return Y


@tileprof.jit
def tops(X: T.Tensor((256, 4096), T.float32)):  # noqa: ANN201
    """Find the largest of each row, 256 elements at a time, and count down from it."""
    Y = T.empty((256,), T.float32)
    with T.Kernel(256, threads=256) as row:
        held = T.alloc_fragment((256,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        T.clear(top)
        for k in T.serial(16):
            T.copy(X[row, k * 256 : k * 256 + 256], held)
            T.reduce_max(held, top, dim=0, clear=False)
        T.copy(top, Y[row : row + 1])
    return Y


@tileprof.jit
def prefixes(X: T.Tensor((64, 64, 64), T.float32)):  # noqa: ANN201
    """Add up what is before each row, row by row; and roots, by a fixed number of steps."""
    Y = T.empty((64, 64, 64), T.float32)
    with T.Kernel(64, threads=128) as b:
        held = T.alloc_shared((64, 64), T.float32)
        sums = T.alloc_fragment((64, 64), T.float32)
        T.copy(X[b, :, :], held)
        T.clear(sums)
        for r in T.serial(64):
            for i, j in T.Parallel(64, 64):
                if r <= i:
                    sums[i, j] += held[r, j]
        for i, j in T.Parallel(64, 64):
            root = T.alloc_var(T.float32, 1.0)
            for _ in T.serial(40):
                if T.abs(root * root - sums[i, j]) > 1e-3:
                    root = 0.5 * (root + sums[i, j] / root)
            Y[b, i, j] = root
    return Y


@tileprof.jit
def largest(X: T.Tensor((64, 128), T.float32)):  # noqa: ANN201
    """Find the first largest element of each row, eight times, one element after the other."""
    Y = T.empty((64, 8), T.int32)
    with T.Kernel(64, threads=32) as row:
        held = T.alloc_shared((128,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        where = T.alloc_fragment((1,), T.int32)
        T.copy(X[row, :], held)
        for n in T.serial(8):
            top[0] = -1.0
            for i in T.serial(128):
                if held[i] > top[0]:
                    top[0] = held[i]
                    where[0] = i
            Y[row, n] = where[0]
            held[where[0]] = -2.0
    return Y


@tileprof.jit
def states(X: T.Tensor((256, 512), T.float32)):  # noqa: ANN201
    """Let each row be half of the one before, and what comes in."""
    H = T.empty((256, 512), T.float32)
    with T.Kernel(4, threads=128) as b:
        for j in T.Parallel(128):
            H[0, b * 128 + j] = X[0, b * 128 + j]
        for t in T.serial(1, 256):
            for j in T.Parallel(128):
                H[t, b * 128 + j] = 0.5 * H[t - 1, b * 128 + j] + X[t, b * 128 + j]
    return H


WEIGHTED, TOPS, PREFIXES, STATES = (
    print_kernel(each.compile().program.kernel) for each in (weighted, tops, prefixes, states)
)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", [("%j", 512)]),
        ("load %G, [%1]", "load %G, [%j]", [("%i", 32)]),
        ("store %6, %Y", "store %6, %G", []),
    ],
    ids=["by row", "by column", "written"],
)
def test_functions_and_divisors_of_an_axis(
    old: str, new: str, found: list[tuple[str, int]]
) -> None:
    """They are the same for all points of the axis that they do not go by, unless the loop changes
    what they are made of."""
    assert old in WEIGHTED
    held = per_point(read(WEIGHTED.replace(old, new)))
    assert [(*each.axes, each.times) for each in held] == found
    assert all(each.names == ("sigmoid", "div") and 0.5 < each.part < 1 for each in held)


CALLS = """\
kernel @calls(%X: global<4096, float32>, %Y: out global<4096, float32>) {
  %c1 = constant 1 : index
  %c4096 = constant 4096 : index
  launch [%c1] {threads = [128]} body(%b: index) {
    parallel [%c4096] body(%i: index) {
      %x = load %X, [%i] : float32
      %w = floor %x : float32
      %d = sub %x, %w : float32
      %one = exp %w : float32
      %two = exp %d : float32
      %y = mul %one, %two : float32
      store %y, %Y, [%i]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", ["exp(a) * exp(b) is exp(a + b)"]),
        ("mul", "div", ["exp(a) / exp(b) is exp(a - b)"]),
        ("mul", "add", []),
        ("= exp", "= log", []),
        ("%two = exp %d", "%two = exp2 %d", []),
        ("store %y", "%n = add %y, %one : float32\n store %n", []),
    ],
)
def test_calls_that_one_call_could_replace(old: str, new: str, same: list[str]) -> None:
    """Only calls of one function whose results nothing else uses are one call of their sum."""
    text = CALLS.replace(old, new) if old else CALLS
    assert [each.same for each in joined_calls(read(text))] == same


def test_more_goes_where_arguments_are_parts_of_one_number() -> None:
    """The whole part and the rest are added up to what they were made of."""
    parts, apart = (
        joined_calls(read(text))[0].part
        for text in (CALLS, CALLS.replace("sub %x, %w", "sub %w, %x"))
    )
    assert apart < parts < 1


def test_numbers_made_of_a_number_twice_are_spelled_once() -> None:
    """Each of 60 factors is the sum of the one before and itself, under a call of its own."""
    sums = "\n".join(
        f"%x{n} = add %x{n - 1}, %x{n - 1} : float32" for n in range(1, 61)
    ).replace("%x0", "%x")  # fmt: skip
    text = CALLS.replace("%w = floor %x ", f"{sums}\n      %w = floor %x60 ")
    assert [each.same for each in joined_calls(read(text))] == ["exp(a) * exp(b) is exp(a + b)"]


def at_sigmoid(function: int, waits: int) -> Profile:
    """`weighted` with samples at the function's line, and at a load there."""
    kernel = plain_kernel(weighted.compile().program.kernel)
    line = next(op.line for op, _ in kernel.nested if op.name == "sigmoid")
    code = [
        ("LDG.E R2, desc[UR8][R4.64]", {"long_scoreboard": waits}, 0, line),
        ("MUFU.EX2 R3, R2", {"selected": function, "math_pipe_throttle": function}, 0, line),
        ("STG.E desc[UR8][R6.64], R3", {"lg_throttle": 1000}, 0, line + 1),
        ("EXIT", {"selected": 1000}, 0, line + 1),
    ]
    held = on_h200(Made(code=code, attributes=launch(128)))
    (info,) = held.tables.kernels
    tables = replace(held.tables, kernels=(replace(info, program=kernel),))
    return replace(held, tables=tables)


def test_cost_is_that_of_arithmetic_and_not_of_waits_for_its_loads() -> None:
    """A compiler that merges the function leaves no samples there, however long loads take."""
    finding = only(at_sigmoid(4000, 0), "redundant-work")
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert 2 < finding.kernel_gain.mid < 5
    assert not found(at_sigmoid(0, 4000), "redundant-work")


def test_few_elements_a_thread_in_each_iteration() -> None:
    """256 elements for 256 threads; of 1,024, or where no iteration reads others, nothing."""
    (chunk,) = small_chunks(read(TOPS))
    assert (chunk.elements, chunk.threads, chunk.turns) == (256, 256, 16)
    assert not small_chunks(read(TOPS.replace("threads = [256]", "threads = [64]")))
    assert not small_chunks(read(TOPS.replace("[%row, %1]", "[%row, %c0]")))


def test_state_that_goes_through_memory() -> None:
    """A row of a tensor that does not change, or of other columns, is no state."""
    (held,) = carried(read(STATES))
    assert (held.tensor, held.turns) == ("%H", 255)
    load = next(line for line in STATES.splitlines() if "load %H" in line)
    for other in (load.replace("%H", "%X"), load.replace(", %", ", %t, %")):
        assert not carried(read(STATES.replace(load, other)))


def test_elements_that_the_index_of_a_loop_leaves_out() -> None:
    """Half of the rows are behind the one that is added, on average over the iterations."""
    (masked,) = masked_loops(read(PREFIXES))
    assert masked.inside == (32.5, 64)
    assert not masked_loops(read(PREFIXES.replace("serial %c0, %c64", "serial %b, %c64")))


def test_loop_that_goes_on_when_its_condition_stays_false() -> None:
    """Only what is under the condition changes the root that it depends on."""
    (tail,) = masked_tails(read(PREFIXES))
    assert (tail.lengths, tail.read) == ("", ())
    before, body = PREFIXES.split("if %11 then {")
    changed = body.replace("otherwise {", "otherwise {\n store %5, %root, []", 1)
    assert not masked_tails(read(f"{before}if %11 then {{{changed}"))


def test_one_element_at_a_time_behind_a_condition() -> None:
    """The inner loop, of which all lanes of the one warp do the same."""
    kernel = largest.compile().program.kernel
    text = compile_cuda(kernel, find_target("sm_90a")).source.text
    (loop,) = narrow_loops(plain_kernel(kernel), text)
    assert (loop.elements, loop.threads, loop.turns) == (1, 32, 128)


def test_reduction_of_fewer_elements_than_threads() -> None:
    """Three quarters of 1,024 threads have no element."""
    wide = read(TOPS.replace("threads = [256]", "threads = [1024]"))
    assert [each.idle for each in thin_loops(wide) if each.op.name == "reduce"] == [0.75]
    assert not [each for each in thin_loops(read(TOPS)) if each.op.name == "reduce"]


@pytest.mark.parametrize(("source", "count"), [("R99", 8), ("R2", 0)])
def test_products_into_registers_that_get_one_value(source: str, count: int) -> None:
    """A move from another register for one of them leaves it open what the product begins at."""
    fills = [f"MOV R{24 + n}, {source if n == 3 else 'R99'}" for n in range(8)]
    sums = [f"FADD R{40 + n}, R{24 + n}, R{40 + n}" for n in range(8)]
    product = "HGMMA.64x16x16.F32 R24, gdesc[UR8], R24, gsb0"
    lines = [*fills, product, "WARPGROUP.DEPBAR.LE gsb0, 0x0", *sums, "@!P1 BRA 0x0"]
    code = [(text, {"selected": 100}, 1, 10) for text in lines] + [("EXIT", {}, 0, 11)]
    held = Program(on_h200(Made(code=code))).kernels[0].code
    assert held is not None
    assert sum(map(len, added_sums(held).values())) == count
