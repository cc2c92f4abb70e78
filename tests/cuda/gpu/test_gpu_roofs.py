"""Roofs of a real GPU: in the range of what is known of it, the same each time, kept once."""

from __future__ import annotations

import statistics
from functools import cache
from pathlib import Path

import pytest

from tileprof.runtime.cuda.device import CudaDevice, find_device
from tileprof.runtime.roofs import Roofs, known_roofs, measured_roofs
from tileprof.runtime.roofs.measuring import measure

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

RUNS = 3
H200 = {
    "hbm_read": (3.9e12, 4.8e12),
    "hbm_write": (3.6e12, 4.8e12),
    "hbm_copy": (4.0e12, 4.8e12),
    "l2_read": (4.8e12, 1.3e13),
    "shared_read": (2.6e13, 3.4e13),
    "tensor_bfloat16": (6.5e14, 9.9e14),
    "tensor_float16": (6.5e14, 9.9e14),
    "tensor_float8_e4m3": (1.2e15, 1.98e15),
    "tensor_tf32": (3.2e14, 4.95e14),
    "tensor_int8": (1.2e15, 1.98e15),
    "fma_float32": (5.0e13, 6.7e13),
    "fma_float64": (2.4e13, 3.4e13),
    "exp2_float32": (3.4e12, 4.2e12),
    "launch_gap": (500, 4_000),
    "launch_round_trip": (3_000, 60_000),
}
"""What a sound measurement on an H200 is between: below the datasheet's numbers, above what kernels
reach that do more than one thing."""
PER_CLOCK = {
    "shared_read": 128, "tensor_bfloat16": 4096, "tensor_float16": 4096, "tensor_tf32": 2048,
    "tensor_float8_e4m3": 8192, "tensor_int8": 8192, "fma_float32": 256, "fma_float64": 128,
    "exp2_float32": 16,
}  # fmt: skip
"""What a multiprocessor of compute capability 9.0 does in a cycle at most."""


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    """The first GPU."""
    return find_device(0)


@cache
def runs() -> tuple[Roofs, ...]:
    """Measured several times."""
    held = tuple(measured_roofs(0, again=True) for _ in range(RUNS))
    for roof in held[-1]:
        print(f"{roof.name}: {roof.value:.4g} {roof.unit}, best {roof.best:.4g}, spread "
              f"{roof.spread:.3%}, {roof.clock_mhz:.0f} MHz, all "
              f"{[f'{each[roof.name].value:.4g}' for each in held]}")  # fmt: skip
    return held


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Numbers of tests are not kept for others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEPROF_CACHE", str(tmp_path_factory.mktemp("roofs")))
        runs()


def test_in_the_range_of_an_h200(device: CudaDevice) -> None:
    """All of them at once, so that one run tells what is wrong."""
    if "H200" not in device.name:
        pytest.skip(f"the ranges are those of an H200, and this is {device.name}")
    roofs = runs()[0]
    assert [roof.name for roof in roofs] == list(H200)
    wrong = {
        name: f"{roofs[name].value:.4g} is not from {low:.4g} to {high:.4g}"
        for name, (low, high) in H200.items()
        if not low <= roofs[name].value <= high
    }
    assert not wrong


def test_no_more_than_the_hardware_does_in_a_cycle(device: CudaDevice) -> None:
    """By the clock that was read: nothing was left out by the compiler. Arithmetic is near it."""
    if device.capability != (9, 0):
        pytest.skip("the numbers are those of compute capability 9.0")
    roofs, wrong = runs()[0], {}
    for name, most in PER_CLOCK.items():
        roof = roofs[name]
        share = roof.value / (most * roofs.multiprocessors * roof.clock_mhz * 1e6)
        if not 0.88 <= share <= 1.03:
            wrong[name] = f"{share:.3f} of {most} a cycle at {roof.clock_mhz:.0f} MHz"
    assert not wrong


def test_several_runs_agree() -> None:
    """Within 3 % of their median; launches, which the host has a part in, within 30 %."""
    wrong = {}
    for name in (roof.name for roof in runs()[0]):
        roofs = [each[name] for each in runs()]
        values = [roof.value for roof in roofs]
        median, limit = statistics.median(values), 0.3 if name.startswith("launch") else 0.03
        if max(abs(value / median - 1) for value in values) > limit:
            wrong[name] = [
                f"{roof.value:.4g} at {roof.clock_mhz:.0f} MHz, spread {roof.spread:.2%}"
                for roof in roofs
            ]
    assert not wrong


def test_it_is_kept(device: CudaDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later call measures nothing; memory is given back."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path))
    assert known_roofs(0) is None
    heard: list[str] = []
    first = measured_roofs(0, progress=heard.append)
    assert len(heard) == len(first.roofs) - 1
    assert measured_roofs(0, progress=heard.append) == first == known_roofs(0)
    assert len(heard) == len(first.roofs) - 1
    assert first.uuid.startswith("GPU-")


def test_clocks_are_those_of_the_device(device: CudaDevice) -> None:
    """No higher than its highest, and not idle."""
    for name, roof in measure(device).items():
        if roof.clock_mhz:
            assert 600 <= roof.clock_mhz <= device.clock_khz / 1000 * 1.01, name
