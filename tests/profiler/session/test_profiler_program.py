"""Programs under the profiler against the same programs under plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests import forked_programs
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profile import Profile, load
from tileprof.profiler import ProgramTarget, check_target

ROOT = Path(__file__).parents[3]

DRIVER = """
import sys
from tileprof.profiler import ProgramTarget, run_program, start
kind, name, *rest = sys.argv[1:]
session = start("out.tprof", flush_interval=0.1)
code = run_program(ProgramTarget(kind, name), rest, session)
session.finalize()
sys.exit(code)
"""


def profiled(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `(script|module|pytest) NAME ARGS` under the profiler, in a folder."""
    driver = folder / ".driver" / "driver.py"
    driver.parent.mkdir(exist_ok=True)
    driver.write_text(DRIVER)
    command = [sys.executable, str(driver), *arguments]
    return forked_programs.run(command, cwd=folder, env=_environment(**more))


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def _write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text).lstrip("\n"))


def _recorded(folder: Path) -> Profile:
    profile = load(folder / "out.tprof")
    profile.check()
    return profile


SEES = """
    import json, sys
    main = sys.modules["__main__"]
    print(json.dumps({
        "argv": sys.argv,
        "path": sys.path[:2],
        "file": __file__,
        "names": [__name__, __package__, __spec__ and __spec__.name, __cached__ is None],
        "globals": sorted(main.__dict__),
        "same": main.__dict__ is globals(),
        "loader": type(__loader__).__name__,
        "builtins": type(__builtins__).__name__,
    }, indent=1))
"""


def test_a_script_sees_what_python_shows_it(tmp_path: Path) -> None:
    """Arguments, path, and the main module are those of `python script.py`."""
    (tmp_path / "sub").mkdir()
    _write(tmp_path / "sub", sees=SEES)
    plain = _python(tmp_path, "sub/sees.py", "--flag", "x y")
    ours = profiled(tmp_path, "script", "sub/sees.py", "--flag", "x y")
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, plain.stdout, "")


@pytest.mark.sweep
def test_a_module_sees_what_python_shows_it(tmp_path: Path) -> None:
    """`-m package.module` behaves as under Python, and so does a folder with a main."""
    (tmp_path / "package").mkdir()
    _write(tmp_path / "package", __init__="", sees=SEES, __main__=SEES)
    for plain, ours in (
        (("-m", "package.sees", "1"), ("module", "package.sees", "1")),
        (("-m", "package"), ("module", "package")),
        (("package",), ("script", "package")),
    ):
        expected, found = _python(tmp_path, *plain), profiled(tmp_path, *ours)
        assert (found.returncode, found.stdout) == (0, expected.stdout)


@pytest.mark.spread("sys.exit(True)-1")
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit()", 0),
        ("sys.exit(True)", 1),
        ("raise SystemExit(300)", 44),
    ],
)
def test_exit_codes_pass_through(tmp_path: Path, ending: str, code: int) -> None:
    """The program's exit code and its last words are its own; `test_cli_process.py` has others."""
    _write(tmp_path, script=f"import os, sys\nprint('out', flush=True)\n{ending}")
    plain = _python(tmp_path, "script.py")
    ours = profiled(tmp_path, "script", "script.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (code, "out\n", plain.stderr)
    assert plain.returncode == code


@pytest.mark.spread(without=[
    "pass-None", "sys.exit()-None",
    "import json; json.loads('{')-with JSONDecodeError: Expecting property name"
])  # fmt: skip
@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("pass", None),
        ("sys.exit()", None),
        ("sys.exit(3)", "with exit code 3"),
        ("raise KeyboardInterrupt", "by Ctrl-C"),
        ("import json; json.loads('{')", "with JSONDecodeError: Expecting property name"),
        ("assert not sys", "with AssertionError, at script.py:2"),
    ],
)
def test_how_a_program_ended_is_in_its_profile(
    tmp_path: Path, ending: str, told: str | None
) -> None:
    """An exception has its place in the program, not in the library that raised it."""
    _write(tmp_path, script=f"import sys\n{ending}")
    profiled(tmp_path, "script", "script.py")
    ended = _recorded(tmp_path).tables.provenance.get("ended early")
    assert (ended is None) if told is None else (ended or "").startswith(told)
    if ended and "Error" in ended:
        assert ended.endswith(", at script.py:2")


@pytest.mark.sweep
def test_tracebacks_are_pythons(tmp_path: Path) -> None:
    """Errors, their causes, syntax errors and hooks print what Python prints, without us."""
    _write(
        tmp_path,
        cause="""
            def f(n):
                try:
                    {}["missing"]
                except KeyError as error:
                    raise ValueError("bad") from error
            f(1)
        """,
        syntax="x = 1\nif x\n  y",
        hook="""
            import sys
            sys.excepthook = lambda kind, value, trace: print("hook", kind, value, trace.tb_lineno)
            raise OSError("mine")
        """,
        interrupt="raise KeyboardInterrupt",
        missing="import nothing_of_that_name",
        group="raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    )
    for name in ("cause", "syntax", "hook", "missing", "group"):
        plain = _python(tmp_path, f"{name}.py")
        ours = profiled(tmp_path, "script", f"{name}.py")
        assert (ours.returncode, ours.stdout, ours.stderr) == (1, plain.stdout, plain.stderr), name
        _recorded(tmp_path)
    ours = profiled(tmp_path, "script", "interrupt.py")
    assert (ours.returncode, ours.stderr) == (130, _python(tmp_path, "interrupt.py").stderr)
    plain = _python(tmp_path, "-m", "nothing_of_that_name")
    ours = profiled(tmp_path, "module", "nothing_of_that_name")
    assert (ours.returncode, ours.stderr) == (1, plain.stderr)


def test_frames_of_ours_never_show_in_a_traceback(tmp_path: Path) -> None:
    """A function below a scope's decorator fails: the traceback has the program's frames only."""
    _write(
        tmp_path,
        script="""
            import tileprof.profiler as p
            @p.scope("s")
            def f():
                raise ValueError("x")
            f()
        """,
    )
    ours = profiled(tmp_path, "script", "script.py")
    # Newer Pythons mark the place within the line.
    assert [line for line in ours.stderr.splitlines() if line.strip("~^ ")] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path}/script.py", line 5, in <module>',
        "    f()",
        f'  File "{tmp_path}/script.py", line 4, in f',
        '    raise ValueError("x")',
        "ValueError: x",
    ]


def test_the_tree_starts_at_the_program(tmp_path: Path) -> None:
    """No frame above the program's own shows, of scripts, modules, threads and exit handlers."""
    _write(
        tmp_path,
        script="""
            import threading, time
            import tileprof.profiler as p
            def work(name):
                with p.scope(name):
                    pass
            def late():
                time.sleep(0.05)
                work("late")
            if __name__ == "__main__":
                work("main")
                threading.Thread(target=late).start()
        """,
    )
    places = ("script script.py", "module script")
    for place in places:
        assert profiled(tmp_path, *place.split()).returncode == 0
        profile = _recorded(tmp_path)
        paths = sorted(
            [profile.names[i] for i in profile.path(scope)]
            for name in ("main", "late")
            for scope in profile.find(name, "scope")
        )
        assert paths == [["<module>", "work", "main"], ["late", "work", "late"]]
        assert {profile.names[i] for i in profile.roots()} == {"<module>", "late"}
        assert [Path(f).name for f in profile.tables.sources] == ["script.py"]
        assert profile.tables.provenance["command"].split()[1:] == place.split()


@pytest.mark.sweep
def test_pools_that_are_left_open(tmp_path: Path) -> None:
    """Their threads do not hold up the end; what is still to be done is done, and recorded."""
    _write(
        tmp_path,
        script="""
            import atexit, time
            from concurrent.futures import ThreadPoolExecutor
            import tileprof.profiler as p
            def work(n):
                with p.scope("work"):
                    time.sleep(0.05)
                print(f"{n}\\n", end="", flush=True)
            atexit.register(print, "end")
            pool = ThreadPoolExecutor(2)
            for n in range(6):
                pool.submit(work, n)
        """,
    )
    plain = _python(tmp_path, "script.py")
    ours = profiled(tmp_path, "script", "script.py")
    assert (ours.returncode, ours.stderr) == (0, "")
    assert sorted(ours.stdout.split()) == sorted(plain.stdout.split())
    profile = _recorded(tmp_path)
    assert sum(profile.node(i).own("count") for i in profile.find("work", "scope")) == 6
    names = {profile.names[i] for i in range(len(profile))}
    assert not {"_python_exit", "join"} & names


@pytest.mark.sweep
def test_spawned_processes_find_the_main_module(tmp_path: Path) -> None:
    """Programs that spawn, fork or pool processes under a main guard work."""
    _write(
        tmp_path,
        script="""
            import multiprocessing as mp
            import sys
            print("import", __name__)
            class Point:
                def __init__(self, x): self.x = x
            def square(point): return Point(point.x ** 2)
            if __name__ == "__main__":
                with mp.get_context(sys.argv[1]).Pool(1) as pool:
                    print([p.x for p in pool.map(square, [Point(2), Point(3)])])
        """,
    )
    for method in ("spawn", "fork"):
        plain = _python(tmp_path, "-u", "script.py", method)
        ours = profiled(tmp_path, "script", "script.py", method, PYTHONUNBUFFERED="1")
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, plain.stdout, plain.stderr)


def test_spawned_children_record(tmp_path: Path) -> None:
    """A spawned child writes a file of its own, whether it ends by itself or is terminated."""
    _write(
        tmp_path,
        script="""
            import multiprocessing as mp
            import time
            import tileprof.profiler as p
            def work(count, queue):
                for _ in range(count):
                    with p.scope("child"):
                        pass
                queue.put(0)
                if count == 5:
                    time.sleep(60)
            if __name__ == "__main__":
                context = mp.get_context("spawn")
                for count in (3, 5):
                    queue = context.Queue()
                    child = context.Process(target=work, args=(count, queue))
                    child.start()
                    queue.get()
                    if count == 5:
                        child.terminate()
                    child.join()
                    print(f"out.pid{child.pid}.tprof {count} {child.exitcode}")
        """,
    )
    ours = profiled(tmp_path, "script", "script.py")
    assert (ours.returncode, ours.stderr) == (0, "")
    lines = [line.split() for line in ours.stdout.splitlines()]
    assert [line[1:] for line in lines] == [["3", "0"], ["5", "-15"]]
    for name, count, _ in lines:
        profile = load(tmp_path / name)
        profile.check()
        assert [profile.node(i).own("count") for i in profile.find("child")] == [int(count)]
    assert _recorded(tmp_path).find("child") == []


@pytest.mark.sweep
def test_pytest_runs(tmp_path: Path) -> None:
    """`pytest ARGS` is `python -m pytest ARGS`, its exit code included."""
    _write(tmp_path, test_it="def test_good(): pass\ndef test_bad(): assert 1 == 2\n")
    ours = profiled(tmp_path, "pytest", "pytest", "-q", "-p", "no:cacheprovider", "-k", "bad")
    assert ours.returncode == 1
    assert "assert 1 == 2" in ours.stdout
    assert "1 failed, 1 deselected" in ours.stdout


def test_a_target_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be run is refused with a sentence before anything starts."""
    with pytest.raises(UsageError, match=r"there is no file `no\.py` to run"):
        check_target(ProgramTarget("script", "no.py"))
    with pytest.raises(UsageError, match=r"has no __main__\.py"):
        check_target(ProgramTarget("script", str(tmp_path)))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pytest is not installed"):
        check_target(ProgramTarget("pytest"))


def test_stems() -> None:
    """A profile is named after what ran."""
    targets = (
        ProgramTarget("script", "a/train.py"),
        ProgramTarget("script", "folder/"),
        ProgramTarget("module", "package.tool"),
        ProgramTarget("pytest"),
    )
    assert [target.stem for target in targets] == ["train", "folder", "tool", "pytest"]


def test_pools_work_after_the_program(tmp_path: Path) -> None:
    """The end of the program's pools is not that of later ones: of a caller, of a finalizer."""
    _write(
        tmp_path,
        caller="""
            from concurrent.futures import ThreadPoolExecutor
            from tileprof.profiler.endings.finalizing import wait_for_threads
            left_open = ThreadPoolExecutor(2)
            print(left_open.submit(str, 1).result())
            wait_for_threads()
            with ThreadPoolExecutor(2) as pool:
                print(list(pool.map(str, range(3))))
        """,
    )
    done = _python(tmp_path, "caller.py")
    assert (done.stdout, done.stderr) == ("1\n['0', '1', '2']\n", "")
