"""Changes written into the source of a program: as a diff, and to its file if the user wants it.

In: a change, and the text of a file.  Out: the text with the change in it, everything else as it
was; None where the file has no place for it, or where the change is no matter of source. Places are
those of Python's own syntax tree, so that formatting and comments stay.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileprof.analyzer.fixes import (
    CONVOLUTION_TRIALS,
    GRADIENTS_TO_NONE,
    NO_CHECKPOINTS,
    SPARSE_GRADIENTS,
    CompiledFunction,
    Fix,
    LoaderWorkers,
    MatmulPrecision,
    OptimizerForm,
    Setting,
)
from tileprof.errors import OutputError
from tileprof.files import replace_bytes

from .hooks.sources import find_function
from .orders import Place

_OF_CHECKPOINTS = {
    "use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state",
}  # fmt: skip
"""Arguments of `torch.utils.checkpoint.checkpoint` itself, as of PyTorch 2.13, 2026-11."""

BACKUP_SUFFIX = ".orig"
"""Ending of the file that keeps the text from before."""


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Bytes that take the place of those from `begin` to `end`."""

    begin: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Edit:
    """One file with all changes that could be written into it."""

    path: Path
    old: str
    new: str
    written: tuple[Fix, ...]
    """Changes that are in the new text."""

    def diff(self) -> str:
        """Return the edit as a unified diff."""
        names = (f"a/{self.path}", f"b/{self.path}")
        old, new = (each.splitlines(keepends=True) for each in (self.old, self.new))
        return "".join(difflib.unified_diff(old, new, *names))

    def apply(self) -> Path:
        """Write the file, and return where its old text is kept; OutputError where it changed."""
        backup = self.path.with_name(self.path.name + BACKUP_SUFFIX)
        try:
            if self.path.read_bytes() != self.old.encode():
                raise OutputError(
                    f"`{self.path}` has changed since its changes were tried",
                    hint="Try them again, or make the changes of the diff by hand.",
                )
            if backup.exists():
                raise OutputError(
                    f"`{backup}` is there already, and would be lost",
                    hint="Move it away, or make the changes of the diff by hand.",
                )
            replace_bytes(backup, self.old.encode())
            replace_bytes(self.path, self.new.encode())
        except OSError as error:
            raise OutputError(f"`{self.path}` cannot be changed: {error.strerror}") from None
        return backup


def edits_of(
    fixes: Sequence[Fix], script: str | None, places: Sequence[Sequence[Place]] = ()
) -> tuple[Edit, ...]:
    """Return edits of a program's files: where each change came to act, else in its script.

    `places`: of each change, where the program's code was when it acted. `script`: None for a
    program that is a module.
    """
    files: dict[str, list[tuple[Fix, set[int]]]] = {}
    for at, fix in enumerate(fixes):
        lines: dict[str, set[int]] = {}
        if isinstance(fix, CompiledFunction):
            lines[fix.file] = set()
        elif _at_calls(fix) and at < len(places):
            for file, line in places[at]:
                lines.setdefault(file, set()).add(line)
        if not lines and script is not None:
            lines[script] = set()
        for file, held in lines.items():
            files.setdefault(os.path.relpath(file), []).append((fix, held))
    found = []
    for name, changes in files.items():
        try:
            old = Path(name).read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        new = old
        written: list[Fix] = []
        # None of those at lines adds a line, so these stay what they are.
        for fix, held in sorted(changes, key=lambda each: not each[1]):
            edited = edited_text(new, fix, held)
            if edited is not None:
                new, written = edited, [*written, fix]
        if written:
            found.append(Edit(Path(name), old, new, tuple(written)))
    return tuple(found)


def _at_calls(fix: Fix) -> bool:
    """Return whether a change is one of calls in the program."""
    return not isinstance(fix, MatmulPrecision) and fix != CONVOLUTION_TRIALS


def edited_text(source: str, fix: Fix, lines: Collection[int] = ()) -> str | None:
    """Return a file's text with a change in it; None where there is no place for it.

    `lines`: those at which calls are changed; none for all lines.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    text = _Text(source)
    made = list(_insertions(fix, _Calls(tree, lines), text))
    if not made:
        return None
    edited = text.content
    for each in sorted(made, key=lambda insertion: -insertion.begin):
        edited = edited[: each.begin] + each.text + edited[each.end :]
    found = edited.decode()
    try:
        ast.parse(found)
    except SyntaxError:  # such as one more argument beside a generator without brackets
        return None
    return found


class _Calls:
    """A syntax tree, and those of its calls that may be changed."""

    def __init__(self, tree: ast.Module, lines: Collection[int]) -> None:
        self.tree = tree
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        self.calls = [
            each
            for each in calls
            if not lines or any(each.lineno <= at <= (each.end_lineno or 0) for at in lines)
        ]


class _Text:
    """A file's text in bytes, as the columns of syntax trees count them."""

    def __init__(self, source: str) -> None:
        self.content = source.encode()
        self.newline = b"\r\n" if b"\r\n" in self.content else b"\n"
        self._starts = [0]
        for line in self.content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def begin(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def line(self, number: int) -> int:
        """Offset at which a line begins."""
        return self._starts[number - 1]


def _insertions(fix: Fix, held: _Calls, text: _Text) -> Iterator[_Insertion]:
    match fix:
        case OptimizerForm(form=form, optimizer=name):
            taken = (name,) if name else ("Adam", "AdamW", "SGD", "Adagrad")
            yield from _arguments(held.calls, text, taken, {form: "True"}, _takes_form)
        case LoaderWorkers(workers=count):
            wanted = {"num_workers": str(count), "persistent_workers": "True"}
            yield from _arguments(held.calls, text, ("DataLoader",), wanted, _has_no_workers)
        case Setting() if fix == GRADIENTS_TO_NONE:
            yield from _arguments(
                held.calls, text, ("zero_grad",), {"set_to_none": "True"}, _keeps_gradients
            )
        case Setting() if fix == SPARSE_GRADIENTS:
            yield from _arguments(
                held.calls, text, ("Embedding", "EmbeddingBag"), {"sparse": "True"}, _can_be_sparse
            )
        case Setting() if fix == NO_CHECKPOINTS:
            yield from _without_checkpoints(held.calls, text)
        case CompiledFunction(function=name, line=line):
            function = find_function(held.tree, name, line)
            if function is not None and _imports_torch(held.tree):
                first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
                indent = b" " * function.col_offset
                at = text.line(first)
                yield _Insertion(at, at, indent + b"@torch.compile" + text.newline)
        case MatmulPrecision(precision=precision):
            setting = f'torch.set_float32_matmul_precision("{precision}")'
            yield from _after_imports(held.tree, text, setting)
        case Setting() if fix == CONVOLUTION_TRIALS:
            yield from _after_imports(held.tree, text, "torch.backends.cudnn.benchmark = True")


def _arguments(
    calls: Sequence[ast.Call],
    text: _Text,
    names: Sequence[str],
    wanted: dict[str, str],
    fits: Callable[[ast.Call], bool],
) -> Iterator[_Insertion]:
    """Give keyword arguments to all calls of these names that fit."""
    for call in calls:
        if _called(call) not in names or not fits(call):
            continue
        given = {each.arg: each.value for each in call.keywords if each.arg}
        for name, value in given.items():
            if name in wanted:
                yield _Insertion(text.begin(value), text.end(value), wanted[name].encode())
        added = ", ".join(f"{name}={value}" for name, value in wanted.items() if name not in given)
        if added:
            held = [*call.args, *(each.value for each in call.keywords)]
            last = max((text.end(each) for each in held), default=None)
            at = text.end(call) - 1 if last is None else last
            yield _Insertion(at, at, (added if last is None else f", {added}").encode())


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _constant(call: ast.Call, name: str) -> object:
    """Return the value of a keyword; None where it is not given, `...` where it is computed."""
    for each in call.keywords:
        if each.arg == name:
            return each.value.value if isinstance(each.value, ast.Constant) else ...
        if each.arg is None:
            return ...  # it may be among `**options`
    return None


def _takes_form(call: ast.Call) -> bool:
    return all(not _constant(call, name) for name in ("fused", "foreach"))


def _has_no_workers(call: ast.Call) -> bool:
    # The sixth argument by position is the number of workers.
    return len(call.args) < 6 and not _constant(call, "num_workers")


def _keeps_gradients(call: ast.Call) -> bool:
    return _constant(call, "set_to_none") is False


def _can_be_sparse(call: ast.Call) -> bool:
    # The seventh argument by position says it, of a bag the sixth is the mode.
    return len(call.args) < 6 and not _constant(call, "sparse") and not _is_of_maximum(call)


def _is_of_maximum(call: ast.Call) -> bool:
    return _constant(call, "mode") in ("max", ...)


def _without_checkpoints(calls: Sequence[ast.Call], text: _Text) -> Iterator[_Insertion]:
    """Call what checkpoints would, and have models of transformers make none."""
    for call in calls:
        name, named = _called(call), {each.arg for each in call.keywords}
        if name == "gradient_checkpointing_enable" and isinstance(call.func, ast.Attribute):
            changed = f"{ast.unparse(call.func.value)}.gradient_checkpointing_disable()"
        elif name == "checkpoint" and "use_reentrant" in named and None not in named and call.args:
            of_function = [each for each in call.keywords if each.arg not in _OF_CHECKPOINTS]
            function, *arguments = call.args
            changed = ast.unparse(ast.Call(function, arguments, of_function))
        else:
            continue
        yield _Insertion(text.begin(call), text.end(call), changed.encode())


def _imports_torch(tree: ast.Module) -> bool:
    """Return whether a file has `import torch` at its top, under that name."""
    imports = (node for node in tree.body if isinstance(node, ast.Import))
    return any((a.name, a.asname) == ("torch", None) for node in imports for a in node.names)


def _after_imports(tree: ast.Module, text: _Text, statement: str) -> Iterator[_Insertion]:
    """Add a statement after the last import at the top of a file that imports PyTorch."""
    if not _imports_torch(tree):
        return
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    at = text.end(imports[-1])
    yield _Insertion(at, at, text.newline * 2 + statement.encode())
