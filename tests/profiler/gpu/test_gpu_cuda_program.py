"""A program in CUDA C++ on a GPU: built by nvcc, called from Python, sampled.

python -m pytest -m gpu tests/profiler/gpu/test_gpu_cuda_program.py
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, counts, nodes, python, succeeded
from tileprof.profile import Profile
from tileprof.viewer.code.pc_functions import user_line

pytestmark = pytest.mark.gpu
SOURCE = PROGRAMS / "spread.cu"
STEPS = 20
SPREAD, SQUEEZE = "signals::spread<float, 3>", "signals::squeeze"


def build(target: Path, *flags: str) -> Path:
    """Compile the program, with lines."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    command = [nvcc, "-O3", "-lineinfo", "-arch=native", *flags, str(SOURCE), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


def library(folder: Path) -> str:
    """The program as a library."""
    return str(build(folder / "libspread.so", "-shared", "-Xcompiler", "-fPIC"))


def profiled(folder: Path, *options: str) -> Ran:
    """Call it from Python under `tileprof run`."""
    run = ("-m", "tileprof", "run", "--quiet", "-o", "out.tprof", *options)
    program = str(PROGRAMS / "spread.py")
    ran = succeeded(python(folder, *run, program, library(folder), str(STEPS)))
    print({k: v for k, v in ran.profile.tables.provenance.items() if k.startswith(("pc", "cupti"))})
    return ran


def of(names: Counter[str], beginning: str) -> int:
    """The count of the one name that begins like this, with its return type before it or not."""
    print(names)
    (found,) = [name for name in names if name.removeprefix("void ").startswith(beginning)]
    return names[found]


def by_line(profile: Profile, beginning: str) -> Counter[tuple[str, int]]:
    """Samples of a kernel by the line of the program that they count for."""
    pc = profile.tables.pc
    found: Counter[tuple[str, int]] = Counter()
    for number, function in enumerate(pc.functions):
        if not function.title.removeprefix("void ").startswith(beginning):
            continue
        lines = {each.offset: user_line(profile, each.place) for each in function.code}
        for row in (pc.rows.function == number).nonzero()[0]:
            line = lines.get(int(pc.rows.offset[row])) or ("", 0)
            found[Path(line[0]).name, line[1]] += int(pc.counted[row])
    print(beginning, found)
    return found


def test_each_launch_is_counted(tmp_path: Path) -> None:
    """Kernels have their names as one writes them, below the scope of Python that called."""
    profile = profiled(tmp_path).profile
    names = counts(profile)
    assert (of(names, SPREAD), of(names, SQUEEZE)) == (STEPS, STEPS)
    assert counts(profile, scope="signals") == names
    assert all(node.own("time") > 0 for node in nodes(profile, "kernel"))


def test_the_program_is_as_without_a_profiler(tmp_path: Path) -> None:
    """It works out the same as on its own."""
    alone = build(tmp_path / "spread")
    done = subprocess.run([str(alone), str(STEPS)], capture_output=True, text=True, timeout=120)
    told = profiled(tmp_path, "--pc-sampling").told
    assert (done.returncode, float(done.stdout)) == (0, told["sum"])


def test_samples_are_on_its_lines(tmp_path: Path) -> None:
    """And the hot line is the hot one."""
    profile = profiled(tmp_path, "--pc-sampling").profile
    hot = next(n for n, text in enumerate(SOURCE.read_text().splitlines(), 1) if "// hot" in text)
    assert str(SOURCE) in profile.tables.sources
    for kernel in (SPREAD, SQUEEZE):
        lines = by_line(profile, kernel)
        ours = sum(n for (file, _), n in lines.items() if file == SOURCE.name)
        assert ours >= 0.99 * lines.total() > 100
    assert lines[SOURCE.name, hot] > 0.8 * lines.total()
