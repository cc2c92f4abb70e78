"""The documentation is true: its fences run, its commands succeed, its help is what is printed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.binary.support import need_disassembler
from tests.forked_programs import small_tileprof
from tests.forked_programs import tileprof as tileprof_of_torch
from tileprof import cli
from tileprof.native.building import find_compiler
from tileprof.profile import save

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDED = {
    "train_gpt": ["torch", "tileprof.native._recorder"],
    "listing": ["tileprof.native._recorder"],
}
"""Modules without which a page has nothing to show."""
EARLIER = {"README.md": {"old.tprof": "matmul.tprof", "new.tprof": "matmul.tprof"}}
"""Files that a page speaks of and does not make, each with one that it does make."""

APART = {"doctor"}
"""Commands that get a process of their own, since they look at it; so does `run`, which changes its
process."""

SMALLER = {
    "case_studies/matmul.py": (r": int = 1000\b", ": int = 250", 3),
    "case_studies/softmax.py": (r": int = 2048\b", ": int = 512", 2),
}
"""Programs that pages run, with extents that take a sixteenth of the time or less: what is replaced
by what, and how often."""

FENCE = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """A piece of a page that runs."""

    language: str
    line: int
    """Of its first line in the page, from 1."""
    text: str

    def commands(self) -> Iterator[str]:
        """The command lines of `tileprof`; what installs or tests the project is left out."""
        for line in self.text.splitlines():
            command = line.rpartition("pip install . && ")[2]
            if command.startswith("tileprof "):
                yield command


def fences(page: Path) -> list[Fence]:
    """The fences of a page that run, in order."""
    text = page.read_text()
    return [
        Fence(found[1], text.count("\n", 0, found.start(2)) + 1, found[2])
        for found in FENCE.finditer(text)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None) -> Path:
    """A place like the top of the project, in which a page may write; kernels run on the processor,
    compiled where there is a compiler, which is faster."""
    (tmp_path / "case_studies").symlink_to(ROOT / "case_studies")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEPROF_DEVICE", "cpu" if find_compiler() else "interpreter")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def file_of(fence: Fence) -> str:
    """The name of the file that a fence is, by its first line; '' for one that runs."""
    found = re.match(r"# (\w+\.py)\n", fence.text)
    return found[1] if found else ""


def execute(fence: Fence, page: Path, namespace: dict[str, Any]) -> None:
    """Run a python fence at its lines of the page, so that kernels find their source."""
    text = "\n" * (fence.line - 1) + fence.text
    exec(compile(text, str(page), "exec", dont_inherit=True), namespace)


def perform(command: str, page: Path, folder: Path) -> None:
    """Carry out a command of the page; AssertionError with its output where it fails."""
    for name, made in EARLIER.get(page.name, {}).items():
        if name in command and not (folder / name).exists():
            shutil.copy(folder / made, folder / name)
    words = shlex.split(command, comments=True)
    if words[1] == "run":
        words = [smaller(word, folder) if word in SMALLER else word for word in words]
        needs = NEEDED.get(page.stem, [])
        run = tileprof_of_torch if "torch" in needs else small_tileprof
        ended = run(folder, words[1:])
        code, printed = ended.returncode, ended.stdout + ended.stderr
    elif words[1] in APART:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True
        )
        code, printed = done.returncode, done.stdout + done.stderr
    else:
        if words[1] == "compile":
            # By its own path: what other tests compile of the same file is taken from the cache.
            words = [re.sub(r"^case_studies/", f"{ROOT}/case_studies/", word) for word in words]
        code, printed = within(words[1:])
    assert code == 0, f"{page.name}: {command}\n{printed}"


def smaller(program: str, folder: Path) -> str:
    """The path of a program with less work, at the same lines: what is recorded of it is recorded
    as often.  `.ci/run` runs the product of matrices as it stands."""
    old, new, times = SMALLER[program]
    text, extents = re.subn(old, new, (ROOT / program).read_text())
    assert extents == times
    path = folder / "smaller" / Path(program).name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path.relative_to(folder))


def within(arguments: list[str]) -> tuple[int, str]:
    """Run a command of `tileprof` in this process; returns its exit code and what it prints."""
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        patch.setattr(sys, "path", list(sys.path))
        return cli.main(arguments), printed.getvalue()


@pytest.mark.spread(without=["agents", "bisect", "tune"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs(page: Path, folder: Path) -> None:
    """Every python fence and every command of a page works, in the order in which they stand."""
    for module in NEEDED.get(page.stem, []):
        pytest.importorskip(module)
    if page.stem == "profile-format":
        prepare_profile(folder)
    if page.stem == "listing":
        save(importlib.import_module("benchmarks.page_listing").profile(), folder / "gemm.tprof")
    namespace: dict[str, Any] = {"__name__": f"docs_{page.stem}"}
    for fence in fences(page):
        if name := file_of(fence):
            (folder / name).write_text(fence.text)
        elif fence.language == "python":
            execute(fence, page, namespace)
        else:
            for command in fence.commands():
                perform(command, page, folder)


def prepare_profile(folder: Path) -> None:
    """The profile that the page of the file format reads."""
    import tileprof

    with tileprof.profile(folder / "step.tprof"), tileprof.scope("step"):
        pass


def test_the_pages_have_something_to_run() -> None:
    """The pages are found, and their fences and commands with them."""
    found = [fence for page in PAGES for fence in fences(page)]
    assert sum(f.language == "python" for f in found) >= 15
    assert sum(len(list(f.commands())) for f in found) >= 15


def without_code(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def test_links_lead_somewhere() -> None:
    """Links between pages name files that exist."""
    missing = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", without_code(page.read_text()))
        if not (page.parent / target).exists()
    ]
    assert missing == []


def test_figures_are_the_measured_ones() -> None:
    """The page of benchmarks says what the files of results say; `python benchmarks/page.py`."""
    page = importlib.import_module("benchmarks.page")
    held = page.PAGE.read_text()
    assert page.with_sections(held) == held
    assert page.TITLE in held


def test_the_index_of_rules_is_that_of_the_registry() -> None:
    """Each rule of the analyzer, in its order; `python benchmarks/page_rules.py`."""
    page = importlib.import_module("benchmarks.page_rules")
    assert page.PAGE.read_text() == page.page()


def test_every_page_is_on_the_site() -> None:
    """The navigation names all pages, once each, but for pages that a page of it lists."""
    named = re.findall(r"^ +- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    docs = ROOT / "docs"
    listed = {f"case-studies/kernels/{each.name}" for each in docs.glob("case-studies/kernels/*")}
    assert sorted(named) == sorted(
        {each.relative_to(docs).as_posix() for each in docs.rglob("*.md")} - listed
    )


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """`mkdocs build --strict`: every link between pages, and every place on them, exists."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fonts.googleapis" not in (tmp_path / "index.html").read_text()


def test_links_out_of_the_docs_are_words_on_the_site() -> None:
    """Files beside the docs are named; links between pages stay links."""
    spec = importlib.util.spec_from_file_location("links", ROOT / "docs" / ".site" / "links.py")
    assert spec is not None
    assert spec.loader is not None
    links = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(links)
    text = (
        "[results](../benchmarks/results/show.json), [`case_studies/a.py`](../case_studies/a.py),"
        " [here](gpu.md#measured-roofs), [there](https://x.org/y)"
    )
    assert links.inside(text, ROOT / "docs", ROOT / "docs") == (
        "results (`benchmarks/results/show.json`), `case_studies/a.py`,"
        " [here](gpu.md#measured-roofs), [there](https://x.org/y)"
    )


def test_the_listing_is_what_is_printed() -> None:
    """The page of the annotated listing has what the views say now; `python benchmarks/page.py`."""
    pytest.importorskip("tileprof.native._recorder")
    need_disassembler()
    page = importlib.import_module("benchmarks.page_listing")
    assert page.PAGE.read_text() == page.page()
