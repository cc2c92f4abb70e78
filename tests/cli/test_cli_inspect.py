"""`tileprof inspect`: what a cubin contains."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.binary.support import STORED, need_disassembler
from tests.viewer.pc_profile import pc_profile
from tileprof.binary import disassembly
from tileprof.profile import save


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


def test_the_details_of_each_kernel(cli: Any, cubin: str) -> None:
    """Loops, spills by line with the deepest first, instructions by group, code under lines."""
    out = cli("inspect", cubin).out
    inlined, spill = out.split("\ninlined\n=======\n")[1].split("\nspill\n=====\n")
    assert "loops: none" in inlined
    assert "spilled registers: none" in inlined
    assert "3  floating point    FFMA 3" in inlined
    assert "/kernels/inlined.cu:3 in _Z6squareff, inlined at /kernels/inlined.cu:10" in inlined
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
    """The name and the reason."""
    found = cli("inspect", "nowhere.cubin")
    assert found.code == 2
    assert found.err == "tileprof: cannot read nowhere.cubin: No such file or directory\n"


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
        "Get it with: pip install 'tileprof[cuda]'\n"
    )


def test_a_profile_with_samples(cli: Any, folder: Path) -> None:
    """Its functions as `view --sass` has them, with what is to blame; JSON too."""
    save(pc_profile(), folder / "x.tprof")
    found = cli("inspect", "x.tprof", "-i", "scale", "-t", "5")
    assert (found.code, found.err) == (0, "")
    assert "long_scoreboard, wait: waits for LDG.E at 0x0050, scale.cu:5" in found.out
    assert "library_gemm" not in found.out
    assert "waits for" not in cli("view", "x.tprof", "--sass").out
    assert cli("inspect", "x.tprof", "--json").out == cli("view", "x.tprof", "--sass", "--json").out


def test_options_of_profiles_and_profiles_without_samples(cli: Any, sample: str) -> None:
    """One sentence and a way out."""
    found = cli("inspect", "x.cubin", "-i", "scale")
    assert (found.code, found.err) == (
        2, "tileprof: `-i` is for profiles\nName a .tprof file.\n",
    )  # fmt: skip
    found = cli("inspect", sample)
    assert (found.code, found.out) == (2, "")
    assert "no samples of program counters" in found.err
    assert cli("view", sample, "--sass", "--csv").code == 2
