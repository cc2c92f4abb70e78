"""A kernel's source, its syntax tree, and edits at nodes of the tree.

In: the text of a file and the names of the functions that may change.  Out: nodes, where they
stand, and the text after edits, with a map from old lines to new ones.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar

__all__ = ["Binding", "Edit", "Program", "applied", "dotted", "moved_line", "once", "walk"]

Made = TypeVar("Made")


@dataclass(frozen=True)
class Edit:
    """Replacement of the characters from `start` to `end` of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Binding:
    """A name that a function binds to a whole number."""

    name: str
    node: ast.Constant

    @property
    def value(self) -> int:
        """The number."""
        assert isinstance(self.node.value, int)
        return self.node.value


@dataclass(frozen=True)
class Program:
    """A file of which only some functions are looked at."""

    text: str
    kernel: str
    """Function that holds the device code."""
    entry: str
    """Function that holds tile sizes: the kernel itself, or the one that launches it."""

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree of the whole file."""
        return ast.parse(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        """Character offset of each line."""
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def known(self) -> dict[Callable[..., Any], Any]:
        """Results of functions that are marked by `once`, by the function."""
        return {}

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """The node around each node."""
        found = {}
        for node in walk(self.tree):
            for child in ast.iter_child_nodes(node):
                found[child] = node
        return found

    def function(self, name: str) -> ast.FunctionDef:
        """Return the function of a name.

        Raises:
            KeyError: there is none.
        """
        return self._functions[name]

    @cached_property
    def _functions(self) -> Mapping[str, ast.FunctionDef]:
        nodes = [each for each in walk(self.tree) if isinstance(each, ast.FunctionDef)]
        return {each.name: each for each in reversed(nodes)}

    @cached_property
    def body(self) -> ast.FunctionDef:
        """The kernel."""
        return self.function(self.kernel)

    # -- nodes

    def calls(self, *names: str, inside: ast.AST | None = None) -> Iterator[ast.Call]:
        """Yield calls of functions such as `T.copy`, in the order of the text."""
        held = _calls_in(inside) if inside else self._calls
        found = [node for node, name in held if name in names]
        yield from sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def _calls(self) -> list[tuple[ast.Call, str]]:
        """Calls of the kernel, for which every operator asks anew."""
        return _calls_in(self.body)

    def loops(self, *names: str) -> Iterator[tuple[ast.For, ast.Call]]:
        """Yield loops over calls of functions such as `T.Parallel`, each with the call."""
        for node in sorted(self._fors, key=lambda node: node.lineno):
            if isinstance(node.iter, ast.Call) and dotted(node.iter.func) in names:
                yield node, node.iter

    @cached_property
    def _fors(self) -> list[ast.For]:
        return [node for node in walk(self.body) if isinstance(node, ast.For)]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, the nearest first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def turns(self, node: ast.AST, *names: str) -> ast.For | None:
        """Return the nearest loop over one of `names` around a node."""
        for each in self.around(node):
            if (
                isinstance(each, ast.For)
                and isinstance(each.iter, ast.Call)
                and dotted(each.iter.func) in names
            ):
                return each
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node is part of, or is."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def siblings(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements of the block that a statement is in."""
        parent = self.parents[node]
        for name in ("body", "orelse", "finalbody"):
            held = getattr(parent, name, [])
            if isinstance(held, list) and node in held:
                return held
        return [node]

    def bindings(self) -> list[list[Binding]]:
        """Return whole numbers that the entry binds to names: defaults and assignments, those of
        one statement together."""
        return self._bindings

    @cached_property
    def _bindings(self) -> list[list[Binding]]:
        entry = self.function(self.entry)
        arguments = entry.args.args
        pairs = zip(arguments[len(arguments) - len(entry.args.defaults) :], entry.args.defaults)
        groups = [[(a.arg, v) for a, v in pairs]]
        for node in walk(entry):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                groups.append(list(_assigned(node.targets[0], node.value)))
        found = []
        for group in groups:
            held = [
                Binding(name, value) for name, value in group
                if isinstance(value, ast.Constant) and type(value.value) is int
            ]  # fmt: skip
            if held:
                found.append(held)
        return found

    def uses(self, name: str) -> list[int]:
        """Return the lines of the kernel where a name is read."""
        return sorted(self._uses.get(name, ()))

    @cached_property
    def _uses(self) -> Mapping[str, set[int]]:
        found: dict[str, set[int]] = {}
        for node in walk(self.body):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, set()).add(node.lineno)
        return found

    def lines(self, node: ast.stmt) -> tuple[int, ...]:
        """Return the numbers of all lines of a statement."""
        assert node.end_lineno is not None
        return tuple(range(node.lineno, node.end_lineno + 1))

    # -- text

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets of a node's first character and of the one behind its last."""
        lines = self._lines
        at = []
        for line, column in (
            (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        ):  # fmt: skip
            # Columns count bytes of UTF-8.
            column = len(lines[line - 1].encode()[:column].decode())
            at.append(self._starts[line - 1] + column)
        return at[0], at[1]

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Replace a node."""
        return Edit(*self.span(node), text)

    def after(self, node: ast.stmt, text: str) -> Edit:
        """Put lines below a statement, as deep as it is."""
        end = self.span(node)[1]
        return Edit(end, end, "".join(f"\n{' ' * node.col_offset}{t}" for t in text.split("\n")))

    def before(self, node: ast.stmt, text: str) -> Edit:
        """Put lines above a statement, as deep as it is."""
        start = self.span(node)[0]
        return Edit(
            start, start, "".join(f"{t}\n{' ' * node.col_offset}" for t in text.split("\n"))
        )

    def deeper(self, node: ast.For, headers: Sequence[str]) -> list[Edit]:
        """Put a loop's body below other lines, of which those that end with a colon begin blocks.

        The body is moved to the right by what the last of them is further in than the old head.
        """
        first, last = node.body[0], node.body[-1]
        assert last.end_lineno is not None
        lines, depth = [], 0
        for head in headers:
            lines.append(" " * (depth and node.col_offset + depth) + head)
            depth += 4 if head.endswith(":") else 0
        edits = [Edit(self.span(node)[0], self._starts[first.lineno - 1], "\n".join(lines) + "\n")]
        for line in range(first.lineno, last.end_lineno + 1):
            at = self._starts[line - 1]
            edits.append(Edit(at, at, " " * (depth - 4)))
        return edits


def once(make: Callable[[Program], Made]) -> Callable[[Program], Made]:
    """Let a function find out of each program once what nobody changes."""

    @wraps(make)
    def held(program: Program) -> Made:
        if make not in program.known:
            program.known[make] = make(program)
        found: Made = program.known[make]
        return found

    return held


def walk(node: ast.AST) -> list[ast.AST]:
    """Return a node and those below it as `ast.walk` does, found once: nobody changes a tree.

    Operators ask for the same nodes so often that most of the time went into walks.
    """
    held = vars(node)
    if "walked" not in held:
        held["walked"] = list(ast.walk(node))
    found: list[ast.AST] = held["walked"]
    return found


def _calls_in(around: ast.AST) -> list[tuple[ast.Call, str]]:
    """Return the calls in a node, each with the name of the function that is called."""
    return [(node, dotted(node.func)) for node in walk(around) if isinstance(node, ast.Call)]


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts):
            yield from _assigned(one, other)


def dotted(node: ast.expr) -> str:
    """Return a name such as `T.copy`, or nothing for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Return the text after all edits.

    Raises:
        ValueError: two edits overlap.
    """
    made, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at:
            raise ValueError(f"two edits overlap at character {edit.start}")
        made += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*made, text[at:]])


def moved_line(text: str, edits: Sequence[Edit], line: int) -> int:
    """Return where a line of a text is after edits: what edits above it add or take."""
    moved = line
    start = sum(len(each) + 1 for each in text.split("\n")[: line - 1])
    for edit in edits:
        if edit.end <= start or (edit.start == edit.end == start):
            moved += edit.text.count("\n") - text[edit.start : edit.end].count("\n")
    return moved
