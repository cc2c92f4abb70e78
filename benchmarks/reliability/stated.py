"""Files that chance seldom makes, each of which meets one refusal of a reader.

In: the kept files of `tests/data/fuzz`.  Out: the same ones with one stated fault each:
profiles, texts of IR, saved kernels, cubins.  Mutants find what nobody thought of, these what is
far from any mutant, such as a limit of 10,000 ops.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .saved_kernels import members_of, packed

__all__ = ["cubins", "kernels", "paths", "profiles", "texts"]

CORPUS = Path(__file__).parents[2] / "tests" / "data" / "fuzz"

# -- profiles

_NUMBERS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {}) "
_SQL = (
    ("ALTER TABLE files ADD COLUMN more TEXT AS ('a')",),
    (_NUMBERS.format(1001) + "INSERT INTO timeline_tracks SELECT x + 99, 'a', 'a', x, 0 FROM n",),
    (_NUMBERS.format(20_002) + "INSERT INTO timeline_tracks SELECT x + 99, 'a', 'a', x, 0 FROM n",),
    (_NUMBERS.format(1_000_001) + "INSERT INTO files SELECT x + 99, 'a' FROM n",),
    # Dense metrics need a value for each node: 10,000 nodes by 990 metrics.
    (_NUMBERS.format(10_000) + "INSERT INTO nodes SELECT x + 99, 0, 0 FROM n",
     _NUMBERS.format(990)
     + "INSERT INTO metrics SELECT x + 99, 'm' || x, '', 'sum', 0, 'dense', 0 FROM n"),
    (_NUMBERS.format(10_050) + "INSERT INTO nodes SELECT x + 2, x + 1, 0 FROM n",),
    (_NUMBERS.format(5_000) + "INSERT INTO nodes SELECT x + 99, 0, 0 FROM n",
     "UPDATE symbols SET name = hex(zeroblob(9000))"),
    (_NUMBERS.format(150)
     + "INSERT INTO locations SELECT x + 99, 0, 1, 0, 1, 0, '', nullif(x + 98, 99) FROM n",
     "UPDATE symbols SET location = 249"),
    ("UPDATE kernels SET source = char(27) || 'a' WHERE id = 0",),
    ("DELETE FROM kernel_ir", "UPDATE kernels SET ir = replace(hex(zeroblob(400)), '0', '{')"),
    ("DELETE FROM kernel_ir",
     "UPDATE kernels SET ir = 'kernel @k(%x: global<4, float32>) {' || char(10) "
     "|| 'assert \"a\" %x {b = \"\\q\", c = [[1.5, x]], d = 99999999999999999999}' "
     "|| char(10) || '}'"),
    ("DELETE FROM kernel_ir",
     "UPDATE kernels SET ir = 'for %i {a = ' || replace(hex(zeroblob(20)), '0', '[') || '}'"),
)  # fmt: skip


def _program_edits() -> Iterator[Callable[[dict[str, Any]], object]]:
    """Yield changes of a kernel's program, of which each is refused."""

    def op(place: int, value: Any) -> Callable[[dict[str, Any]], object]:
        def change(held: dict[str, Any]) -> None:
            held["ops"][0][place] = value

        return change

    deep: Any = "a"
    for _ in range(30):
        deep = [deep]
    yield from (op(0, 7), op(0, 1 << 70), op(1, -1), op(2, 3), op(3, [deep]), op(3, "a"))
    yield from (op(4, ["x"]), op(6, []), op(7, ["%q"]), op(8, [["float32", "global", [-1]]]))
    yield from (op(8, [["float32", "global", [1.5]]]), op(6, {"a": 1e400}), op(6, {"a": 1 << 70}))
    yield lambda held: held["parameters"].append(["%q", 3, ["float32"]])
    yield lambda held: held["blocks"].append([0, "more", []])
    yield lambda held: held["blocks"].append([999, "more", []])
    yield lambda held: held["blocks"].pop()
    yield lambda held: held.update(ops={})
    yield lambda held: held.update(ops=held["ops"] * 200_001)
    yield lambda held: held.pop("ops")

    def nested(held: dict[str, Any]) -> None:
        held["ops"] = [[n, 0, "a", [], [], [], {}, [], []] for n in range(400)]
        held["blocks"] = [[n - 1, "a", []] for n in range(401)]

    yield nested


def profiles() -> Iterator[bytes]:
    """Yield profiles, each with one fault."""
    from .profiles import sound_profiles

    content = sound_profiles()[0][1]
    for statements in _SQL:
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(content)
            for each in statements:
                database.execute(each)
            database.commit()
            yield database.serialize()
    for edit in _program_edits():
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(content)
            ((number, packed_program),) = database.execute(
                "SELECT kernel, content FROM kernel_ir LIMIT 1"
            ).fetchall()
            held = json.loads(zlib.decompress(packed_program))
            edit(held)
            changed = zlib.compress(json.dumps(held).encode())
            database.execute("UPDATE kernel_ir SET content = ? WHERE kernel = ?", (changed, number))
            database.commit()
            yield database.serialize()


# -- texts of IR

_BASE = """kernel @k(%x: out global<64, float32>, %s: float32, %g: global<n, float32>) symbols(%n) {
  %c4 = constant 4 : index
  launch [%c4] {threads = [64]} body(%bx: index) {
    %t = alloc shared {shape = [64]} : shared<64, float32>
    %f = alloc fragment {shape = [64]} : fragment<64, float32>
    HERE
  }
}
"""
_IN_A_LAUNCH = (
    "break",
    "yield [%c4]",
    "launch [%c4] {threads = [32]} body(%q: index) {\n}",
    "%q = alloc global {shape = [4]} : global<4, float32>",
    "%q = alloc shared {shape = [4], offset = 64} : shared<4, float32>",
    "%q = alloc shared {shape = [99999999]} : shared<99999999, float32>",
    "%q = alloc local {shape = [99999999]} : local<99999999, float32>",
    "%q = view %x, [%bx] {sizes = [4]} : global<4, float32>\n"
    "%r = view %q, [%bx] {sizes = [4]} : global<4, float32>",
    "%q = view %x, [%bx] {sizes = [4]} : global<4, float32>\n"
    "%r = reinterpret %q {shape = [8]} : global<8, float16>",
    "%q = reinterpret %t {shape = [8]} : shared<8, float32>",
    "copy %x, %t {lowering = [tma]}",
    "copy %x, %t {lowering = 3}",
    "copy %x, %t {hints = " + "[" * 20 + "]" * 20 + "}",
    "copy %x, %t {hints = [[a, 99999999999999999999999]]}",
    "copy %x, %t {hints = none}",
    "copy %f, %t {lowering = [cp_async, [bytes, 16]]}",
    "for serial %c4, %c4, %c4 {schedule = [[once, true]]} body(%k: index) {\n}",
    "for persistent %c4, %c4, %c4 body(%k: index) {\nyield [%k]\n}",
    "for serial %c4, %c4, %c4 body(%k: index) {\nbreak\nbreak\n}",
    "parallel [%c4] body(%i: index) {\nbreak\n}",
    "for serial %c4, %c4, %c4 body(%k: index) {\nparallel [%c4] body(%i: index) {\nbreak\n}\n}",
    "parallel [%c4] body(%i: index) {\nfill %t, %s\n}",
    "scan sum %f, %f {dim = 0, scratch = 64}",
    "%q = alloc fragment {shape = [4, 64]} : fragment<4, 64, float32>\n"
    "reduce sum %q, %f {dim = 0, partial = true}",
    "%q = constant 300 : int8",
    "%q = constant 300 : uint8",
    "%q = add %none, %c4 : index",
    "%q = add %bx, _ : index",
    "\n".join(["if %c4 then {"] * 101),
    "\n".join(["scope s body {"] * 101 + ["}"] * 101),
    "\n".join(f"%q{n} = add %bx, %bx : index" for n in range(10_001)),
    "\n".join(f"%q{n + 1} = add %q{n}, %bx : index" for n in range(301)).replace("%q0,", "%bx,"),
    "%q = load %x, [%bx, %bx] : float32",
    "%q = load %bx, [%bx] : float32",
)
"""Bodies of launches that are refused; most are, but for their fault, right."""
_IN_HEADS = (
    ("kernel @k", "kernel @" + "k" * 300),
    ("symbols(%n)", "symbols(%n, %n)"),
    ("out global<64, float32>", 'out global<64, float32> safe("x")'),
    ("out global<64, float32>", "out global<64, float32, strides = 3>"),
    ("out global<64, float32>", "out global<64, float32, strides = [1, 2]>"),
    ("out global<64, float32>", "out global<64, float32, strides = [2]>"),
    ("out global<64, float32>", "shared<64, float32>"),
    ("out global<64, float32>", "out global<281474976710657, float32>"),
    ("out global<64, float32>", "out global<-4, float32>"),
    ("out global<64, float32>", "out global<64, 64>"),
    ("out global<64, float32>", "out garden<64, float32>"),
    ("out global<64, float32>", "out garden"),
    ("threads = [64]", "threads = [2048]"),
    ("threads = [64]", "threads = [1, 1, 1, 1]"),
    ("threads = [64]", "threads = [64], schedule = [[cluster, 2]]"),
    ("threads = [64]", "threads = [64, 1.5]"),
    ("%s: float32", "%x: float32"),
    ("  %c4", "  %q = alloc local {shape = []} : local<int32>\n  %c4"),
    ("  %c4", '  site 0 colour "a"\n  %c4'),
    ("  %c4", '  site 3 op "a"\n  %c4'),
    ("  %c4", '  site 0 op "a"\n  site 1 op "b" in 1\n  %c4'),
    ("  %c4", '  site 0 op "a" loc("f.py":1.5:0-1:2 "f")\n  %c4'),
    ("  %c4", '  site 0 op "a\\ud8"\n  %c4'),
    ("  %c4", '  site 0 op "a"\n  %c4'),
    ("  %c4", "  state 2\n  %c4"),
    ("  %c4", "  state 0 in 4\n  %c4"),
    ("  %c4", '  site 0 op "a"\n  state 0 in 0 from 7\n  %c4'),
    ("  %c4", "  mark {state = 0}\n  %c4"),
    ("  %c4", "  state 0\n  mark {state = 0}\n  %c4"),
)
"""Parts of the text that are replaced."""


def texts() -> Iterator[str]:
    """Yield texts of IR, each with one fault."""
    for body in _IN_A_LAUNCH:
        yield _BASE.replace("HERE", body)
    for old, new in _IN_HEADS:
        yield _BASE.replace("HERE", "").replace(old, new, 1)
    yield _BASE.replace("HERE", "") + " " * (4 << 20)
    yield _BASE.replace("HERE", "") + "kernel"
    yield _BASE[:40]
    yield "kernel @k(%x: out global<64, float32>) {\n  return ?\n}"


# -- saved kernels


def _edited(name: str, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A kept file whose `kernel.json` is changed; its digests fit."""
    members = members_of((CORPUS / "kernels" / f"{name}.tpk").read_bytes())
    held = json.loads(members["kernel.json"])
    change(held)
    return packed({**members, "kernel.json": json.dumps(held).encode()}, fitting=True)


def _with_text(name: str, old: str, new: str) -> bytes:
    """A kept file whose IR is changed; its digests fit."""
    members = members_of((CORPUS / "kernels" / f"{name}.tpk").read_bytes())
    text = members["kernel.ir"].decode()
    assert old in text, (name, old)
    return packed({**members, "kernel.ir": text.replace(old, new).encode()}, fitting=True)


def _variant(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda held: held["variants"][0].update({key: value})


def _launch(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda held: held["variants"][0]["launches"][0].update({key: value})


def _map(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda held: held["variants"][0]["launches"][0]["maps"][0].update({key: value})


def _yields(new: str) -> Callable[[dict[str, Any]], object]:
    def change(held: dict[str, Any]) -> None:
        variant = held["variants"][0]
        variant["host"] = re.sub(r"yield \[.*\]", f"yield [{new}]", variant["host"])

    return change


def _callers(depth: int) -> dict[str, Any] | None:
    """A place with so many callers."""
    found: dict[str, Any] | None = None
    for _ in range(depth):
        found = {"file": "a.py", "line": 1, "caller": found}
    return found


def _place(location: Any) -> list[dict[str, Any]]:
    return [{"kind": "assert", "location": location, "message": "", "name": "", "shape": [],
             "site": 0, "access": "", "extents": [], "dtype": None, "point": []}]  # fmt: skip


_CHANGES: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
    ("double", lambda held: held.update(variants=[])),
    ("double", lambda held: held.update(variants=[3])),
    ("double", lambda held: held.update(variants=None)),
    ("double", lambda held: held.update(version=5)),
    ("double", lambda held: held.update(version=True)),
    ("spoken", lambda held: held.update(version=1)),
    ("double", lambda held: held.update(arguments=["B"])),
    ("double", lambda held: held.update(returned=[9])),
    ("double", lambda held: held.update(derived={"m": ""})),
    ("double", lambda held: held.update(arguments=_callers(200))),
    ("padded", lambda held: held.update(derived={})),
    ("padded", lambda held: held["derived"].update(
        out0_dim0=held["derived"]["out0_dim0"].replace("yield [%2]", "yield [%2, %2]"))),
    ("padded", lambda held: held["derived"].update(
        out0_dim0=held["derived"]["out0_dim0"].replace("constant 64", "constant -64"))),
    ("padded", _yields("%N")),
    ("scale", _yields("")),
    ("product", _yields("")),
    ("scale", lambda held: held["variants"][0].update(
        host=held["variants"][0]["host"].replace("yield [", "%half = constant 0.5 : float32\n"
                                                 "yield [%half, "))),
    ("scale", lambda held: held["variants"][0].update(
        host=re.sub(r"yield \[.*\]", "%half = constant 0.5 : float32\nyield ["
                    + ", ".join(["%half"] * 8) + "]", held["variants"][0]["host"]))),
    ("double", _variant("image", "none")),
    ("double", _variant("target", "sm_0")),
    ("double", _variant("places", _place(_callers(3)))),
    ("double", _variant("places", _place(_callers(150)))),
    ("double", _variant("controls", {"limit": [1, 2]})),
    ("double", _variant("remarks", [{}])),
    ("double", _launch("threads", 33)),
    ("double", _launch("cluster", 99)),
    ("double", _launch("grid", 2)),
    ("double", _launch("arguments", [{"kind": "pointer", "index": 9, "dtype": None}])),
    ("double", _launch("arguments", [{"kind": "map", "index": 0, "dtype": None}])),
    ("double", _launch("arguments", [{"kind": "host", "index": 0, "dtype": "int64"}])),
    ("scale", _launch("arguments", [{"kind": "scalar", "index": 0, "dtype": "int64"}])),
    ("product", _map("param", 9)),
    ("product", _map("box", [999, 64])),
    ("product", _map("box", [])),
    ("product", _map("dtype", "float64")),
    ("product", _map("shape", ["none", 512])),
    ("product", _map("strides", [1 << 60, 1])),
)  # fmt: skip


def kernels() -> Iterator[bytes]:
    """Yield saved kernels, each with one fault."""
    for name, change in _CHANGES:
        yield _edited(name, change)
    yield _with_text("padded", "%A: global", "%a: out float32, %A: global")
    yield _with_text("double", "kernel @", "kernel @ @")
    sound = (CORPUS / "kernels" / "double.tpk").read_bytes()
    members = members_of(sound)
    yield b""
    yield sound[:-30]
    yield packed({**members, "kernel.json": b"[" * 200_000}, fitting=False)
    yield packed({**members, "kernel.json": b" " * (17 << 20)}, fitting=False)
    yield packed({**members, "kernel.json": b"[]"}, fitting=False)
    yield packed({**members, "kernel.ir": members["kernel.ir"] + b" "}, fitting=False)
    yield packed({**members, **{f"more{n}": b"" for n in range(100)}}, fitting=True)
    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        yield sink.getvalue()
    # The flag of an encrypted member stands in its header and in the archive's list.
    flagged = bytearray(sound)
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        flagged[sound.index(magic) + place] |= 1
    yield bytes(flagged)
    # Two members of one name.
    yield sound.replace(b"0.cubin", b"2.cubin")


# -- cubins


def _with_section(content: bytes, index: int, data: bytes) -> bytes:
    """A cubin whose section `index` holds other bytes, which are appended to the file."""
    made = bytearray(content)
    (table,) = struct.unpack_from("<Q", made, 0x28)
    struct.pack_into("<QQ", made, table + 64 * index + 24, len(made), len(data))
    return bytes(made + data)


def _section_numbers(content: bytes) -> dict[str, int]:
    from tileprof.binary.elf import parse_elf

    return {each.name: each.index for each in parse_elf(content).sections}


def _unit(version: int, program: bytes, *, gap: int = 0, tables: bytes = b"\0\0") -> bytes:
    """A unit of a line table; `gap` moves the begin of its program."""
    extra = b"\1" if version == 4 else b""
    head = b"\1" + extra + b"\1" + struct.pack("<bBB", -5, 14, 10)
    head += bytes((0, 1, 1, 1, 1, 0, 0, 0, 1)) + tables
    body = struct.pack("<HI", version, len(head) + gap) + head + program
    return struct.pack("<I", len(body)) + body


_PROGRAMS = (
    b"\x08\x01",  # the address of opcode 255, a row
    b"\x05\x03\x01",  # an opcode with an argument that is passed over
    b"\x02" + b"\xff" * 30,  # a number without end
    b"\x02\x01\x03\x7f\x04\x01\x09\1\0\x01\0\x01\x01",
    b"\x01" * 2_000_000,  # rows without end
)


def _inlined(rows: int) -> bytes:
    """Rows of which each is inlined into the one before it."""

    def number(value: int) -> bytes:
        return bytes((value & 127 | 128, value >> 7))

    return b"\1" + b"".join(b"\0\5\x90" + number(row) + number(0) + b"\1" for row in range(1, rows))


def cubins() -> Iterator[bytes]:
    """Yield cubins, and what is none, each with one fault."""
    sound = (CORPUS / "cubins" / "sums.cubin").read_bytes()
    yield from (b"", b"\x50\xed\x55\xba" + bytes(60), b"text", b".version 8.0\n.target sm_90\n")
    yield from (b"\xff\xfe\xfd", sound[:40], sound[:18] + b"\x3e\0" + sound[20:])
    numbers = _section_numbers(sound)
    lines = numbers[".debug_line"]
    for program in (*_PROGRAMS, _inlined(400)):
        yield _with_section(sound, lines, _unit(2, program))
    yield _with_section(sound, lines, _unit(4, b"\x01"))
    yield _with_section(sound, lines, _unit(7, b"\x01"))
    yield _with_section(sound, lines, _unit(2, b"\x01", gap=-8))
    yield _with_section(sound, lines, _unit(2, b"\x01", tables=b"\0a.cu\0\x09\0\0\0"))
    info = next(number for name, number in numbers.items() if name.startswith(".nv.info."))
    for count, room in ((1, 1), (200, 1)):
        table = struct.pack("<III", 0, 0, count) + bytes(4 * room)
        yield _with_section(sound, info, struct.pack("<BBH", 4, 0x34, len(table)) + table)
    names, symbols = numbers[".strtab"], numbers[".symtab"]
    made = _with_section(sound, names, b"a" * 65_000 + b"\0")
    entries = b"".join(struct.pack("<IBBHQQ", at, 0, 0, 0, 0, 0) for at in range(1100))
    yield _with_section(made, symbols, entries)
    yield _with_section(sound, names, b"a" * 70_000)


def paths(folder: Path) -> Iterator[Path]:
    """Yield paths of what is no file, or is too large or too open to others to be read."""
    yield folder / "none"
    yield folder
    yield Path("/dev/null")
    for name, size in (("large", 600 << 20), ("open", 10)):
        path = folder / name
        with path.open("wb") as file:
            file.truncate(size)
        path.chmod(0o666 if name == "open" else 0o600)
        yield path
        path.unlink()
