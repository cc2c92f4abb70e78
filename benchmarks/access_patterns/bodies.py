"""The instructions of patterns, as CUDA C++; each kind of instruction has a kernel.

In: names of bodies.  Out: their text, which NVRTC compiles.  Addresses come in the kernel's
parameters, so that reading them asks neither the L1 nor shared memory for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Body:
    """Statements of a kernel, and the machine code that they become."""

    text: str
    opcode: str
    """Start of the instruction's name in SASS, with its modifiers."""
    times: int = 1
    """How often the machine code has it."""
    every_lane: bool = False
    """Whether all lanes run it, also those without an address."""


_ASM = "asm volatile"


def _copy(kind: str, width: int, count: str) -> str:
    """Return a copy by cp.async as `tileprof.compiler.cuda.prelude` writes it."""
    prefetch = ".L2::128B" if kind == "cg" else ""
    return (
        f'{_ASM}("cp.async.{kind}.shared.global{prefetch} [%0], [%1], {width}, %2;"'
        f' :: "r"(held + second), "l"(memory + first), "r"({count}) : "memory");'
    )


def _vector(width: int) -> tuple[str, str, int]:
    """Return the suffix of PTX, the letter of its registers, and how many there are."""
    return {1: ("u8", "r", 1), 2: ("u16", "h", 1), 4: ("b32", "r", 1), 8: ("v2.b32", "r", 2),
            16: ("v4.b32", "r", 4)}[width]  # fmt: skip


def _load(space: str, width: int, at: str, letter: str) -> str:
    kind, register, count = _vector(width)
    names = ", ".join(f"%{each}" for each in range(count))
    value = f"{{{names}}}" if count > 1 else names
    of = {"r": "unsigned", "h": "unsigned short"}[register]
    out = ", ".join(f'"={register}"(v[{each}])' for each in range(count))
    return (
        f"{{ {of} v[{count}];"
        f' {_ASM}("ld.{space}.{kind} {value}, [%{count}];" : {out} : "{letter}"({at}) : "memory");'
        f" {_used(count)} }}"
    )


def _used(values: int) -> str:
    """Return a use of the values `v` that accesses no memory; ptxas removes a load without one."""
    return f"if (({' ^ '.join(f'v[{each}]' for each in range(values))}) == count + 12345) __trap();"


def _store(space: str, width: int, at: str, letter: str) -> str:
    kind, register, count = _vector(width)
    names = ", ".join(["%1"] * count)
    value = f"{{{names}}}" if count > 1 else names
    given = {"r": "count", "h": "(unsigned short)count"}[register]
    return (
        f'{_ASM}("st.{space}.{kind} [%0], {value};"'
        f' :: "{letter}"({at}), "{register}"({given}) : "memory");'
    )


def _matrices(way: str, number: int, transposed: bool = False) -> str:
    names = ", ".join(f"%{each + (way == 'st')}" for each in range(number))
    turned = ".trans" if transposed else ""
    what = f"{way}matrix.sync.aligned.m8n8.x{number}{turned}.shared.b16"
    if way == "st":
        given = ", ".join(['"r"(count)'] * number)
        return f'{_ASM}("{what} [%0], {{{names}}};" :: "r"(held + first), {given} : "memory");'
    out = ", ".join(f'"=r"(v[{each}])' for each in range(number))
    return (
        f"{{ unsigned v[{number}];"
        f' {_ASM}("{what} {{{names}}}, [%{number}];" : {out} : "r"(held + first) : "memory");'
        f" {_used(number)} }}"
    )


def _atomic(what: str, letter: str = "r", value: str = "count", space: str = "shared") -> str:
    """Return an atomic without a result."""
    at = '"r"(held + first)' if space == "shared" else '"l"(memory + first)'
    return f'{_ASM}("red.{space}.{what} [%0], %1;" :: {at}, "{letter}"({value}) : "memory");'


def _atomic_with_result(what: str, values: int = 1, space: str = "shared") -> str:
    at = '"r"(held + first)' if space == "shared" else '"l"(memory + first)'
    names = ", ".join(f"%{2 + each}" for each in range(values))
    given = ", ".join(['"r"(count)'] * values)
    return (
        f'{{ unsigned v[1]; {_ASM}("atom.{space}.{what} %0, [%1], {names};"'
        f' : "=r"(v[0]) : {at}, {given} : "memory"); {_used(1)} }}'
    )


def _in_local(width: int) -> str:
    """Return a store to and a load from an array of each thread."""
    at = "__cvta_generic_to_local(own)"
    stored = _store("local", width, f"{at} + first", "l")
    return f"__align__(16) int own[128]; {stored} {_load('local', width, f'{at} + second', 'l')}"


def _loaded(instruction: str) -> str:
    """Return a load by the copy engine, with the barrier that waits for its bytes; not for
    ever, if a box should bring others than it is said to."""
    return f"""if (threadIdx.x == 0) {{
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    {_ASM}("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
    {_ASM}("fence.mbarrier_init.release.cluster;" ::: "memory");
    {_ASM}("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at), "r"(count) : "memory");
    {instruction}
    {_ASM}("{{.reg .pred p; .reg .u32 n; mov.u32 n, 0;"
           " again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @p bra done;"
           " add.u32 n, n, 1; setp.lt.u32 p, n, 100000; @p bra again; done:}}"
           :: "r"(at) : "memory");
  }}"""


def _stored(instruction: str) -> str:
    """Return a store by the copy engine, which is waited for."""
    return f"""if (threadIdx.x == 0) {{
    {instruction}
    {_ASM}("cp.async.bulk.commit_group;" ::: "memory");
    {_ASM}("cp.async.bulk.wait_group 0;" ::: "memory");
  }}"""


def _tensor(way: str, rank: int) -> str:
    point = ", ".join(f"%{2 + each}" for each in range(rank))
    starts = ", ".join(f'"r"(lanes.second[{each}])' for each in range(rank))
    if way == "load":
        what = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
        return _loaded(
            f'{_ASM}("{what} [%0], [%1, {{{point}}}], [%{2 + rank}];"'
            f' :: "r"(held), "l"(&map), {starts}, "r"(at) : "memory");'
        )
    kind = "reduce." if way == "add" else ""
    added = ".add" if way == "add" else ""
    what = f"cp.{kind}async.bulk.tensor.{rank}d.global.shared::cta{added}.bulk_group"
    return _stored(
        f'{_ASM}("{what} [%1, {{{point}}}], [%0];" :: "r"(held), "l"(&map), {starts} : "memory");'
    )


def _bulk(way: str) -> str:
    if way == "load":
        return _loaded(
            f'{_ASM}("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes'
            ' [%0], [%1], %2, [%3];"'
            ' :: "r"(held), "l"(memory + first), "r"(count), "r"(at) : "memory");'
        )
    return _stored(
        f'{_ASM}("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"'
        ' :: "l"(memory + first), "r"(held), "r"(count) : "memory");'
    )


BODIES: dict[str, Body] = {
    "cg16": Body(_copy("cg", 16, "count ? 16 : 0"), "LDGSTS.E.BYPASS.LTC128B.128"),
    "cg16 by number": Body(_copy("cg", 16, "count"), "LDGSTS.E.BYPASS.LTC128B.128.ZFILL"),
    "ca16": Body(_copy("ca", 16, "count ? 16 : 0"), "LDGSTS.E.128"),
    "ca8": Body(_copy("ca", 8, "count ? 8 : 0"), "LDGSTS.E.64"),
    "ca4": Body(_copy("ca", 4, "count ? 4 : 0"), "LDGSTS.E"),
    "lds2": Body(_load("shared", 2, "held + first", "r"), "LDS.U16"),
    "lds4": Body(_load("shared", 4, "held + first", "r"), "LDS"),
    "lds8": Body(_load("shared", 8, "held + first", "r"), "LDS.64"),
    "lds16": Body(_load("shared", 16, "held + first", "r"), "LDS.128"),
    "sts2": Body(_store("shared", 2, "held + first", "r"), "STS.U16"),
    "sts4": Body(_store("shared", 4, "held + first", "r"), "STS"),
    "sts8": Body(_store("shared", 8, "held + first", "r"), "STS.64"),
    "sts16": Body(_store("shared", 16, "held + first", "r"), "STS.128"),
    **{
        f"ldsm{n}": Body(_matrices("ld", n), "LDSM.16.M88", every_lane=True) for n in (1, 2, 4)
    },
    "ldsm4 transposed": Body(_matrices("ld", 4, True), "LDSM.16.MT88.4", every_lane=True),
    **{
        f"stsm{n}": Body(_matrices("st", n), "STSM.16.M88", every_lane=True) for n in (1, 2, 4)
    },
    "atoms inc": Body(_atomic("add.u32", value="1"), "ATOMS.POPC.INC"),
    "atoms add": Body(_atomic("add.u32"), "ATOMS.ADD"),
    "atoms add, result": Body(_atomic_with_result("add.u32"), "ATOMS.ADD"),
    "atoms max": Body(_atomic("max.s32"), "ATOMS.MAX"),
    "atoms exchange": Body(_atomic_with_result("exch.b32"), "ATOMS.EXCH"),
    "atoms cas": Body(_atomic_with_result("cas.b32", 2), "ATOMS.CAS"),
    "atoms add 64": Body(
        _atomic("add.u64", "l", "(unsigned long long)count"), "ATOMS.CAST.SPIN.64"),
    "atoms add f32": Body(_atomic("add.f32", "f", "__int_as_float(count)"), "ATOMS.CAST.SPIN"),
    "atoms add f16x2": Body(_atomic("add.noftz.f16x2"), "ATOMS.CAST.SPIN"),
    **{
        f"ldg{n}": Body(_load("global", n, "memory + first", "l"), code)
        for n, code in
        ((1, "LDG.E.U8"), (2, "LDG.E.U16"), (4, "LDG.E"), (8, "LDG.E.64"), (16, "LDG.E.128"))
    },
    "ldg4 twice": Body(
        _load("global", 4, "memory + first", "l") + "\n  __syncwarp();\n  "
        + _load("global", 4, "memory + second", "l"), "LDG.E", 2,
    ),
    "ldg16 twice": Body(
        _load("global", 16, "memory + first", "l") + "\n  __syncwarp();\n  "
        + _load("global", 16, "memory + second", "l"), "LDG.E.128", 2,
    ),
    **{
        f"stg{n}": Body(_store("global", n, "memory + first", "l"), code)
        for n, code in ((4, "STG.E"), (8, "STG.E.64"), (16, "STG.E.128"))
    },
    "red add": Body(_atomic("add.u32", space="global"), "REDG.E.ADD.STRONG.GPU"),
    "red add f32": Body(
        _atomic("add.f32", "f", "__int_as_float(count)", "global"), "REDG.E.ADD.F32"),
    "red add f16x2": Body(_atomic("add.noftz.f16x2", space="global"), "REDG.E.ADD.F16x2"),
    "red add 64": Body(
        _atomic("add.u64", "l", "(unsigned long long)count", "global"), "REDG.E.ADD.64"),
    "red add f32x4": Body(
        f'{_ASM}("red.global.add.v4.f32 [%0], {{%1, %1, %1, %1}};"'
        ' :: "l"(memory + first), "f"(__int_as_float(count)) : "memory");', "REDG.E.ADD.F32x4"),
    "atomg add": Body(_atomic_with_result("add.u32", space="global"), "ATOMG.E.ADD"),
    "atomg cas": Body(_atomic_with_result("cas.b32", 2, "global"), "ATOMG.E.CAS"),
    **{f"local{n}": Body(_in_local(n), "LDL") for n in (4, 8, 16)},
    **{
        f"tma {way} {rank}": Body(_tensor(way, rank), code, every_lane=True)
        for way, code in (("load", "UTMALDG"), ("store", "UTMASTG"), ("add", "UTMAREDG"))
        for rank in (2, 3)
    },
    "bulk load": Body(_bulk("load"), "UBLKCP", every_lane=True),
    "bulk store": Body(_bulk("store"), "UBLKCP", every_lane=True),
}  # fmt: skip
"""Bodies by name."""

_HEAD = """
struct Lanes { int first[32], second[32], count[32]; };
struct alignas(64) Map { unsigned char bytes[128]; };
#define ADDRESSES                                                                      \\
  __shared__ __align__(1024) unsigned char space[32768];                               \\
  const unsigned held = (unsigned)__cvta_generic_to_shared(space);                     \\
  const int first = lanes.first[threadIdx.x], second = lanes.second[threadIdx.x];      \\
  const int count = lanes.count[threadIdx.x];
"""
PARAMETERS = (128, 384, 8)
"""Bytes of the parameters: a tensor map, the lanes' numbers, the address of global memory."""


def kernel_of(body: str) -> str:
    """Return the name of a body's kernel."""
    return "pattern_" + re.sub("[^a-z0-9]+", "_", body)


def text(bodies: Iterable[str], copies: Mapping[str, str] | None = None) -> str:
    """Return the kernels of bodies; `copies`: further kernels, by name, with the body of each.

    NVRTC takes 60 ms for a kernel, so that patterns of a body share one.
    """
    kernels = {kernel_of(each): each for each in bodies} | dict(copies or {})
    return _HEAD + "".join(
        f'extern "C" __global__ void {name}(const __grid_constant__ Map map,\n'
        "    const __grid_constant__ Lanes lanes, char *memory) {\n"
        f"  ADDRESSES\n  {_guarded(BODIES[body])}\n{_end(body)}}}\n"
        for name, body in kernels.items()
    )


def _guarded(body: Body) -> str:
    return body.text if body.every_lane else f"if (first >= 0) {{ {body.text} }}"


def _end(body: str) -> str:
    """Return what waits for copies."""
    wait = f'  {_ASM}("cp.async.wait_all;" ::: "memory");\n'
    return wait if BODIES[body].opcode.startswith("LDGSTS") else ""
