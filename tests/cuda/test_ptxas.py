"""Messages of ptxas: kinds, numbers, the author's line, and what they advise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cuda.ptxas_kernels import DATA, KERNELS
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.ptxas import (
    Note,
    Resources,
    locator,
    notes_to_remarks,
    read_notes,
    read_resources,
)
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import Location

NVRTC, OLDER = "nvrtc13.5", "ptxas13.0"
RUNNING = "between start and end of the pipeline stage"


def log(name: str, of: str = NVRTC) -> str:
    """A message text of ptxas as it came."""
    return (DATA / of / f"{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clean", []),
        ("roles", []),
        (
            "reads",
            [
                Note(
                    "serialized",
                    "f",
                    0,
                    f"non wgmma instructions reading accumulator registers of a wgmma {RUNNING}",
                    "C7514",
                )
            ],
        ),
        (
            "defines",
            [
                Note(
                    "wait",
                    "f",
                    254,
                    "by compiler to allow use of registers defined by GMMA",
                    "C7517",
                ),
                Note(
                    "serialized",
                    "f",
                    254,
                    f"non wgmma instructions defining accumulator registers of a wgmma {RUNNING}",
                    "C7515",
                ),
            ],
        ),
        (
            "divergent",
            [
                Note(
                    "serialized",
                    "f",
                    174,
                    "program dependence on compiler-inserted WG.AR in divergent path",
                    "C7519",
                )
            ],
        ),
        (
            "registers",
            [
                Note(
                    "serialized",
                    "f",
                    369,
                    "insufficient register resources for the wgmma pipeline",
                    "C7511",
                ),
                Note("local", "f", 0, "size of stack frame: 840 bytes", "", (840,)),
                Note(
                    "spill",
                    "f",
                    0,
                    "1604 bytes spill stores, 1600 bytes spill loads",
                    "",
                    (1604, 1600),
                ),
            ],
        ),
        (
            "roles_unbounded",
            [Note("setmaxnreg", "f", 0, "unable to determine register count at entry", "C7508")],
        ),
    ],
)
def test_notes(name: str, expected: list[Note]) -> None:
    """Every message about speed, with everything that it says."""
    assert list(read_notes(log(name))) == expected


@pytest.mark.parametrize("name", ["reads", "registers", "wait", "divergent"])
def test_versions_say_the_same(name: str) -> None:
    """Numbers and positions differ between versions of ptxas; kinds, reasons and bytes do not."""

    def gist(note: Note) -> tuple[object, ...]:
        return note.kind, note.function, note.reason, note.numbers

    assert [gist(n) for n in read_notes(log(name))] == [
        gist(n) for n in read_notes(log(name, OLDER))
    ]


def test_a_message_of_a_later_version_is_passed_on() -> None:
    """What is about speed and not known stays readable."""
    text = (
        "ptxas info    : (C7599) Potential Performance Loss: tensor pipe drained in function 'g'\n"
    )
    (note,) = read_notes(text)
    assert note == Note("advice", "g", 0, "tensor pipe drained", "C7599")
    (remark,) = notes_to_remarks([note], lambda function, line: None)
    assert str(remark).endswith("tensor pipe drained [ptxas C7599]")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clean", Resources("f", registers=12, barriers=4, shared=256)),
        ("spill", Resources("f", 32, 1, stack=448, spill_stores=624, spill_loads=624)),
        ("local", Resources("f", 124, stack=256)),
    ],
)
def test_resources(name: str, expected: Resources) -> None:
    """Registers, barriers and bytes, with the two forms of the frame's line."""
    assert read_resources(log(name)) == {"f": expected}


def test_resources_of_several_functions_and_banks() -> None:
    """Each function has its own; older versions list constant banks."""
    text = """\
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info : Used 20 registers, used 1 barriers, 48 bytes smem, 368 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, 368 bytes cmem[0]
ptxas info    : Function properties for inner
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
    assert read_resources(text) == {
        "one": Resources("one", 20, 1, 48, 376),
        "two": Resources("two", 255, 0, 0, 368, 8, 4, 12),
        "inner": Resources("inner", stack=16),
    }
    assert read_resources("") == {}


PTX = """\
.visible .entry f(
)
{
\t.loc\t1 10 0
\tmov.u32 %r1, 1;
\t.loc\t2 7 3, function_name $L__info_string0, inlined_at 1 12 5
\tmov.u32 %r2, 1;
\t.loc\t2 9 3
\tmov.u32 %r2, 1;
}
.func  (.param .b32 func_retval0) g(
)
{
\tmov.u32 %r1, 1;
\t.loc\t1 30 0
\tret;
}
\t.file\t1 "/author/kernel.py"
\t.file\t2 "/cache/k/base.cuh"
"""


@pytest.mark.parametrize(
    ("function", "line", "expected"),
    [
        ("f", 5, 10),
        ("f", 7, 12),
        ("f", 9, 12),
        ("f", 3, None),
        ("g", 14, None),
        ("g", 16, 30),
        ("f", 0, 10),
        ("g", 0, 30),
        ("", 9, 12),
        ("", 0, None),
        ("missing", 0, None),
    ],
)
def test_lines_lead_to_the_author(function: str, line: int, expected: int | None) -> None:
    """The outermost call of what is inlined; never a line of a header or of another function."""
    locate = locator(PTX, lambda file: file.startswith("/cache"))
    found = locate(function, line)
    assert found == (None if expected is None else Location("/author/kernel.py", expected))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_remarks(name: str, golden: Callable[..., None]) -> None:
    """The sentences for each log, where all lines are known."""

    def locate(function: str, line: int) -> Location:
        return Location("kernel.py", line or 1)

    remarks = notes_to_remarks(read_notes(log(name)), locate)
    assert all(r.severity == "missed" and r.rejected for r in remarks)
    golden("".join(f"{remark}\n" for remark in remarks))


# As ptxas 13.5 holds them; these could not be provoked by a small kernel.
RARE = [
    "due to the presence of Extern calls in the function 'f' in line 3",
    "due to wgmma pipeline crossing function boundary at a function call in the function 'f' "
    "in line 3",
    "due to insufficient register resources for the function 'f'",
    "due to non wgmma instructions defining input registers of a wgmma between start and end of "
    "the pipeline stage in the function 'f' in line 3",
    "due to ill formed pipeline stage in the function 'f'",
]


@pytest.mark.parametrize("text", RARE)
def test_every_known_reason_is_explained(text: str) -> None:
    """None of the assembler's own words reach the author."""
    start = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are"
    (note,) = read_notes(f"{start} serialized {text}")
    assert (note.kind, note.function) == ("serialized", "f")
    assert note.line == (3 if "line 3" in text else 0)
    (remark,) = notes_to_remarks([note], lambda function, line: None)
    assert note.reason not in str(remark)
    assert ";" in str(remark.rejected[0].reason)


@pytest.mark.parametrize(
    "reason",
    [
        "to allow debugging.",
        "to maintain compatibility across compilation units.",
        "to maintain compatibility into 'extern' call.",
        "to maintain minimum register requirements.",
    ],
)
def test_every_reason_to_ignore_setmaxnreg_is_explained(reason: str) -> None:
    """As above, for registers that stay where they are."""
    text = f"ptxas info : (C7505) Potential Performance Loss: 'setmaxnreg' ignored {reason}"
    (note,) = read_notes(text)
    assert note.kind == "setmaxnreg"
    (remark,) = notes_to_remarks([note], lambda function, line: None)
    assert note.reason not in str(remark)


@pytest.mark.parametrize(
    ("name", "kinds", "line"),
    [
        ("reads", {"serialized"}, 10),
        ("spill", {"spill", "local"}, 10),
        ("local", {"local"}, 10),
        ("roles", set(), 0),
        ("roles_unbounded", {"setmaxnreg"}, 10),
    ],
)
def test_the_installed_ptxas(name: str, kinds: set[str], line: int) -> None:
    """What is installed says what was recorded, and its notes lead to lines of the author."""
    pytest.importorskip("cuda.bindings.nvrtc")
    made = compile_cubin(KERNELS[name], find_target("sm_90a"), Controls())
    assert {note.kind for note in made.notes} == kinds
    remarks = notes_to_remarks(made.notes, made.locate)
    places: list[Any] = [remark.location for remark in remarks]
    assert all(p.file == "/author/kernel.py" and p.line >= line for p in places)
    assert len(remarks) == len(kinds - {"local"} or kinds)
