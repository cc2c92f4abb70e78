"""Text of XLA's modules, and the work of their instructions.

The texts in `tests/data/hlo` are those of JAX 0.10 on a CPU, of small programs: a step of training,
attention, a scan and others; `library_calls.txt` has what XLA writes for GPUs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.profiler.frameworks.hlo_text import Array, Module, Unknown, parse, split
from tileprof.profiler.frameworks.hlo_work import Work, work_of

DATA = Path(__file__).parents[2] / "data" / "hlo"
NAMES = sorted(path.stem for path in DATA.glob("*.txt"))
F4 = 4


def module_of(name: str) -> Module:
    """Parse a stored text."""
    return parse((DATA / f"{name}.txt").read_text())


def stored(name: str) -> dict[str, Work | None]:
    """Work in a stored text."""
    return work_of(module_of(name))


def fusion(body: str, result: str, *operands: str, more: str = "") -> Work | None:
    """Work of a fusion with this body, whose operands have these shapes."""
    parameters = "\n".join(
        f"  %p{at} = {shape} parameter({at})" for at, shape in enumerate(operands)
    )
    named = ", ".join(f"%p{at}" for at in range(len(operands)))
    text = f"""HloModule jit_f
%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}}
%last (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  ROOT %b = f32[] parameter(1)
}}
{more}
%fused (p0: f32[]) -> f32[] {{
{parameters}
{body}
}}

ENTRY %main (p0: f32[]) -> f32[] {{
{parameters}
  ROOT %fusion.1 = {result} fusion({named}), kind=kLoop, calls=%fused
}}
"""
    return work_of(parse(text))["fusion.1"]


@pytest.mark.parametrize("name", NAMES)
def test_work_is_at_most_that_of_all_operands_and_results(name: str) -> None:
    """For every instruction of real programs, all of which are known but the calls of others."""
    module = module_of(name)
    work, checked = work_of(module), 0
    for computation in module.computations.values():
        for each in computation.instructions.values():
            found = work.get(each.name)
            if found is None:
                continue
            operands = {o: computation.instructions[o] for o in each.operands}
            most = sum(leaf.bytes for of in (each, *operands.values()) for leaf in of.leaves)
            assert 0 < found.bytes <= most, each.name
            checked += 1
    unknown = {each for each, of in work.items() if of is None}
    assert unknown <= {"custom-call.9", "all-reduce.1"}
    assert checked == len(work) - len(unknown) > 0


def test_products_of_a_training_step() -> None:
    """Forward and backward of two layers, 64×128 and 128×32, with 256 rows."""
    work = stored("mlp")
    first, second = 2 * 256 * 64 * 128, 2 * 256 * 128 * 32
    products = sorted(of.flops for of in work.values() if of is not None and of.flops > 10**6)
    assert products == [second, second, second, first, first]


def test_a_scan_reads_and_writes_one_step_of_its_arrays() -> None:
    """The body reads 8×16 of 10×8×16, and writes 8 of 10×8."""
    work = stored("scan")
    assert work["add_tanh_fusion"] == Work(F4 * (3 * 8 * 16 + 1), 2 * 8 * 16)
    assert work["bitcast_dynamic-update-slice_fusion"] == Work(F4 * (8 * 16 + 8 + 1), 8 * 15)


def test_a_cache_is_written_at_one_row() -> None:
    """The row of 64, read and written, and where it goes; not 512 rows."""
    work = stored("cache")["select_dynamic-update-slice_fusion"]
    assert work == Work(F4 * (64 + 64 + 1), 64)


def test_gather_and_scatter_move_rows() -> None:
    """32 rows of 64 of a table of 1000: read and written; adding reads what is there."""
    gathered, scattered = stored("gather"), stored("scatter")
    assert gathered["multiply_bitcast_fusion"] == Work(F4 * (32 * 64 * 2 + 32), 32 * 64)
    assert scattered["wrapped_scatter"] == Work(F4 * (32 * 64 * 3 + 32), 32 * 64)


def test_convolutions_leave_padding_out() -> None:
    """The gradients of a 3×3 convolution with stride 2 do what the convolution itself does."""
    work = stored("conv")
    # Of 8 windows of 3 in each dimension one reaches over the edge, by one.
    flops = 2 * 4 * 16 * 8 * 23 * 23
    for name in ("convolution-window-dilated", "convolution-base-dilated"):
        found = work[name]
        assert found is not None
        assert found.flops == flops


def test_calls_of_libraries_have_the_work_of_their_shapes() -> None:
    """Workspaces do not count; configurations are JSON, or a string of it; no guess of others."""
    work = stored("library_calls")
    product, image, kernel = 2 * 256 * 512 * 1024, 4 * 16 * 16 * 8, 3 * 3 * 8 * 32
    of_bytes = 2 * (256 * 512 + 512 * 1024 + 256 * 1024)
    assert work["cublas-gemm.1.0"] == Work(of_bytes, product, "bf16")
    assert work["cublas-lt-matmul.2"] == Work(of_bytes + F4 * 1024, product, "bf16")
    convolved = Work(F4 * (image + kernel + 4 * image), 2 * 4 * 32 * 8 * 46 * 46, "f32")
    for name in ("cudnn-conv.3", "cudnn-conv-bw-input.1", "cudnn-conv-bw-filter.1"):
        assert work[name] == convolved
    # A fusion in a command buffer, whose steps are graphs.
    fused = work["gemm_fusion_dot.7"]
    assert fused == Work(2 * (256 * 512 + 512 * 1024) + F4 * 256 * 1024, product, "bf16")
    added, summed = 256 * 1024, 256 * 1023
    read, written = F4 * (256 * 1024 + 1024), F4 * 256 + 2 * 256 * 1024
    assert work["input_reduce_fusion"] == Work(read + written, added + summed)
    assert work["custom-call.9"] is None
    assert work["all-reduce.1"] is None


@pytest.mark.parametrize(("mask", "pairs"), [
    ('"mask_type":"NO_MASK"', 64 * 64), ('"mask_type":"CAUSAL"', 64 * 65 // 2),
    ('"mask_type":"PADDING"', 0), ('"mask_type":"CAUSAL","sliding_window_length":8', 0),
])  # fmt: skip
def test_attention_of_cudnn_counts_pairs(mask: str, pairs: int) -> None:
    """Four heads of 64 queries share two heads of keys; the workspace does not count."""
    products = """"bmm1_dot_dimension_numbers":{"lhs_contracting_dimensions":["3"],\
"rhs_contracting_dimensions":["3"],"lhs_batch_dimensions":["0","2"],\
"rhs_batch_dimensions":["0","2"]},\
"bmm2_dot_dimension_numbers":{"lhs_contracting_dimensions":["3"],\
"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":["0","1"],\
"rhs_batch_dimensions":["0","2"]}"""
    text = f"""HloModule m
ENTRY %main (q: bf16[2,64,4,32]) -> bf16[2,4,64,16] {{
  %q = bf16[2,64,4,32]{{3,2,1,0}} parameter(0)
  %k = bf16[2,64,2,32]{{3,2,1,0}} parameter(1)
  %v = bf16[2,64,2,16]{{3,2,1,0}} parameter(2)
  %a = (bf16[2,4,64,16]{{3,1,2,0}}, u8[512]{{0}}) custom-call(%q, %k, %v),\
 custom_call_target="__cudnn$fmhaSoftmax",\
 backend_config={{"cudnn_fmha_backend_config":{{"fmha_scale":1,{mask},{products}}}}}
  ROOT %r = bf16[2,4,64,16]{{3,1,2,0}} get-tuple-element(%a), index=0
}}"""
    moved = 2 * (2 * 64 * (4 * 32 + 2 * 32 + 2 * 16) + 2 * 4 * 64 * 16)
    expected = Work(moved, 2 * 2 * 4 * pairs * (32 + 16), "bf16") if pairs else None
    assert work_of(parse(text)) == {"a": expected}


@pytest.mark.parametrize(("body", "result", "operands", "moved", "flops"), [
    # Halves of one operand, once each.
    ("%a = f32[4,8] slice(%p0), slice={[0:4], [0:8]}\n%b = f32[4,8] slice(%p0), slice={[4:8],"
     " [0:8]}\nROOT %r = f32[4,8] add(%a, %b)", "f32[4,8]", ("f32[8,8]",), 64 + 32, 32),
    # Behind a conversion, too.
    ("%c = f32[64] convert(%p0)\nROOT %r = f32[8] slice(%c), slice={[0:8]}",
     "f32[8]", ("f32[64]",), 8 + 8, 0),
    # More elements than the table has: the table.
    ("ROOT %r = f32[100,4] gather(%p0, %p1), offset_dims={1}, slice_sizes={1,4}",
     "f32[100,4]", ("f32[2,4]", "s32[100,1]"), 8 + 100 + 400, 0),
    # Rows that are put in the place of others are not read before.
    ("ROOT %r = f32[100,4] scatter(%p0, %p1, %p2), to_apply=%last",
     "f32[100,4]", ("f32[100,4]", "s32[3,1]", "f32[3,4]"), 3 + 12 + 12, 0),
    # What is also a result of its own is read whole.
    ("%u = f32[100,4] dynamic-update-slice(%p0, %p1, %p2, %p2)\n%n = f32[100,4] negate(%u)\n"
     "ROOT %r = (f32[100,4], f32[100,4]) tuple(%u, %n)", "(f32[100,4], f32[100,4])",
     ("f32[100,4]", "f32[1,4]", "s32[]"), 396 + 4 + 1 + 800, 400),
    # Nothing is replaced where the operand is computed.
    ("%n = f32[100,4] negate(%p0)\nROOT %r = f32[100,4] dynamic-update-slice(%n, %p1, %p2, %p2)",
     "f32[100,4]", ("f32[100,4]", "f32[1,4]", "s32[]"), 396 + 4 + 1 + 400, 396),
    # A broadcast reads what it repeats; a sum adds one less than it reads.
    ("%b = f32[8,16] broadcast(%p0), dimensions={0}\n%z = f32[] constant(0)\n"
     "%m = f32[8,16] multiply(%b, %p1)\nROOT %r = f32[8] reduce(%m, %z), dimensions={1},"
     " to_apply=%add", "f32[8]", ("f32[8]", "f32[8,16]"), 8 + 128 + 8, 128 + 8 * 15),
    # An operand that nothing needs is not read.
    ("ROOT %r = f32[8] exponential(%p1)", "f32[8]", ("f32[1000]", "f32[8]"), 8 + 8, 8),
])  # fmt: skip
def test_fusions_read_what_their_results_need(
    body: str, result: str, operands: tuple[str, ...], moved: int, flops: int
) -> None:
    """By hand, in elements of four bytes."""
    assert fusion(body, result, *operands) == Work(F4 * moved, flops)


def test_an_operand_that_is_given_twice_is_read_once() -> None:
    """It is one buffer."""
    text = """HloModule m
%fused (a: f32[8], b: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  %b = f32[8] parameter(1)
  ROOT %r = f32[8] add(%a, %b)
}
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  ROOT %f = f32[8] fusion(%x, %x), kind=kLoop, calls=%fused
}"""
    assert work_of(parse(text)) == {"f": Work(F4 * 16, 8)}


def test_fusions_inside_fusions_count() -> None:
    """As XLA writes the parts of its Triton programs."""
    inner = """%inner (q: f32[8,16]) -> f32[1,16] {
  %q = f32[8,16] parameter(0)
  ROOT %s = f32[1,16] slice(%q), slice={[0:1], [0:16]}
}"""
    body = """%i = f32[1,16] fusion(%p0), kind=kCustom, calls=%inner
ROOT %d = f32[1,4] dot(%i, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    found = fusion(body, "f32[1,4]", "f32[8,16]", "f32[16,4]", more=inner)
    assert found == Work(F4 * (16 + 64 + 4), 2 * 4 * 16, "f32")


def test_unknown_operations_have_no_work() -> None:
    """Rather than a wrong one."""
    assert fusion("ROOT %r = f32[8] no-such-operation(%p0)", "f32[8]", "f32[8]") is None
    assert fusion("ROOT %r = f7[8] negate(%p0)", "f7[8]", "f7[8]") is None
    assert fusion("ROOT %r = f32[8] negate(%gone)", "f32[8]", "f32[8]") is None
    # What is replaced in place of several arrays is not followed.
    both = "(f32[9], f32[9])"
    scatter = f"ROOT %r = {both} scatter(%p0, %p1, %p2, %p3, %p4), to_apply=%two"
    shapes = ("f32[9]", "f32[9]", "s32[2,1]", "f32[2]", "f32[2]")
    assert fusion(scatter, both, *shapes) is None


@pytest.mark.parametrize("text", [
    "", "no module", "HloModule m\n", "HloModule m\nENTRY %e () -> f32[] {\n  %a = f32[] constant(",
    "HloModule m\nENTRY %e () -> f32[] {\n  %a = f32[] constant(1)\n}",
    "HloModule m\nENTRY %e () -> f32[] {\n  ROOT %a = f32[x] constant(1)\n}",
    "HloModule m\nENTRY %e () -> f32[] {\n  ROOT %a = nothing\n}",
])  # fmt: skip
def test_texts_that_are_none_are_unknown(text: str) -> None:
    """And nothing else is raised."""
    with pytest.raises(Unknown):
        parse(text)


@given(st.data())
def test_changed_texts_raise_nothing_else(data: st.DataObject) -> None:
    """Whatever another version writes: parts cut out of a real text."""
    text = TEXT
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(begin + 200, len(text))))
    put = data.draw(st.sampled_from(["", "(", "}", '"', "%x", "[,]", "\n"]))
    try:
        module = parse(text[:begin] + put + text[end:])
    except Unknown:
        return
    work_of(module)


TEXT = (DATA / "library_calls.txt").read_text()


@pytest.mark.parametrize(("array", "size"), [
    (Array("bf16", (3, 5)), 30), (Array("s4", (3,)), 2), (Array("pred"), 1),
    (Array("c64", (2,)), 16), (Array("f8e4m3fn", (7,)), 7), (Array("token"), 0),
    (Array("f32", (4, 0)), 0),
])  # fmt: skip
def test_bytes_of_arrays(array: Array, size: int) -> None:
    """Types of less than a byte are packed."""
    assert array.bytes == size


def test_attributes_are_split_outside_of_brackets_and_strings() -> None:
    """A string may hold anything, an escaped quote too."""
    text = r'calls=%f, dims={1,2}, config={"a":[1,2]}, name="x, \"y\", (z"'
    assert split(text) == [
        "calls=%f", "dims={1,2}", 'config={"a":[1,2]}', r'name="x, \"y\", (z"',
    ]  # fmt: skip
