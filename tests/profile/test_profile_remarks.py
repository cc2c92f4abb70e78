"""Remarks and devices in files: codes with facts, of this version, of later ones, of version 1."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.analyzer.compiled import compiled, remarks_of
from tests.analyzer.defects import product
from tests.profile_samples import full_profile
from tileprof.errors import ProfileFileError
from tileprof.files import unpack
from tileprof.profile import DeviceInfo, KernelInfo, Profile, Tables, TreeBuilder, load, save
from tileprof.remarks import Rejection, Remark, Statement
from tileprof.remarks.common import OtherCandidate, OtherDecision, OtherReason
from tileprof.remarks.copies import RowStride, StagedTma, Tma, TmaLoad
from tileprof.remarks.launches import (
    BlocksCandidate,
    BlocksNeed,
    GroupedRows,
    Persistent,
    ProducerLoads,
    RegistersAtMost,
    SharedAtMost,
    SharedInL2,
)
from tileprof.remarks.products import GemmInstruction
from tileprof.remarks.stored import LaterDecision, LaterReason

DATA = Path(__file__).parents[1] / "data"
OTHER = (OtherDecision, OtherCandidate, OtherReason)


def stored(folder: Path) -> list[Profile]:
    """All recordings that are kept with the tests."""
    for archive in DATA.glob("*.tar.xz"):
        with tarfile.open(archive) as held:
            unpack(held, folder / archive.name)
    return [load(each) for each in [*DATA.glob("*.tprof"), *folder.rglob("*.tprof")]]


def statements(remark: Remark) -> list[Statement]:
    """The decision, candidates and reasons of a remark."""
    rejected = [s for each in remark.rejected for s in (each.candidate, each.reason)]
    return [remark.decision, *rejected]


def with_remark(path: Path, remark: Remark) -> None:
    """Write a profile of a kernel with one remark."""
    kernel = KernelInfo("k", "cuda:0", remarks=(remark,))
    save(TreeBuilder().snapshot(Tables(kernels=(kernel,))), path)


def remark_in(path: Path) -> Remark:
    """Return the one remark of a file."""
    (kernel,) = load(path).tables.kernels
    (remark,) = kernel.remarks
    return remark


NARROW = Remark(TmaLoad(), "copy", "A → B", None, (Rejection(Tma(), RowStride(200, 16, "TMA")),))


def test_remarks_come_back(tmp_path: Path) -> None:
    """Codes, facts, places and statements within others are those that were saved."""
    save(full_profile(), tmp_path / "p.tprof")
    kernels = load(tmp_path / "p.tprof").tables.kernels
    assert kernels[0].remarks == full_profile().tables.kernels[0].remarks


def test_sentences_of_stored_recordings_have_codes(tmp_path: Path) -> None:
    """Every remark of every recording of version 1, with all its candidates and reasons."""
    kernels = [kernel for profile in stored(tmp_path) for kernel in profile.tables.kernels]
    remarks = [remark for kernel in kernels for remark in kernel.remarks]
    assert len(remarks) >= 8
    assert not [s for remark in remarks for s in statements(remark) if isinstance(s, OTHER)]


def test_a_recording_of_version_1() -> None:
    """Its sentences are these codes and facts, its line about the device these numbers."""
    tables = load(DATA / "h200-gemm.tprof").tables
    (kernel,) = tables.kernels
    *others, occupancy = kernel.remarks
    assert [(each.subject, each.decision) for each in others] == [
        ("gemm", GemmInstruction("wgmma", "m64n256k16 ss groups=2x1")),
        ("copy A → A_shared", TmaLoad()),
        ("copy B → B_shared", TmaLoad()),
        ("copy C_local → C", StagedTma()),
        ("launch", GroupedRows(8, SharedInL2())),
        ("launch", Persistent()),
        ("launch", ProducerLoads(2)),
    ]
    needs = BlocksNeed((RegistersAtMost(80), SharedAtMost(113 << 10)))
    assert occupancy.rejected == (Rejection(BlocksCandidate(2), needs),)
    memory = round(139.8 * 2**30)
    device = DeviceInfo("cuda:0", "NVIDIA H200", 9, 0, 132, memory, 1980.0, 3201.0, "13.0")
    assert tables.devices == (device,)


def test_codes_of_later_versions_keep_their_sentence(tmp_path: Path) -> None:
    """No rule knows them; saved again, they are what the later version wrote."""
    path, again = tmp_path / "p.tprof", tmp_path / "again.tprof"
    with_remark(path, NARROW)
    facts = json.dumps({"tiles": [1, {"code": "brand-new-too", "facts": {}}]})
    with closing(sqlite3.connect(path)) as database:
        later = ("brand-new", facts, "tiles by magic")
        database.execute("UPDATE remarks SET chosen_code=?, chosen_facts=?, chosen=?", later)
        # A known code whose fact has a code that is not.
        within = json.dumps({"why": {"code": "brand-new", "facts": {}}})
        row = ("no-producer-group", within, "no producer warp group: magic")
        database.execute("UPDATE rejections SET reason_code=?, reason_facts=?, reason=?", row)
        database.commit()
    remark = remark_in(path)
    assert isinstance(remark.decision, LaterDecision)
    assert isinstance(remark.rejected[0].reason, LaterReason)
    assert str(remark) == "copy A → B: tiles by magic\n  not tma: no producer warp group: magic"
    save(load(path), again)
    assert remark_in(again) == remark
    columns = "chosen_code, chosen_facts, chosen, reason_code, reason_facts, reason"
    with closing(sqlite3.connect(again)) as database:
        (held,) = database.execute(f"SELECT {columns} FROM remarks, rejections").fetchall()
    assert [held[0], json.loads(held[1]), held[2]] == [later[0], json.loads(facts), later[2]]
    assert [held[3], json.loads(held[4]), held[5]] == [row[0], json.loads(within), row[2]]


DAMAGED = {
    "no JSON": ("row-stride", "{"),
    "no object": ("row-stride", "[1]"),
    "missing": ("row-stride", '{"stride": 200}'),
    "unknown": ("turned-off", '{"stride": 200}'),
    "mistyped": ("row-stride", '{"stride": "200", "multiple": 16, "instruction": "TMA"}'),
    "not finite": ("few-exponentials", '{"share": 1e999}'),
    "too large": ("row-stride", f'{{"stride": {1 << 64}, "multiple": 16, "instruction": "TMA"}}'),
    "another kind": ("tma", "{}"),
    "another kind within": ("no-producer-group", '{"why": {"code": "tma", "facts": {}}}'),
    "nested": ("no-producer-group", '{"why": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "nested later": ("brand-new", '{"why": ' + "[" * 40 + "]" * 40 + "}"),
}


@pytest.mark.parametrize("held", DAMAGED.values(), ids=DAMAGED)
def test_facts_that_are_not_those_of_their_code_are_refused(
    tmp_path: Path, held: tuple[str, str]
) -> None:
    """With the column and the code."""
    with_remark(tmp_path / "p.tprof", NARROW)
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        database.execute("UPDATE rejections SET reason_code=?, reason_facts=?", held)
        database.commit()
    with pytest.raises(ProfileFileError, match=f"`reason_facts` of a remark.*`{held[0]}`"):
        load(tmp_path / "p.tprof")


def test_texts_within_facts_bring_no_escapes(tmp_path: Path) -> None:
    """Control characters that JSON spells are escaped like those of other columns."""
    with_remark(tmp_path / "p.tprof", NARROW)
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        facts = r'{"tensor": "A\u001b]0;owned\u0007"}'
        database.execute("UPDATE rejections SET reason_code='also-read', reason_facts=?", [facts])
        database.commit()
    (rejected,) = remark_in(tmp_path / "p.tprof").rejected
    assert str(rejected.reason) == r"the kernel also reads `A\x1b]0;owned\x07`"


def test_a_severity_that_nobody_declares_is_refused(tmp_path: Path) -> None:
    """It is one of two words."""
    with_remark(tmp_path / "p.tprof", NARROW)
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        database.execute("UPDATE remarks SET severity='dire'")
        database.commit()
    with pytest.raises(ProfileFileError, match=r"`remarks\.severity` holds an unknown word"):
        load(tmp_path / "p.tprof")


def test_long_sentences_of_version_1_are_kept_as_they_are(tmp_path: Path) -> None:
    """They are not searched for codes, which would take time."""
    (tmp_path / "p.tprof").write_bytes((DATA / "h200-gemm.tprof").read_bytes())
    words = "tma, " * 200_000
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        database.execute("UPDATE remarks SET chosen=?", [words])
        database.commit()
    kernels = load(tmp_path / "p.tprof").tables.kernels
    assert {each.decision for each in kernels[0].remarks} == {OtherDecision(words)}


def test_a_compiled_kernel_keeps_its_remarks(tmp_path: Path) -> None:
    """All that the compiler says of a product, in a file."""
    remarks = tuple(remarks_of(compiled(product(stages=2))))
    assert len(remarks) > 5
    kernel = KernelInfo("k", "cuda:0", remarks=remarks)
    save(TreeBuilder().snapshot(Tables(kernels=(kernel,))), tmp_path / "p.tprof")
    assert load(tmp_path / "p.tprof").tables.kernels[0].remarks == remarks
