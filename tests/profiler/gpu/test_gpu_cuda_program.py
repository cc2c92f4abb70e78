"""A program in CUDA C++ on a GPU: built by nvcc, called from Python or run by itself, sampled.

python -m pytest -m gpu tests/profiler/gpu/test_gpu_cuda_program.py
"""

from __future__ import annotations

import os
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


def run_alone(folder: Path, *options: str) -> tuple[Ran, Path]:
    """Run it without Python under `tileprof run`, with debugging information."""
    program = build(folder / "spread", "-g")
    run = ("-m", "tileprof", "run", "--quiet", "-o", "out.tprof", *options)
    return succeeded(python(folder, *run, str(program), str(STEPS))), program


def above(profile: Profile, node: int) -> list[str]:
    """The names that lead to a node, outermost first."""
    return [profile.names[each] for each in profile.path(node)][:-1]


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


def test_without_python_its_launches_are_below_its_functions(tmp_path: Path) -> None:
    """By name, with lines; its output is its own, and the CUDA libraries' frames do not show."""
    ran, program = run_alone(tmp_path)
    alone = subprocess.run([str(program), str(STEPS)], capture_output=True, text=True, check=True)
    assert ran.output == alone.stdout
    profile = ran.profile
    print(profile.tables.provenance.get("slow native stacks"))
    names = counts(profile)
    assert (of(names, SPREAD), of(names, SQUEEZE)) == (STEPS, STEPS)
    assert all(node.own("time") > 0 for node in nodes(profile, "kernel"))
    for kernel in profile.find(kind="kernel"):
        led = above(profile, kernel)
        print(led, profile.names[kernel])
        assert led[0] == "main"
        assert "signals::work" in led
        assert not any(name.startswith(("libcuda.so", "libcupti.so")) for name in led)
    (main,) = {profile.locations[node] for node in profile.find("main", "frame")}
    assert main is not None
    assert main.file == str(SOURCE)
    assert "signals::work(" in SOURCE.read_text().splitlines()[main.line - 1]
    assert str(program) in {module.path for module in profile.tables.native_modules}
    assert str(SOURCE) in profile.tables.sources


@pytest.mark.parametrize("options", [("--pc-sampling",), ("--metrics", "memory"), ("--timeline",)])
def test_without_python_it_is_measured_as_with_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Samples, hardware counters and single events."""
    ran, _ = run_alone(tmp_path, *options)
    profile = ran.profile
    provenance = profile.tables.provenance
    print({k: v for k, v in provenance.items() if k.startswith(("pc", "counters", "cupti"))})
    assert of(counts(profile), SPREAD) == STEPS
    if options == ("--pc-sampling",):
        assert profile.tables.pc.functions
    elif options == ("--timeline",):
        assert profile.tables.timeline.tracks
    else:
        assert any("dram" in metric for metric in profile.metrics)


def test_native_frames_are_between_python_and_the_launch(tmp_path: Path) -> None:
    """With `--context native`, also where Python calls."""
    profile = profiled(tmp_path, "--context", "native").profile
    for kernel in profile.find(kind="kernel"):
        led = above(profile, kernel)
        print(led)
        assert led.index("signals") < led.index("spread_signals") < led.index("signals::work")


def test_native_frames_in_an_operation_begin_where_it_does(tmp_path: Path) -> None:
    """PyTorch's functions outside of the innermost operation are not below it; also backward."""
    pytest.importorskip("torch")
    program = tmp_path / "products.py"
    program.write_text(
        "import torch\n"
        "x = torch.randn(256, 256, device='cuda', requires_grad=True)\n"
        "for _ in range(3):\n"
        "    (x @ x).relu().sum().backward()\n"
        "torch.cuda.synchronize()\n"
    )
    run = ("-m", "tileprof", "run", "--quiet", "-o", "out.tprof", "--context", "native")
    profile = succeeded(python(tmp_path, *run, str(program))).profile
    checked = 0
    for kernel in profile.find(kind="kernel"):
        path = profile.path(kernel)
        last = max((at for at, each in enumerate(path) if profile.kinds[each] == "op"), default=-1)
        inside = [each for each in path[last + 1 :] if profile.kinds[each] == "frame"]
        files = [os.path.basename((profile.locations[each]).file) for each in inside]  # type: ignore[union-attr]
        print([profile.names[each] for each in path])
        # Gradients of several uses are added between two operations of the backward pass.
        between = any("autograd::accumulate" in profile.names[each] for each in inside)
        if last >= 0 and not between:
            assert not any(file.startswith(("libtorch_python", "libpython")) for file in files)
            checked += any(file.startswith(("libtorch_cuda", "libcublas")) for file in files)
    assert checked
