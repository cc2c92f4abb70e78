"""Rules ask for codes and facts: nothing in the analyzer recognises a remark, a clock or a reason
by the words that render it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repeated import for_each

ANALYZER = Path(__file__).parents[2] / "tileprof" / "analyzer"
RENDERED = {"subject", "against", "title", "author", "compiler"}
"""Attributes of remarks, drafts and findings that are text for people."""
PROSE = {"provenance"}
"""Mappings whose values are text for people."""
FACTS = {"attributes"}
"""Mappings whose values are facts, which may be texts."""
PLACES = {"file", "function", "line"}
"""Names of parts of a place, which are facts also where they stand side by side in a text."""
RENDERING = {"str", "repr", "format", "rendered", "text", "as_text"}
"""Functions and methods that give text for people."""
KEEPING = {"strip", "lstrip", "rstrip", "lower", "upper", "join", "get", "values", "items", "pop"}
"""Methods whose result is such text where their object, or their argument, is."""
MATCHING = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split",
    "rsplit", "splitlines", "find", "rfind", "index", "count", "replace",
}  # fmt: skip
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split"}


def matched(source: str) -> list[int]:
    """Lines of a module that look for words in rendered text."""
    tree = ast.parse(source)
    scopes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
    return sorted({line for scope in [tree, *scopes] for line in _Scope(scope).matched()})


class _Scope:
    """A function, or a module: which of its names are rendered text, and who matches them."""

    def __init__(self, scope: ast.AST) -> None:
        self.nodes = list(_own_nodes(scope))
        self.names = set[str]()
        before = -1
        while before != len(self.names):
            before = len(self.names)
            for value, targets in _bindings(self.nodes):
                if self.is_text(value):
                    for target in targets:
                        self.names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}

    def is_text(self, node: ast.AST) -> bool:
        """Whether an expression is rendered text, or holds some."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(attr=name):
                return name in RENDERED | PROSE
            case ast.JoinedStr(values=values):
                shown = [each for each in values if isinstance(each, ast.FormattedValue)]
                return not all(_is_place(each.value) for each in shown)
            case ast.Call(func=ast.Name(id=name), args=args) if name in RENDERING:
                return not any(_is_fact(each) for each in args)
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id=name), *_]):
                return name in RENDERING
            case ast.Call(func=ast.Name(), args=args):
                return False if not args else _wraps(node) and any(map(self.is_text, args))
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
                kept = name in KEEPING and any(map(self.is_text, [value, *args]))
                return name in RENDERING or kept
            case ast.Subscript(value=value):
                return self.is_text(value)
            case ast.IfExp(body=body, orelse=other):
                return self.is_text(body) or self.is_text(other)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                return any(map(self.is_text, parts))
            case ast.Set(elts=parts) | ast.Dict(values=parts):
                return any(map(self.is_text, parts))
            case ast.GeneratorExp(elt=held) | ast.ListComp(elt=held) | ast.SetComp(elt=held):
                return self.is_text(held)
            case ast.BinOp(left=left, right=right):
                return self.is_text(left) or self.is_text(right)
            case ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self.is_text(value)
            case _:
                return False

    def matched(self) -> Iterator[int]:
        """Yield the lines of comparisons, patterns and methods that look for words in it."""
        for node in self.nodes:
            match node:
                case ast.Compare(left=left, comparators=others, ops=ops):
                    alike = any(
                        isinstance(op, ast.In | ast.NotIn | ast.Eq | ast.NotEq) for op in ops
                    )
                    sides = [left, *others]
                    if alike and any(map(self.is_text, sides)) and _has_words(*sides):
                        yield node.lineno
                case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
                    looks = name in MATCHING and self.is_text(value)
                    if isinstance(value, ast.Name) and value.id == "re":
                        args = args[1:]  # the first is the pattern
                    if looks or (name in PATTERNS and any(map(self.is_text, args))):
                        yield node.lineno
                case ast.Match(subject=subject) if self.is_text(subject):
                    yield node.lineno


def _bindings(nodes: list[ast.AST]) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """Yield values with what they are bound to; the members of what is gone through."""
    for node in nodes:
        match node:
            case ast.Assign(value=value, targets=targets):
                yield value, targets
            case ast.AnnAssign(value=ast.expr() as value, target=target):
                yield value, [target]
            case (
                ast.NamedExpr(value=value, target=target)
                | ast.AugAssign(value=value, target=target)
            ):
                yield value, [target]
            case ast.For(iter=value, target=target) | ast.comprehension(iter=value, target=target):
                yield value, [target]


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function; of a module those outside of its functions."""
    yield scope
    for child in ast.iter_child_nodes(scope):
        if not (
            isinstance(scope, ast.Module | ast.ClassDef) and isinstance(child, ast.FunctionDef)
        ):
            yield from _own_nodes(child)


def _is_place(node: ast.AST) -> bool:
    """Whether it is a part of a place in a source."""
    return isinstance(node, ast.Name) and node.id in PLACES


def _is_fact(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in FACTS for n in ast.walk(node))


def _wraps(call: ast.Call) -> bool:
    """Whether a function gives what it was given: `next(texts)`, `list(texts)`, `sorted(texts)`."""
    names = {"next", "list", "tuple", "set", "sorted", "max", "min", "enumerate", "zip", "iter"}
    return isinstance(call.func, ast.Name) and call.func.id in names | {
        "dict",
        "filter",
        "reversed",
    }


def _has_words(*nodes: ast.AST) -> bool:
    """Whether a text stands among them, or a name of a constant; other text is only told apart."""
    return any(
        (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != "")
        or (isinstance(node, ast.Name) and node.id.lstrip("_").isupper())
        or (isinstance(node, ast.Tuple | ast.List | ast.Set) and _has_words(*node.elts))
        for node in nodes
    )


@for_each(path=sorted(ANALYZER.rglob("*.py")))
def test_no_words_are_matched(path: Path) -> None:
    """Where a rule needs something of a remark, its code and its facts have it."""
    assert matched(path.read_text()) == []


WORDS = {
    "method": 'any(str(each.decision).startswith("persistent") for each in case.remarks)',
    "constant": "found = f'{remark.decision}' == _AT_ONCE",
    "inside": 'found = "atomic" in remark.subject',
    "name": 'def f(remark):\n    text = str(remark.decision)\n    return "tma" in text',
    "several": 'def f(case):\n    texts = [str(r.reason) for r in case.all]\n'
    '    return any("as asked" in each for each in texts)',
    "pattern": "found = _GROUPS.match(str(remark.decision))",
    "module": "found = re.search(_CLOCK, remark.against)",
    "clock": 'text = case.tables.provenance.get(case.device, "")\nfound = _CLOCK.search(text)',
    "parts": 'cause, _, way = str(reason).partition("; ")',
    "map": 'found = any(each.endswith("shared memory") for each in map(str, decisions))',
    "match": 'match str(remark.decision):\n    case "tma":\n        pass',
    "finding": 'found = "spilled" in finding.title',
}  # fmt: skip


@pytest.mark.parametrize("source", WORDS.values(), ids=WORDS)
def test_words_would_be_found(source: str) -> None:
    """Each way in which rules once matched the words of a remark is found."""
    assert matched(source)


FINE = {
    "code": "found = isinstance(remark.decision, Persistent)",
    "fact": 'found = remark.decision.instruction == "wgmma"',
    "kind": 'found = remark.op in ("load", "store")',
    "machine code": 'found = each.text.startswith("WARPGROUP")',
    "attribute": 'limits = str(case.attributes.get("limited_by", "")).split(", ")',
    "words to show": 'text = f"{remark.subject}: {remark.decision}"',
    "which is longer": 'found = max(texts, key=len) == f"{name}"',
}


@pytest.mark.parametrize("source", FINE.values(), ids=FINE)
def test_facts_may_be_compared(source: str) -> None:
    """Also those that are texts, and SASS, which is no rendering of ours."""
    assert not matched(source)
