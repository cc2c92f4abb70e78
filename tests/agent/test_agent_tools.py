"""Answers to an agent: pages of bounded size, ids that last, and errors with a way out."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.made import DATA
from tests.cli.test_cli_run import KERNEL
from tests.viewer.samples import matmul
from tileprof.agent import MOST_TOKENS, Tools, page_of, tokens
from tileprof.analyzer import analyze
from tileprof.analyzer.findings import identified
from tileprof.cli import main
from tileprof.errors import TileprofError, UsageError
from tileprof.profile import load, save

GEMM, STALLS = "h200-gemm.tprof", "h200-stalls.tprof"


def made_in(folder: Path) -> Tools:
    """Tools in a folder with two stored profiles of an H200, and one with places in a source."""
    for name in (GEMM, STALLS):
        shutil.copy(DATA / name, folder)
    save(matmul(), folder / "matmul.tprof")
    return Tools(folder)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """Tools that have analysed their profiles once, for tests that write nothing."""
    return made_in(tmp_path_factory.mktemp("profiles"))


@pytest.fixture
def own(tmp_path: Path) -> Tools:
    """Tools in a folder of the test's own."""
    return made_in(tmp_path)


def pages(call: Callable[[int], str]) -> list[str]:
    """All pages of an answer."""
    found = [call(1)]
    while f"page={len(found) + 1}" in found[-1]:
        found.append(call(len(found) + 1))
    return found


def test_short_text_is_one_page_as_it_is() -> None:
    """Nothing is added to what fits."""
    assert page_of("a\nb\n") == "a\nb\n"


def test_pages_hold_all_lines_within_the_limit() -> None:
    """Lines are neither lost nor repeated; lines longer than a page are broken."""
    text = "".join(f"line {at} {'word, ' * 9}\n" for at in range(400)) + "x+" * 5000 + "\n"
    found = pages(lambda page: page_of(text, page))
    assert len(found) > 5
    assert max(map(tokens, found)) <= MOST_TOKENS
    held = "".join(page.rpartition("(page ")[0] for page in found)
    assert held.replace("\n", "") == text.replace("\n", "")
    with pytest.raises(UsageError, match=rf"there is no page 99\nThere are {len(found)} pages"):
        page_of(text, 99)


def test_estimate_of_tokens_is_not_below_simple_counts() -> None:
    """Long words are several tokens, each sign is one."""
    assert tokens("matmul") == 2
    assert tokens("1,234.5 µs") == 8
    assert tokens("a b") == 3


CALLS: dict[str, Callable[[Tools, int], str]] = {
    "report": lambda t, page: t.report(STALLS, page=page),
    "report-all": lambda t, page: t.report(STALLS, include=".", page=page),
    "tree": lambda t, page: t.view(STALLS, page=page),
    "flat": lambda t, page: t.view(STALLS, "flat", page=page),
    "lines": lambda t, page: t.view(STALLS, "lines", threshold=0, page=page),
    "sass": lambda t, page: t.view(STALLS, "sass", threshold=0, page=page),
    "diff": lambda t, page: t.diff(GEMM, STALLS, threshold=0, page=page),
    "remarks": lambda t, page: t.remarks(STALLS, page=page),
    "explain": lambda t, page: t.explain_line(STALLS, "kernels.cu:46", page=page),
}


@pytest.mark.spread("report", "tree", "sass", "diff")
@pytest.mark.parametrize("name", CALLS)
def test_each_page_of_a_large_profile_is_small(tools: Tools, name: str) -> None:
    """Every tool's every page on a recording with 970,284 samples of 16 kernels."""
    found = pages(lambda page: CALLS[name](tools, page))
    assert all(0 < tokens(page) <= MOST_TOKENS for page in found)
    if name in ("report-all", "lines", "sass"):
        assert len(found) > 1


def test_report_lists_ids_and_shows_one_finding(tools: Tools) -> None:
    """The first line says what was analysed; an id gives evidence and advice."""
    head, first, *rest = tools.report(STALLS).splitlines()
    assert "16 kernels" in head
    assert len(rest) + 1 == int(head.split(", ")[-1].split()[0])
    key = first.split()[0]
    text = tools.report(STALLS, key)
    assert text.startswith("suggestion: each iteration of a loop stores the same bytes again")
    assert "  because: " in text
    assert "  do: " in text


def test_ids_are_unique_and_do_not_depend_on_the_order(tools: Tools) -> None:
    """Numbers and ranks are no part of an id."""
    findings = analyze(load(tools.root / STALLS)).findings
    known = identified(findings)
    assert len(known) == len(findings)
    turned = identified(reversed(findings))
    assert known.keys() == turned.keys()
    assert known["spill-hot-285e02"].rule == "spill-hot"


def test_line_is_explained(tools: Tools) -> None:
    """Source text, samples with reasons, and the finding with its id."""
    text = tools.explain_line(STALLS, "kernels.cu:46")
    first, source, samples, finding = text.splitlines()
    assert first == "/tmp/tileprof/kernels.cu:46"
    assert source.strip().startswith("sum += __ldcg(")
    assert samples.startswith("samples: 55,305 (5.7 % of all); stalls in %: long_scoreboard 99")
    assert finding.startswith("finding uncoalesced-global-")
    remarked = tools.explain_line(GEMM, "gpu_kernels.py:57")
    assert "remark of matmul_nt: " in remarked
    assert "wgmma m64n256k16" in remarked


def test_time_of_a_line_is_that_of_its_outermost_nodes(tools: Tools) -> None:
    """Time itself and with all below it; kernels that run because of the line are named."""
    profile = load(tools.root / "matmul.tprof")
    for node, place in enumerate(profile.locations):
        if place is not None and profile.kinds[node] == "frame":
            text = tools.explain_line("matmul.tprof", f"{place.file}:{place.line}")
            assert f"runs: frame {profile.names[node]}" in text
            assert "with all that it calls" in text
            return
    pytest.fail("the sample has no frame")


def test_remarks_by_id_and_by_name(tools: Tools) -> None:
    """Both give the sentences that `compile --emit remarks` prints."""
    assert tools.remarks(GEMM).startswith("k0  227 ms (100.0 %)  matmul_nt on cuda:0, 8 remarks")
    by_id = tools.remarks(GEMM, "k0")
    assert by_id == tools.remarks(GEMM, "matmul_nt")
    kernel = load(tools.root / GEMM).tables.kernels[0]
    assert str(kernel.remarks[0]) in by_id


def test_views_are_those_of_the_command_line(
    tools: Tools, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same renderer, in plain ASCII."""
    monkeypatch.chdir(tools.root)
    monkeypatch.setattr("tileprof.cli.terminal.has_unicode", lambda stream: False)
    monkeypatch.setattr("tileprof.cli.terminal.width", lambda stream: 100)
    assert main(["view", "matmul.tprof"]) == 0
    assert tools.view("matmul.tprof") == capsys.readouterr().out
    assert main(["diff", "matmul.tprof", GEMM]) == 0
    assert tools.diff("matmul.tprof", GEMM) == capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.view("../x.tprof"), "../x.tprof is outside of"),
        (lambda t: t.view("/etc/passwd"), "start the server with `--root DIR`"),
        (lambda t: t.view("nothing.tprof"), f"Profiles here: {GEMM}, {STALLS}, matmul.tprof."),
        (lambda t: t.view(STALLS, include="("), "regular expression"),
        (lambda t: t.report(STALLS, "spill-hot-285e0"), "Did you mean `spill-hot-285e02`?"),
        (lambda t: t.report(STALLS, page=2), "there is no page 2\nThere is 1 page."),
        (lambda t: t.remarks(GEMM, "matmul"), "Did you mean `matmul_nt`?"),
        (lambda t: t.explain_line(STALLS, "kernels.cu"), "is not FILE:LINE"),
        (lambda t: t.explain_line(STALLS, "other.cu:4"), "at a line of other.cu\nUse one of: "),
        (lambda t: t.explain_line(STALLS, "kernels.cu:44"), "nearest lines with something are: "),
        (lambda t: t.record("nothing.py"), "nothing.py does not exist"),
        (lambda t: t.record("/bin/true"), "/bin/true is outside of"),
    ],
)
def test_errors_have_a_way_out(tools: Tools, call: Callable[[Tools], str], message: str) -> None:
    """Sentences that an agent can act on."""
    with pytest.raises(TileprofError) as raised:
        call(tools)
    assert message in str(raised.value)


def test_link_out_of_the_root_is_refused(own: Tools, tmp_path_factory: Any) -> None:
    """A symbolic link is as far outside as what it names."""
    outside = tmp_path_factory.mktemp("outside") / "x.tprof"
    shutil.copy(DATA / GEMM, outside)
    (own.root / "link.tprof").symlink_to(outside)
    with pytest.raises(UsageError, match=r"link\.tprof is outside of"):
        own.view("link.tprof")


def test_profile_that_changes_is_read_again(own: Tools) -> None:
    """A file of another time or size is another profile."""
    before = own.view("matmul.tprof")
    assert own.view("matmul.tprof") == before
    shutil.copy(DATA / GEMM, own.root / "matmul.tprof")
    assert own.view("matmul.tprof") == own.view(GEMM) != before


@pytest.fixture
def runnable(own: Tools, monkeypatch: pytest.MonkeyPatch, forked: None) -> Tools:
    """Tools whose programs find this tileprof."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("TILEPROF_DEVICE", raising=False)
    return own


def test_script_is_recorded_then_explained(runnable: Tools) -> None:
    """The program's own output and exit code come back with the tree; its profile can be asked."""
    (runnable.root / "prog.py").write_text(
        KERNEL + "    import sys\n    print('argument', sys.argv[1])\n    sys.exit(3)\n"
    )
    text = runnable.record("prog.py", ["-x"], device="interpreter", output="out.tprof")
    assert text.startswith("exit code 3; end of the output:\nargument -x\n")
    assert "wrote out.tprof; ask `report` for what to change" in text
    assert "row_sums" in text
    assert tokens(text) <= MOST_TOKENS
    lines = (runnable.root / "prog.py").read_text().splitlines()
    line = next(at for at, each in enumerate(lines, 1) if 'scope("outer")' in each)
    explained = runnable.explain_line("out.tprof", f"prog.py:{line}")
    assert "kernel: " in explained
    assert "row_sums" in explained


TUNED = """
import tileprof
import tileprof.lang as T

@tileprof.jit
def copied(X, block: int = 128, threads: int = 128):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i]
    return Y
"""


@pytest.mark.sweep
def test_kernel_is_tuned_page_by_page(runnable: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer begins with the space; its other pages would come from the same search."""
    (runnable.root / "kernels.py").write_text(TUNED)
    asked = {"set": {"N": 1 << 20, "threads": 128}, "target": "sm_90a"}
    text = runnable.tune("kernels.py:copied", **asked)  # type: ignore[arg-type]
    assert text.startswith("copied for NVIDIA H200, nothing timed: ")
    assert tokens(text) <= MOST_TOKENS
    monkeypatch.setattr(Tools, "_run", lambda *_, **__: pytest.fail("it is tuned again"))
    with pytest.raises(UsageError, match="no page 2"):
        runnable.tune("kernels.py:copied", page=2, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "said"), [("other.py:copied", "names no file"), ("kernels.py:other", "exit code 2")]
)
def test_what_cannot_be_tuned_is_told(runnable: Tools, kernel: str, said: str) -> None:
    """With the words of the command."""
    (runnable.root / "kernels.py").write_text(TUNED)
    with pytest.raises(UsageError, match=said):
        runnable.tune(kernel, target="sm_90a")


TRIED = """
import os
print(sum(range(5_000_000 if "SHORT" not in os.environ else 1)) * 0 + 0.25)
"""


def test_change_is_tried_and_refusals_are_told(runnable: Tools) -> None:
    """A change that the caller names, with what is compared; wrong names keep their way out."""
    (runnable.root / "whole.py").write_text(TRIED)
    # Enough for more pairs, where other programs take the processors from the first ones.
    asked: dict[str, Any] = {"changes": ["env=SHORT=1"], "seconds": 60}
    assert "SHORT" in runnable.try_changes("whole.py", list_only=True, **asked)
    text = runnable.try_changes("whole.py", **asked)
    assert "verdict    KEPT" in text
    assert tokens(text) <= MOST_TOKENS
    with pytest.raises(UsageError, match=r"exit code 2(.|\n)*fuse"):
        runnable.try_changes("whole.py", changes=["fuse"])
    with pytest.raises(UsageError, match="does not exist"):
        runnable.try_changes("none.py")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_program_that_hangs_is_stopped(runnable: Tools) -> None:
    """No process of it is left running, and the answer says what to do."""
    pid = runnable.root / "pid"
    (runnable.root / "prog.py").write_text(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "child.wait()\n"
    )
    for seconds in (3, 10, 30):  # on a busy machine, the program may not come so far in the first
        with pytest.raises(UsageError, match=f"did not end within {seconds} s and was stopped"):
            runnable.record("prog.py", timeout_s=seconds)
        if pid.exists():
            break
    state = Path(f"/proc/{pid.read_text()}/stat")
    # Nobody may collect an orphan where the test runs: it is a zombie then.
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
