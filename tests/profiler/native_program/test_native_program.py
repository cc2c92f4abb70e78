"""Programs without Python under `tileprof run`, on a played driver that loads what is injected."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_programs import small_tileprof
from tests.native.cupti_programs import RECORDER, compile_cpp
from tileprof.profile import Profile, load
from tileprof.profiler.native_program import launching

pytest.importorskip("tileprof.native._recorder")

ROOT = Path(__file__).parents[3]
RUN = ["chain_run", "chain::sized", "chain::aligned", "chain::Box<int>::middle",
       "chain::inlined", "chain::innermost"]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, optimised and with debugging information."""
    built = tmp_path_factory.mktemp("program") / "program"
    source = Path(__file__).with_name("program.cpp")
    compile_cpp([source], built, "-O2", "-g", f"-I{RECORDER}", "-ldl")
    return built


def run(folder: Path, library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tileprof run` in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEPROF_CUPTI": str(library)}
    return subprocess.run(
        [sys.executable, "-m", "tileprof", "run", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def written(folder: Path) -> Profile:
    """Return the profile that a program left."""
    profile = load(folder / "program.tprof")
    profile.check()
    return profile


def path(profile: Profile, node: int) -> list[str]:
    """Return the names that lead to a node, outermost first."""
    found = []
    while (node := int(profile.parents[node])) >= 0:
        found.append(profile.names[node])
    return found[::-1]


def test_kernels_hang_below_native_frames_and_ranges(
    tmp_path: Path, program: Path, library: Path
) -> None:
    """Output, locale and exit code are the program's; the tree begins with `main`, or a thread."""
    done = run(tmp_path, library, "--memory", str(program), "exit")
    assert (done.returncode, done.stdout) == (3, "done, C\n"), done.stderr
    profile = written(tmp_path)
    (gemm,) = profile.find("gemm", "kernel")
    assert profile.node(gemm).own("count") == 3
    names = path(profile, gemm)
    assert names[:2] == ["main", "step"]
    (scope,) = profile.find("step", "scope")
    assert [*path(profile, scope), "step", "inside"] == names[: names.index("inside") + 1]
    assert [name for name in names if name in RUN] == RUN
    assert names[-1] == "cuLaunchKernel"
    (copy,) = profile.find("copy", "kernel")
    assert "main" not in path(profile, copy)
    assert [name for name in path(profile, copy) if name in RUN] == RUN
    assert str(program) in {module.path for module in profile.tables.native_modules}
    (allocated,) = (each for each in range(len(profile)) if profile.own["peak_bytes"][each])
    assert path(profile, allocated)[:2] == ["main", "prepare"]
    assert profile.node(allocated).own("peak_bytes") == 4096
    (series,) = profile.tables.series
    assert [each.name for each in series.metrics] == ["memory from the driver"]
    assert "gemm" in done.stderr
    assert "program.tprof" in done.stderr


def test_a_signal_that_ends_it_loses_nothing(tmp_path: Path, program: Path, library: Path) -> None:
    """It dies of the signal when the file is written."""
    done = run(tmp_path, library, "--quiet", str(program), "kill")
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert written(tmp_path).find("gemm", "kernel")


@pytest.mark.sweep
def test_a_forked_child_writes_nothing(tmp_path: Path, program: Path, library: Path) -> None:
    """It inherits the recording, which is its parent's."""
    done = run(tmp_path, library, "--quiet", str(program), "fork")
    assert done.returncode == 0, done.stderr
    assert [each.name for each in tmp_path.glob("*.tprof")] == ["program.tprof"]
    assert written(tmp_path).find("gemm", "kernel")


@pytest.mark.sweep
def test_processes_that_it_starts_write_files_of_their_own(
    tmp_path: Path, program: Path, library: Path
) -> None:
    """The one that was launched has none, where it used no driver itself."""
    done = run(tmp_path, library, str(program), "spawn")
    assert done.returncode == 3, done.stderr
    (file,) = tmp_path.glob("*.tprof")
    assert re.fullmatch(r"program\.pid\d+\.tprof", file.name)
    assert "a child process recorded, too" in done.stderr
    assert load(file).find("gemm", "kernel")


def test_where_nothing_can_be_imported_it_runs_as_without(
    tmp_path: Path, program: Path, library: Path
) -> None:
    """And a line says that it is not recorded."""
    broken = tmp_path / "broken"
    (broken / "numpy").mkdir(parents=True)
    (broken / "numpy" / "__init__.py").write_text("raise ImportError('no such symbol')")
    request = {"path": "x.tprof", "launcher": 0, "command": [], "program": "", "options": {}}
    environment = {
        **launching._environment(str(program), tmp_path / "x.tprof", {}),
        launching.REQUEST: json.dumps(request),
        "PYTHONPATH": f"{broken}:{ROOT}",
        "TILEPROF_CUPTI": str(library),
    }
    done = subprocess.run(
        [program, "exit"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "done, C\n")
    assert "tileprof: the program is not recorded: ImportError: no such symbol" in done.stderr


def test_without_calls_of_the_driver_there_is_no_kernel(tmp_path: Path, library: Path) -> None:
    """Nor a file, where nothing loads what was to be injected."""
    done = run(tmp_path, library, "--quiet", "/bin/true")
    assert done.returncode == 0
    assert "nothing was recorded: the program used no GPU through CUDA" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--every 3 {program}", "--every is for programs in Python, and `{program}` is machine"),
        ("--paused {program}", "--paused is for programs in Python, and `{program}` is machine"),
        ("-o no/x.tprof {program}", "no/x.tprof cannot be written: there is no folder"),
        ("python3.12", "`python3.12` is Python itself, not a program without it\nGive the script"),
        ("library", "`library` is a library: it cannot be run\nGive the program that uses it"),
        ("plain", "`plain` cannot be executed: Permission denied\nMake it executable"),
    ],
)
def test_what_cannot_run(tmp_path: Path, program: Path, arguments: str, message: str) -> None:
    """The program does not start, and the exit code is 2."""
    for name, content in (
        ("plain", b"\x7fELF"),
        ("python3.12", b"\x7fELF"),
        ("library", b"\x7fELF" + bytes(100)),
    ):
        (tmp_path / name).write_bytes(content)
    done = small_tileprof(tmp_path, ["run", *arguments.format(program=program).split(), "exit"])
    assert (done.returncode, done.stdout) == (2, "")
    assert message.format(program=program) in done.stderr


def test_beside_another_tool_it_does_not_start(
    tmp_path: Path, program: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver loads one tool."""
    monkeypatch.setenv(launching.CUDA_VARIABLE, "/opt/tool.so")
    done = run(tmp_path, library, str(program), "exit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "CUDA_INJECTION64_PATH is /opt/tool.so" in done.stderr
