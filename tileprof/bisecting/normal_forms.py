"""Texts without what has no effect: places, comments, names of values, and numbers of registers.

Two compilations of one kernel in two folders, by two processes, give equal normal forms. A change
that only renames or moves code does not count as a change of the level.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from textwrap import dedent

from tileprof import binary
from tileprof.errors import CubinError, MissingDependencyError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINE_DIRECTIVE = re.compile(r"^\s*#line .*$", re.M)
_VALUE = re.compile(r"%[\w$.\-]+")
_MLIR_NOISE = re.compile(r"^(#loc\d* = |// ?-----//).*$", re.M)
_LLVM_NOISE = re.compile(r"^(; ModuleID|source_filename|!\S+ = |\s*#dbg_\w+\().*$", re.M)
_LLVM_DEBUG = re.compile(r",? ?!dbg !\d+")
_PTX_NOISE = re.compile(r"^\s*\.(loc|file|version|target|reg)\b.*$", re.M)
_PTX_DEBUG = re.compile(r"^\s*\.section\s+\.debug.*?^\s*}", re.M | re.S)
_PTX_NAME = re.compile(r"%[a-z]+\d+\b|\$\w+")
_PLACE = " loc("
_LETTERS = re.compile(r"[%$][a-z]*")
_BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


@dataclass(frozen=True, slots=True)
class Kind:
    """A language of one of the levels: how its texts are cleaned, and which names are numbers."""

    clean: Callable[[str], str]
    names: re.Pattern[str] | None = None
    """Names of values, which are numbered in the order of their first appearance."""


def _python(text: str) -> str:
    """Return Python source without comments, docstrings and layout."""
    parts = [_python_function(part) for part in text.split(SEPARATOR)]
    return "\n".join(parts)


def _python_function(text: str) -> str:
    try:
        tree = ast.parse(dedent(text))
    except SyntaxError:
        return text
    for node in ast.walk(tree):
        if isinstance(node, _BODIES) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


SEPARATOR = "\f"
"""Character between the functions of a source: no line of code holds it."""


def _cuda(text: str) -> str:
    return _COMMENT.sub("", _LINE_DIRECTIVE.sub("", text))


def _mlir(text: str) -> str:
    return _without_places(_MLIR_NOISE.sub("", text))


def _llvm(text: str) -> str:
    return _LLVM_DEBUG.sub("", _LLVM_NOISE.sub("", text))


def _ptx(text: str) -> str:
    return _PTX_NOISE.sub("", _COMMENT.sub("", _PTX_DEBUG.sub("", text.replace("\0", ""))))


PYTHON = Kind(_python)
TILES = Kind(lambda text: text, _VALUE)
CUDA = Kind(_cuda)
MLIR = Kind(_mlir, _VALUE)
LLVM = Kind(_llvm, _VALUE)
PTX = Kind(_ptx, _PTX_NAME)
SASS = Kind(lambda text: text)


@lru_cache(maxsize=2048)
def cleaned(kind: Kind, text: str) -> str:
    """Return the text without places, comments and empty lines."""
    held = kind.clean(text)
    return "\n".join(line.rstrip() for line in held.splitlines() if line.strip())


@lru_cache(maxsize=2048)
def normal(kind: Kind, text: str) -> str:
    """Return the cleaned text with names of values numbered; it has the same lines."""
    held = cleaned(kind, text)
    return held if kind.names is None else _numbered(held, kind.names)


def stage_kind(name: str) -> Kind:
    """Return the language of a stage of the code."""
    if name == "LLVM IR":
        return LLVM
    return MLIR if name in ("TTIR", "TTGIR", "Gluon IR") else CUDA


@lru_cache(maxsize=256)
def sass(cubin: bytes) -> str:
    """Return the instructions of each function with their scheduling; without nvdisasm a digest of
    their bytes, '' for no cubin."""
    if not cubin:
        return ""
    read = binary.read(cubin)
    try:
        read.read_code()
        return "\n".join(
            "\n".join([f"{name}:", *(_instruction(each) for each in function.instructions)])
            for name, function in read.functions.items()
        )
    except (MissingDependencyError, CubinError):
        return "\n".join(
            f"{each.name} {hashlib.sha256(each.data).hexdigest()}"
            for each in read.elf.sections
            if each.name.startswith(".text.")
        )


def _instruction(each: binary.Instruction) -> str:
    control = each.control
    barriers = [control.write_barrier, control.read_barrier]
    shown = "".join("-" if number is None else str(number) for number in barriers)
    waits = "".join(map(str, control.waits)) or "-"
    held = f"stall {control.stall}{' yield' if control.yields else ''}"
    return f"{each.text}  ; {held}, scoreboards {shown}, waits {waits}"


def _numbered(text: str, names: re.Pattern[str]) -> str:
    """Return the text with each name replaced by its place in the order of first appearance.

    The letters behind a register's sign are its type, and stay.
    """
    numbers: dict[str, str] = {}
    counts: dict[str, int] = {}
    typed = names is _PTX_NAME

    def number(found: re.Match[str]) -> str:
        name = found[0]
        if name not in numbers:
            begin = _LETTERS.match(name) if typed else None
            kind = begin[0] if begin else name[0]
            counts[kind] = counts.get(kind, -1) + 1
            numbers[name] = f"{kind}{counts[kind]}"
        return numbers[name]

    return names.sub(number, text)


def _without_places(text: str) -> str:
    """Return the text without each ` loc(…)`, whose parentheses nest."""
    out: list[str] = []
    at = 0
    while (found := text.find(_PLACE, at)) >= 0:
        out.append(text[at:found])
        depth, end = 1, found + len(_PLACE)
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        at = end
    return "".join([*out, text[at:]])
