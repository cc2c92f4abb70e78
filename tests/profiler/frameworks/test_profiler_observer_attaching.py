"""PyTorch's observer comes and goes, and says why it cannot."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

from tests.forked_programs import python  # noqa: E402
from tests.profiler.frameworks.torch_observed import Seen  # noqa: E402
from tileprof.native import _recorder  # noqa: E402
from tileprof.profiler import native  # noqa: E402
from tileprof.profiler.frameworks import observer, observer_library  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("observed")


def test_errors_of_the_backward_pass_show_no_frame_of_ours(seen: Seen) -> None:
    """What is around the engine is no Python function."""
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time") as caught:
        (x.sin() * y).sum().backward() or y.sum().backward()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [file for file in files if "tileprof" in file and "tests" not in file]


def test_detached_nothing_is_replaced() -> None:
    """Nothing is recorded any more, until it is attached again."""
    ours = torch.autograd._engine_run_backward
    observer.detach()
    try:
        assert torch.autograd._engine_run_backward is torch.autograd.graph._engine_run_backward
        assert torch.autograd._engine_run_backward is not ours
        assert torch.autograd._engine_run_backward.__module__ == "torch.autograd.graph"
        _recorder.set_epoch(1)
        seen = Seen()
        torch.ones(3, requires_grad=True).sin().sum().backward()
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        _recorder.set_epoch(0)
        assert seen.rows() == []
    finally:
        observer.attach()
    _recorder.set_epoch(1)
    torch.ones(3)
    _recorder.set_epoch(0)
    assert seen.counts()["aten::ones"] == 1


def test_what_another_has_put_around_the_engine_stays() -> None:
    """Detaching puts back only what it had put there."""
    ours = torch.autograd.graph._engine_run_backward

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    torch.autograd.graph._engine_run_backward = theirs
    try:
        observer.detach()
        assert torch.autograd.graph._engine_run_backward is theirs
        torch.ones(3, requires_grad=True).sum().backward()
    finally:
        torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward
        observer.attach()


def test_facts_name_the_version_and_the_way() -> None:
    """Provenance says what was recorded and how."""
    assert observer.facts() == {"torch": torch.__version__, "torch operations": "observed"}


def test_without_a_compiler_there_is_a_reason(tmp_path: Path) -> None:
    """And the program runs as it did."""
    code = """if True:
        from tileprof.profiler.frameworks import observer
        observer.attach()
        import torch
        torch.ones(2, requires_grad=True).sum().backward()
        print(observer.why_not(), observer.facts()["torch operations"], sep="; ")
        observer.detach()
    """
    done = python(tmp_path, code, CXX="no-such-compiler", TILEPROF_CACHE=str(tmp_path))
    reason = "there is no C++ compiler"
    how = "not recorded" if torch.version.cuda is None else "as NVTX ranges of one thread"
    assert (done.stdout, done.stderr) == (f"{reason}; {how} ({reason})\n", "")


def test_a_compiler_that_refuses_is_named(tmp_path: Path) -> None:
    """By its path, with what it said."""
    script = tmp_path / "cc"
    script.write_text('#!/bin/sh\ncase "$1" in --version) echo mine;; *) exit 1;; esac\n')
    script.chmod(0o755)
    code = """if True:
        from tileprof.profiler.frameworks import observer
        observer.attach()
        print(observer.why_not())
    """
    done = python(tmp_path, code, CXX=str(script), TILEPROF_CACHE=str(tmp_path))
    assert done.stdout == f"{script} failed: it gave no reason\n", done.stderr


def test_the_user_is_told_what_takes_long() -> None:
    """And not told what does not."""
    told: list[str] = []
    ready = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        ready.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observer_library, "_PATIENCE", 0.01)
        with observer_library._telling(tell, "compiling"):
            assert ready.wait(10)
        patch.setattr(observer_library, "_PATIENCE", 60)
        with observer_library._telling(tell, "again"):
            pass
    assert told == ["compiling"]


def test_ranges_serve_where_pytorch_has_cuda(
    observed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the engine is asked for roots all the same; detaching ends both."""
    calls: list[str] = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    autograd = torch._C._autograd
    monkeypatch.setattr(autograd, "_enable_profiler", lambda *_: calls.append("on"))
    monkeypatch.setattr(autograd, "_disable_profiler", lambda: calls.append("off"))
    assert observer.use_ranges()
    assert observer.facts()["torch operations"] == "as NVTX ranges of one thread"
    assert torch.autograd._engine_run_backward.__module__ != "torch.autograd.graph"
    observer.detach()
    assert calls == ["on", "off"]
    assert torch.autograd._engine_run_backward.__module__ == "torch.autograd.graph"


def test_ranges_make_way_for_another_profiler(
    observed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch has room for one in a thread, and the program's own goes first."""
    calls: list[str] = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch._C._autograd, "_enable_profiler", lambda *_: calls.append("on"))
    monkeypatch.setattr(torch._C._autograd, "_disable_profiler", lambda: calls.append("off"))
    original = torch.autograd.profiler._enable_profiler
    assert observer.use_ranges()
    with torch.profiler.profile() as profile:
        torch.ones(1)
    assert calls == ["on", "off"]
    assert torch.autograd.profiler._enable_profiler is original
    assert "aten::ones" in {each.key for each in profile.key_averages()}
    assert "until another profiler began" in observer.facts()["torch operations"]
    observer.detach()
    assert calls == ["on", "off"]


def test_ranges_do_not_serve_where_another_profiler_is_active(
    observed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch refuses a second one in a thread."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")

    def refuse(*_: object) -> None:
        raise RuntimeError("Profiler is already enabled on this thread")

    monkeypatch.setattr(torch._C._autograd, "_enable_profiler", refuse)
    assert not observer.use_ranges()
    assert torch.autograd._engine_run_backward.__module__ == "torch.autograd.graph"


def test_numbers_of_calls_are_no_part_of_the_names_of_ranges(seen: Seen) -> None:
    """Of those that PyTorch marks with NVTX."""
    for number in range(3):
        _recorder.push_range(f"aten::numbered, seq = {number}, op_id = {number}", "")
        _recorder.pop_range("")
    assert seen.counts() == {"aten::numbered": 3}


def test_without_the_recorder_nothing_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the observer nor ranges."""
    monkeypatch.setattr(observer, "_watch", None)
    monkeypatch.setattr(observer, "_attached", None)
    monkeypatch.setattr(native, "native_recorder", lambda: None)
    observer.attach()
    assert observer._watch is None
    assert not observer.use_ranges()


def test_a_forked_child_records_its_operations(tmp_path: Path) -> None:
    """The thread that forks goes on observing, though the recorder's state of it is a new one."""
    code = """if True:
        import os, torch
        from tileprof.native import _recorder
        from tileprof.profiler.frameworks import observer
        _recorder.set_epoch(1)
        observer.attach()
        x = torch.zeros(1)
        x.neg_()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            _recorder.after_fork()
            x.neg_()
            contexts, times = _recorder.contexts(0), _recorder.host_times()
            visited = [contexts[context] for context, visits, *_ in times if visits]
            names = [_recorder.name(name) for _, kind, name, _ in visited if kind == 3]
            print(*names, flush=True)
    """
    done = python(tmp_path, code)
    assert (done.stdout, done.stderr) == ("aten::neg_\n", "")
