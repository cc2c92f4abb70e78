"""Device memory on a GPU, beside PyTorch's own statistics of its allocator.

python -m pytest -m gpu tests/profiler/gpu/test_gpu_memory.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, python, succeeded
from tileprof.profile import Profile

pytestmark = pytest.mark.gpu
MB = 1 << 20
PROGRAM = str(PROGRAMS / "memory.py")


def recorded(folder: Path, mode: str, *options: str) -> Ran:
    """Run a program with its memory recorded."""
    run = ("-m", "tileprof", "run", "--quiet", "--memory", "-o", "out.tprof", *options, PROGRAM)
    return succeeded(python(folder, *run, mode))


def of_allocator(profile: Profile, metric: str) -> int:
    """A metric summed over what PyTorch's allocator handed out: the driver's is at its calls."""
    own = profile.own[metric]
    return sum(int(own[n]) for n in range(len(profile)) if profile.kinds[n] != "api")


@pytest.mark.parametrize("mode", ["training", "threads", "leak", "whole_blocks"])
@pytest.mark.parametrize("context", ["full", "python"])
def test_memory_is_that_of_pytorchs_statistics(tmp_path: Path, mode: str, context: str) -> None:
    """Allocations, their bytes, and the peak, exactly; nothing is without a path or left out."""
    ran = recorded(tmp_path, mode, "--context", context, "--warm-up", "0")
    profile, told = ran.profile, ran.told
    assert "allocations not recorded" not in profile.tables.provenance
    assert of_allocator(profile, "allocations") == told["allocation_all_allocated"]
    assert of_allocator(profile, "allocated_bytes") == told["requested_bytes_all_allocated"]
    assert of_allocator(profile, "peak_bytes") == told["requested_bytes_all_peak"]
    # The allocator rounds what it is asked for, and counts its blocks.
    assert of_allocator(profile, "peak_bytes") <= told["max_memory_allocated"]
    if mode == "whole_blocks":
        assert of_allocator(profile, "peak_bytes") == told["max_memory_allocated"]
    (series,) = (
        each for each in profile.tables.series if each.metrics[0].name == "memory allocated"
    )
    assert series.values[0].max() == pytest.approx(told["requested_bytes_all_peak"], rel=1e-6)
    assert series.values[1].max() == pytest.approx(told["reserved_bytes_all_peak"], rel=1e-6)


def test_memory_is_at_the_operations_that_allocate(tmp_path: Path) -> None:
    """Weights, activations and gradients have their lines, and set-up its phase."""
    profile = recorded(tmp_path, "training").profile
    peak = profile.own["peak_bytes"]
    holders = [n for n in range(len(profile)) if peak[n] and profile.kinds[n] != "api"]
    assert {profile.kinds[n] for n in holders} <= {"op", "frame", "scope"}
    in_program = [
        n for n in holders
        if any((place := profile.locations[a]) is not None and place.file == PROGRAM
               for a in profile.path(n))
    ]  # fmt: skip
    assert float(peak[in_program].sum()) >= 0.95 * float(peak[holders].sum())


def test_leak_is_found_with_its_path(tmp_path: Path) -> None:
    """Losses that keep their graphs grow with each step; training that keeps none does not."""
    import tileprof

    flat = recorded(tmp_path, "training").profile
    assert "memory-growth" not in {each.rule for each in tileprof.analyze(flat).findings}
    leak = recorded(tmp_path, "leak", "--warm-up", "0").profile
    (found,) = (each for each in tileprof.analyze(leak).findings if each.rule == "memory-growth")
    assert found.evidence[0].text.endswith("it grew in 14 steps")
    growth = of_allocator(leak, "growth_bytes")
    # The activations of a step alone: 64 rows, of 2048 after the first layer and after GELU.
    assert growth >= 14 * 64 * 2048 * 4 * 2


def test_drivers_memory_counts_beside_pytorchs(tmp_path: Path) -> None:
    """At its call; segments of the allocator are not counted again."""
    profile = recorded(tmp_path, "driver").profile
    (scope,) = profile.find("by hand", "scope")
    inside = [n for n in range(len(profile)) if scope in profile.path(n)]
    assert sum(int(profile.own["allocated_bytes"][n]) for n in inside) == 64 * MB
    assert of_allocator(profile, "allocated_bytes") == 4 * MB
    api = [n for n in range(len(profile)) if profile.kinds[n] == "api" and n not in inside]
    # Not the segment of 20 MB, for a request of 4 MB; libraries may take some by themselves.
    assert sum(int(profile.own["allocated_bytes"][n]) for n in api) < 20 * MB


def test_memory_from_before_the_recording_is_told_apart(tmp_path: Path) -> None:
    """It counts for the device's peak and belongs to no path; what is released of it is known."""
    profile = succeeded(python(tmp_path, PROGRAM, "late")).profile
    assert of_allocator(profile, "peak_bytes") == 10 * MB
    told = profile.tables.provenance["device memory"]
    assert "111 MB at most" in told  # 106 MiB
    assert "101 MB of it allocated while nothing was recorded" in told


def test_failed_requests_are_told(tmp_path: Path) -> None:
    """With the size of the largest."""
    told = recorded(tmp_path, "too_much").profile.tables.provenance["device memory"]
    assert "no memory for 1 request" in told


@pytest.mark.alone
def test_recording_memory_costs_little(tmp_path: Path) -> None:
    """Of an allocation with its release, beside a recording without it."""
    run = ("-m", "tileprof", "run", "--quiet", "-o", "out.tprof", PROGRAM)
    plain = succeeded(python(tmp_path, *run, "cost")).told["ns"]
    watched = recorded(tmp_path, "cost").told["ns"]
    bare = succeeded(python(tmp_path, PROGRAM, "cost")).told["ns"]
    print(json.dumps({"bare": bare, "recorded": plain, "with memory": watched}))
    assert watched - plain < 2000
