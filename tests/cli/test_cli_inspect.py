"""`tileprof inspect`: what a cubin contains, or what a kernel becomes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.binary.support import STORED, need_disassembler
from tests.cli.test_cli_compile import BOUND, FACTORY
from tests.cli.test_cli_run import KERNEL
from tests.viewer.pc_profile import pc_profile
from tileprof.binary import disassembly
from tileprof.cli.kernel import inspect_command
from tileprof.profile import PcText, save
from tileprof.profiler.native import native_recorder


@pytest.fixture
def cubin(folder: Path) -> str:
    """The stored cubin, in the folder."""
    need_disassembler()
    shutil.copy(STORED, folder / "small.cubin")
    return "small.cubin"


def test_the_table_of_resources(cli: Any, cubin: str) -> None:
    """One line a kernel, with the numbers that ptxas printed."""
    found = cli("inspect", cubin)
    assert (found.code, found.err) == (0, "")
    head, titles, *rows = found.out.splitlines()
    assert head == "small.cubin: sm_90a, 2 functions"
    table = {row.split()[-1]: dict(zip(titles.split(), row.split())) for row in rows[:2]}
    assert table["spill"]["registers"] == "32"
    assert table["spill"]["local"] == "176"
    assert (table["inlined"]["registers"], table["inlined"]["local"]) == ("8", "0")


def test_some_functions(cli: Any, cubin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a part of their name; many are disassembled together."""
    whole = cli("inspect", cubin).out
    out = cli("inspect", cubin, "-i", "^spi").out
    assert out.startswith("small.cubin: sm_90a, 1 of 2 functions\n")
    assert whole.partition("\nspill\n=====\n")[2] == out.partition("\nspill\n=====\n")[2]
    (only,) = json.loads(cli("inspect", cubin, "-i", "lined$", "--json").out)["functions"]
    assert only["name"] == "inlined"
    monkeypatch.setattr(inspect_command, "FEW", 1)
    assert cli("inspect", cubin).out == whole
    found = cli("inspect", cubin, "-i", "nowhere")
    assert (found.code, found.out) == (2, "")
    assert found.err == "tileprof: no function matches `nowhere`\nWithout -i all are listed.\n"


def test_the_details_of_each_kernel(cli: Any, cubin: str) -> None:
    """Loops, spills by line with the deepest first, instructions by group, code under lines."""
    out = cli("inspect", cubin).out
    inlined, spill = out.split("\ninlined\n=======\n")[1].split("\nspill\n=====\n")
    assert "loops: none" in inlined
    assert "spilled registers: none" in inlined
    assert "3  floating point    FFMA 3" in inlined
    square = "_Z6squareff" if native_recorder() is None else "square(float, float)"
    assert f"/kernels/inlined.cu:3 in {square}, inlined at /kernels/inlined.cu:10" in inlined
    assert "depth 1" in spill.partition("spilled registers")[0]
    spilled = spill.partition("spilled registers\n")[2].partition("\n\n")[0].splitlines()
    assert all("loop depth" in line for line in spilled)
    assert "loop depth 1" in spilled[0]
    assert "loop depth 0" in spilled[-1]
    stores = sum(int(line.split()[0]) for line in spilled)
    assert stores == 82
    assert "LDL.32 82, STL.32 82" in spill


def test_json(cli: Any, cubin: str) -> None:
    """The same facts, for programs."""
    found = json.loads(cli("inspect", cubin, "--json").out)
    assert (found["schema"], found["architecture"]) == (1, "sm_90a")
    inlined, spill = found["functions"]
    assert (spill["name"], spill["kernel"]) == ("spill", True)
    assert spill["resources"]["registers"] == 32
    assert spill["opcodes"]["STL.32"] == 82
    (loop,) = spill["loops"]
    assert (loop["depth"], loop["kind"], loop["parent"]) == (1, "loop", None)
    assert loop["opcodes"]["FFMA"] == 48
    assert sum(each["bytes"] for each in spill["spills"] if each["store"]) == 328
    chain = inlined["instructions"][7]
    assert chain["sass"].startswith("FFMA")
    assert [line["line"] for line in chain["lines"]] == [3, 6, 11]
    assert [line["function"] for line in chain["lines"]] == [
        "_Z6squareff",
        "_Z6fourthf",
        "inlined",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [("hello\n", "x.cubin: this is text, not a cubin"), ("", "x.cubin: the file is empty")],
)
def test_what_is_no_cubin(cli: Any, folder: Path, text: str, message: str) -> None:
    """Wrong use, in one sentence with the file."""
    (folder / "x.cubin").write_text(text)
    found = cli("inspect", "x.cubin")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


def test_a_file_that_is_not_there(cli: Any) -> None:
    """The name, the reason and what to give instead."""
    found = cli("inspect", "nowhere.cubin")
    assert found.code == 2
    assert found.err == (
        "tileprof: cannot read nowhere.cubin: No such file or directory\n"
        "Give the path of a .cubin file.\n"
    )


def test_without_a_disassembler(cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resources come all the same; then how to get nvdisasm."""
    monkeypatch.setattr(disassembly, "_in_wheel", lambda: None)
    monkeypatch.setattr(disassembly, "_on_machine", lambda: None)
    (folder / "fresh.cubin").write_bytes(STORED.read_bytes() + b"\0")
    found = cli("inspect", "fresh.cubin")
    assert found.code == 2
    assert "spill" in found.out
    assert found.err == (
        "tileprof: no disassembler: reading SASS needs `nvdisasm`\n"
        'Get it with: pip install "tileprof[cuda]"\n'
    )


def test_a_kernel_of_a_file(cli: Any, folder: Path, write: Any) -> None:
    """It is compiled, for sm_90a unless a target is given; code stands under its Python lines."""
    need_disassembler()
    pytest.importorskip("cuda.bindings.nvrtc")
    write(prog=KERNEL)
    found = cli("inspect", "prog.py:row_sums", *BOUND)
    assert (found.code, found.err) == (0, "")
    head, titles, row, *_ = found.out.splitlines()
    assert head == "prog.py:row_sums: sm_90a, 1 function"
    assert titles.split()[-1] == "function"
    assert row.split()[-1] == "row_sums_0"
    line = next(i for i, text in enumerate(KERNEL.splitlines(), 1) if "reduce_sum" in text)
    assert f"{folder}/prog.py:{line}" in found.out.partition("\ncode\n")[2]
    older = json.loads(
        cli("inspect", "prog.py:row_sums", *BOUND, "--target", "sm_80", "--json").out
    )
    assert older["architecture"] == "sm_80"
    assert [each["name"] for each in older["functions"]] == ["row_sums_0"]


def test_a_kernel_is_the_one_that_compile_shows(cli: Any, write: Any) -> None:
    """The same instructions, with what `--set` binds."""
    need_disassembler()
    pytest.importorskip("cuda.bindings.nvrtc")
    write(factory=FACTORY)
    arguments = ("factory.py:make", "--set", "M=16", "--set", "N=4", "--set", "dtype=float16")
    sass = cli("compile", *arguments, "--target", "sm_90a", "--emit", "sass").out
    found = json.loads(cli("inspect", *arguments, "--json").out)
    (make,) = found["functions"]
    opcodes = [each["sass"].split()[0] for each in make["instructions"]]
    assert "STG.E.U16" in opcodes
    assert all(opcode in sass for opcode in opcodes)


@pytest.mark.parametrize(
    "arguments",
    [
        "prog.py",
        "gone.py:k",
        "gone:k",
        ".:k",
        "prog.py:row_sum",
        "prog.py:row_sums",
        "prog.py:row_sums --set M",
        "prog.py:row_sums --set M=two --set N=4",
        "prog.py:row_sums --set M=16 --set N=4 --set K=4",
        "prog.py:row_sums --target tpu",
        "factory.py:make --set M=8",
        "broken.py:k",
    ],
)
def test_what_is_wrong_with_a_kernel(cli: Any, write: Any, arguments: str) -> None:
    """`compile` says it in the same words."""
    write(prog=KERNEL, factory=FACTORY, broken="def k(:")
    found = cli("inspect", *arguments.split())
    target = () if "--target" in arguments else ("--target", "sm_90a")
    assert found.code != 0
    assert found.err
    assert found == cli("compile", *arguments.split(), *target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("x.py:k -t 5", "`-t` is for profiles\nName a .tprof file.\n"),
        ("x.cubin --set M=3", "`--set` is for kernels compiled from Python\nName FILE:KERNEL.\n"),
        (
            "x.tprof --target sm_80",
            "`--target` is for kernels compiled from Python\nName FILE:KERNEL.\n",
        ),
        (
            "x.py:k --target cpu",
            "only kernels for a GPU have SASS to inspect\n"
            "Use --target sm_90a or sm_80, or `tileprof compile --emit cpp`.\n",
        ),
    ],
)
def test_options_of_something_else(cli: Any, arguments: str, message: str) -> None:
    """One sentence and a way out, before anything is read."""
    found = cli("inspect", *arguments.split())
    assert (found.code, found.out, found.err) == (2, "", f"tileprof: {message}")


def test_a_profile_with_samples(cli: Any, folder: Path) -> None:
    """Its functions as `view --sass` has them, with what is to blame; JSON too."""
    save(pc_profile(), folder / "x.tprof")
    found = cli("inspect", "x.tprof", "-i", "scale", "-t", "5")
    assert (found.code, found.err) == (0, "")
    assert "long_scoreboard, wait: waits for LDG.E at 0x0050, scale.cu:5" in found.out
    assert "library_gemm" not in found.out
    assert "waits for" not in cli("view", "x.tprof", "--sass").out
    assert cli("inspect", "x.tprof", "--json").out == cli("view", "x.tprof", "--sass", "--json").out


PTX = "//\n.version 8.7\n\t.reg .b32 %r<9>; // \x1b[31m\n"


def _save_texts(folder: Path) -> None:
    """A profile of three functions, two of which Triton compiled."""
    profile = pc_profile()
    held = profile.tables.pc
    scale, *others, tiny = held.functions
    functions = (scale, *others, replace(tiny, module="cd" * 32))
    texts = {
        (scale.module, "ttgir"): PcText.of("module {\n}"),
        (scale.module, "ptx"): PcText.of(PTX),
        ("cd" * 32, "ptx"): PcText(note="it has 2 bytes"),
    }
    pc = replace(held, functions=functions, texts=texts)
    save(replace(profile, tables=replace(profile.tables, pc=pc)), folder / "x.tprof")


def test_what_triton_made_a_kernel_from(cli: Any, folder: Path) -> None:
    """The text of the hottest function that has one, or of those that match, under comments."""
    _save_texts(folder)
    head = "// scale(float const*, float*, int): 10,115 samples (92.3 %)\n"
    found = cli("inspect", "x.tprof", "--emit", "ptx")
    assert (found.code, found.err) == (0, "")
    ptx = PTX.replace("\x1b", "\\x1b")
    other = "// 1 other with fewer samples: tiny; see -i RE\n"
    assert found.out == head + ptx + other
    assert cli("inspect", "x.tprof", "--emit", "ptx", "-i", "scale").out == head + ptx
    assert cli("inspect", "x.tprof", "--emit", "ttgir").out == f"{head}module {{\n}}\n"
    tiny = "// tiny: 9 samples (0.1 %)\n// its ptx is not kept: it has 2 bytes\n"
    assert cli("inspect", "x.tprof", "--emit", "ptx", "-i", "tiny").out == tiny
    assert cli("inspect", "x.tprof", "--emit", "ptx", "-i", "").out == head + ptx + tiny


def test_texts_as_json(cli: Any, folder: Path) -> None:
    """As the compiler wrote them, with what is not kept."""
    _save_texts(folder)
    found = json.loads(cli("inspect", "x.tprof", "--emit", "ptx", "--json").out)
    assert (found["schema"], found["form"]) == (1, "ptx")
    scale, tiny = found["functions"]
    assert (scale["name"], scale["samples"], scale["text"]) == ("_Z5scalePKfPfi", 10115, PTX)
    assert (tiny["module"], tiny["text"], tiny["note"]) == ("cd" * 32, None, "it has 2 bytes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("x.tprof --emit ptx -i library", "the profile keeps no ptx of `library_gemm`\n"),
        ("x.tprof --emit ttgir -i tiny", "the profile keeps no ttgir of `tiny`\n"),
        ("x.tprof --emit ptx -i nowhere", "no function with samples matches `nowhere`\n"),
        ("plain.tprof --emit ttgir", "the profile keeps no ttgir\nIt has that of Triton's "),
        ("x.tprof --emit sass", "argument --emit: invalid choice: 'sass' (choose ttgir or ptx)\n"),
        ("x.tprof --emit ptx -t 5", "argument -t: not allowed with argument --emit\n"),
        ("x.cubin --emit ptx", "`--emit` is for profiles\nName a .tprof file.\n"),
    ],
)
def test_texts_that_are_not_there(cli: Any, folder: Path, arguments: str, message: str) -> None:
    """One sentence and a way out."""
    _save_texts(folder)
    save(pc_profile(), folder / "plain.tprof")
    found = cli("inspect", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


def test_options_of_profiles_and_profiles_without_samples(cli: Any, sample: str) -> None:
    """One sentence and a way out."""
    found = cli("inspect", "x.cubin", "-t", "5")
    assert (found.code, found.err) == (
        2, "tileprof: `-t` is for profiles\nName a .tprof file.\n",
    )  # fmt: skip
    found = cli("inspect", sample)
    assert (found.code, found.out) == (2, "")
    assert "no samples of program counters" in found.err
    assert cli("view", sample, "--sass", "--csv").code == 2
