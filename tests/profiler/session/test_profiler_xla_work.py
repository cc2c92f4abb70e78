"""Work of kernels below ranges of XLA's programs."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.profiler_programs import run
from tileprof.profile import KernelInfo
from tileprof.profiler.frameworks.hlo_work import Work
from tileprof.profiler.frameworks.jax_programs import Programs
from tileprof.profiler.session import snapshot
from tileprof.profiler.session.xla_work import give_xla_work, with_product
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals
from tileprof.profiler.tree.tree import Node, Tree

MODULE = "XlaModule:#hlo_module=jit_f,program_id=7#"
WORK = {
    "loop_add_fusion.3": Work(100, 10),
    "custom-call.1": Work(600, 6000, "bf16"),
    "custom-call.2": None,
    "a.b": Work(1, 1),
    "a-b": Work(2, 2),
}


class Recorded:
    """A tree with what happened at its nodes."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.host: dict[int, HostTotals] = {}
        self.device: dict[int, DeviceTotals] = {}

    def range(self, above: Node | None, name: str, visits: int = 0) -> Node:
        """Add a range."""
        node = self.tree.child(above or self.tree.nodes[0], "scope", name, None)
        self.host[node.index] = HostTotals(count=visits)
        return node

    def step(self, above: Node, instruction: str, visits: int = 0) -> Node:
        """Add the range of an instruction."""
        return self.range(above, f"Thunk:#hlo_op={instruction},unique_hlo_op_id=5#", visits)

    def kernel(self, above: Node, name: str, launches: int, time: int = 100) -> Node:
        """Add a kernel below a call."""
        call = self.tree.child(above, "api", "cuLaunchKernelEx", None)
        node = self.tree.child(call, "kernel", name, None)
        self.device[node.index] = DeviceTotals("kernel", count=launches, sum=time)
        return node

    def work(self, known: Mapping[str, Work | None] = WORK) -> dict[str, tuple[float, float]]:
        """Bytes and flops of kernels by name, where they are known."""
        nodes = self.tree.nodes
        host = [self.host.get(each.index) for each in nodes]
        device = [self.device.get(each.index) for each in nodes]
        give_xla_work(nodes, host, device, lambda _: {MODULE: known})
        found = {}
        for node in nodes:
            said = host[node.index]
            metrics = (said.metrics if said is not None else None) or {}
            if metrics:
                assert node.kind == "kernel"
                found[node.name] = metrics.get("bytes", 0), metrics.get("flops", 0)
        return found


def test_a_kernel_has_the_work_of_its_step_for_all_launches() -> None:
    """By the instruction that the range names, in a loop inside another range as well."""
    seen = Recorded()
    run = seen.range(None, MODULE, 2)
    loop = seen.step(run, "while.4", 2)
    seen.kernel(seen.step(loop, "loop_add_fusion.3", 20), "loop_add_fusion_1", 20)
    seen.kernel(seen.step(run, "custom-call.1", 2), "nvjet_tst_128x64", 2)
    assert seen.work() == {"loop_add_fusion_1": (2000, 200), "nvjet_tst_128x64": (1200, 12000)}


def test_the_innermost_range_that_names_a_known_instruction_tells() -> None:
    """What a fusion calls has a range of its own; other versions name instructions plainly."""
    seen = Recorded()
    run = seen.range(None, MODULE, 2)
    fusion = seen.step(run, "custom-call.1", 2)
    seen.kernel(seen.step(fusion, "within.the.fusion", 2), "cutlass_gemm", 2)
    seen.kernel(seen.range(run, "loop_add_fusion.3", 2), "of_another_name", 2)
    assert seen.work() == {"cutlass_gemm": (1200, 12000), "of_another_name": (200, 20)}


def test_kernels_of_one_step_share_its_work_by_time() -> None:
    """Once for each run of the step, however many launches it makes."""
    seen = Recorded()
    step = seen.step(seen.range(None, MODULE, 3), "custom-call.1", 3)
    seen.kernel(step, "gemm_splitk", 3, time=900)
    seen.kernel(step, "reduce_splitk", 12, time=300)
    assert seen.work() == {"gemm_splitk": (1350, 13500), "reduce_splitk": (450, 4500)}


def test_a_step_that_ran_without_all_of_its_kernels_counts_those_that_did() -> None:
    """As when records were lost, or a branch was not taken."""
    seen = Recorded()
    step = seen.step(seen.range(None, MODULE, 9), "loop_add_fusion.3", 9)
    seen.kernel(step, "loop_add_fusion_3", 4)
    assert seen.work() == {"loop_add_fusion_3": (400, 40)}


def test_names_tell_where_ranges_of_steps_do_not() -> None:
    """In graphs; a name that stands for two instructions tells nothing."""
    seen = Recorded()
    run = seen.range(None, MODULE, 2)
    graph = seen.step(run, "command_buffer_2", 2)
    for name in ("loop_add_fusion_3", "custom_call_2", "a_b"):
        seen.kernel(graph, name, 5)
    assert seen.work() == {"loop_add_fusion_3": (500, 50)}


@pytest.mark.parametrize("before", [0, 1, 4])
def test_kernels_of_libraries_in_a_graph_share_products_without_a_kernel(before: int) -> None:
    """By time, once for each run. A product whose kernels run as often elsewhere is not theirs; one
    that ran once before there was a graph is."""
    seen = Recorded()
    run = seen.range(None, MODULE, 4)
    if before:
        seen.kernel(seen.step(run, "custom-call.1", before), "nvjet", before)
    graph = seen.step(run, "command_buffer_2", 4)
    seen.kernel(graph, "loop_add_fusion_3", 4)
    seen.kernel(graph, "cutlass_gemm", 4, time=300)
    seen.kernel(graph, "splitk_reduce", 8, time=100)
    shared = {"cutlass_gemm": (1800, 18000), "splitk_reduce": (600, 6000)}
    elsewhere = {"nvjet": (600 * before, 6000 * before)} if before else {}
    own = {"loop_add_fusion_3": (400, 40)}
    assert seen.work() == own | elsewhere | (shared if before < 2 else {})


def test_a_graph_with_fewer_kernels_than_products_tells_nothing() -> None:
    """Which of them ran is not known."""
    seen = Recorded()
    graph = seen.step(seen.range(None, MODULE, 4), "command_buffer", 8)
    seen.kernel(graph, "cutlass_gemm", 4)
    seen.kernel(graph, "cutlass_other", 3)
    both = WORK | {"custom-call.3": Work(60, 600, "bf16")}
    assert seen.work(both) == {}


def test_what_is_not_known_stays_so() -> None:
    """Other modules, calls of others, kernels outside, and work that a kernel says itself."""
    seen = Recorded()
    seen.kernel(
        seen.range(None, "XlaModule:#hlo_module=jit_g,program_id=8#"), "loop_add_fusion_3", 1
    )
    seen.kernel(seen.range(None, "my scope"), "loop_add_fusion_3", 1)
    run = seen.range(None, MODULE)
    # A kernel of somebody else's by the name of an instruction.
    seen.kernel(seen.step(run, "custom-call.2", 1), "loop_add_fusion_3", 1)
    own = seen.kernel(run, "loop_add_fusion_3", 1)
    seen.host[own.index] = HostTotals(metrics={"bytes": 7})
    assert seen.work() == {"loop_add_fusion_3": (7, 0)}


def test_types_of_products_are_told_of_kernels_that_have_one() -> None:
    """A kernel of two modules that multiply different types has none."""
    seen = Recorded()
    run = seen.range(None, MODULE)
    kernel = seen.kernel(seen.step(run, "custom-call.1"), "gemm", 2)
    seen.kernel(run, "loop_add_fusion_3", 2)
    nodes = seen.tree.nodes
    host = [seen.host.get(each.index) for each in nodes]
    device = [seen.device.get(each.index) for each in nodes]
    assert give_xla_work(nodes, host, device, lambda _: {MODULE: WORK}) == {kernel.index: "bf16"}
    info = KernelInfo("gemm", "cuda:0", attributes={"grid": "1"})
    assert with_product(info, {"bf16"}).attributes == {"grid": "1", "multiplies": "bf16"}
    assert with_product(info, {"bf16", "f32"}) == with_product(info, set()) == info


def test_what_the_host_did_at_a_kernel_stays() -> None:
    """The copy has the launches' wall time too; what the recorder holds does not change."""
    seen = Recorded()
    kernel = seen.kernel(seen.range(None, MODULE), "loop_add_fusion_3", 2)
    seen.host[kernel.index] = before = HostTotals(own_ns=5)
    nodes = seen.tree.nodes
    host = [seen.host.get(each.index) for each in nodes]
    give_xla_work(
        nodes, host, [seen.device.get(each.index) for each in nodes], lambda _: {MODULE: WORK}
    )
    after = host[kernel.index]
    assert after is not None
    assert (after.own_ns, after.metrics) == (5, {"bytes": 200, "flops": 20})
    assert before.metrics is None


TEXT = """HloModule jit_f
%fused (p: f32[64,32], q: f32[64,32]) -> f32[64,32] {
  %p = f32[64,32]{1,0} parameter(0)
  %q = f32[64,32]{1,0} parameter(1)
  ROOT %sum = f32[64,32]{1,0} add(%p, %q)
}
ENTRY %main (x: f32[64,32], y: f32[32,32]) -> f32[64,32] {
  %x = f32[64,32]{1,0} parameter(0)
  %y = f32[32,32]{1,0} parameter(1)
  %gemm.1 = (f32[64,32]{1,0}, s8[1024]{0}) custom-call(%x, %y),\
 custom_call_target="__cublas$gemm",\
 backend_config={"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}
  %part = f32[64,32]{1,0} get-tuple-element(%gemm.1), index=0
  ROOT %loop_add_fusion.2 = f32[64,32]{1,0} fusion(%part, %x), kind=kLoop, calls=%fused
}
"""


def test_a_recorded_program_of_jax(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches on a played CUPTI in ranges of XLA: bytes, flops and type by hand."""
    native = pytest.importorskip("tileprof.native._recorder")
    module = SimpleNamespace(name="jit_f", to_string=lambda: TEXT)
    known = Programs()
    known.note(
        SimpleNamespace(client=SimpleNamespace(platform="cuda"), hlo_modules=lambda: [module])
    )
    monkeypatch.setattr(snapshot, "programs", known)
    profile = run(
        """
        def step(begin):
            push(MODULE, "TSL")
            push("Thunk:#name=jit(f)/dot,hlo_op=gemm.1,unique_hlo_op_id=3#", "TSL")
            kernel("gemm_32x32", begin, begin + 30)
            pop("TSL")
            kernel("loop_add_fusion_2", begin + 30, begin + 50)
            kernel("of_somebody", begin + 50, begin + 60)
            pop("TSL")
        for begin in (1000, 2000):
            step(begin)
        deliver()
        """,
        native=True,
        names={**names, "push": native.push_range, "pop": native.pop_range, "MODULE": MODULE},
    )
    (gemm,), (added,), (other,) = map(
        profile.find, ("gemm_32x32", "loop_add_fusion_2", "of_somebody")
    )
    own = [[profile.own[name][at] for name in ("bytes", "flops")] for at in (gemm, added, other)]
    assert own == [
        [2 * 4 * (64 * 32 * 2 + 32 * 32), 2 * 2 * 64 * 32 * 32],
        [2 * 4 * 64 * 32 * 3, 2 * 64 * 32],
        [0, 0],
    ]
    infos = [profile.tables.kernels[profile.tables.node_kernels[at]] for at in (gemm, added)]
    assert [each.attributes.get("multiplies") for each in infos] == ["f32", None]
