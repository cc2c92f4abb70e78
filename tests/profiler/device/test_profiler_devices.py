"""What kernels take of a GPU: on a played CUPTI and a played driver, against numbers by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tileprof.profiler as profiler
from tests.cuda.fake_driver import FakeDriver
from tests.native.cupti_programs import Fake
from tests.profiler_programs import FakeKernel, launch
from tileprof.errors import MissingDependencyError
from tileprof.profile import DeviceInfo, DevicePeak, KernelInfo, Profile, load
from tileprof.profiler.device import devices
from tileprof.profiler.device.activities import Variant, attributes
from tileprof.runtime.cuda import driver as cuda_driver
from tileprof.runtime.hooks import KernelDescription
from tileprof.runtime.roofs import Roof, Roofs, keeping

KB = 1024
H200 = (
    "Fake GPU, sm_90, 132 SMs, 141.0 GiB, clock 1980 MHz, memory clock 3201 MHz, driver CUDA 13.0"
)
KNOWN = DeviceInfo("cuda:0", "Fake GPU", 9, 0, 132, 141 * 2**30, 1980.0, 3201.0, "13.0")
Use = Callable[[FakeDriver | None], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Have the process find a driver, or none."""

    def use(fake: FakeDriver | None) -> None:
        def load() -> cuda_driver.Driver:
            if fake is None:
                raise MissingDependencyError("there is no driver", hint="Install one.")
            return fake.driver

        monkeypatch.setattr(cuda_driver, "load_driver", load)
        devices.find.cache_clear()

    yield use
    devices.find.cache_clear()


def variant(**fields: Any) -> Variant:
    """A kernel with one warp a block, unless told otherwise."""
    plain = Variant("k", 0, 32, (32, 1, 1), (0, 0, 0), 0, 0, 0)
    return plain._replace(**fields)


def test_a_device_as_its_driver_tells(use: Use) -> None:
    """In words, with limits, asked once; what is no GPU, or not there, tells nothing."""
    fake = FakeDriver()
    use(fake)
    assert devices.facts(["cpu", "cuda:0", "cuda:0", "interpreter", "cuda:x"]) == {"cuda:0": H200}
    asked = len(fake.calls)
    assert devices.facts(["cuda:0"]) == {"cuda:0": H200}
    assert devices.described(["cpu", "cuda:0", "cuda:x"]) == (KNOWN,)
    assert len(fake.calls) == asked
    fake.fails["cuDeviceGet"] = 101
    assert devices.facts(["cuda:1"]) == {}
    use(None)
    assert devices.facts(["cuda:0"]) == {}


@pytest.mark.parametrize(
    ("fields", "grid", "expected"),
    [
        # 200 and 1 of 228 KB: one block of 8 warps; 132 at once.
        (
            {"registers": 168, "block": (256, 1, 1), "dynamic_shared": 200 * KB},
            (264, 1, 1),
            (0.125, 1, "registers, shared memory", 2.0),
        ),
        # Static and dynamic shared memory count together: 100 + 14 + 1 KB is over the half.
        (
            {"block": (16, 8, 1), "static_shared": 100 * KB, "dynamic_shared": 14 * KB},
            (1, 1, 1),
            (4 / 64, 1, "shared memory", 1 / 132),
        ),
        # 32 blocks of a warp each are the most.
        ({}, (64, 66, 2), (0.5, 32, "blocks", 2.0)),
        ({"block": (1024, 1, 1)}, (132, 1, 1), (1.0, 2, "threads, registers", 0.5)),
        # 132 blocks at once are 26 clusters of 5.
        (
            {"dynamic_shared": 200 * KB, "cluster": (5, 1, 1)},
            (260, 1, 1),
            (1 / 64, 1, "shared memory", 2.0),
        ),
    ],
)
def test_occupancy(
    use: Use, fields: dict[str, Any], grid: tuple[int, int, int], expected: tuple[object, ...]
) -> None:
    """Blocks and warps of a multiprocessor, what limits them, rounds of the grid."""
    use(FakeDriver())
    found = attributes(variant(**fields), grid)
    keys = ("occupancy", "blocks_per_sm", "limited_by", "waves")
    assert tuple(found[key] for key in keys) == pytest.approx(expected)


def test_other_architectures(use: Use) -> None:
    """The limits are those of the device; without known ones a kernel is still described."""
    use(FakeDriver((8, 6)))
    of_86 = attributes(variant(block=(64, 1, 1)), (1, 1, 1))
    assert of_86["blocks_per_sm"] == 16
    assert of_86["occupancy"] == pytest.approx(32 / 48)
    for fake in (FakeDriver((8, 6)), None):
        if fake is not None:
            fake.capability = (13, 0)
        use(fake)
        plain = attributes(variant(cluster=(2, 1, 1), local=16), (3, 2, 1))
        assert plain == {
            "grid": "3×2×1", "block": "32×1×1", "registers": 32, "static_shared_bytes": 0,
            "dynamic_shared_bytes": 0, "local_bytes": 16, "cluster": "2×1×1",
        }  # fmt: skip


def test_what_cannot_be_is_not_told(use: Use) -> None:
    """A kernel that ran although it does not fit: the device holds more than is known here."""
    use(FakeDriver())
    assert "occupancy" not in attributes(variant(dynamic_shared=229 * KB), (1, 1, 1))


# -- in profiles


@pytest.fixture
def cupti(library: Path, monkeypatch: pytest.MonkeyPatch, use: Use) -> Iterator[Fake]:
    """A played CUPTI beside a played driver."""
    recorder = pytest.importorskip("tileprof.native._recorder")
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    recorder.gpu_after_fork()
    use(FakeDriver())
    yield Fake(library, recorder)
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.gpu_drain()


def _kernels(profile: Profile) -> dict[str, KernelInfo]:
    return {kernel.name: kernel for kernel in profile.tables.kernels}


def test_kernels_of_others(cupti: Fake) -> None:
    """Each variant is described once, and its device in the provenance."""
    session = profiler.start(context="scopes")
    for start in (1000, 3000):
        cupti.kernel("_Z4gemmPf", start, start + 100, registers=168, block=(128, 2, 1),
                     grid=(66, 1, 1), dynamic_shared=200 * KB, local=24)  # fmt: skip
    cupti.kernel("fill", 5000, 5100, registers=16, block=(512, 1, 1), grid=(528, 2, 1))
    cupti.deliver()
    profile = session.finalize()
    found = _kernels(profile)
    assert {"gemm(float*)", "fill"} == set(found)
    assert found["gemm(float*)"].attributes == {
        "grid": "66×1×1", "block": "128×2×1", "registers": 168, "static_shared_bytes": 0,
        "dynamic_shared_bytes": 200 * KB, "local_bytes": 24, "occupancy": 0.125,
        "blocks_per_sm": 1, "limited_by": "registers, shared memory", "waves": 0.5,
    }  # fmt: skip
    assert found["fill"].attributes["occupancy"] == 1.0
    assert found["fill"].attributes["waves"] == 2.0
    assert profile.tables.provenance["cuda:0"] == H200
    assert profile.tables.provenance["device"] == "cuda:0"
    assert profile.tables.devices == (KNOWN,)


def test_what_the_device_does_at_most(
    cupti: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has been measured; the file has it too."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path))
    assert devices.peaks(["cpu", "cuda:0", "cuda:x"]) == ()
    driver = cuda_driver.load_driver()
    copy = Roof("hbm_copy", 4.2e12, "bytes/s", 4.3e12, 0.002, 21, 1980.0, "bytes / time")
    uuid = keeping.uuid_of(driver, 0)
    roofs = Roofs("Fake GPU", uuid, "sm_90a", 132, "13.0", "2026-11-20", "0.1", {"hbm_copy": copy})
    keeping.place_of(roofs.uuid, "13.0").write_text(json.dumps(roofs.as_json()))
    session = profiler.start(tmp_path / "a.tprof", context="scopes")
    cupti.kernel("fill", 5000, 5100, registers=16, block=(512, 1, 1))
    cupti.deliver()
    expected = DevicePeak("cuda:0", roofs.uuid, "2026-11-20", "hbm_copy", 4.2e12, "bytes/s",
                          4.3e12, 0.002, 1980.0, "bytes / time")  # fmt: skip
    assert session.finalize().tables.device_peaks == (expected,)
    assert load(tmp_path / "a.tprof").tables.device_peaks == (expected,)


def test_kernels_of_ours(cupti: Fake) -> None:
    """What the GPU says joins what the runtime said; further functions have their names before."""
    ours = FakeKernel(
        "matmul",
        description=KernelDescription("matmul", "cuda:0", attributes={"target": "sm_90a"}),
    )
    session = profiler.start(context="scopes")
    for start in (1000, 5000):
        _launched(cupti, ours, start)
    cupti.deliver()
    (kernel,) = session.finalize().tables.kernels
    assert kernel.attributes["target"] == "sm_90a"
    assert (kernel.attributes["registers"], kernel.attributes["occupancy"]) == (168, 0.125)
    second = {key: value for key, value in kernel.attributes.items() if key.startswith("reduce.")}
    assert (second["reduce.registers"], second["reduce.blocks_per_sm"]) == (32, 32)
    assert len(kernel.attributes) == 1 + 2 * len(second)


def _launched(cupti: Fake, ours: FakeKernel, start: int) -> None:
    """A launch of ours that runs two CUDA functions."""
    from tileprof.runtime import hooks

    assert hooks.listener is not None
    token = hooks.listener.begin(ours)
    cupti.kernel("matmul", start, start + 100, registers=168, block=(256, 1, 1))
    cupti.kernel("reduce", start + 200, start + 300, registers=32, block=(32, 1, 1))
    hooks.listener.abandon(token)


def test_without_a_driver(cupti: Fake, use: Use) -> None:
    """What records say is there all the same."""
    use(None)
    session = profiler.start(context="scopes")
    cupti.kernel("fill", 5000, 5100, registers=16, block=(512, 1, 1))
    cupti.deliver()
    profile = session.finalize()
    assert _kernels(profile)["fill"].attributes["registers"] == 16
    assert "occupancy" not in _kernels(profile)["fill"].attributes
    assert "cuda:0" not in profile.tables.provenance


def test_hosts_ask_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a GPU's kernels never loads the driver."""

    def load() -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(cuda_driver, "load_driver", load)
    session = profiler.start(context="scopes")
    launch(FakeKernel("add", description=KernelDescription("add", "cpu")), time=5, wall=5)
    assert len(session.finalize().tables.kernels) == 1
