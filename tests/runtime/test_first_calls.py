"""What is made at first use is made once, by however many threads, and never under running work."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from benchmarks.reliability import first_calls, first_launch
from benchmarks.reliability import launch_kernels as kernels
from tests.verified import parse
from tileprof.compiler.codegen import emit
from tileprof.instrument import insert
from tileprof.lang import calls
from tileprof.lang.jit_function import JitFunction
from tileprof.runtime import arguments
from tileprof.runtime.cpu.executable import CpuExecutable
from tileprof.runtime.device import taken

ROOT = Path(__file__).parents[2]
THREADS = 8

_START_AGAIN = """
import threading, time
import numpy as np
from tests.cpu.support import load
from tests.cpu.test_running import NUMBERS
from tileprof.runtime.cpu import pool as cpu_pool

cpu_pool.set_threads(2)
executable = load(NUMBERS)
pool = cpu_pool.load_pool()
until = time.monotonic() + 0.3

def launch():
    y = np.zeros(500, np.int64)
    while time.monotonic() < until:
        executable.run([y], [500])

def start():
    while time.monotonic() < until:
        pool.tp_pool_start()

threads = [threading.Thread(target=launch) for _ in range(4)] + [threading.Thread(target=start)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def together(function: Callable[[], Any]) -> list[Any]:
    """What a function gives in threads that call it at the same time."""
    start = threading.Barrier(THREADS)
    made: list[Any] = []

    def call() -> None:
        start.wait()
        made.append(function())

    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(made) == THREADS
    return made


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are compiled while a test runs."""
    names: list[str] = []
    compile_kernel = calls.compile_kernel  # type: ignore[attr-defined]

    def noting(traced: Any, options: Any) -> Any:
        names.append(traced.name)
        time.sleep(0.02)  # others come meanwhile
        return compile_kernel(traced, options)

    monkeypatch.setattr(calls, "compile_kernel", noting)
    return names


def anew(kernel: JitFunction) -> JitFunction:
    """The same function, without what earlier calls have compiled."""
    return JitFunction(kernel.function, kernel.out_idx, {}, False, kernel.options)


def test_starting_the_pool_again_leaves_running_launches_alone() -> None:
    """Launches end although another thread starts the pool all the time."""
    done = subprocess.run([sys.executable, "-c", _START_AGAIN], cwd=ROOT, timeout=60)
    assert done.returncode == 0


def test_first_launches_in_new_processes_do_not_hang(capsys: pytest.CaptureFixture[str]) -> None:
    """The campaign's short form runs and finds nothing."""
    assert first_launch.main(["--short", "--runs", "2", "--jobs", "1"]) == 0
    assert '"runs": 2' in capsys.readouterr().out


def test_a_worker_without_time_left_starts_no_run() -> None:
    """A campaign ends when its time is over, although its workers have seeds left."""
    assert first_launch._worked("fork", [1, 2, 3], bare=True, seconds=0) == []


def test_the_campaign_of_first_calls_has_every_public_name() -> None:
    """Each name of tileprof is used by an entry point, or stated with the reason."""
    text = Path(first_calls.__file__).read_text() + Path(kernels.__file__).read_text()
    used = set(re.findall(r"\btileprof\.(\w+)", text))
    assert set(tileprof.__all__) - used == set(first_calls.NOT_CALLED)
    defined = re.findall(r"^def ([a-z]\w*)\(seed: int, folder: Path\)", text, re.MULTILINE)
    assert sorted(each.__name__ for each in first_calls.ENTRIES) == sorted(defined)


def test_threads_that_call_a_kernel_first_compile_it_once(compiled: list[str]) -> None:
    """One specialisation has one variant, whoever asked for it first."""
    kernel = anew(kernels.scale)
    x, s = np.ones((40, 8), np.float32), np.arange(40, dtype=np.float32)
    for y in together(lambda: kernel(x, s)):
        assert (y == s[:, None]).all()
    assert compiled == ["scale"]


def test_threads_that_ask_a_factory_first_get_one_kernel(compiled: list[str]) -> None:
    """A factory runs once for its arguments, and its kernel is compiled once."""
    kernel = anew(kernels.factory)
    made = together(lambda: kernel(64))
    assert all(each is made[0] for each in made)
    assert len(together(lambda: made[0](np.ones(64, np.float32)))) == THREADS
    assert compiled == ["factory"]


def test_threads_that_pass_strided_arrays_first_trace_once() -> None:
    """A compiled kernel has one variant for arrays that are not contiguous."""
    kernel = tileprof.compile(kernels.double, out_idx=[-1])
    retrace, traces = kernel._retrace, []

    def slowly(given: Any) -> Any:
        traces.append(given)
        time.sleep(0.02)
        return retrace(given)

    kernel._retrace = slowly
    x = np.ones(512, np.float32)[::2]
    for y in together(lambda: kernel(x)):
        assert (y == 2).all()
    assert len(traces) == 1


def test_threads_that_describe_like_arrays_get_one_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are found by the identity of specs."""
    describe_anew = arguments._numpy_spec

    def slowly(value: Any) -> Any:
        time.sleep(0.02)
        return describe_anew(value)

    monkeypatch.setattr(arguments, "_numpy_spec", slowly)
    arrays = [np.zeros((3, 1017), np.float32) for _ in range(THREADS)]
    specs = together(lambda: arguments.describe(arrays.pop()))
    assert all(each is specs[0] for each in specs)


class _Snatched(list[Any]):
    """A list that looks as if it held something, until another thread has taken it."""

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return 1


def test_buffers_that_another_thread_takes_first_are_made_anew() -> None:
    """A measured launch whose kept buffers are gone between look and take allocates others."""
    kernel = insert(
        parse("""kernel @noted(%y: global<n, int64>) symbols(%n) {
          launch [%n] {threads = [1]} body(%b: index) {
            scope "part" body {
              %v = cast %b : int64
              store %v, %y, [%b]
            }
          }
        }"""),
        "scopes",
    )
    executable = CpuExecutable(kernel, emit(kernel))
    executable._free = _Snatched()
    y = np.zeros(5, np.int64)
    result = executable.run([y], [5])
    assert result.sites is not None
    assert y.tolist() == [0, 1, 2, 3, 4]
    assert taken([]) is None


# -- the source

_EFFECTS = {
    *("CDLL", "PyDLL", "WinDLL", "Thread", "Popen", "run", "check_output", "register", "write"),
    *("build", "build_library", "import_module", "start", "Reader", "Driver", "CudaDevice"),
}
"""Calls that a function under `functools.cache` must not make: threads may run it several times."""
PRODUCING = ("native", "ir", "binary", "instrument", "compiler", "runtime", "lang", "profiler")


_CACHE = re.compile(r"^ *@(functools\.)?(lru_)?cache\b", re.MULTILINE)
_PROPERTY = re.compile(
    r"^from functools import .*\bcached_property|functools\.cached_property", re.MULTILINE
)


def cached(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions under a decorator of `functools` that keeps results."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                held = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(held).removeprefix("functools.") in ("cache", "lru_cache"):
                    yield node


def effects(function: ast.FunctionDef) -> set[str]:
    """Names of what a function calls or imports that must happen once."""
    names = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
    }
    return names & _EFFECTS


def test_functions_with_effects_are_not_under_functools_cache() -> None:
    """What loads a library, starts a thread or a process, or prints is under `once` instead."""
    wrong = [
        f"{path.relative_to(ROOT)}: {function.name} calls {', '.join(sorted(found))}"
        for folder in PRODUCING
        for path in sorted((ROOT / "tileprof" / folder).rglob("*.py"))
        if _CACHE.search(text := path.read_text())
        for function in cached(ast.parse(text))
        if (found := effects(function))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_property_holds_a_lock_of_python() -> None:
    """A child that is forked while a thread computes a property can compute it itself."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tileprof").rglob("*.py"))
        if path.name != "once.py" and _PROPERTY.search(path.read_text())
    ]
    assert not wrong, wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_during_the_first_calls_of_threads_launches() -> None:
    """It launches the kernel that threads were compiling, and another one."""
    kernel, other = anew(kernels.scale), anew(kernels.factory)
    x, s = np.ones((40, 8), np.float32), np.arange(40, dtype=np.float32)
    threads = [threading.Thread(target=kernel, args=(x, s)) for _ in range(4)]
    for each in threads:
        each.start()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            right = (kernel(x, s) == s[:, None]).all() and (other(64)(x[:8].ravel()) == 3).all()
            code = 0 if right else 2
        finally:
            os._exit(code)
    assert first_launch.waited(child, "child", 60) == []
    for each in threads:
        each.join(60)
