"""Files that are written for TileLang: commands take them as they are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileprof
from tests.cli.tilelang_programs import BOTH, FACTORY, HELPERS, MISSPELLED, PACKAGED
from tileprof import lang
from tileprof.cli.kernel.tilelang_files import Elsewhere, is_for_tilelang, tilelang_is_tileprof
from tileprof.lang.jit_function import JitFunction

SIZES = ("--set", "M=64", "--set", "N=64")


def known() -> list[str]:
    """Modules of TileLang's names that are loaded."""
    return [name for name in sys.modules if name.partition(".")[0] in ("tilelang", "tvm")]


@pytest.mark.parametrize(
    ("kernel", "sizes", "blocks"),
    [
        ("product", (*SIZES, "--set", "K=64"), 4),
        ("tuned", SIZES, 4),
        ("doubled", SIZES[2:], 1),
        ("built", SIZES[2:], 1),
    ],
)
def test_a_page_of_a_kernel(
    cli: Any, write: Callable[..., None], folder: Path, kernel: str, sizes: list[str], blocks: int
) -> None:
    """A factory under `jit`, one that is tuned, a plain one, and one that compiles what it makes;
    nothing of TileLang stays."""
    write(k=FACTORY)
    before = known()
    found = cli("show", f"k.py:{kernel}", *sizes, "-o", "x.html")
    assert (found.code, found.out) == (0, "")
    count = f"1 launch, {blocks} block{'s' if blocks > 1 else ''}"
    assert found.err == f"tileprof: x.html: {count}; open it in a browser\n"
    assert "T.Kernel(" in (folder / "x.html").read_text()
    assert known() == before


def test_a_check_of_a_kernel(cli: Any, write: Callable[..., None]) -> None:
    """The lines are those of the file."""
    write(k=FACTORY)
    found = cli("check", "k.py:doubled", "--set", "N=200", "--no-inside")
    assert found.code == 0, found.err


def test_what_is_missing_is_named(cli: Any, write: Callable[..., None]) -> None:
    """A kernel that the file lacks, with those that it has; a value that a factory needs."""
    write(k=FACTORY)
    found = cli("show", "k.py:produce", *SIZES)
    assert (found.code, found.out) == (2, "")
    assert "Did you mean `product`?" in found.err
    assert "Its kernels are: built, doubled, product, tuned." in found.err
    found = cli("show", "k.py:product", *SIZES)
    assert found.code == 2
    assert "needs a value for `K`" in found.err


@pytest.mark.parametrize("kernel", ["built", "doubled"])
def test_plain_factories_of_files_for_tileprof(
    cli: Any, write: Callable[..., None], kernel: str
) -> None:
    """They are kernels after their imports were changed, too."""
    plain = FACTORY[FACTORY.index("def built") : FACTORY.index("@tilelang.testing")]
    write(k=f"import tileprof as tilelang\nimport tileprof.lang as T\n{plain}")
    found = cli("check", f"k.py:{kernel}", "--set", "N=200", "--no-inside")
    assert found.code == 0, found.err


def test_a_factory_of_a_package(cli: Any, folder: Path) -> None:
    """It is under a cache, and TileLang is imported by a file beside it when it is called."""
    outer = folder / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    for name, text in (("__init__", ""), ("helpers", HELPERS), ("k", PACKAGED)):
        (inner / f"{name}.py").write_text(text)
    (outer / "__init__.py").write_text("")
    before = known()
    found = cli("check", "outer/inner/k.py:compiled", "--set", "n=200", "--no-inside")
    assert found.code == 0, found.err
    assert known() == before


def test_a_relative_import_without_a_package(cli: Any, write: Callable[..., None]) -> None:
    """The message says what makes a folder a package."""
    write(k=PACKAGED, helpers=HELPERS)
    found = cli("check", "k.py:compiled", "--set", "n=200")
    assert found.code == 1
    assert "Relative imports need an `__init__.py`" in found.err


def test_a_misspelled_operation(cli: Any, write: Callable[..., None]) -> None:
    """The error is the language's own, with its line and what is near."""
    write(k=MISSPELLED)
    found = cli("check", "k.py:misspelled", "--set", "N=200")
    assert found.code == 1
    assert "k.py:10:" in found.err
    assert "no operation `sigmod`" in found.err
    assert "Did you mean `T.sigmoid`" in found.err


def test_which_files_are_tilelangs(tmp_path: Path) -> None:
    """Those that import it and not tileprof; no file is one."""
    for name, text, expected in (
        ("factory", FACTORY, True), ("both", BOTH, False), ("none", "import json", False),
        ("part", "from tilelang import language as T", True), ("broken", "import (", False),
    ):  # fmt: skip
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        assert is_for_tilelang(path) == expected, name
    assert not is_for_tilelang(tmp_path / "missing.py")


def test_names_of_tilelang() -> None:
    """The language is tileprof's under each path; a module that was there before comes back."""
    held = sys.modules["tilelang"] = type(sys)("tilelang")
    try:
        with tilelang_is_tileprof(Path(__file__).parent):
            scope: dict[str, Any] = {}
            exec(
                "import tilelang, tilelang.language as T, tvm\n"
                "from tilelang import language, testing\n"
                "from tilelang.language import Tensor\n"
                "from tilelang.layout import make_swizzled_layout\n"
                "from tilelang.profiler import do_bench\n"
                "from tilelang.autotuner import *\n"
                "from tilelang.autotuner import jit as tuned\n"
                "tuned(supply_type=None, ref_prog=None, out_idx=[1])(lambda: None)\n"
                "from tilelang.jit import JITImpl, JITKernel\n"
                "class Own(JITKernel):\n"
                "    made: JITImpl | None = None\n"
                "    kept: list[JITImpl] | JITKernel[int]\n"
                "own = tilelang.jit(lambda: None)\n"
                "assert tilelang.__version__ and tilelang.__file__\n",
                scope,
            )
            assert scope["autotune"] is tileprof.autotune
            assert scope["T"].gemm is lang.gemm
            assert scope["language"].gemm is lang.gemm
            assert scope["make_swizzled_layout"] is lang.make_swizzled_layout
            assert scope["tilelang"].cdiv(5, 2) == 3
            assert scope["tilelang"].next_power_of_2(5) == 8
            assert isinstance(scope["do_bench"], Elsewhere)
            assert isinstance(scope["own"], JitFunction)
            assert repr(scope["tvm"].arith.Analyzer()) == (
                "<tvm.arith.Analyzer(…), which tileprof does not have>"
            )
            assert scope["testing"].requires_cuda(known) is known
        assert sys.modules["tilelang"] is held
    finally:
        del sys.modules["tilelang"]


def test_packages_that_a_file_compares_with_may_be_missing(tmp_path: Path) -> None:
    """Only for imports of files in its folder, and only where there is none."""
    (tmp_path / "beside.py").write_text("import flash_attn, json\nmade = flash_attn.function\n")
    sys.path.insert(0, str(tmp_path))
    try:
        with tilelang_is_tileprof(tmp_path):
            beside = importlib.import_module("beside")
            assert isinstance(beside.made, Elsewhere)
            assert beside.json.dumps([]) == "[]"
            del sys.modules["flash_attn"]
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("flash_attn")
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["beside"]
