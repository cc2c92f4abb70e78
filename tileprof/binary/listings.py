"""The code of a function as text: each source line, and under it the SASS it became.

In: a `Function`.  Out: text.  A bar stands for each loop around an instruction; spills, jumps and
the beginnings of loops are noted behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tileprof.errors import source_lines

from .control_flow import Loop, branch_target
from .cubin import Function
from .instructions import Instruction
from .line_table import Chain, Line

INDENT = "    "
TEXT_WIDTH = 56


def place(chain: Chain) -> str:
    """Return where an instruction comes from: `a.cu:3 in f, inlined at a.cu:11`."""
    if not chain:
        return "(no line)"
    inner, *outer = chain
    named = f"{inner} in {inner.function}" if outer and inner.function else str(inner)
    return ", inlined at ".join([named, *map(str, outer)])


def listing(function: Function, source: Callable[[Line], str] | None = None) -> str:
    """Return the annotated code; `source` gives the text of a line, by default from the file."""
    return "".join(f"{line}\n" for line in _lines(function, source or _from_file))


def _from_file(line: Line) -> str:
    lines = source_lines(line.file)
    return lines[line.line - 1].strip() if 1 <= line.line <= len(lines) else ""


def _lines(function: Function, source: Callable[[Line], str]) -> Iterator[str]:
    heads = {loop.start: loop for loop in function.loops}
    notes = _spill_notes(function)
    shown: Chain | None = None
    names = {start: name for name, start in function.procedures.items() if start}
    for each in function.reachable():
        chain = function.chain(each.offset)
        if each.offset in names:
            shown = None
            yield f"\n{names[each.offset]}:"
        if chain != shown:
            shown = chain
            yield from _heading(chain, source)
        if each.offset in heads:
            yield f"{INDENT}{'':8}{_bars(function, each.offset)}{_loop_note(heads[each.offset])}"
        note = notes.get(each.offset) or _jump_note(function, each)
        text = f"{INDENT}{each.offset:#06x}  {_bars(function, each.offset)}{each.text}"
        yield f"{text:<{TEXT_WIDTH + len(INDENT)}}  ; {note}" if note else text


def _heading(chain: Chain, source: Callable[[Line], str]) -> Iterator[str]:
    text = source(chain[0]) if chain else ""
    yield f"{place(chain)}{'  |  ' + text if text else ''}"


def _bars(function: Function, offset: int) -> str:
    return "| " * function.depth(offset)


def _loop_note(loop: Loop) -> str:
    match loop.kind:
        case "wait":
            return "wait for a barrier:"
        case "once":
            return "once for each distinct operand:"
    return f"loop {loop.depth}:"


def _spill_notes(function: Function) -> dict[int, str]:
    words = {("spill", True): "spills", ("spill", False): "reloads"}
    words |= {("save", True): "saves", ("save", False): "restores"}
    found = {}
    for each in function.spills():
        slot = "" if each.slot is None else f", slot {each.slot:#x}"
        found[each.offset] = f"{words[each.kind, each.is_store]} {each.register}{slot}"
    return found


def _jump_note(function: Function, each: Instruction) -> str:
    if each.name == "BRA":
        target = branch_target(each, function.procedures)
        return "goes back" if target is not None and target <= each.offset else ""
    if each.name in ("BRX", "BRXU", "BSYNC"):
        after = [function.blocks[i].start for i in function.block(each.offset).successors]
        return f"goes to {', '.join(f'{start:#x}' for start in after)}" if after else ""
    return ""
