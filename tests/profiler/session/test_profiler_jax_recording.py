"""Work of JAX's kernels in a recording of an H200, whose ranges have XLA's names and numbers."""

from __future__ import annotations

from types import SimpleNamespace

from tests.jax_recording import DATA, recording
from tileprof.profiler.frameworks.jax_programs import Programs
from tileprof.profiler.session.xla_work import give_xla_work
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals
from tileprof.profiler.tree.tree import Tree

FILLED = (
    "f32[4096,4096]", "bf16[2048,1024]", "bf16[1024,4096]", "f32[8192,1024]", "f32[32,256,512]",
    "f32[512,512]", "f32[3,3,3,64]", "f32[64,192]", "f32[64,10]", "f32[16,64,64,3]", "s32[16]",
)  # fmt: skip
"""Arrays that the program fills, each by a program `jit_broadcast_in_dim` of its own."""
BYTES = {
    4 * 4096 * 4096 + 4: 1, 2 * 2048 * 1024 + 2: 1, 2 * 1024 * 4096 + 2: 1, 4 * 8192 * 1024 + 4: 1,
    4 * 32 * 256 * 512 + 4: 10, 4 * 512 * 512 + 4: 10, 4 * 3 * 3 * 3 * 64 + 4: 1,
    4 * 64 * 192 + 4: 1, 4 * 64 * 10 + 4: 1, 4 * 16 * 64 * 64 * 3 + 4: 1, 4 * 16 + 4: 1,
}  # fmt: skip
"""Bytes that one run moves, and how often it ran."""


def filling(shape: str) -> str:
    """The module that fills an array of a shape."""
    number = shape.partition("[")[0] + "[]"
    return f"""HloModule jit_broadcast_in_dim
%wrapped_broadcast_computation (param_0: {number}) -> {shape} {{
  %param_0 = {number} parameter(0)
  ROOT %broadcast_in_dim.1.1 = {shape} broadcast(%param_0), dimensions={{}}
}}
ENTRY %main.1 (args_0_.1: {number}) -> {shape} {{
  %args_0_.1 = {number} parameter(0)
  ROOT %wrapped_broadcast = {shape} fusion(%args_0_.1), kind=kLoop,\
 calls=%wrapped_broadcast_computation
}}"""


def compiled(known: Programs, name: str, text: str) -> None:
    """Note a program that was compiled after those before."""
    module = SimpleNamespace(name=name, to_string=lambda: text)
    client = SimpleNamespace(platform="cuda")
    known.note(SimpleNamespace(client=client, hlo_modules=lambda: [module]), in_order=True)


def given(known: Programs) -> dict[int, dict[str, float]]:
    """Bytes, flops and other metrics of the kernels whose work is known, by node."""
    profile, tree = recording(), Tree()
    nodes = [tree.nodes[0]]
    for at in range(len(profile)):
        above = nodes[int(profile.parents[at]) + 1]
        name = profile.names[at]
        nodes.append(tree.child(above, profile.kinds[at], name, None, key=at))
    host = [None, *(HostTotals(count=int(each)) for each in profile.own["count"])]
    device: list[DeviceTotals | None] = [None] * len(nodes)
    for at in profile.find(kind="kernel"):
        own = profile.node(at).own
        device[at + 1] = DeviceTotals("kernel", count=int(own("count")), sum=int(own("time")))
    give_xla_work(nodes, host, device, known.find)
    return {at - 1: dict(said.metrics) for at, said in enumerate(host) if said and said.metrics}


def test_programs_of_one_name_have_the_work_of_their_own() -> None:
    """Numbers of ranges are 662, 2650, 3313 and so on; those of programs are their order."""
    known = Programs()
    for shape in FILLED:
        compiled(known, "jit_broadcast_in_dim", filling(shape))
    profile = recording()
    by_size: dict[float, int] = {}
    for at, each in given(known).items():
        count = int(profile.node(at).own("count"))
        size = each["bytes"] / count
        by_size[size] = by_size.get(size, 0) + count
    assert by_size == BYTES


def test_a_program_of_a_name_that_ran_others_has_no_work() -> None:
    """Eleven ran, and one is known: whichever it is, it is not the ten others."""
    known = Programs()
    compiled(known, "jit_broadcast_in_dim", filling(FILLED[0]))
    assert given(known) == {}


def test_a_product_has_its_operations() -> None:
    """Ten runs, the first of which compiled; a program that lacks a step of these is not it."""
    text = (DATA / "hlo" / "product.txt").read_text(encoding="utf-8")
    known = Programs()
    compiled(known, "jit_product", text)
    work, profile = given(known), recording()
    assert sum(each["flops"] for each in work.values()) == 10 * 2 * 2048 * 1024 * 4096
    assert {profile.names[at] for at in work} == {"gemm_fusion_dot_general_1"}
    other = Programs()
    compiled(other, "jit_product", text.replace("gemm_fusion_dot_general.1", "loop_fusion"))
    assert given(other) == {}


def test_kernels_of_graphs_have_the_work_of_their_steps() -> None:
    """A loop of 32 turns as graphs that are launched ten times each."""
    steps = {"gemm_fusion_dot": 320, "loop_tanh_fusion": 320, "loop_broadcast_fusion": 10}
    others = ("wrapped_slice", "copy.11", "input_reduce_fusion", "loop_add_fusion", "while.6",
              "loop_dynamic_update_slice_fusion.1")  # fmt: skip
    lines = [f"  %{name} = f32[256] negate(%x)" for name in (*steps, *others)]
    known = Programs()
    text = "\n".join(
        ["HloModule jit_summed", "ENTRY %main (x: f32[256]) -> f32[256] {",
         "  %x = f32[256] parameter(0)", *lines, "  ROOT %r = f32[256] negate(%x)", "}"]
    )  # fmt: skip
    compiled(known, "jit_summed", text)
    profile = recording()
    flops: dict[str, float] = {}
    for at, each in given(known).items():
        flops[profile.names[at]] = flops.get(profile.names[at], 0) + each["flops"]
    assert {name: flops[name] for name in steps} == {n: 256 * c for n, c in steps.items()}
