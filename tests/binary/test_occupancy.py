"""Blocks of a multiprocessor: by hand, by what must fit, and against NVIDIA's own calculator."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.binary.occupancy import MULTIPROCESSORS, Multiprocessor, multiprocessor, occupancy

KB = 1024
H200 = MULTIPROCESSORS[9, 0]


@pytest.mark.parametrize(
    ("capability", "registers", "shared", "threads", "blocks", "share", "scarce"),
    [
        # 200 KB and 1 KB for the system: once in 228. 8 warps of 64.
        ((9, 0), 168, 200 * KB, 256, 1, 0.125, ("registers", "shared memory")),
        # 5,376 registers a warp: 3 of a quarter's 16,384, 12 warps, 1 block of 8.
        ((9, 0), 168, 0, 256, 1, 0.125, ("registers",)),
        ((9, 0), 64, 200 * KB, 256, 1, 0.125, ("shared memory",)),
        ((9, 0), 32, 0, 1024, 2, 1.0, ("threads", "registers")),
        ((8, 0), 32, 0, 64, 32, 1.0, ("threads", "registers", "blocks")),
        # 16 blocks of 2 warps, 48 warps in all.
        ((8, 6), 32, 0, 64, 16, 32 / 48, ("blocks",)),
        # 1,536 registers a warp: 10 a quarter, 40 warps, 20 blocks of 2.
        ((8, 9), 48, 1792, 64, 20, 40 / 48, ("registers",)),
        ((8, 9), 32, 0, 64, 24, 1.0, ("threads", "blocks")),
        # Nothing is reserved, and 33 KB are not half of 64.
        ((7, 5), 32, 32 * KB, 128, 2, 0.25, ("shared memory",)),
        ((7, 5), 32, 33 * KB, 128, 1, 0.125, ("shared memory",)),
        ((7, 5), 32, 0, 64, 16, 1.0, ("threads", "blocks")),
        # 49 and 1 of 100 KB.
        ((12, 0), 128, 49 * KB, 128, 2, 8 / 48, ("shared memory",)),
        ((10, 0), 255, 0, 128, 2, 0.125, ("registers",)),
        ((9, 0), 32, 0, 1056, 0, 0.0, ("threads",)),
    ],
)
def test_by_hand(
    capability: tuple[int, int],
    registers: int,
    shared: int,
    threads: int,
    blocks: int,
    share: float,
    scarce: tuple[str, ...],
) -> None:
    """Computed from the numbers of each architecture."""
    found = occupancy(registers, shared, threads, MULTIPROCESSORS[capability])
    assert found.blocks == blocks
    assert found.share == pytest.approx(share)
    assert set(found.scarce) == set(scarce)


def test_named_barriers() -> None:
    """2 for each block that 9.0 can hold, 1 for each of 12.0, no limit before 9.0."""
    for capability, blocks in (((9, 0), 12), ((10, 0), 12), ((12, 0), 4), ((8, 9), 24)):
        of = MULTIPROCESSORS[capability]
        assert occupancy(24, 0, 64, of, barriers=5).blocks == blocks, capability


def test_limits_of_a_driver_are_those_of_the_table() -> None:
    """The rules that no driver tells come from the capability; unknown ones have none."""
    for capability, of in MULTIPROCESSORS.items():
        told = (of.threads, of.blocks, of.shared, of.shared_per_block, of.reserved_shared)
        assert multiprocessor(capability, *told) == of
        assert multiprocessor((6, 1), *told) is None
        assert multiprocessor((13, 0), *told) is None
    other = multiprocessor((8, 6), 1536, 16, 100 * KB, 99 * KB, KB, registers=32768)
    assert other == replace(MULTIPROCESSORS[8, 6], registers=32768)


_ANY = st.sampled_from(sorted(MULTIPROCESSORS))


@given(
    capability=_ANY,
    registers=st.integers(1, 255),
    shared=st.integers(0, 230 * KB),
    threads=st.integers(1, 1024),
    barriers=st.integers(1, 16),
)
def test_what_is_said_to_fit_does_and_one_more_does_not(
    capability: tuple[int, int], registers: int, shared: int, threads: int, barriers: int
) -> None:
    """Resources of the blocks are added up one by one, warps dealt out over the quarters."""
    of = MULTIPROCESSORS[capability]
    found = occupancy(registers, shared, threads, of, barriers)
    needs = (registers, shared, threads, barriers)
    assert found.blocks == 0 or _fit(found.blocks, *needs, of)
    alone = _fit(1, *needs, of) and -(-threads // 128) * 4 * _warp(registers) <= 65536
    assert (found.blocks > 0) == alone
    assert not alone or not _fit(found.blocks + 1, *needs, of)


def _fit(
    blocks: int, registers: int, shared: int, threads: int, barriers: int, of: Multiprocessor
) -> bool:
    warps = blocks * -(-threads // 32)
    fullest = -(-warps // 4)
    each = shared + of.reserved_shared
    while each % of.shared_unit:
        each += 1
    return (
        blocks <= of.blocks
        and warps * 32 <= of.threads
        and fullest * _warp(registers) <= of.registers // 4
        and shared <= of.shared_per_block
        and blocks * each <= of.shared
        and (not of.barriers or blocks * barriers <= of.barriers)
    )


def _warp(registers: int) -> int:
    """Registers that a warp is given."""
    return next(n for n in range(256, 8193, 256) if n >= registers * 32)


CALCULATOR = """
#include <climits>
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  int major, minor, threads, blocks, shared, most, reserved, registers, used, size, barriers;
  while (std::scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &threads, &shared, &most,
                    &reserved, &registers, &used, &size, &barriers) == 10) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = shared;
    device.numSms = 1;
    device.sharedMemPerBlockOptin = most;
    device.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = INT_MAX;
    function.numRegs = registers;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = most;
    function.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    cudaOccResult result;
    auto code = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, size,
                                                        used);
    std::printf("%d\\n", code ? -int(code) : result.activeBlocksPerMultiprocessor);
  }
}
"""


def _headers() -> list[Path]:
    """Folders that may have NVIDIA's calculator: of a toolkit, of wheels."""
    nvcc = shutil.which("nvcc")
    folders = [Path(nvcc).resolve().parents[1] / "include"] if nvcc else []
    folders.append(Path("/usr/local/cuda/include"))
    for entry in filter(None, sys.path):
        folders += Path(entry).glob("nvidia/cu*/include")
        folders += Path(entry).glob("triton/backends/nvidia/include")
    return [folder for folder in folders if (folder / "cuda_occupancy.h").exists()]


def test_against_nvidias_calculator(tmp_path: Path) -> None:
    """The same blocks for random kernels on every architecture."""
    if not (headers := _headers()) or not shutil.which("g++"):
        pytest.skip("needs cuda_occupancy.h and a C++ compiler")
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    command = ["g++", "-O1", "-w", f"-I{headers[0]}", "calculator.cpp", "-o", "calculator"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    draw = random.Random(1)
    expected, lines = [], []
    for capability, of in MULTIPROCESSORS.items():
        for _ in range(2000):
            registers = draw.randint(1, 255)
            shared = draw.choice((0, draw.randint(0, 16 * KB), draw.randint(0, of.shared)))
            threads, barriers = draw.randint(1, 1056), draw.randint(1, 16)
            expected.append(occupancy(registers, shared, threads, of, barriers).blocks)
            told = (of.threads, of.shared, of.shared_per_block, of.reserved_shared)
            lines.append(" ".join(map(str, (*capability, *told, registers, shared, threads,
                                            barriers))))  # fmt: skip
    done = subprocess.run(
        [tmp_path / "calculator"], input="\n".join(lines), capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    found = [int(word) for word in done.stdout.split()]
    assert len(found) == len(expected)
    wrong = [(line, a, b) for line, a, b in zip(lines, found, expected) if a != b]
    assert not wrong, wrong[:5]
    assert len(set(found)) > 15
