"""Run or trace one of TileLang's examples, in a process of its own."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
import textwrap
import traceback
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilelang_host as host
from tilelang_cases import FENCES_OUTSIDE, GUESSES, PAGES, Case, Fragment


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one example."""

    name: str
    status: str
    detail: str = ""
    """Why, or what was needed beside the language."""
    on_cpu: str = ""
    """The same on the cpu device, for what was run there too."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to try."""

    name: str
    path: Path
    text: str
    """Python source, at its lines of the file."""
    case: Case | Fragment | None


def attempt(item: Item, traced: list[Any] | None = None) -> Result:
    """Run or trace one item; kernels that are compiled for made-up arguments, and not run, are
    added to `traced`."""
    host.install()
    is_fence = item.path.suffix == ".md"
    case = item.case
    reason = case.outside if isinstance(case, Case) else FENCES_OUTSIDE.get(item.name)
    if reason:
        return Result(item.name, "outside", reason)
    with host.on_host(), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = _fence(item) if is_fence else _example(item, traced)
        except BaseException as error:  # a script may exit; whatever it is, it is a result
            if os.environ.get("TRACEBACK"):
                traceback.print_exc()
            return Result(item.name, *_blame(error, item if is_fence else None))
    beside = f"beside the language: {', '.join(sorted(host.used))}" if host.used else ""
    return Result(item.name, status[0], status[1] or beside)


def _example(item: Item, traced: list[Any] | None) -> tuple[str, str]:
    module = types.ModuleType(item.path.stem)
    module.__file__ = str(item.path)
    sys.path.insert(0, str(item.path.parent))
    sys.argv = [str(item.path)]
    sys.modules[module.__name__] = module
    tree = _with_constants(ast.parse(item.text), item.case.constants if item.case else {})
    exec(compile(tree, str(item.path), "exec", dont_inherit=True), module.__dict__)
    case = item.case if isinstance(item.case, Case) else Case()
    exec(compile(case.code, "<case>", "exec", dont_inherit=True), module.__dict__)
    if host.checks or case.asserts:
        return "passes", ""
    return ("runs", "") if case.code else _traced(vars(module), case.guesses, traced)


def _with_constants(tree: ast.Module, constants: dict[str, Any]) -> ast.Module:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = constants.get(node.targets[0].id)
            if value is not None:
                node.value = ast.copy_location(ast.Constant(value), node.value)
    return tree


def _fence(item: Item) -> tuple[str, str]:
    try:
        ast.parse(item.text)
    except SyntaxError:
        return "–", "an outline, not Python"
    page = item.name.partition(":")[0]
    names = {"__name__": "page", **_given(page)}
    if isinstance(item.case, Fragment):
        # The fence becomes the body of a kernel; the page's file has no such lines.
        text = item.case.around(textwrap.dedent(item.text).strip("\n"))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fragment.py"
            path.write_text(text)
            exec(compile(text, str(path), "exec", dont_inherit=True), names)
            return _traced(names)
    if not re.search(r"\bT\.\w", item.text):
        return "–", "no kernel"
    exec(compile(item.text, str(item.path), "exec", dont_inherit=True), names)
    code = PAGES.get(item.name, "")
    exec(compile(code, "<case>", "exec", dont_inherit=True), names)
    if host.checks:
        return "passes", ""
    traced = _traced(names)
    if traced[0] == "–" and (unknown := unknown_names(item.text)):
        return "outside", f"`T.{unknown[0]}`"
    return traced


def unknown_names(text: str) -> list[str]:
    """What a text uses of `T` that is not there."""
    import tileprof.lang

    names = re.findall(r"\bT\.([a-zA-Z]\w*)", text)
    return [n for n in names if n not in tileprof.lang.__all__]


def _given(page: str) -> dict[str, Any]:
    import torch

    import tileprof
    import tileprof.lang as T

    names = {"T": T, "tilelang": sys.modules["tilelang"], "torch": torch, "jit": tileprof.jit}
    sizes = {"M": 128, "N": 128, "K": 128, "BM": 32, "BN": 32, "BK": 32, "m": 32, "n": 32, "k": 2}
    blocks = {"block_M": 32, "block_N": 32, "block_K": 32, "dtype": "float16"}
    return {**names, **sizes, **blocks, "accum_dtype": "float32", "page": page}


def _traced(
    names: dict[str, Any],
    guesses: dict[str, Any] | None = None,
    kept: list[Any] | None = None,
) -> tuple[str, str]:
    """Compile every kernel that a module defines, with arguments made up by their names."""
    from tileprof import compile
    from tileprof.errors import ArgumentError
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import JitFunction

    found = 0
    skipped: list[str] = []
    for name, held in list(names.items()):
        kernel = held.kernel if isinstance(held, host.Tuned) else held
        try:
            if isinstance(kernel, PrimFunc):
                made = compile(kernel)
            elif isinstance(kernel, JitFunction):
                made = _compile(kernel, GUESSES | (guesses or {}))
            else:
                continue
            found += 1
            if kept is not None:
                kept.append(made)
        except (AssertionError, ArgumentError, TypeError, ZeroDivisionError) as error:
            skipped.append(f"{name}: {_line(error)}")
    if not found:
        return "–", f"no arguments: {skipped[0]}" if skipped else "no kernel of its own"
    rest = f"; {len(skipped)} more could not be given arguments" if skipped else ""
    return "traces", f"{found} kernel{'s' * (found > 1)}{rest}"


def _compile(kernel: Any, guesses: dict[str, Any]) -> Any:
    text = ast.unparse(kernel.source.tree)
    wanted = set(re.findall(r"\w+", " ".join(re.findall(r"T\.const\((['\"].*?['\"])", text))))
    values = {n: guesses.get(n, 128) for n in wanted}
    arrays = set(re.findall(r"^\s*(\w+): T\.(?:Strided)?Tensor", text, re.MULTILINE))
    for name, parameter in kernel.signature.parameters.items():
        if name in arrays and not kernel.lazy:
            continue
        if parameter.default is parameter.empty or parameter.default is None:
            values[name] = guesses.get(name, 64)
    return kernel.compile(**values)


def _line(error: BaseException) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0][:110].replace("|", "\\|")


def _blame(error: BaseException, fence: Item | None) -> tuple[str, str]:
    from tileprof.errors import TileprofError, UnknownOperation

    if fence is not None:
        if unknown := unknown_names(fence.text):
            return "outside", f"`T.{unknown[0]}`"
        if re.search(r"launches nothing|stands? outside of|has no annotation", str(error)):
            return "–", "a part of a program: no `T.Kernel`"
    match error:
        case SystemExit():
            return "outside", "ends itself where its GPU is not found"
        case UnknownOperation():
            named = re.search(r"`(\w+)`", error.message)
            return "outside", f"`T.{named[1]}`" if named else error.message
        case host.Missing():
            return "outside", f"`{error}`"
        case ModuleNotFoundError():
            return "outside", f"module `{error.name}`"
        case ImportError(name=str(module)) if module.startswith(("tilelang", "tvm")):
            named = re.search(r"import name '(\w+)'", str(error))
            return "outside", f"`{module}.{named[1] if named else ''}`"
        case TileprofError() if re.match(r"`\w+` is not defined", error.message):
            return "–", f"a part of a program: {_line(error)}"
        case TileprofError(location=place):
            where = f" (line {place.line})" if place is not None else ""
            return "fails", f"{type(error).__name__}: {_line(error)}{where}"
        case NameError():
            return "–", f"a part of a program: {_line(error)}"
        case _:
            at = traceback.extract_tb(error.__traceback__)[-1]
            return "fails", f"{type(error).__name__}: {_line(error)} ({Path(at.filename).name})"
