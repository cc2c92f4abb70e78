"""Casts, copies and fills of whole tensors around one Triton kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, MS, Step
from tileprof.analyzer.program.host_passes import host_passes
from tileprof.analyzer.program.triton.kernels import triton_kernels
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, Metric, Profile, TensorArgument

KERNELS = """\
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, factors, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < count
    held = tl.load(x + at, mask=real).to(tl.float32)
    tl.store(out + at, held * tl.load(factors), mask=real)

@triton.jit
def add_up(x, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < count)))

@triton.jit
def scatter(x, rows, out, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(rows + tl.program_id(0))
    tl.store(out + row * block + at, tl.load(x + tl.program_id(0) * block + at))

@triton.jit
def lower(x, out, count, block: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, block)
    tl.store(out + row * count + at, tl.load(x + row * count + at), mask=at <= row)

@triton.jit
def row_of(x, place, count, block: tl.constexpr):
    at = tl.arange(0, block)
    return tl.load(x + place * count + at, mask=at < count)

@triton.jit
def keep(x, place, value, count, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(x + place * count + at, value.to(x.dtype.element_ty), mask=count > at)

@triton.jit
def twice(x, out, rows, count, EVEN: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    if row >= rows:
        return
    held = row_of(x, row, count, block)
    if EVEN:
        tl.store(row * block + tl.arange(0, block) + out, 2 * held)
    else:
        keep(out, row, 2 * held, count, block)

@triton.jit
def moved(x, rows, out, count, block: tl.constexpr):
    row = tl.program_id(0)
    keep(out, tl.load(rows + row), row_of(x, row, count, block), count, block)

@triton.jit
def in_place(x, count, block: tl.constexpr):
    at = x + tl.program_id(0) * block + tl.arange(0, block)
    tl.store(at, tl.load(at) + 1)

def train(x, rows, factors):
"""
FIRST = KERNELS.count("\n") + 1
"""Line of a function's first statement."""
EMPTY = "out = torch.empty(n, dtype=torch.float32)"


@pytest.mark.parametrize(
    ("imports", "decorators", "expected"),
    [
        ("import triton", "@triton.jit", 1),
        (
            "import triton",
            "@triton.autotune([], key=[])\n@triton.heuristics({})\n@triton.jit",
            1,
        ),
        ("import triton as tr", "@tr.jit(do_not_specialize=['n'])", 1),
        ("from triton import jit", "@jit", 1),
        ("from triton import jit as kernel", "@kernel", 1),
        ("from triton.runtime import jit as made", "@made", 1),
        ("from triton.experimental import gluon", "@gluon.jit", 1),
        ("", "@triton.jit", 1),
        ("from .compiling import jit", "@jit()", 1),
        ("from numba import jit", "@jit", 0),
        ("from numba import cuda", "@cuda.jit", 0),
        ("import tileprof.lang as triton", "@triton.jit", 0),
        ("import torch", "@torch.jit.script", 0),
        ("import triton", "", 0),
    ],
)
def test_what_a_kernel_is(imports: str, decorators: str, expected: int) -> None:
    """A function that Triton's `jit` decorates, by whichever name; not another compiler's."""
    text = f"{imports}\n{decorators}\ndef scale(x): pass\n"
    assert [each.name for each in triton_kernels(text)] == ["scale"] * expected


BODY = """\
import triton
import triton.language as {tl}

@triton.jit
def kernel(x, out, rows, first, stride, n, block: {tl}.constexpr):
    row = {tl}.program_id(0) + rows * first
    at = {tl}.arange(0, block)
    held = {load}
    {tl}.store(out + row * stride + at, held, mask=at < n)
"""


@pytest.mark.parametrize("tl", ["tl", "lang"])
@pytest.mark.parametrize(
    ("load", "loads", "unknown"),
    [
        ("{tl}.load(x + first + at)", {"x"}, set()),
        ("{tl}.load(helper(x, n) + at)", set(), {"x", ""}),
        ("helper((x, n))", set(), {"x"}),
        ("{tl}.load({tl}.load(x).to({tl}.pointer_type({tl}.float32)) + at)", {"x"}, {""}),
        ("{tl}.atomic_cas(x, 0, 1)", set(), {"x"}),
        ("{tl}.load({tl}.make_block_ptr(x, (rows, n), (stride, 1), (0, 0), (1, 64), (1, 0)))",
         {"x"}, set()),
    ],
    ids=["sum", "function", "pair", "address in memory", "exchange", "block"],
)  # fmt: skip
def test_parameters_that_a_kernel_accesses(
    tl: str, load: str, loads: set[str], unknown: set[str]
) -> None:
    """Pointers, not the numbers in addresses, by whichever name Triton's language is imported."""
    (kernel,) = triton_kernels(BODY.format(tl=tl, load=load.format(tl=tl)))
    assert (set(kernel.loads), set(kernel.unknown), set(kernel.stores)) == (loads, unknown, {"out"})
    assert kernel.placed - unknown == {"out", "rows", "first", "stride", "block"}


def passes(*statements: str) -> list[tuple[str, bool, str, int]]:
    """Return the passes found in a function of these statements: how, whether after the kernel, the
    call, its line."""
    text = KERNELS + "".join(f"    {each}\n" for each in statements)
    held = host_passes(text, triton_kernels(text))
    return [(each.how, each.result, each.call, each.lines[0] - FIRST) for each in held]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["scale[g](x.float(), factors, out, n, 64)"], ("widened", False, "x.float()", 0)),
        (["y = x.to(torch.float32)", "m = y.shape", "scale[g](y, factors, out, n, block=64)"],
         ("widened", False, "x.to(torch.float32)", 0)),
        (["scale[g](torch.clone(x), factors, out, n, 64)"],
         ("copied", False, "torch.clone(x)", 0)),
        (["out = torch.zeros_like(x)", "scale[g](x, factors, out, n, 64)", "return out"],
         ("filled", False, "torch.zeros_like(x)", 0)),
        ([EMPTY, "scale[g](x, factors, out, n, 64)", "return out.to(torch.bfloat16)"],
         ("narrowed", True, "out.to(torch.bfloat16)", 2)),
        ([EMPTY, "scale[g](x, factors, out, n, 64)", "result.copy_(out)"],
         ("copied", True, "result.copy_(out)", 2)),
        (["x = x.float()", "scale[g](x, factors, out, n, 64)"],
         ("widened", False, "x.float()", 0)),
        (["x = x.view(-1, m).float().view(-1)", "scale[g](x.detach(), factors, out, n, **meta)"],
         ("widened", False, "x.view(-1, m).float()", 0)),
        (["y, z = x.clone(), n", "wrap_triton(scale)[g](y, factors, out, z, 64)"],
         ("copied", False, "x.clone()", 0)),
        (["scale[g](TensorDescriptor.from_tensor(x.clone(), s), factors, out, n, 64)"],
         ("copied", False, "x.clone()", 0)),
        (["out = torch.empty_like(x)", "out.zero_()", "scale[g](x, factors, out, n, 64)"],
         ("filled", False, "out.zero_()", 1)),
        (["out = torch.empty_like(x).fill_(0)", "scale[g](x, factors, out, n, 64)"],
         ("filled", False, "torch.empty_like(x).fill_(0)", 0)),
        (["out = torch.zeros_like(x)", "twice[g](x, out, n, m, True, 64)", "return out"],
         ("filled", False, "torch.zeros_like(x)", 0)),
        (["twice[g](x.clone(), out, n, m, True, 64)"], ("copied", False, "x.clone()", 0)),
        ([EMPTY, "rows = out.view(-1)", "scale[g](x, factors, rows, n, 64)",
          "out = out.to(x.dtype)", "return out"], ("narrowed", True, "out.to(x.dtype)", 3)),
        ([EMPTY, "scale[g](x, factors, out, n, 64)", "return out.view(m, n).type_as(x)"],
         ("narrowed", True, "out.view(m, n).type_as(x)", 2)),
        ([EMPTY, "kind = torch.bfloat16", "scale[g](x, factors, out, n, 64)",
          "return out.to(kind)"], ("narrowed", True, "out.to(kind)", 3)),
    ],
    ids=["widened", "widened before", "cloned", "zeros", "narrowed", "copied after", "bound again",
         "views", "a pair", "described", "set to zero", "filled at once", "stored in two branches",
         "by functions", "as another tensor", "as a tensor's type", "a name of a type"],
)  # fmt: skip
def test_passes_that_one_kernel_alone_needs(
    statements: list[str], expected: tuple[str, bool, str, int]
) -> None:
    """Its kind, its text, and where it is."""
    assert passes(*statements) == [expected]


@pytest.mark.parametrize(
    "statements",
    [
        ["y = x.float()", "scale[g](y, factors, out, n, 64)", "return y.sum()"],
        ["y = x.clone()", "x.add_(1)", "scale[g](y, factors, out, n, 64)"],
        ["scale[g](x.clone(), factors, x, n, 64)"],
        ["y = x.clone()", "in_place[g](y, n, 64)"],
        ["scale[g](x.contiguous(), factors, out, n, 64)"],
        ["scale[g](x.half(), factors, out, n, 64)"],
        ["out = torch.zeros(1)", "add_up[g](x, out, n, 64)", "return out"],
        ["out = torch.zeros(1)", "add_up[g](x, out, n, 64)", "return out.to(torch.float64)"],
        ["out = torch.zeros_like(x)", "scatter[g](x, rows, out, 64)"],
        ["out = torch.zeros_like(x)", "lower[g](x, out, n, 64)"],
        ["out = torch.zeros_like(x)", "in_place[g](out, n, 64)"],
        ["out = torch.zeros_like(x)", "print(out)", "scale[g](x, factors, out, n, 64)"],
        [EMPTY, "scale[g](x, factors, out, n, 64)", "return out, out.to(torch.bfloat16)"],
        ["scale[g](*given)"],
        ["if n:", "    x = x.float()", "scale[g](x, factors, out, n, 64)"],
        ["y = x.view(-1)", "x = x.clone()", "scale[g](x, factors, out, n, 64)", "y.add_(1)"],
        ["out = torch.zeros_like(x)", "moved[g](x, rows, out, n, 64)"],
        ["y = x.clone()", "z = y.view(-1)", "z.add_(1)", "scale[g](y, factors, out, n, 64)"],
    ],
    ids=["used again", "changed meanwhile", "written over", "in place", "another order",
         "narrower input", "atomics", "sums of atomics", "rows that memory names",
         "a part is stored", "read and written", "read before", "both are wanted",
         "arguments not told", "bound in a branch", "another name changes it",
         "rows that memory names for a function", "a view is changed"],
)  # fmt: skip
def test_passes_that_something_needs(statements: list[str]) -> None:
    """Nothing is said."""
    assert passes(*statements) == []


HELPERS = """\
def check(x, out):
    assert x.shape == out.shape and x.is_contiguous()

def show(x):
    print(x)

def launch(x, factors):
    out = torch.empty(x.shape, dtype=torch.float32)
    check(x, out)
    scale[g](x, factors, out, n, 64)
    return out

class Scale(torch.autograd.Function):
    def forward(ctx, x, factors):
        out = torch.empty(x.shape, dtype=x.dtype)
        scale[g](x, factors, out, n, 64)
        return out

def run(x, factors):
"""


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["return launch(x.float(), factors)"], [("widened", False, "x.float()")]),
        (["y = x.clone()", "return launch(y, factors=factors)"], [("copied", False, "x.clone()")]),
        (["return launch(x, factors).to(x.dtype)"],
         [("narrowed", True, "launch(x, factors).to(x.dtype)")]),
        (["y = launch(x, factors)", "y = y.clone()", "return y"], [("copied", True, "y.clone()")]),
        (["return Scale.apply(x.float(), factors)"], [("widened", False, "x.float()")]),
        (["y = x.clone()", "launch(y, factors)", "return y"], []),
        (["y = x.clone()", "show(y)", "return launch(y, factors)"], []),
        (["y = launch(x, factors)", "return y, y.clone()"], []),
        (["return launch(x.float(), x)"], []),
        (["return launch(*both).half()"], []),
    ],
    ids=["argument", "name", "result", "name of a result", "autograd", "used again", "shown",
         "both results", "given twice", "arguments not told"],
)  # fmt: skip
def test_passes_around_a_function_that_launches(
    statements: list[str], expected: list[tuple[str, bool, str]]
) -> None:
    """Functions of the file are followed; one that only asks for a shape reads nothing."""
    text = KERNELS.partition("def train")[0] + HELPERS + "".join(f"    {e}\n" for e in statements)
    held = host_passes(text, triton_kernels(text))
    assert [(each.how, each.result, each.call) for each in held] == expected


CAST = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda>"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >"


def recorded(
    text: str, kernel: str, blocks: float = 0, lines: tuple[int, int] | None = (2, 1),
    other: str = "",
) -> Profile:  # fmt: skip
    """A step of 40 ms: 10 of a pass, 30 of a kernel that moves 100 GB; the memory gives 4 TB/s.

    `lines`: of the pass and of the launch, after the first statement; None: none were recorded.
    `other`: another kernel, of 5 ms.
    """
    step = Step()
    step.builder.declare(Metric("bytes", "bytes"))
    if other:
        step.builder.add(step.launch(-1, other, 5 * MS), "blocks", 20)
    for name, time, line in zip((kernel, "scale"), (10, 30), lines or (0, 0)):
        above = step.frame(step.top, "train", FIRST + line) if lines else -1
        node = step.launch(above, name, time * MS)
        step.builder.add(node, *(("bytes", 20 * 1e11) if name == "scale" else ("blocks", blocks)))
    held = step.profile({"hbm_read": 4e12}, sources={FILE: KERNELS + text})
    peaks = tuple(replace(each, unit="bytes/s") for each in held.tables.device_peaks)
    return replace(held, tables=replace(held.tables, device_peaks=peaks))


NARROWED = f"""\
    {EMPTY}
    scale[g](x, factors, out, n, 64)
    return out.to(torch.bfloat16)
"""


@pytest.mark.parametrize("lines", [(2, 1), None], ids=["lines", "no lines"])
def test_gain_of_a_result_in_the_type_that_is_wanted(lines: tuple[int, int] | None) -> None:
    """10 ms go, and 2 bytes of 6.1 billion elements: 3.1 ms of memory's time for the kernel, which
    moves its bytes in 5 / 6 of its own."""
    profile = recorded(NARROWED, CAST, 20 * 6e6, lines)
    finding = only(profile, "needless-pass")
    assert finding.title == "out.to(torch.bfloat16) is a pass over all that scale wrote"
    place, gain = finding.place, finding.program_gain
    assert place.kernel == "scale"
    assert place.location is not None
    assert place.location.line == FIRST + 2
    assert gain is not None
    assert gain.mid == pytest.approx(40 / (30 - 3.072 * 5 / 6), rel=1e-3)
    assert gain.low < 40 / 30 < gain.mid < gain.high
    assert not found(profile, "layout-copies")


def seen(profile: Profile, line: int, *sizes: tuple[float, int]) -> Profile:
    """The same, where launches of `scale` from a line had results of so many elements, of so many
    bytes each."""
    launches = tuple(
        LaunchVariant("scale", Location(FILE, FIRST + line), 4, 0,
                      (TensorArgument("out", "float32", int(elements), width, 0),))
        for elements, width in sizes
    )  # fmt: skip
    return replace(profile, tables=replace(profile.tables, launches=launches))


def test_result_whose_type_launches_tell() -> None:
    """The text does not say what `empty_like` makes: with its 6.1 billion elements of 4 bytes the
    gain is that of a text that does. Nothing is said where they differ, or have 2 bytes already."""
    text = NARROWED.replace(EMPTY, "out = torch.empty_like(x)")
    profile = recorded(text, CAST)
    finding = only(seen(profile, 1, (6.144e9, 4)), "needless-pass")
    assert finding.title == "out.to(torch.bfloat16) is a pass over all that scale wrote"
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(40 / (30 - 3.072 * 5 / 6), rel=1e-3)
    same = only(seen(profile, 1, (6.144e9, 2)), "needless-pass").program_gain
    assert same is not None
    assert same.mid < finding.program_gain.mid
    for other in (profile, seen(profile, 0, (6e9, 4)), seen(profile, 1, (6e9, 4), (5e9, 4))):
        assert not found(other, "needless-pass")


def test_kernel_that_leaves_elements_out_gains_no_more_than_its_time() -> None:
    """The kernel takes 30 ms without the pass, of which half the bytes may be half; memory would
    take 60 ms for two bytes of all 120 billion elements that it could have read."""
    profile = seen(recorded(NARROWED, CAST), 1, (120e9, 4))
    gain = only(profile, "needless-pass").program_gain
    assert gain is not None
    assert gain.mid <= 40 / 15


@pytest.mark.parametrize(("elements", "count"), [(128e9, 0), (25e9, 1)])
def test_zeros_whose_size_launches_tell(elements: float, count: int) -> None:
    """512 GB stay beside a kernel that moves 100 GB, however small the grid of the fill is."""
    text = """\
    out = torch.zeros(n, dtype=torch.float32)
    scale[g](x, factors, out, n, 64)
"""
    profile = recorded(text, FILL, 20 * 2.5e6, (0, 1))
    assert len(found(seen(profile, 1, (elements, 4)), "needless-pass")) == count


def test_zeros_of_more_than_the_kernel_moves_stay() -> None:
    """A kernel that moves 100 GB a step does not store all of 512 GB; of 5 GB it may."""
    text = """\
    out = torch.zeros(n, dtype=torch.float32)
    scale[g](x, factors, out, n, 64)
"""
    for blocks, count in ((20 * 2.5e8, 0), (20 * 2.5e6, 1)):
        assert len(found(recorded(text, FILL, blocks, (0, 1)), "needless-pass")) == count


def test_fill_that_no_text_has() -> None:
    """Beside a kernel that stores all of a tensor, it is told with a condition, and as unsure."""
    text = "    scale[g](x, factors, out, n, 64)\n"
    finding = only(recorded(text, FILL, 20 * 2.5e6, None), "needless-pass")
    assert finding.confidence == "low"
    assert "If scale stores all of that tensor" in finding.author
    assert not found(recorded(text, FILL, 20 * 2.5e6, (5, 0)), "needless-pass")


@pytest.mark.parametrize(("blocks", "count"), [(20 * 6e6, 1), (20 * 5e6, 0)])
def test_cast_beside_others_without_lines(blocks: float, count: int) -> None:
    """A cast is found by a grid that fits the result's elements; none is where no grid does."""
    other = CAST.replace("<8", "<4")
    profile = seen(recorded(NARROWED, CAST, blocks, None, other), 1, (6.144e9, 4))
    assert len(found(profile, "needless-pass")) == count


def test_two_passes_of_a_line_are_one_finding() -> None:
    """Which of the kernels that the line launches is of which call, nobody knows."""
    text = "    scale[g](x.float(), factors.float(), out, n, 64)\n"
    finding = only(recorded(text, CAST, 0, (0, 0)), "needless-pass")
    assert finding.title.startswith("x.float() and factors.float() is a pass over all of x and")
