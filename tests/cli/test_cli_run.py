"""`run` inside of this process: options, targets, files, what is printed and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tileprof.cli.run import of_unrecorded
from tileprof.profile import Profile, load

KERNEL = """
import numpy as np
import tileprof
import tileprof.lang as T

@tileprof.jit
def row_sums(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 8), threads=32) as b:
        rows = T.alloc_shared((8, N), T.float32)
        sums = T.alloc_fragment((8,), T.float32)
        T.clear(sums)
        for k in T.Pipelined(2, num_stages=2):
            with T.scope("load"):
                T.copy(X[b * 8, 0], rows)
            T.reduce_sum(rows, sums, dim=1)
        T.copy(sums, S[b * 8])
    return S

if __name__ == "__main__":
    with tileprof.scope("outer"):
        assert row_sums(np.ones((16, 4), np.float32)).tolist() == [4.0] * 16
"""


STAGES = {"prologue", "loop k", "copy X", "compute (reduce sum)", "epilogue"}


def kinds_and_names(profile: Profile) -> list[tuple[str, str]]:
    """What a profile holds, frames of libraries left out."""
    nodes = [profile.node(index) for index in range(len(profile))]
    return [(n.kind, n.name) for n in nodes if n.kind != "frame"]


def test_a_script_with_arguments(cli: Any, folder: Path, write: Any) -> None:
    """Words after the script are its own, ours and `--` included; its output is untouched."""
    write(prog="import sys\nprint(sys.argv)\nprint('oops', file=sys.stderr)")
    found = cli("run", "--quiet", "prog.py", "-o", "x", "--quiet", "-m", "--", "--help")
    assert (found.code, found.err) == (0, "oops\n")
    assert found.out == "['prog.py', '-o', 'x', '--quiet', '-m', '--', '--help']\n"
    assert sorted(os.listdir(folder)) == ["prog.py", "prog.tprof"]
    assert cli("run", "--quiet", "--", "prog.py", "-x").out == "['prog.py', '-x']\n"


def test_a_module_with_arguments(cli: Any, folder: Path, write: Any) -> None:
    """`-m PACKAGE.MODULE` runs it as Python does; the file is named after its last part."""
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "work.py").write_text("import sys\nprint(__name__, sys.argv[1:])")
    found = cli("run", "--quiet", "-m", "pack.work", "-m", "x")
    assert (found.code, found.out, found.err) == (0, "__main__ ['-m', 'x']\n", "")
    assert load("work.tprof").tables.provenance["command"] == (
        "tileprof run --quiet -m pack.work -m x"
    )


@pytest.mark.sweep
def test_pytest_is_a_target(cli: Any, folder: Path, write: Any) -> None:
    """`pytest ARGS` runs it, with its exit code; a file of that name would be a script."""
    write(test_it="def test_passes():\n    pass\n\ndef test_fails():\n    assert not 1")
    common = ["-q", "-p", "no:cacheprovider", "test_it.py", "-k"]
    assert cli("run", "--quiet", "pytest", *common, "passes").code == 0
    found = cli("run", "--quiet", "pytest", *common, "fails")
    assert found.code == 1
    assert "1 failed, 1 deselected" in found.out
    assert (folder / "pytest.tprof").exists()


def test_the_tree_at_the_end(cli: Any, folder: Path, write: Any) -> None:
    """Standard error gets the hottest part and the name of the file, as one would type it."""
    write(prog=KERNEL)
    found = cli("run", "prog.py")
    assert (found.code, found.out) == (0, "")
    assert "row_sums  kernel prog.py:6" in found.err
    assert "outer  scope prog.py:22" in found.err
    assert found.err.endswith(
        "tileprof: wrote prog.tprof; see it again with `tileprof view prog.tprof`\n"
    )
    quiet = cli("run", "--quiet", "prog.py")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_the_tree_at_the_end_fits_a_screen(cli: Any, write: Any) -> None:
    """A program with many equal parts gets a tree of what is hottest, not hundreds of lines."""
    write(
        prog="""
        import time, tileprof
        for i in range(90):
            with tileprof.scope(f"part {i}"):
                time.sleep(0.001)
        with tileprof.scope("hot"):
            time.sleep(0.2)
        """
    )
    found = cli("run", "--context", "scopes", "prog.py")
    assert "hot" in found.err
    assert len(found.err.splitlines()) <= 42


def test_the_file_goes_where_it_is_told(cli: Any, folder: Path, write: Any) -> None:
    """`-o FILE`, also in one word; a folder elsewhere shows as it is."""
    write(prog="import os\nos.mkdir('sub')\nos.chdir('sub')")
    (folder / "out").mkdir()
    assert cli("run", "--quiet", "-o", "out/a.tprof", "prog.py").code == 0
    os.chdir(folder)
    os.rmdir("sub")
    found = cli("run", "-oout/b.tprof", "prog.py")
    assert "tileprof view out/b.tprof" in found.err
    assert sorted(os.listdir(folder / "out")) == ["a.tprof", "b.tprof"]
    assert os.listdir(folder / "sub") == []


def test_a_rank_has_a_file_of_its_own(
    cli: Any, folder: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a launcher the file is `STEM.rankR.tprof`, with and without `-o`."""
    write(prog="")
    monkeypatch.setenv("RANK", "3")
    assert "wrote prog.rank3.tprof" in cli("run", "prog.py").err
    assert "wrote mine.rank3.tprof" in cli("run", "-o", "mine.tprof", "prog.py").err
    assert sorted(p.name for p in folder.glob("*.tprof")) == [
        "mine.rank3.tprof",
        "prog.rank3.tprof",
    ]


@pytest.mark.parametrize(
    ("mode", "sites"),
    [
        ("off", set()),
        ("scopes", {"load"}),
        ("stages", {"load", *STAGES}),
        ("ops", {"load", *STAGES, "fill sums", "copy X → rows", "reduce sum", "copy sums → S"}),
    ],
)
def test_what_is_measured_inside(cli: Any, write: Any, mode: str, sites: set[str]) -> None:
    """`--instrument` decides which sites a kernel has."""
    write(prog=KERNEL)
    assert cli("run", "--quiet", "--instrument", mode, "prog.py").code == 0
    profile = load("prog.tprof")
    assert {name for kind, name in kinds_and_names(profile) if kind == "site"} == sites
    (kernel,) = profile.tables.kernels
    assert kernel.attributes["instrument"] == mode


def test_how_much_is_recorded_inside(cli: Any, write: Any) -> None:
    """`--inside` is among the options that the file tells."""
    write(prog=KERNEL)
    assert cli("run", "--quiet", "--inside", "warps=0-1+4,records=3000", "prog.py").code == 0
    options = load("prog.tprof").tables.provenance["options"]
    assert "inside=warps=0+1+4,records=4096" in options.split()


@pytest.mark.parametrize(("context", "frames"), [("scopes", 0), ("python", 2), ("full", 2)])
def test_what_a_call_path_is_made_of(cli: Any, write: Any, context: str, frames: int) -> None:
    """`--context` decides whether Python frames show."""
    write(
        prog="""
        import tileprof
        def work():
            with tileprof.scope("inner"):
                pass
        work()
        """
    )
    assert cli("run", "--quiet", "--context", context, "prog.py").code == 0
    profile = load("prog.tprof")
    (scope,) = profile.find(kind="scope", name="inner")
    names = [profile.node(each).name for each in profile.path(scope)]
    assert names == ["<module>", "work", "inner"][-frames - 1 :]


def test_the_device(cli: Any, write: Any) -> None:
    """`--device` wins over the environment, and the program's children see it."""
    write(prog="import os\nprint(os.environ['TILEPROF_DEVICE'])\n" + KERNEL)
    os.environ["TILEPROF_DEVICE"] = "cpu"
    found = cli("run", "--quiet", "--device", "interpreter", "prog.py")
    assert (found.code, found.out) == (0, "interpreter\n")
    (kernel,) = load("prog.tprof").tables.kernels
    assert kernel.device == "interpreter"


def test_debug_runs_kernels_as_python(cli: Any, write: Any) -> None:
    """With `--debug`, `print` inside of a kernel shows values; without, it shows the program's."""
    text = KERNEL.replace("        T.clear(sums)\n", "        T.clear(sums)\n        print(b)\n")
    write(prog=text)
    found = cli("run", "--quiet", "--debug", "prog.py")
    assert (found.code, found.out.split()) == (0, ["0", "1"])
    assert os.environ["TILEPROF_CHECK"] == "1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no program given\nusage: tileprof run [OPTIONS] SCRIPT [ARGS…]\n"),
        ("--quiet", "no program given\n"),
        ("-m", "`-m` needs the name of a module\n"),
        ("-o", "argument -o: expected one argument\n"),
        ("gone.py", "there is no file `gone.py` to run\nGive the path of a Python script, or -m"),
        (
            "python3 -m pkg.train --lr 1",
            "there is no file `python3` to run\n"
            "Leave `python3` out: tileprof run -m pkg.train --lr 1\n",
        ),
        (
            "sh prog.py",
            "there is no file `sh` to run\nTo run the command of that name: tileprof run /",
        ),
        ("-o prog.py prog.py", "{}/prog.py cannot be written: it is there, and is no profile\n"),
        ("sub", "the folder `sub` has no __main__.py to run\nGive the path of a Python script"),
        (
            "old.tprof",
            "`old.tprof` is a profile or another database, not a Python script\n"
            "`tileprof view old.tprof` shows it.\n",
        ),
        ("--duty=3 prog.py", "duty cannot be 3.0\nGive a share of the steps, above 0 up to 1.\n"),
        ("--duty=0.5 --every=2 prog.py", "duty and every exclude each other\nGive a share of "),
        ("--device cuda:x prog.py", "there is no device `cuda:x`\nDevices are: interpreter, cpu, "),
        ("--debug /bin/true", "--debug is for programs in Python, and `/bin/true` is "),
        ("--device gpu prog.py", "there is no device `gpu`\nDevices are: interpreter, cpu, "),
        ("-o no/x.tprof prog.py", "{}/no/x.tprof cannot be written: there is no folder {}/no\n"),
        ("-o sub prog.py", "{}/sub cannot be written: it is a folder\n"),
        ("-o /dev/null prog.py", "/dev/null cannot be written: it is not a regular file\n"),
    ],
)
def test_what_cannot_run(cli: Any, folder: Path, write: Any, arguments: str, message: str) -> None:
    """The program does not start, nothing is written, and the exit code is 2."""
    write(prog="print('started')")
    (folder / "sub").mkdir()
    sqlite3.connect(folder / "old.tprof").execute("create table a (b)").connection.close()
    found = cli("run", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("tileprof: " + message.replace("{}", str(folder)))
    assert sorted(os.listdir(folder)) == ["old.tprof", "prog.py", "sub"]


def test_an_environment_that_is_wrong(
    cli: Any, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that does not exist is refused before the program runs, by its variable's name."""
    write(prog="print('started')")
    monkeypatch.setenv("TILEPROF_DEVICE", "foo")
    found = cli("run", "prog.py")
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "tileprof: TILEPROF_DEVICE: there is no device `foo`\n"
        "Devices are: interpreter, cpu, cuda, cuda:N.\n"
    )
    assert cli("run", "--quiet", "--device", "interpreter", "prog.py").code == 0


def test_a_mistake_in_a_kernel(cli: Any, folder: Path, write: Any) -> None:
    """The program ends as any that raises: the user's frames, then the message with its caret."""
    write(prog=KERNEL.replace("T.reduce_sum(rows, sums, dim=1)", "T.reduce_summ(rows, sums)"))
    found = cli("run", "--quiet", "prog.py")
    path = folder / "prog.py"
    trace, kind, message = found.err.partition("tileprof.errors.UnknownOperation: ")
    # Python's own carets look different from version to version.
    shown = [line for line in trace.splitlines() if line.strip(" ^~")]
    assert (found.code, found.out, bool(kind)) == (1, "", True)
    assert shown == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 23, in <module>',
        "    assert row_sums(np.ones((16, 4), np.float32)).tolist() == [4.0] * 16",
        f'  File "{path}", line 17, in row_sums',
        "    T.reduce_summ(rows, sums)",
    ]
    assert message == (
        f"{path}:17:13: tileprof.lang has no operation `reduce_summ`\n"
        "    T.reduce_summ(rows, sums)\n"
        "    ^^^^^^^^^^^^^\n"
        "Did you mean `T.reduce_sum` or `T.reduce_abssum` or `T.warp_reduce_sum`?\n"
    )
    load("prog.tprof").check()


def test_a_program_with_profiles_of_its_own(cli: Any, folder: Path, write: Any) -> None:
    """Sessions inside of the program and ours around it each get what ran while they were on."""
    write(
        prog="""
        import tileprof
        with tileprof.scope("before"):
            pass
        with tileprof.profile("inner.tprof"):
            with tileprof.scope("inside"):
                pass
        first = tileprof.start("first.tprof")
        second = tileprof.start("second.tprof", context="scopes")
        with tileprof.scope("both"):
            pass
        first.finalize()
        with tileprof.scope("one"):
            pass
        second.finalize()
        """
    )
    assert cli("run", "--quiet", "prog.py").code == 0
    scopes = {
        path.stem: [name for kind, name in kinds_and_names(load(path)) if kind == "scope"]
        for path in folder.glob("*.tprof")
    }
    assert {stem: sorted(names) for stem, names in scopes.items()} == {
        "prog": ["before", "both", "inside", "one"],
        "inner": ["inside"],
        "first": ["both"],
        "second": ["both", "one"],
    }


def test_a_profile_whose_folder_is_gone_is_elsewhere(cli: Any, folder: Path, write: Any) -> None:
    """Where its folder goes away, it is elsewhere, that is said, and the exit code is its own."""
    write(prog="import shutil, sys\nshutil.rmtree('out')\nsys.exit(5)")
    (folder / "out").mkdir()
    found = cli("run", "-o", "out/x.tprof", "prog.py")
    assert (found.code, found.out) == (5, "")
    assert found.err.startswith("tileprof: ")
    assert "Traceback" not in found.err
    said = re.search(r"out/x.tprof: No such file or directory\nIt is in (.+) instead", found.err)
    assert said is not None
    assert load(said[1]).tables.provenance["ended early"] == "with exit code 5"
    assert Path(said[1]).name == "x.tprof"
    shutil.rmtree(Path(said[1]).parent)


@pytest.mark.alone
@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_a_scope_takes_no_more_than_its_part(cli: Any, write: Any, device: str) -> None:
    """One short scope does not get the time of the work around it, which no scope measures."""
    write(
        prog="""
        import numpy as np
        import tileprof
        import tileprof.lang as T

        @tileprof.jit
        def products(X):
            N = T.const("N")
            X: T.Tensor((N, 64), T.float32)
            Y = T.empty((N, 64), T.float32)
            with T.Kernel(T.ceildiv(N, 64), threads=32) as b:
                tile = T.alloc_shared((64, 64), T.float32)
                sums = T.alloc_fragment((64, 64), T.float32)
                T.copy(X[b * 64, 0], tile)
                T.clear(sums)
                for k in T.serial(40):
                    T.gemm(tile, tile, sums)
                with T.scope("short"):
                    T.copy(sums, Y[b * 64, 0])
            return Y

        products(np.ones((512, 64), np.float32))
        """
    )
    parts = []
    for _ in range(5):
        assert cli("run", "--quiet", "--device", device, "prog.py").code == 0
        profile = load("prog.tprof")
        (kernel,) = (profile.node(each) for each in profile.find(kind="kernel"))
        (short,) = (profile.node(each) for each in profile.find(kind="site"))
        assert short.own("count") == 8
        parts.append(short.own("time") / kernel.total("time"))
        # A busy machine may take the processor away just there, but not time and again.
        if 0 < parts[-1] < 0.3:
            return
    raise AssertionError(f"parts of the time: {parts}")


STEPS = """
import time, tileprof
def load(): time.sleep(0.02)
def train():
    with tileprof.scope("train"): time.sleep(0.002)
load()
for _ in range(41):
    train()
    tileprof.step()
"""


@pytest.mark.parametrize(("option", "steps"), [("--every=4", 10), ("--duty=0.1", 4)])
def test_some_of_the_steps(cli: Any, write: Any, option: str, steps: int) -> None:
    """The tree at the end is that of the steps, with an estimate below; the file has it all."""
    write(prog=STEPS)
    for _ in range(5):
        found = cli("run", option, "prog.py")
        assert (found.code, found.out) == (0, "")
        profile = load(Path("prog.tprof"))
        if profile.find("load"):
            break  # a busy machine may keep the thread that takes samples from it
    assert f"{steps} of 40 steps were recorded; cpu_time " in found.err
    assert "set-up is not shown" in " ".join(found.err.split())
    assert "train" in found.err
    assert "load" not in found.err
    trains = profile.find("train", "scope")
    scopes = {profile.phases[i]: profile.node(i).own("count") for i in trains}
    assert scopes == {"set-up": 1, "": steps}
    assert profile.phases[profile.find("load")[0]] == "set-up"
    assert option.removeprefix("--") in profile.tables.provenance["options"]


def test_a_program_without_steps(cli: Any, write: Any) -> None:
    """It is recorded as a whole, and that is said."""
    write(prog="import tileprof\nwith tileprof.scope('all'): pass\n")
    found = cli("run", "--duty", "0.1", "prog.py")
    assert found.code == 0
    assert "No whole step was seen: all is set-up, and was recorded in full." in found.err
    assert "all" in load(Path("prog.tprof")).names


def test_sampling_that_cannot_be_had(cli: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs all the same, and one line says why there are no samples."""
    monkeypatch.setattr("tileprof.profiler.device.gpu.has_gpu", lambda: False)
    write(prog="print('done')")
    for option in ("--pc-sampling", "--pc-sampling=5000", "--pc-sampling-exact"):
        found = cli("run", "--quiet", option, "prog.py")
        assert (found.code, found.out) == (0, "done\n")
        assert found.err == "tileprof: instructions were not sampled: no GPU is recorded\n"


def test_counters_that_cannot_be_had(cli: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs all the same, and one line says why there are none."""
    from tileprof.errors import MissingDependencyError
    from tileprof.profiler import native
    from tileprof.profiler.counters import control

    def refuse(asked: object) -> None:
        raise MissingDependencyError("there is no CUDA driver", hint="Install it.")

    monkeypatch.setattr(control, "make_plan", refuse)
    monkeypatch.setattr(native, "why_not", str)
    write(prog="print('done')")
    found = cli("run", "--quiet", "--metrics", "memory", "prog.py")
    assert (found.code, found.out) == (0, "done\n")
    assert found.err == (
        "tileprof: hardware counters were not read: there is no CUDA driver (Install it.)\n"
    )


def test_counters_are_checked_before_the_program_runs(cli: Any, write: Any) -> None:
    """What is no name, and samples beside them, are wrong use."""
    write(prog="print('done')")
    found = cli("run", "--metrics", "dram bytes", "prog.py")
    assert (found.code, found.out) == (2, "")
    assert "'dram bytes' is not the name of a metric" in found.err
    found = cli("run", "--metrics", "memory", "--pc-sampling", "prog.py")
    assert (found.code, found.out) == (2, "")
    assert "`--metrics` and `--pc-sampling` exclude each other" in found.err


def test_counters_over_time_that_cannot_be_sampled(
    cli: Any, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program runs; one line says why, also where the tree is not shown."""
    from tileprof.errors import MissingDependencyError
    from tileprof.profiler import native
    from tileprof.profiler.counters import series_control

    def refuse(asked: object) -> None:
        raise MissingDependencyError("there is no CUDA driver", hint="Install it.")

    monkeypatch.setattr(series_control, "make_series_plan", refuse)
    monkeypatch.setattr(native, "why_not", str)
    write(prog="print('done')")
    found = cli("run", "--quiet", "--pm-sampling", "prog.py")
    assert (found.code, found.out) == (0, "done\n")
    assert found.err == (
        "tileprof: hardware counters were not sampled: there is no CUDA driver (Install it.)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-m", "nosuchmod"), "No module named nosuchmod"),
        (("wrong.py",), "SyntaxError"),
        (("data.bin",), "SyntaxError"),
    ],
)
def test_program_that_never_begins_leaves_no_profile(
    cli: Any, folder: Path, write: Any, arguments: tuple[str, ...], said: str
) -> None:
    """Python's own error and exit code, and nothing of a profile."""
    write(wrong="x = = 1")
    (folder / "data.bin").write_bytes(b"\xfe\x00\x01")
    found = cli("run", "-o", "out.tprof", *arguments)
    assert found.code == 1
    assert said in found.err
    assert "tileprof" not in found.err
    assert not (folder / "out.tprof").exists()


def test_program_that_begins_and_fails_leaves_a_profile(cli: Any, folder: Path, write: Any) -> None:
    """A module of the program's that is wrong is found while the program runs."""
    write(prog="import wrong", wrong="x = = 1")
    assert cli("run", "--quiet", "prog.py").code == 1
    assert (folder / "prog.tprof").exists()


def test_unknown_metric_is_refused_before_the_program_runs(cli: Any, write: Any) -> None:
    """With or without a GPU: what cannot be a metric is refused, and what is near is named."""
    write(prog="print('ran')")
    found = cli("run", "--metrics", "tensr", "prog.py")
    assert (found.code, found.out) == (2, "")
    assert "'tensr' is not the name of a metric" in found.err
    assert "Did you mean `tensor`?" in found.err


def test_empty_profile_says_how_long_it_was_and_what_to_do(cli: Any, write: Any) -> None:
    """A plain program that ends between two samples is told about samples and scopes."""
    write(prog="")
    found = cli("run", "--context", "scopes", "prog.py")
    assert "The profile is empty: nothing was recorded in" in found.err
    assert "tileprof.scope" in found.err


def test_end_of_a_run_says_wall_time_and_share_of_it(cli: Any, write: Any) -> None:
    """The tree's total is put beside the time that the program ran."""
    write(prog="import tileprof\nwith tileprof.scope('a'): sum(range(10000))")
    found = cli("run", "--context", "scopes", "prog.py")
    said = " ".join(found.err.split())
    assert "The program ran for" in said
    assert "% of that." in said


def test_waiting_is_part_of_cpu_time_and_the_tree_says_so(
    cli: Any, folder: Path, write: Any
) -> None:
    """A sleep takes many times more `cpu_time` than time of a processor."""
    write(
        prog="""
        import pathlib, time, tileprof
        began = time.process_time_ns()
        with tileprof.scope("wait"):
            time.sleep(0.3)
        pathlib.Path("used").write_text(str(time.process_time_ns() - began))
        """
    )
    found = cli("run", "--context", "scopes", "-o", "p.tprof", "prog.py")
    shown = " ".join(found.err.split())
    assert "cpu_time (wall time of its threads, waiting included) is" in shown
    assert load("p.tprof").total("cpu_time") > 5 * int((folder / "used").read_text())


def test_files_of_children_are_counted_and_named(cli: Any, folder: Path, write: Any) -> None:
    """The end names those that this run has written, and no older one."""
    write(
        prog="""
        import os, tileprof
        for _ in range(2):
            if (pid := os.fork()) == 0:
                with tileprof.scope("child"):
                    pass
                os._exit(0)
            os.waitpid(pid, 0)
            print(pid)
        """
    )
    (folder / "prog.pid1.tprof").touch()
    os.utime(folder / "prog.pid1.tprof", (0, 0))
    found = cli("run", "--context", "scopes", "prog.py")
    files = sorted(f"prog.pid{pid}.tprof" for pid in found.out.split())
    view = "tileprof: 2 child processes recorded, too; see all added up with `tileprof view prog"
    assert f"{view}.tprof {' '.join(files)}`" in " ".join(found.err.split())
    assert "3 profiles, added up." in cli("view", "prog.tprof", *files).out
    for each in folder.glob("prog.pid*"):
        each.unlink()
    again = cli("run", "--context", "scopes", "prog.py")
    assert f"{view}.tprof prog.pid*.tprof`" in " ".join(again.err.split())


def test_children_that_do_the_work_and_are_not_recorded_are_reported() -> None:
    """A launcher of training workers only waits; its profile says nothing of them."""
    assert of_unrecorded(8.0, 0.0) == of_unrecorded(8.0, 7.9) == ""
    said = of_unrecorded(8.0, 31.5)
    assert "were not recorded, used 31.5 s of processor time, this one 8.0 s" in said
    assert "-m tileprof run SCRIPT" in said
