"""`report --sarif` and `check --sarif`: findings on the lines of their sources."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import DOUBLE
from tileprof.cli.sarif import Result, document
from tileprof.errors import Location

DATA = Path(__file__).parents[1] / "data"
SHIFT = f"""{DOUBLE}
    @tileprof.jit
    def shift(A):
        N = T.dynamic("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 4), threads=32) as bx:
            f = T.alloc_fragment((4,), T.float32)
            for i in T.Parallel(4):
                f[i] = A[bx * 4 + i + 1]
            for i in T.Parallel(4):
                A[bx * 4 + i] = f[i]
"""


def test_suggestions_of_all_profiles_stand_in_one_file(cli: Any, folder: Path) -> None:
    """With gains as in the report, and the ids that findings have in other recordings too."""
    names = ["h200-stalls.tprof", "h200-gemm.tprof"]
    for name in names:
        shutil.copy(DATA / name, folder)
    found = cli("report", *names, "--sarif", "out.sarif")
    assert (found.code, found.out, found.err) == (0, "", "tileprof: wrote out.sarif\n")
    (run,) = _read("out.sarif")["runs"]
    reports = [json.loads(line) for line in cli("report", *names, "--json").out.splitlines()]
    told = ("suggestion", "warning", "symptom")
    expected = [e for r in reports for e in r["findings"] if e["severity"] in told]
    assert [each["ruleId"] for each in run["results"]] == [each["rule"] for each in expected]
    spill = next(each for each in run["results"] if each["ruleId"] == "spill-hot")
    (place,) = spill["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/kernels.cu")
    assert place["physicalLocation"]["region"] == {"startLine": 18}
    first = next(each for each in expected if each["rule"] == "spill-hot")
    assert spill["properties"]["programGain"] == first["gain"]["program"]
    assert spill["partialFingerprints"]["tileprof/v1"].startswith("spill-hot-")
    assert spill["message"]["text"].count("Expected gain: program ") == 1


def test_only_chosen_findings_are_written(cli: Any, folder: Path) -> None:
    """`-i` chooses as for the text."""
    shutil.copy(DATA / "h200-stalls.tprof", folder)
    assert cli("report", "h200-stalls.tprof", "-i", "^spill", "--sarif", "out.sarif").code == 0
    (run,) = _read("out.sarif")["runs"]
    assert {each["id"] for each in run["tool"]["driver"]["rules"]} == {"spill-hot"}


def test_a_race_is_an_error_at_two_places(cli: Any, write: Callable[..., None]) -> None:
    """Beside the text; paths count from the folder, as code hosts need it."""
    write(k=SHIFT)
    found = cli("check", "k.py:shift", "--set", "N=12", "--sarif", "out.sarif")
    assert (found.code, "race-between-blocks" in found.out) == (1, True)
    (run,) = _read("out.sarif")["runs"]
    (race,) = run["results"]
    assert (race["ruleId"], race["level"]) == ("race-between-blocks", "error")
    (first,), (second,) = race["locations"], race["relatedLocations"]
    places = [each["physicalLocation"] for each in (first, second)]
    assert {each["artifactLocation"]["uri"] for each in places} == {"k.py"}
    source = Path("k.py").read_text().splitlines()
    marked = []
    for each in places:
        region = each["region"]
        line = source[region["startLine"] - 1]
        marked.append(line[region["startColumn"] - 1 : region["endColumn"] - 1])
    assert marked == ["A[bx * 4 + i + 1]", "A[bx * 4 + i]"]
    assert second["message"]["text"].startswith("block (1) writes A[4]")


def test_a_kernel_without_faults_has_an_empty_list(cli: Any, write: Callable[..., None]) -> None:
    """The file is written: a code host then closes what it showed before."""
    write(k=SHIFT)
    assert cli("check", "k.py:double", "--no-run", "--sarif", "out.sarif").code == 0
    assert _read("out.sarif")["runs"][0]["results"] == []


def test_a_file_that_cannot_be_written_is_wrong_use(cli: Any, write: Callable[..., None]) -> None:
    """With a way out."""
    write(k=SHIFT)
    found = cli("check", "k.py:double", "--no-run", "--sarif", "missing/out.sarif")
    assert (found.code, "cannot write missing/out.sarif" in found.err) == (2, True)


@pytest.mark.parametrize(
    ("file", "uri", "base"),
    [
        ("a b/100%.py", "a%20b/100%25.py", True),
        ("/src/k.py", "k.py", True),
        ("/other/k.py", "file:///other/k.py", False),
        ("../k.py", "file:///k.py", False),
        ("a/../k.py", "k.py", True),
    ],
)
def test_paths_are_uris(file: str, uri: str, base: bool) -> None:
    """Relative where the file lies below the folder, else absolute."""
    results = [Result("r", "note", "m", Location(file, 3))]
    (run,) = document(results, Path("/src"))["runs"]
    artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": uri, **({"uriBaseId": "ROOT"} if base else {})}


def _read(path: str) -> Any:
    return json.loads(Path(path).read_text())
