"""Kernels in files that somebody else wrote: what is believed, what is refused, what is proved."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")

import tileprof
from tests.cuda import runtime_kernels as kernels
from tileprof import ir
from tileprof.errors import UsageError

Edit = Callable[[dict[str, bytes], dict[str, Any]], None]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The members of a file, compiled once."""
    path = tmp_path_factory.mktemp("saved") / "double.tpk"
    kernels.double.compile(N=1000).save(path, ["sm_80"])
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def write(saved: dict[str, bytes], tmp_path: Path) -> Callable[[Edit], Path]:
    """Write the file after a change, with digests that fit."""

    def make(edit: Edit) -> Path:
        members, held = dict(saved), json.loads(saved["kernel.json"])
        held.pop("sha256")
        edit(members, held)
        others = {n: c for n, c in members.items() if n != "kernel.json"}
        digests = {n: hashlib.sha256(c).hexdigest() for n, c in others.items()}
        members["kernel.json"] = json.dumps({"sha256": digests, **held}).encode()
        return pack(tmp_path / "k.tpk", members)

    return make


def pack(path: Path, members: dict[str, bytes]) -> Path:
    """An archive of these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.chmod(0o644)
    return path


def replaced(old: str, new: str) -> Edit:
    """Change the text of the program."""

    def edit(members: dict[str, bytes], held: dict[str, Any]) -> None:
        text = members["kernel.ir"].decode()
        assert old in text
        members["kernel.ir"] = text.replace(old, new, 1).encode()

    return edit


def test_the_program_is_the_one_that_was_saved(write: Any) -> None:
    """What was proved when it was compiled is proved again."""
    loaded = tileprof.load_kernel(write(lambda members, held: None))
    saved_text = ir.print_kernel(kernels.double.compile(N=1000).program.kernel)
    assert ir.print_kernel(loaded.program.kernel) == saved_text


def moved(what: str, by: int) -> Edit:
    """Move the index of the load or the store, and claim that it is inside."""

    def edit(members: dict[str, bytes], held: dict[str, Any]) -> None:
        lines = members["kernel.ir"].decode().splitlines()
        at, line = next((n, each) for n, each in enumerate(lines) if f" {what} " in each)
        index = line.split("[")[1].split("]")[0]
        kind = line.partition(" : ")[2].split(" loc(")[0] if what == "load" else ""
        lines[at] = line.replace(f"[{index}]", "[%far]").split(" loc(")[0].split(" {")[0]
        lines[at] = lines[at].split(" : ")[0] + " {in_bounds = true}"
        lines[at] += f" : {kind}" if kind else ""
        lines.insert(at, f"%far = add {index}, %by : index")
        lines.insert(at, f"%by = constant {by} : index")
        members["kernel.ir"] = "\n".join(lines).encode()

    return edit


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_a_false_claim_to_be_in_bounds_is_not_believed(write: Any, device: str) -> None:
    """An index behind the tensor is guarded: nothing is written."""
    loaded = tileprof.load_kernel(write(moved("store", 10**9)))
    (store,) = (op for op in loaded.program.kernel.ops() if isinstance(op, ir.Store))
    assert not store.in_bounds
    with tileprof.device(device):
        loaded(np.ones(1000, np.float32))


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_a_load_behind_a_tensor_reads_nothing(write: Any, device: str) -> None:
    """The last thirty elements are 0, not twice what lies behind the tensor."""
    loaded = tileprof.load_kernel(write(moved("load", 30)))
    assert not any(op.in_bounds for op in loaded.program.kernel.ops() if isinstance(op, ir.Load))
    around = np.full(2000, 7, np.float32)
    given = around[:1000]
    given[:] = np.arange(1000)
    with tileprof.device(device):
        found = np.asarray(loaded(given))
    assert found[:970].tolist() == (2 * given[30:]).tolist()
    assert not found[970:].any()


def test_kernels_saved_to_one_path_at_once_are_whole(tmp_path: Path) -> None:
    """Threads save and load; none fails, and nothing but the file remains."""
    kernel, path = kernels.double.compile(N=1000), tmp_path / "double.tpk"
    kernel.save(path, ["sm_80"])
    with ThreadPoolExecutor(4) as pool:
        saves = [pool.submit(kernel.save, path, ["sm_80"]) for _ in range(12)]
        loads = [pool.submit(tileprof.load_kernel, path) for _ in range(12)]
        for each in (*saves, *loads):
            each.result()
    assert [*tmp_path.iterdir()] == [path]


def geometry(**changes: Any) -> Edit:
    """Change what a launch says."""

    def edit(members: dict[str, bytes], held: dict[str, Any]) -> None:
        held["variants"][0]["launches"][0].update(changes)

    return edit


def other_image(members: dict[str, bytes], held: dict[str, Any]) -> None:
    """Machine code without the kernel's function."""
    members["0.cubin"] = (Path(__file__).parents[1] / "binary/data/spill.sm_90a.cubin").read_bytes()


def damaged_image(members: dict[str, bytes], held: dict[str, Any]) -> None:
    """Machine code that is cut."""
    members["0.cubin"] = members["0.cubin"][:100]


def no_image(members: dict[str, bytes], held: dict[str, Any]) -> None:
    """A member that is missing."""
    del members["0.cubin"]


def deep(members: dict[str, bytes], held: dict[str, Any]) -> None:
    """A place in calls within each other."""
    place: dict[str, Any] | None = None
    for _ in range(300):
        place = {"file": "a", "line": 1, "caller": place}
    decision = {"code": "loads-and-stores", "facts": {}}
    remark = {"decision": decision, "op": "a", "location": place}
    held["variants"][0]["remarks"] = [remark]


def older(members: dict[str, bytes], held: dict[str, Any]) -> None:
    """A remark as version 3 wrote it, whose reasons are no list."""
    held["version"] = 3
    held["variants"][0]["remarks"] = [{"op": "a", "chosen": "a thing", "rejected": 5}]


REFUSED: dict[str, tuple[Edit, str]] = {
    "older remark": (older, "remarks has no `'chosen'`"),
    "threads": (geometry(threads=2048), "cannot be launched as it says"),
    "odd threads": (geometry(threads=33), "cannot be launched as it says"),
    "shared memory": (geometry(shared=1 << 20), "cannot be launched as it says"),
    "function": (geometry(function="other"), "has no function `other`"),
    "arguments": (
        geometry(arguments=[{"kind": "pointer", "index": 0, "dtype": None}]),
        "takes other arguments than its launch gives",
    ),
    "parameter": (
        geometry(arguments=[{"kind": "pointer", "index": 7, "dtype": None}]),
        "argument pointer 7 does not belong to its kernel",
    ),
    "unknown field": (geometry(colour=1), "launch has no `'colour'`"),
    "wrong type": (geometry(cluster="1"), "launch.cluster cannot be '1'"),
    "grid": (geometry(grid=3), "its launches are not those of its program"),
    "other code": (other_image, "its machine code is for sm_90a, not for sm_80"),
    "cut code": (damaged_image, "its machine code is damaged"),
    "device op": (replaced("parallel", "mark {state = 0}\n  parallel"), "no `mark`"),
    "schedule": (
        replaced("threads = [", "schedule = [[shared, 64]], threads = ["),
        "says how it is scheduled",
    ),
    "attribute": (replaced("threads = [", "threads = [true, "), "`threads` cannot be"),
    "grid of no axes": (
        lambda members, held: held["variants"][0].update(host="kernel @k() {\n}"),
        "the program of the host is not a list of scalars",
    ),
    "nested": (deep, "nests too deeply"),
    "signature": (lambda m, held: held.update(arguments=["B"]), "its arguments are not those"),
    "returned": (lambda m, held: held.update(returned=[9]), "it returns what it does not have"),
    "no image": (no_image, "a variant has no machine code"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_its_program_is_refused(write: Any, case: str) -> None:
    """In one sentence that says what."""
    edit, sentence = REFUSED[case]
    with pytest.raises(UsageError, match="is not a kernel of tileprof, or damaged") as caught:
        tileprof.load_kernel(write(edit))
    assert sentence in str(caught.value)


def test_memory_is_not_seen_as_larger_than_it_is(write: Any) -> None:
    """A view of another shape has as many bytes as its base."""

    def larger(members: dict[str, bytes], held: dict[str, Any]) -> None:
        lines = members["kernel.ir"].decode().splitlines()
        name = lines[0].split("(")[1].split(":")[0]
        first = next(n for n, each in enumerate(lines) if "launch" in each)
        view = f"%large = reinterpret {name} {{shape = [100000]}} : global<100000, float32>"
        lines.insert(first, view)
        members["kernel.ir"] = "\n".join(lines).encode()

    with pytest.raises(UsageError, match="which need not have the same size"):
        tileprof.load_kernel(write(larger))


def test_machine_code_of_another_file_is_refused(saved: dict[str, bytes], tmp_path: Path) -> None:
    """The file holds digests of its members."""
    path = pack(tmp_path / "k.tpk", {**saved, "0.cubin": saved["0.cubin"] + b" "})
    with pytest.raises(UsageError, match=r"`0\.cubin` is not what was saved with it"):
        tileprof.load_kernel(path)


@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_a_file_that_others_can_write_is_refused(write: Any, mode: int) -> None:
    """Unless the caller trusts them."""
    path = write(lambda members, held: None)
    path.chmod(mode)
    with pytest.raises(UsageError, match="can be written by others") as caught:
        tileprof.load_kernel(path)
    assert "trust=True" in str(caught.value)
    assert tileprof.load_kernel(path, trust=True).arguments == ("A",)


def test_a_file_that_others_can_replace_is_refused(write: Any, tmp_path: Path) -> None:
    """A sticky folder, such as /tmp, lets nobody else do that."""
    path = write(lambda members, held: None)
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by others"):
        tileprof.load_kernel(path)
    tmp_path.chmod(0o1777)
    assert tileprof.load_kernel(path).arguments == ("A",)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_refused(write: Any) -> None:
    """Its owner can write it."""
    path = write(lambda members, held: None)
    os.chown(path, 4711, 4711)
    with pytest.raises(UsageError, match="belongs to another user"):
        tileprof.load_kernel(path)


def test_saving_leaves_no_rights_to_others_and_follows_no_link(tmp_path: Path) -> None:
    """Whatever the umask is, and whatever lies beside the file."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "k.tpk.partial").symlink_to(victim)
    before = os.umask(0)
    try:
        kernels.double.compile(N=1000).save(tmp_path / "k.tpk", ["sm_80"])
    finally:
        os.umask(before)
    assert victim.read_text() == "mine"
    assert (tmp_path / "k.tpk").stat().st_mode & 0o022 == 0


def test_bombs_are_refused(saved: dict[str, bytes], tmp_path: Path) -> None:
    """What unpacks to more than a kernel can have, members without end, one name twice."""
    path = pack(tmp_path / "k.tpk", {**saved, "kernel.ir": b" " * (20 << 20)})
    with pytest.raises(UsageError, match="is larger than 16,777,216 bytes"):
        tileprof.load_kernel(path)
    path = pack(tmp_path / "k.tpk", {**saved, **{f"{n}.x": b"" for n in range(100)}})
    with pytest.raises(UsageError, match=r"it has 10\d members"):
        tileprof.load_kernel(path)
    path = pack(tmp_path / "k.tpk", {**saved, "kernel.json": b"[" * 100_000})
    with pytest.raises(UsageError, match="nests too deeply"):
        tileprof.load_kernel(path)
    with (
        zipfile.ZipFile(tmp_path / "k.tpk", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate"),
    ):
        archive.writestr("kernel.ir", "kernel")
    with pytest.raises(UsageError, match="two members have one name"):
        tileprof.load_kernel(path)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "k.tpk")
    with pytest.raises(UsageError, match="it is not a file"):
        tileprof.load_kernel(tmp_path / "k.tpk")
