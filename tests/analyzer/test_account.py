"""The account of devices' time: floors by work and roofs, causes once each, and what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import stored
from tests.analyzer.steps import DEPENDENT, MS, Step
from tileprof.analyzer import Account, analyze, floors
from tileprof.analyzer.account import account
from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.findings import Finding, Gain, Place
from tileprof.analyzer.together import Claim
from tileprof.profile import DevicePeak, Metric, Profile

PEAKS = {"hbm_copy": 4e12, "fma_float32": 60e12, "tensor_bfloat16": 800e12}


def steps(peaks: dict[str, float] | None = None) -> tuple[Profile, dict[str, int]]:
    """Kernels of 1 ms a step each: on memory, on arithmetic, of unknown work; idle time, a copy."""
    step = Step()
    step.builder.declare(Metric("op_bytes", "B"))
    memory = step.op(step.top, "aten::add", op_bytes=0.5 * MS * 1e-9 * 4e12)
    product = step.op(step.top, "aten::mm", flops=0.25 * MS * 1e-9 * 60e12, bytes=1.0)
    nodes = {
        "memory": step.launch(
            memory, "vectorized_elementwise_kernel", MS, gaps={DEPENDENT: MS / 2}
        ),
        "product": step.launch(product, "ampere_sgemm_128x64_nn", MS),
        "unknown": step.launch(step.top, "own_kernel", MS),
        "tiny": step.launch(step.top, "fill_kernel", 1e3 * 20),
        "nccl": step.launch(step.top, "ncclDevKernel_AllReduce", MS / 4),
    }
    step.copy(step.top, "HtoD pageable", MS / 4)
    return step.profile(PEAKS if peaks is None else peaks), nodes


def claim(share: float, *nodes: int) -> Claim:
    """A suggestion that likely saves a share of the program's time, at these kernels."""
    gain = 1 / (1 - share)
    found = Finding(
        "a-rule", "suggestion", "a cause", Place(), (), "Do it.",
        program_gain=Gain(1, gain, gain),
    )  # fmt: skip
    return Claim(found, nodes)


def made(profile: Profile, *claims: Claim) -> Account:
    """The account of a profile with these findings."""
    found = account(Contexts(Program(profile)), claims)
    assert found is not None
    return found


def parts(held: Account) -> float:
    """The sum of all parts, which is the whole time."""
    causes = sum(each.time for each in held.causes)
    causes += sum(time for _, time in held.shortfalls)
    rest = held.unexplained + held.copies + held.communication + held.waiting
    return held.floor + causes + rest


def test_floors_by_memory_arithmetic_and_launches() -> None:
    """Half of the time by bytes, a quarter by operations; work that is not known has none."""
    held = made(steps()[0])
    by_name = {each.name: each for each in held.kernels}
    memory, product = by_name["vectorized_elementwise_kernel"], by_name["ampere_sgemm_128x64_nn"]
    assert (memory.limit, product.limit) == ("memory", "arithmetic")
    assert (memory.floor, product.floor) == pytest.approx((MS / 2, MS / 4))
    assert (by_name["own_kernel"].limit, by_name["own_kernel"].floor) == ("", 0)
    assert (by_name["fill_kernel"].limit, by_name["fill_kernel"].unexplained) == ("launch", 0)
    assert held.unknown == pytest.approx(MS)
    assert (held.copies, held.communication) == pytest.approx((MS / 4, MS / 4))
    assert parts(held) == pytest.approx(held.time)
    assert held.idle == ((DEPENDENT, MS / 2),)


def test_floor_of_visits_of_several_shapes_is_the_sum_of_theirs() -> None:
    """A tenth of a step's time by the bytes of some visits, a quarter by the flops of others."""
    step = Step()
    by_bytes, by_flops = 0.1 * MS * 1e-9 * 4e12, 0.25 * MS * 1e-9 * 60e12
    kinds = {"flops_at_4": 5 * by_bytes, "bytes_at_4": by_bytes}
    kinds |= {"flops_at_64": by_flops, "bytes_at_64": by_flops / 64}
    sums = {"flops": kinds["flops_at_4"] + by_flops, "bytes": by_bytes + by_flops / 64}
    for name in kinds:
        step.builder.declare(Metric(name, "1"))
    known, old = (step.op(step.top, name) for name in ("aten::conv", "aten::conv_"))
    for op, told in ((known, {**sums, **kinds}), (old, sums)):
        for name, value in told.items():
            step.builder.add(op, name, value)
    for op, name in ((known, "sgemm_a"), (known, "sgemm_b"), (old, "sgemm_c")):
        step.launch(op, name, MS / (1 if op is old else 2))
    floors_by_name = {each.name: each.floor for each in made(step.profile(PEAKS)).kernels}
    assert floors_by_name["sgemm_a"] + floors_by_name["sgemm_b"] == pytest.approx(0.35 * MS)
    # A recording of before knows the sums alone.
    assert floors_by_name["sgemm_c"] == pytest.approx(sums["flops"] / 60e12 * 1e9)


def test_a_cause_takes_what_is_beyond_the_floor_first() -> None:
    """Then of the work itself; twice the same kernel, and there is nothing left for the second."""
    profile, nodes = steps()
    time = made(profile).time
    first = claim(0.4 * MS / time, nodes["memory"])
    held = made(profile, first, claim(0.9 * MS / time, nodes["memory"]))
    memory = next(each for each in held.kernels if each.limit == "memory")
    assert [each.time for each in held.causes] == pytest.approx([0.4 * MS, 0.6 * MS])
    # The second finds only the 0.6 ms that the first has left; neither takes idle time.
    assert [each.idle for each in held.causes] == [0, 0]
    assert (memory.floor, memory.unexplained) == pytest.approx((0, 0))
    assert parts(held) == pytest.approx(time)


def test_gaps_that_two_causes_close_go_once() -> None:
    """A cause takes its share from kernels and from gaps; the next finds what is left of a gap."""
    profile, nodes = steps()
    time = made(profile).time
    (gap,) = (at for at, name in enumerate(profile.names) if name == DEPENDENT)
    share = 0.4 * MS / time
    first = replace(claim(share, nodes["memory"]), gaps=(gap,), of_gaps=0.3 * MS / time)
    held = made(profile, first, replace(claim(share), gaps=(gap,)), claim(share))
    assert [each.time for each in held.causes] == pytest.approx([0.4 * MS, 0.2 * MS, 0])
    assert [each.idle for each in held.causes] == pytest.approx([0.3 * MS, 0.2 * MS, 0])
    assert held.waiting == pytest.approx(0)
    assert held.first[0] == 2
    assert held.first[1].mid == pytest.approx(time / (time - 0.6 * MS))
    assert parts(held) == pytest.approx(time)


def test_a_cause_without_kernels_takes_idle_time() -> None:
    """Launches that come late are one; a cause takes no more than there is."""
    profile, _ = steps()
    held = made(profile, claim(0.9))
    (cause,) = held.causes
    assert cause.time == cause.idle == pytest.approx(MS / 2)
    assert held.waiting == 0
    assert parts(held) == pytest.approx(held.time)


def test_the_most_and_the_first_changes() -> None:
    """The most is by floors, copies and communication; gains of the first changes come together."""
    profile, nodes = steps()
    time = made(profile).time
    held = made(profile, claim(0.1 * MS / time, nodes["memory"]), claim(0.2 * MS / time))
    least = held.floor + held.copies + held.communication
    assert held.most == pytest.approx(time / least)
    assert held.first[0] == 2
    assert held.first[1].mid == pytest.approx(time / (time - 0.3 * MS))


@pytest.mark.parametrize(
    ("l2", "rate", "known"),
    [(10e12, 14e12, True), (10e12, 16e12, False), (0, 15e12, True), (0, 16e12, False)],
)
def test_bytes_that_no_cache_could_move_are_not_known(l2: float, rate: float, known: bool) -> None:
    """Above 1.5 times the L2's rate; below, a part came from a cache, and the floor is the time."""
    step = Step()
    op = step.op(step.top, "aten::gather", bytes=rate * MS * 1e-9)
    step.launch(op, "gather_kernel", MS)
    peaks = {"hbm_copy": 4e12, "l2_read": l2} if l2 else {"hbm_copy": 4e12}
    held = made(step.profile(peaks))
    (kernel,) = held.kernels
    assert (kernel.limit, kernel.floor) == (("memory", MS) if known else ("", 0))
    assert held.unknown == pytest.approx(0 if known else MS)


def test_operations_stay_known_without_such_bytes() -> None:
    """A product whose bytes are wrong still has to be computed."""
    step = Step()
    op = step.op(step.top, "aten::mm", flops=0.25 * MS * 1e-9 * 60e12, bytes=1e14 * MS * 1e-9)
    step.launch(op, "ampere_sgemm_128x64_nn", MS)
    (kernel,) = made(step.profile(PEAKS)).kernels
    assert kernel.limit == "arithmetic"
    assert kernel.floor == pytest.approx(MS / 4)


def test_without_roofs_nothing_has_a_floor_but_launches() -> None:
    """And the most is not known by work."""
    held = made(steps({})[0])
    assert held.floor == pytest.approx(20e3)
    assert held.unknown == held.unexplained == pytest.approx(3 * MS)


def test_usual_roofs_stand_for_those_that_were_not_measured() -> None:
    """A recording of an H200 whose roofs nobody measured: its product of matrices has a floor."""
    profile = stored("h200-gemm")
    assert not profile.tables.device_peaks
    held = made(profile)
    assert held.assumed
    assert held.kernels[0].limit == "arithmetic"
    assert 0.5 * held.busy < held.floor < held.busy
    assert not made(steps()[0]).assumed


def test_a_program_without_a_device_has_no_account() -> None:
    """Its time is the host's."""
    step = Step()
    step.op(step.top, "aten::add", cpu_time=1e9)
    assert account(Contexts(Program(step.profile())), ()) is None


@pytest.mark.parametrize("name", ["h200-stalls", "h200-gemm"])
def test_recordings_add_up(name: str) -> None:
    """All parts of a real recording are its devices' time, none is negative."""
    held = analyze(stored(name)).account
    assert held is not None
    assert parts(held) == pytest.approx(held.time)
    everything = (held.floor, held.unexplained, held.copies, held.communication, held.waiting)
    assert all(each >= 0 for each in everything)
    assert 0 <= held.explained <= 1
    for each in held.kernels:
        known = each.named + sum(each.shortfalls.values())
        assert each.floor + known + each.unexplained == pytest.approx(each.time)


@pytest.mark.parametrize(
    ("name", "roof"),
    [
        (
            "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>",
            "fma_float32",
        ),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", "fma_float32"),
        ("void dgrad2d_alg1_1<float, float, float, int, 512>", "fma_float32"),
        ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 5, true>", "fma_float32"),
        ("void gemv2T_kernel_val<int, int, __half, float, float, 128>", "tensor_float16"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "tensor_tf32"),
        ("some_kernel_of_nobody", "tensor_float8_e4m3"),
    ],
)
def test_arithmetic_of_libraries_without_tensor_cores(name: str, roof: str) -> None:
    """cuDNN's and cuBLAS's older kernels are not measured by the fastest rate of the device."""
    rates = {"tensor_float8_e4m3": 2e15, "tensor_float16": 1e15, "tensor_tf32": 4e14,
             "fma_float32": 6e13}  # fmt: skip
    peaks = {
        each: DevicePeak("cuda:0", "", "", each, rate, "flop/s", rate, 0, 0, "")
        for each, rate in rates.items()
    }
    found = floors._arithmetic_peak(name, peaks)
    assert found is not None
    assert found.name == roof


@pytest.mark.parametrize(("name", "multiplied", "roof"), [
    ("gemm_fusion_dot_7", "f16", "tensor_float16"),
    ("gemm_fusion_dot_7", "f32", "tensor_tf32"),
    ("ampere_sgemm_128x64_tn", "f32", "fma_float32"),
    ("gemm_fusion_dot_7", "f64", "tensor_float8_e4m3"),
    ("gemm_fusion_dot_7", "bf16", "tensor_float8_e4m3"),
])  # fmt: skip
def test_arithmetic_by_the_type_that_xla_says(name: str, multiplied: str, roof: str) -> None:
    """A name that tells comes first; the fastest rate where none was measured for the type."""
    rates = {"tensor_float8_e4m3": 2e15, "tensor_float16": 1e15, "tensor_tf32": 4e14,
             "fma_float32": 6e13}  # fmt: skip
    peaks = {
        each: DevicePeak("cuda:0", "", "", each, rate, "flop/s", rate, 0, 0, "")
        for each, rate in rates.items()
    }
    found = floors._arithmetic_peak(name, peaks, multiplied)
    assert found is not None
    assert found.name == roof
