"""Programs that ran on the host alone: what their steps are, and which operation is named first.

`cpu-training.tar.xz` has trainings with PyTorch 2.13 on two cores of a CPU: a perceptron with Adam
in a plain loop, a transformer with AdamW in a function, a perceptron with LBFGS and a closure,
and convolutions with SGD and a data loader. None of them opens a scope of its own.
"""

from __future__ import annotations

import re
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.analyzer.made import DATA, found
from tileprof.analyzer import Report, analyze
from tileprof.analyzer.program.host import HostTime
from tileprof.errors import Location
from tileprof.files import unpack
from tileprof.profile import Profile, TreeBuilder, load
from tileprof.viewer.findings import ReportOptions, render_reports

NAMES = ("loop_adam", "transformer", "closure", "loader")
TORCH = "/env/lib/python3.11/site-packages/torch/"
MS = 1_000_000


@cache
def recordings() -> dict[str, Profile]:
    """The recordings by name."""
    with TemporaryDirectory() as folder, tarfile.open(DATA / "cpu-training.tar.xz") as held:
        unpack(held, folder)
        return {name: load(Path(folder) / f"{name}.tprof") for name in NAMES}


@cache
def report(name: str) -> Report:
    """What is found in one."""
    return analyze(recordings()[name])


def work(profile: Profile) -> dict[str, float]:
    """Host time by operation in ns, without imports and the recorder: summed node by node."""
    excluded: set[int] = set()
    importing: set[int] = set()
    """Lines that import: what they take themselves is finding and loading."""
    found: dict[str, float] = {}
    operation: dict[int, str] = {}
    for index in range(len(profile)):
        node, parent = profile.node(index), int(profile.parents[index])
        place = node.location
        installed = place is not None and "/env/" in place.file
        imports = parent >= 0 and node.name == "<module>" and installed
        if parent in excluded or imports or node.name.endswith("(tileprof)"):
            excluded.add(index)
            importing |= {parent} if imports and profile.node(parent).kind == "frame" else set()
            continue
        operation[index] = node.name if node.kind == "op" else operation.get(parent, "")
    for index in operation.keys() - importing:
        own = float(profile.node(index).own("cpu_time"))
        found[operation[index]] = found.get(operation[index], 0.0) + own
    return found


@pytest.mark.parametrize("name", NAMES)
def test_most_expensive_operation_of_a_training_is_named_first(name: str) -> None:
    """Its share is that of all work of the host, as a walk over the nodes adds it up."""
    times = work(recordings()[name])
    most = max((each for each in times if each), key=lambda each: times[each])
    first = report(name).findings[0]
    assert first.place.path[-1] == most
    share = times[most] / sum(times.values())
    assert first.title == f"{most} takes {100 * share:.0f} % of the host's time without imports"
    assert first.evidence[0].text.startswith(f"{100 * share:.1f} % of the host's time without")


@pytest.mark.parametrize("name", NAMES)
def test_an_optimizers_step_is_no_step_of_a_program(name: str) -> None:
    """PyTorch opens that scope by itself; the program's steps are not known."""
    host = HostTime(recordings()[name])
    assert not host.step_scopes.any()
    assert host.whose == "the host's time without imports"


@pytest.mark.parametrize("name", NAMES)
def test_no_finding_says_that_everything_takes_all_the_time(name: str) -> None:
    """A scope with all of the time is no place to begin."""
    shares = [re.search(r"takes (\d+) %", each.title) for each in report(name).findings]
    assert shares
    assert all(share and int(share[1]) < 95 for share in shares)


def test_report_of_a_program_without_kernels_says_what_it_is_of() -> None:
    """The host's time, how much of it are imports, and the one run that would add kernels."""
    text = render_reports({"loop": report("loop_adam")}, ReportOptions(), width=120)
    assert "Recorded: the host's time. Not recorded:" in text
    assert "No kernel ran; the host's threads took 6.50 s, 4.07 s of it importing libraries" in text
    assert text.count("`tileprof run") == 1
    assert "--pc-sampling" not in text


def training(step: str = "", setup: int = 0) -> TreeBuilder:
    """Ten steps of 10 ms in a scope, an import of 5 s, and `setup` ms before the steps."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 1))
    module = builder.child(top, "frame", "<module>", Location(f"{TORCH}__init__.py", 9))
    builder.add(module, "cpu_time", 5_000 * MS)
    line = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 9))
    if step:
        line = builder.child(line, "scope", step)
        builder.add(line, "count", 10)
    builder.add(builder.child(line, "op", "aten::mm"), "cpu_time", 60 * MS)
    optimizer = builder.child(line, "scope", "Optimizer.step#Adam.step")
    builder.add(optimizer, "count", 10)
    builder.add(builder.child(optimizer, "op", "aten::sqrt"), "cpu_time", 40 * MS)
    if setup:
        early = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 3))
        builder.add(builder.child(early, "op", "aten::normal_"), "cpu_time", setup * MS)
    return builder


def test_scopes_of_the_program_with_nearly_all_its_work_are_its_steps() -> None:
    """Set-up of a tenth is left out, one of half is not, and imports never count."""
    for setup, share in ((10, "60 %"), (100, "30 %")):
        steps = "in its steps" if setup == 10 else "without imports"
        titles = [each.title for each in found(training("step", setup).snapshot(), "hotspot")]
        assert f"aten::mm takes {share} of the host's time {steps}" in titles
        assert not any(title.startswith("step takes") for title in titles)


def test_without_a_scope_all_work_of_the_host_counts() -> None:
    """The optimizer's scope has 40 %, and stands for its operation."""
    titles = [each.title for each in found(training().snapshot(), "hotspot")]
    assert titles == [
        "aten::mm takes 60 % of the host's time without imports",
        "Optimizer.step#Adam.step takes 40 % of the host's time without imports",
    ]


def test_a_program_that_is_an_installed_module_is_no_import() -> None:
    """As with `run -m`: its own frame is at the top."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "<module>", Location(f"{TORCH}distributed/run.py", 9))
    builder.add(builder.child(top, "op", "aten::mm"), "cpu_time", MS)
    host = HostTime(builder.snapshot())
    assert (host.whole, host.imports, host.whose) == (MS, 0, "the host's time")


def test_a_line_of_python_is_named_where_no_operation_takes_the_time() -> None:
    """A pure Python program has its hottest line."""
    builder = TreeBuilder()
    for line, time in ((3, 80), (4, 20)):
        node = builder.child(-1, "frame", "main", Location("/home/me/work.py", line))
        builder.add(node, "cpu_time", time * MS)
    titles = [each.title for each in found(builder.snapshot(), "hotspot")]
    assert titles == [
        "work.py:3 takes 80 % of the host's time, outside of operations",
        "work.py:4 takes 20 % of the host's time, outside of operations",
    ]


def test_a_line_that_imports_is_no_work_of_the_program() -> None:
    """Finding and loading a module takes time at the line itself, beside what the module does."""
    builder = training()
    top = next(iter(builder.snapshot().roots()))
    builder.add(top, "cpu_time", 700 * MS)
    host = HostTime(builder.snapshot())
    assert (host.whole, host.imports) == (100 * MS, 5_700 * MS)


def test_a_line_that_imports_a_module_of_the_program_is_no_work_either() -> None:
    """Work of the imported module is the program's; a report of a recording of imports says it."""
    builder = training()
    line = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 2))
    builder.add(line, "cpu_time", 300 * MS)
    own = builder.child(line, "frame", "<module>", Location("/home/me/model.py", 7))
    builder.add(own, "cpu_time", 50 * MS)
    profile = builder.snapshot()
    host = HostTime(profile)
    assert (host.whole, host.imports) == (150 * MS, 5_300 * MS)
    text = render_reports({"a": analyze(profile)}, ReportOptions(), width=120)
    assert "5.30 s of it importing libraries; findings are of the other 150 ms" in text


def test_time_in_a_scope_is_not_told_again_for_the_line_that_opens_it() -> None:
    """The line of `optimizer.step()` is where the scope of PyTorch is opened."""
    builder = TreeBuilder()
    line = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 9))
    builder.add(line, "cpu_time", 50 * MS)
    optimizer = builder.child(line, "scope", "Optimizer.step#Adam.step")
    inner = builder.child(optimizer, "frame", "step", Location(f"{TORCH}optim/adam.py", 7))
    builder.add(inner, "cpu_time", 50 * MS)
    titles = [each.title for each in found(builder.snapshot(), "hotspot")]
    assert titles == [
        "train.py:9 takes 50 % of the host's time, outside of operations",
        "Optimizer.step#Adam.step takes 50 % of the host's time",
    ]


def test_a_scope_says_nothing_more_than_the_lines_in_it_together() -> None:
    """Two lines of a data set take all of the loader's time between them."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 9))
    loader = builder.child(top, "scope", "enumerate(DataLoader)#_SingleProcess.__next__")
    for line, time in ((3, 60), (4, 30)):
        node = builder.child(loader, "frame", "__getitem__", Location("/home/me/data.py", line))
        builder.add(node, "cpu_time", time * MS)
    builder.add(builder.child(top, "op", "aten::mm"), "cpu_time", 10 * MS)
    titles = [each.title for each in found(builder.snapshot(), "hotspot")]
    assert not any("DataLoader" in title for title in titles)
