"""Triton's intermediate form (TTIR), read from its text.

In: the text that Triton keeps of a compiled kernel (`CompiledKernel.asm["ttir"]`).  Out: functions
with their operations, in order, those of loops and branches nested.  Text that has a form which is
not known raises `Unknown`: nothing is skipped but locations and attributes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PARENTHESES = r"(?:[^()\"]|\"(?:[^\"\\]|\\.)*\")*"
for _ in range(4):
    _PARENTHESES = rf"(?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\({_PARENTHESES}\))*"
_LOCATION = re.compile(rf" loc\({_PARENTHESES}\)")
_COMMENT = re.compile(r"\s+// .*$")
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
_OPERATION = re.compile(
    r"(?:(?P<results>%[^=]*?) = )?\"?(?P<name>[a-z_]\w*\.[\w.]+)\"?(?P<rest>.*)$"
)
_FUNCTION = re.compile(r"tt\.func (?P<access>public |private )?@(?P<name>[^\s(]+)\((?P<rest>.*)$")
_BLOCK = re.compile(r"\^(?P<label>\w+)(?:\((?P<arguments>.*)\))?:$")
_ARGUMENT = re.compile(r"(?P<name>%[\w$.-]+): (?P<type>[^%]+?)(?:, (?=%)|$)")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")


class Unknown(Exception):
    """A text, or a program in it, that is not understood."""


@dataclass(eq=False)
class Operation:
    """One operation, with the operations inside it."""

    name: str
    """Name with its dialect, such as `tt.load`; `^` for the begin of a block."""
    results: list[str] = field(default_factory=list)
    """Names of its results; of a block its arguments."""
    rest: str = ""
    """Text after the name, without strings and locations; of a block its label."""
    regions: list[list[Operation]] = field(default_factory=list)

    @property
    def operands(self) -> list[str]:
        """Names of the values in its text, in order."""
        return _VALUE.findall(self.rest)


@dataclass(eq=False)
class Function:
    """A function of a module."""

    name: str
    public: bool
    arguments: list[tuple[str, str]]
    """Names and types."""
    body: list[Operation] = field(default_factory=list)


def parse(text: str) -> dict[str, Function]:
    """Return the functions of a module by their names.

    Raises `Unknown` where the text has another form.
    """
    functions: dict[str, Function] = {}
    # What is open: where operations go, and whose regions these are.
    open_: list[tuple[list[Operation], Operation | None]] = []
    for line in text.splitlines():
        stripped = _clean(line)
        if not stripped or stripped.startswith("module") or (stripped == "}" and not open_):
            continue
        if (found := _FUNCTION.match(stripped)) is not None:
            if open_ or not stripped.endswith("{"):
                raise Unknown(stripped)
            function = _function(found)
            functions[function.name] = function
            open_.append((function.body, None))
        elif not open_:
            raise Unknown(stripped)
        elif stripped.startswith("}"):
            _close(stripped, open_)
        else:
            _read(stripped, open_)
    if open_:
        raise Unknown("the text ends within a function")
    return functions


def arguments(text: str) -> list[tuple[str, str]]:
    """Return names and types of a list of arguments: `%x: i32, %y: !tt.ptr<f32>`."""
    found = list(_ARGUMENT.finditer(text))
    if "".join(each.group() for each in found) != text:
        raise Unknown(text)
    return [(each["name"], _without_attributes(each["type"])) for each in found]


def _clean(line: str) -> str:
    if line.startswith("#"):
        return ""
    stripped = _LOCATION.sub("", line).strip()
    return _COMMENT.sub("", stripped) if stripped.startswith("^") else stripped


def _function(found: re.Match[str]) -> Function:
    rest, depth = found["rest"], 1
    for at, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            given = arguments(rest[:at])
            return Function(found["name"], found["access"] != "private ", given)
    raise Unknown(found.group())


def _without_attributes(text: str) -> str:
    return text.split(" {", 1)[0].strip()


def _read(line: str, open_: list[tuple[list[Operation], Operation | None]]) -> None:
    into = open_[-1][0]
    if (block := _BLOCK.match(line)) is not None:
        names = [name for name, _ in arguments(block["arguments"] or "")]
        into.append(Operation("^", names, block["label"]))
        return
    found = _OPERATION.match(line)
    if found is None:
        raise Unknown(line)
    operation = Operation(found["name"], _results(found["results"]), _STRING.sub("", found["rest"]))
    into.append(operation)
    if line.endswith("{"):
        operation.rest = operation.rest.removesuffix("{").strip()
        operation.regions.append([])
        open_.append((operation.regions[-1], operation))


def _close(line: str, open_: list[tuple[list[Operation], Operation | None]]) -> None:
    _, operation = open_.pop()
    if operation is None:
        if line != "}":
            raise Unknown(line)
    elif line in ("} else {", "} do {", "}, {"):
        operation.regions.append([])
        open_.append((operation.regions[-1], operation))
    elif line.startswith("})"):
        operation.rest += _STRING.sub("", line[2:])
    elif line != "}" and not re.fullmatch(r"\} (attributes )?\{.*\}", line):
        raise Unknown(line)


def _results(text: str | None) -> list[str]:
    names: list[str] = []
    for each in text.split(", ") if text else ():
        name, _, count = each.strip().partition(":")
        names += [f"{name}#{at}" for at in range(int(count))] if count else [name]
    return names
