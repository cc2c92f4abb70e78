"""Kernels that call the prelude, and what instructions they must become."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CALLS", "Call"]

BOTH = ("sm_90a", "sm_80")
HOPPER = ("sm_90a",)


@dataclass(frozen=True)
class Call:
    """The body of a kernel with `float *f, int *n, double *d, void *p` in global memory, `sh` in
    shared memory, a tensor map `map` and `i`, the thread."""

    name: str
    body: str
    sass: tuple[str, ...] = ()
    """Patterns of instructions that must be there, all of them."""
    without: tuple[str, ...] = ()
    targets: tuple[str, ...] = BOTH
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns for one target alone."""


def _mma(name: str, d: str = "float") -> str:
    return (
        f"{{ {d} d[4] = {{}}; tp_mma_{name}(d, a, b); for (int j = 0; j < 4; j++) f[j] += d[j]; }}"
    )


_NAMES = "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos"
FUNCTIONS = [*_NAMES.split(), "atan", "erf", "floor", "ceil", "trunc", "round_even", "sigmoid"]
_TMA_POINTS = ["1", "1, 2", "1, 2, 3", "1, 2, 3, 4", "1, 2, 3, 4, 5"]


def _tma(text: str) -> str:
    calls = "".join(text.replace("POINT", point) for point in _TMA_POINTS)
    return f"if (tp_elect()) {{ {calls} tp_bulk_commit(); }}"


_FRAGMENTS = "uint32_t a[4] = {1u, 2u, (uint32_t)i, 4u}, b[2] = {5u, (uint32_t)i};"

CALLS = (
    Call(
        "arithmetic",
        "int x = n[i], y = n[i + 1]; int64_t z = x; uint8_t s = (uint8_t)x;"
        "n[0] = tp_truncdiv<int>(x, y) + tp_truncmod<int>(x, y) + tp_floordiv<int>(x, 8)"
        " + tp_floormod<int>(x, y) + tp_shl<int>(x, y) + tp_shr<int>(x, y) + tp_abs<int>(x)"
        " + tp_min<int>(x, y) + tp_max<int>(x, y) + tp_popcount<uint8_t>(s) + tp_clz<uint8_t>(s)"
        " + (int)tp_popcount<int64_t>(z) + (int)tp_clz<int64_t>(z) + tp_within(x, y)"
        " + (int)tp_clip(x, y) + tp_uniform(x) + (INT64_MIN == z);"
        "f[1] = tp_floordiv(f[2], f[3]) + tp_floormod(f[2], f[3]) + tp_truncdiv(f[2], f[3])"
        " + tp_truncmod(f[2], f[3]) + tp_whole(f[1]) + tp_abs(f[4])"
        " + tp_min(f[5], __builtin_inff()) + tp_max(f[5], __builtin_nanf(\"\"));"
        "d[0] = __builtin_fma(d[1], d[2], d[3]); d[4] = __builtin_inf();"
        "d[5] = __builtin_nan(\"\");"
        "f[8] = __builtin_fmaf(f[1], f[2], tp_bit_cast<float>(x));",
        sass=(r"POPC", r"FLO", r"FMNMX", r"DFMA", r"FFMA", r"SHFL\.IDX"),
    ),
    Call(
        "words",
        "TpBfloat x[4] = {{(uint16_t)n[0]}, {(uint16_t)n[1]}, {(uint16_t)n[2]}, {7}}, y[4];"
        "uint32_t w[2]; tp_to_words<2>(w, x); w[1] += 1; tp_from_words<2>(y, w);"
        "n[3] = y[0].bits + y[3].bits;",
        without=(r"\bLDL", r"\bSTL"),
    ),
    Call("cluster_rank", "n[0] = tp_cluster_rank();", (r"CTAID|CgaCta|S2U?R",), targets=HOPPER),
    Call(
        "pack",
        "((uint32_t *)p)[i] = tp_pack2<TpBfloat>(f[i], f[i + 1]);"
        "((uint32_t *)p)[i + 32] = tp_pack2<TpHalf>(f[i], f[i + 1]);",
        also={
            "sm_90a": (r"F2FP\.BF16\.F32\.PACK_AB", r"F2FP\.F16\.F32\.PACK_AB"),
            "sm_80": (r"F2FP\.BF16\.PACK_AB", r"F2FP\.PACK_AB"),
        },
    ),
    Call(
        "pack fp8",
        "((uint32_t *)p)[i] = tp_pack4<TpE4m3>(f[i], f[i + 1], f[i + 2], f[i + 3]);"
        "((uint32_t *)p)[99] = tp_pack4<TpE5m2>(f[i], f[i + 1], f[i + 2], f[i + 3]);",
        also={"sm_90a": (r"SATFINITE\.E4M3\.F32\.PACK_AB", r"SATFINITE\.E5M2\.F32\.PACK_AB")},
    ),
    Call(
        "unpack",
        "uint32_t w = n[i]; float a, b, c, e; tp_unpack2<TpBfloat>(w, a, b); f[0] = a + b;"
        "tp_unpack2<TpHalf>(w, a, b); f[1] = a + b; tp_unpack4<TpE4m3>(w, a, b, c, e);"
        "f[2] = a + b + c + e; tp_unpack4<TpE5m2>(w, a, b, c, e); f[3] = a + b + c + e;",
        (r"HADD2\.F32",),
        also={"sm_90a": (r"F2FP\.F16\.E4M3\.UNPACK_B",)},
    ),
    *(
        Call(
            f"store {type_}",
            f"{type_} *t = ({type_} *)p; t[0] = tp_store<{type_}>(f[i]);"
            f"t[1] = tp_store<{type_}>(d[i]); t[2] = tp_store<{type_}>(n[i]);"
            f"t[3] = tp_store<{type_}>((int64_t)n[i] * n[1]); t[4] = tp_store<{type_}>(n[i] > 3);"
            f"t[5] = tp_store<{type_}>((uint32_t)n[2]); t[6] = tp_store<{type_}>((uint64_t)n[3]);"
            f"f[0] = tp_value(t[i]); f[1] = tp_round<{type_}>(tp_fma_odd(f[i], f[2], f[3]));"
            f"n[9] = TpIsNarrow<{type_}>::yes;",
            (r"FFMA\.RZ", r"FFMA\.RM", r"FFMA\.RP", r"F2F\.F32\.F64\.RZ"),
        )
        for type_ in ("TpHalf", "TpBfloat", "TpE4m3", "TpE5m2")
    ),
    Call(
        "halves",
        "TpHalf *t = (TpHalf *)p; t[0] = tp_half_add(t[1], t[i]); t[2] = tp_half_sub(t[3], t[i]);"
        "t[4] = tp_half_mul(t[5], t[i]); t[6] = tp_half(f[i]);",
        (r"HADD2(?!\.F32)", r"HMUL2|HFMA2"),
    ),
    Call("store bool", "bool *t = (bool *)p; t[i] = tp_store<bool>(f[i]);", (r"FSETP\.NEU",)),
    Call(
        "functions",
        "".join(f"f[{k}] = tp_{x}(f[{k}]);" for k, x in enumerate(FUNCTIONS))
        + "f[40] = tp_pow(f[1], f[2]) + tp_atan2(f[3], f[4]) + tp_copysign(f[5], f[6])"
        " + tp_fmod(f[7], f[8]); n[0] = tp_isnan(f[1]) + tp_isinf(f[2]) * 2 + tp_isfinite(f[3]);",
        (r"MUFU\.EX2", r"MUFU\.RSQ", r"MUFU\.RCP", r"FRND\.FLOOR", r"FRND "),
    ),
    Call(
        "functions of doubles",
        "".join(f"d[{k}] = tp_{x}(d[{k}]);" for k, x in enumerate(FUNCTIONS))
        + "d[40] = tp_pow(d[1], d[2]) + tp_atan2(d[3], d[4]) + tp_copysign(d[5], d[6])"
        " + tp_fmod(d[7], d[8]);",
        (r"DFMA", r"MUFU\.RSQ64H", r"FRND\.F64"),
    ),
    Call("exp2_flush", "f[i] = tp_exp2_flush(f[i]);", (r"MUFU\.EX2",), (r"FMUL",)),
    Call(
        "other flushes",
        "f[i] = tp_rsqrt_flush(f[i]); f[i + 32] = tp_reciprocal_flush(f[i + 32]);",
        (r"MUFU\.RSQ", r"MUFU\.RCP"),
        (r"FMUL",),
    ),
    Call(
        "copy 16 bytes",
        "TpHalf v[8]; tp_load_vector(v, (TpHalf *)p + i * 8); tp_store_vector((TpHalf *)sh + i * 8,"
        " v); tp_barrier(); TpHalf w[8]; tp_load_vector(w, (TpHalf *)sh + (i ^ 1) * 8);"
        "tp_store_vector((TpHalf *)p + i * 8, w);",
        (r"LDG\.E\.128", r"STS\.128", r"LDS\.128", r"STG\.E\.128"),
        (r"LDG\.E\.U16", r"PRMT"),
    ),
    Call(
        "copy 2 to 8 bytes and 32",
        "int8_t a[2]; tp_load_vector(a, (int8_t *)p + i * 2); tp_store_vector((int8_t *)n + i * 2,"
        " a); float b[2]; tp_load_vector<2>(b, f + i * 2); tp_store_vector<2>((float *)d + i * 2,"
        " b); double c[4]; tp_load_vector(c, d + 4 * i); tp_store_vector((double *)p + 4 * i, c);",
        (r"LDG\.E\.U16", r"LDG\.E\.64", r"LDG\.E\.128", r"STG\.E\.128"),
    ),
    Call(
        "flavours",
        "float v[4]; tp_load_vector_global(v, f + 4 * i); tp_store_vector_shared((float *)sh + 4 *"
        " i, v); tp_barrier(); tp_load_vector_shared(v, (float *)sh + 4 * (n[i] & 31));"
        "tp_store_vector_global((float *)p + 4 * i, v);",
        (r"LDG\.E\.128", r"STS\.128", r"LDS\.128", r"STG\.E\.128"),
        (r"\bLD\.E", r"\bST\.E"),
    ),
    Call(
        "stream",
        "float v[4]; tp_load_vector_stream(v, f + i * 4); tp_store_vector_stream((float *)p + i * 4"
        ", v); float w[2]; tp_load_vector_stream(w, f + i * 2); n[0] = w[0] + w[1];"
        "TpBfloat h[1]; tp_load_vector_stream(h, (TpBfloat *)d + i); f[0] = tp_value(h[0]);"
        "float u[1]; tp_load_vector_stream(u, f + 77); n[7] = u[0];",
        (r"LDG\.E\.NA\.LTC128B\.128\.CONSTANT", r"LDG\.E\.NA\.LTC128B\.64\.CONSTANT",
         r"LDG\.E\.NA\.LTC128B\.CONSTANT", r"STG\.E\.EF\.128"),
    ),
    Call(
        "load and convert",
        "float v[8]; tp_load_values<8>(v, (TpBfloat *)p + i * 8); for (int k = 0; k < 8; k++)"
        " f[0] += v[k]; tp_load_values_shared<4>(v, (TpE4m3 *)sh + 4 * i); f[1] = v[0] + v[3];"
        "tp_load_values_global<4>(v, (int8_t *)n + 4 * i); f[2] = v[0] + v[3];"
        "tp_load_values_stream<16>(v, (TpE5m2 *)p + i * 16);" .replace("float v[8]", "float v[16]")
        + "for (int k = 0; k < 16; k++) f[3 + k] = v[k];",
        (r"LDG\.E\.128", r"LDG\.E ", r"LDG\.E\.NA\.LTC128B\.128\.CONSTANT", r"LDS "),
    ),
    Call(
        "convert and store",
        "float v[8]; tp_load_vector(v, f + 8 * i); tp_store_values<8>((TpBfloat *)p + i * 8, v);"
        "tp_store_values_shared<8>((TpHalf *)sh + 8 * i, v); tp_store_values_stream<1>((TpHalf *)d"
        ", v); tp_store_values_global<4>((int8_t *)n + 4 * i, v);",
        (r"F2FP\.BF16\S*PACK_AB", r"STG\.E\.128", r"STS\.128", r"STG\.E\.EF\.U16", r"STG\.E "),
        (r"PRMT R\d+, R\d+, 0x5410",) ,
    ),
    Call(
        "barriers",
        "tp_barrier(); tp_barrier(1, 128); tp_barrier_arrive(2, 96); tp_warp_barrier();"
        "tp_fence_global(); n[0] = tp_barrier_any(f[0] > 0) + tp_barrier_all(f[1] > 0);",
        (r"BAR\.SYNC\S* 0x1, 0x80", r"BAR\.ARV\S* 0x2, 0x60", r"BAR\.RED\.OR", r"BAR\.RED\.AND",
         r"MEMBAR"),
    ),
    Call(
        "turns",
        "tp_turn_start(i >> 7); tp_turn_wait(i >> 7); f[i] = 1; tp_turn_pass<3>(i >> 7);",
        (r"BAR\.ARV 0x2, 0x100", r"BAR\.SYNC\S* R\d+, 0x100", r"BAR\.ARV R\d+, 0x100"),
    ),
    Call(
        "cluster",
        "tp_cluster_arrive(); tp_cluster_wait(); tp_cluster_barrier(); tp_fence_async();"
        "tp_fence_async_global();",
        (r"UCGABAR_ARV", r"UCGABAR_WAIT", r"FENCE\.VIEW\.ASYNC"),
        targets=HOPPER,
    ),
    Call(
        "mbarriers",
        "uint64_t *b = (uint64_t *)sh; if (i == 0) { tp_mbarrier_init(b, 1);"
        " tp_fence_mbarrier_init(); } tp_barrier(); tp_mbarrier_arrive(b);"
        "tp_mbarrier_expect(b, 512); tp_mbarrier_arrive_remote(b, 1); tp_mbarrier_wait(b, 0);"
        "tp_mbarrier_arrive_cp_async(b); n[0] = tp_mbarrier_test(b, 1);"
        "tp_mbarrier_wait(b, n[4]); tp_mbarrier_invalidate(b);",
        (r"SYNCS\.EXCH\.64", r"SYNCS\.ARRIVE\.TRANS64", r"SYNCS\.ARRIVE\.TRANS64\.RED",
         r"SYNCS\.PHASECHK\.TRANS64\.TRYWAIT", r"ARRIVES\.LDGSTSBAR", r"SYNCS\.CCTL"),
        (r"CCTL\.IVALL", r"MEMBAR\S*GPU"),
        HOPPER,
    ),
    Call(
        "mbarrier of a cluster",
        "tp_mbarrier_wait_cluster((uint64_t *)sh, 0);",
        (r"TRYWAIT", r"CCTL\.IVALL"),
        targets=HOPPER,
    ),
    Call(
        "roles",
        "if (tp_uniform(i >> 7) == 0) { tp_registers_increase<232>(); if (tp_elect()) f[0] = 1; }"
        "else { tp_registers_decrease<40>(); } tp_launch_dependents(); tp_wait_dependencies();",
        (r"USETMAXREG\.TRY_ALLOC", r"USETMAXREG\.DEALLOC", r"ELECT", r"ACQBULK", r"PREEXIT"),
        targets=HOPPER,
    ),
    Call(
        "cp_async",
        "tp_cp_async<16>(sh + 16 * i, f + 4 * i); tp_cp_async<8>(sh, f); tp_cp_async<4>(sh, f);"
        "tp_cp_async<16>(sh, f, n[0] > 0);"
        "tp_cp_async_commit(); tp_cp_async_wait<2>(); tp_barrier(); f[0] = sh[i];",
        (r"LDGSTS\.E\.BYPASS\.LTC128B\.128", r"LDGSTS\.E\.64", r"LDGSTS\.E ", r"LDGDEPBAR",
         r"DEPBAR\.LE SB0, 0x2"),
    ),
    Call(
        "bulk",
        "if (tp_elect()) { tp_bulk_load(sh, f, 4096, (uint64_t *)(sh + 4096));"
        "tp_bulk_store(p, sh, 4096); tp_bulk_commit(); tp_bulk_wait_read<1>(); tp_bulk_wait<0>();"
        "tp_prefetch_map(&map); }",
        (r"UBLKCP\.S\.G", r"UBLKCP\.G\.S", r"UTMACMDFLUSH", r"UTMACCTL\.PF"),
        targets=HOPPER,
    ),
    Call(
        "tma loads",
        _tma("tp_tma_load(sh, &map, (uint64_t *)(sh + 8192), POINT);"),
        tuple(rf"UTMALDG\.{k}D" for k in range(1, 6)),
        targets=HOPPER,
    ),
    Call(
        "tma multicast",
        _tma("tp_tma_load_multicast(sh, &map, (uint64_t *)(sh + 8192), 3, POINT);"),
        tuple(rf"UTMALDG\.{k}D\.MULTICAST" for k in range(1, 6)),
        targets=HOPPER,
    ),
    Call(
        "tma hints",
        _tma(
            "tp_tma_load_hint(sh, &map, (uint64_t *)(sh + 8192), tp_evict_first(), POINT);"
            "tp_tma_load_multicast_hint(sh, &map, (uint64_t *)(sh + 8192), 3, tp_evict_last(),"
            " POINT); tp_tma_store_hint(&map, sh, tp_evict_first(), POINT);"
        ),
        (r"UTMALDG\.2D .*desc", r"UTMASTG\.2D .*desc"),
        targets=HOPPER,
    ),
    Call(
        "tma stores",
        _tma("tp_tma_store(&map, sh, POINT); tp_tma_reduce_add(&map, sh, POINT);"
             "tp_tma_reduce_min(&map, sh, POINT); tp_tma_reduce_max(&map, sh, POINT);"),
        (*(rf"UTMASTG\.{k}D" for k in range(1, 6)),
         *(rf"UTMAREDG\.{k}D\.{kind}" for k in range(1, 6) for kind in ("ADD", "MIN", "MAX"))),
        targets=HOPPER,
    ),
    Call(
        "shuffles",
        "f[i] = tp_shuffle_xor(f[i], 1); d[i] = tp_shuffle_up(d[i], 2); TpHalf *h = (TpHalf *)p;"
        "h[i] = tp_shuffle_down(h[i], 4); ((int8_t *)p)[i + 99] = tp_shuffle_index("
        "((int8_t *)p)[i], 7); tp_shuffle_xor_pair(h[2 * i], h[2 * i + 1], 1);"
        "uint32_t w[4]; for (int j = 0; j < 4; j++) w[j] = tp_join<2>(h + 2 * j + 8 * i);"
        "tp_swap<4, 2>(w, i & 1); for (int j = 0; j < 4; j++) tp_split<2>(h + 2 * j, w[j]);"
        "tp_split_pair(h + 4 * i, w[0], w[1], i & 2);"
        "n[0] = tp_any(n[i] > 0) + tp_all(n[i] > 1) + tp_ballot(n[i] > 2);",
        (r"SHFL\.BFLY", r"SHFL\.UP", r"SHFL\.DOWN", r"SHFL\.IDX", r"VOTE\S*\.ANY",
         r"VOTE\S*\.ALL"),
    ),
    Call(
        "integer reductions",
        "uint32_t u = n[i]; n[0] = tp_warp_reduce<TpSum, 32>(n[i]);"
        "n[1] = tp_warp_reduce<TpMax, 32>(n[i]); n[2] = tp_warp_reduce<TpMin, 32>(n[i]);"
        "n[3] = tp_warp_reduce<TpAbsMax, 32>(TpAbsMax::element(n[i]));"
        "n[4] = tp_warp_reduce<TpBitAnd, 32>(u); n[5] = tp_warp_reduce<TpBitOr, 32>(u);"
        "n[6] = tp_warp_reduce<TpBitXor, 32>(u); n[7] = tp_warp_reduce<TpAbsSum, 32>(u);"
        "n[8] = tp_redux(TpMin{}, u);",
        (r"REDUX\.SUM", r"REDUX\.MAX\.S32", r"REDUX\.MIN\.S32", r"REDUX\.XOR", r"REDUX\.OR",
         r"REDUX ", r"REDUX\.MIN "),
        (r"SHFL",),
    ),
    Call(
        "float reductions",
        "f[i] = tp_warp_reduce<TpSum, 4>(f[i]); f[i + 32] = tp_warp_reduce<TpMax, 8, 4>(f[i + 32]);"
        "f[i + 64] = tp_warp_scan<TpSum, 16>(f[i + 64]);",
        (r"SHFL\.BFLY PT, R\d+, R\d+, 0x1,", r"SHFL\.BFLY PT, R\d+, R\d+, 0x10,", r"FMNMX",
         r"SHFL\.UP PT, R\d+, R\d+, 0x8,"),
        (r"SHFL\.UP PT, R\d+, R\d+, 0x10,",),
    ),
    Call(
        "ldmatrix",
        "uint32_t r[4]; void *row = sh + 16 * i;"
        + "".join(
            f"tp_ldmatrix{t}_x{k}(r, row); n[i] += r[{k - 1}];"
            for t in ("", "_trans")
            for k in (1, 2, 4)
        ),
        (r"LDSM\.16\.M88\.4", r"LDSM\.16\.M88\.2", r"LDSM\.16\.M88 ", r"LDSM\.16\.MT88\.4",
         r"LDSM\.16\.MT88\.2", r"LDSM\.16\.MT88 "),
    ),
    Call(
        "stmatrix",
        "uint32_t r[4] = {1u, 2u, 3u, (uint32_t)i}; void *row = sh + 16 * i;"
        + "".join(f"tp_stmatrix{t}_x{k}(row, r);" for t in ("", "_trans") for k in (1, 2, 4)),
        (r"STSM\.16\.M88\.4", r"STSM\.16\.M88\.2", r"STSM\.16\.M88 ", r"STSM\.16\.MT88\.4",
         r"STSM\.16\.MT88\.2", r"STSM\.16\.MT88 "),
        targets=HOPPER,
    ),
    Call(
        "mma of 16 bits and tf32",
        _FRAGMENTS + _mma("m16n8k16_f16") + _mma("m16n8k16_bf16")
        + _mma("m16n8k8_tf32") + "tp_mma_m16n8k16_f16_into_f16(a + 1, a, b); n[0] = a[1] + a[2];",
        (r"HMMA\.16816\.F32 ", r"HMMA\.16816\.F32\.BF16", r"HMMA\.1688\.F32\.TF32",
         r"HMMA\.16816\.F16"),
    ),
    Call(
        "mma of integers",
        _FRAGMENTS + "".join(_mma(f"m16n8k32_{t}", "int32_t") for t in
                             ("s8", "u8", "s8_u8", "u8_s8")),
        (r"IMMA\.16832\.S8\.S8", r"IMMA\.16832\.U8\.U8", r"IMMA\.16832\.S8\.U8",
         r"IMMA\.16832\.U8\.S8"),
    ),
    Call(
        # Hopper has no such instruction: it is done in halves.
        "mma of fp8",
        _FRAGMENTS + "".join(_mma(f"m16n8k32_{t}") for t in
                             ("e4m3", "e5m2", "e4m3_e5m2", "e5m2_e4m3")),
        (r"HMMA\.16816\.F32 ", r"F2FP\.F16\.E4M3\.UNPACK_B", r"F2FP\.F16\.E5M2\.UNPACK_B"),
        targets=HOPPER,
    ),
    Call(
        "mma of doubles",
        "double c[4] = {}; tp_mma_m16n8k4_f64(c, d + i, d + 32 + i);"
        "tp_mma_m8n8k4_f64(c, d + i, d + 32 + i); d[2 * i] = c[0] + c[1] + c[2] + c[3];",
        (r"DMMA\.8x?8x?4",),
    ),
    Call(
        "descriptors",
        "uint64_t *o = (uint64_t *)p; uint64_t a = tp_descriptor(sh + 1024 * n[0], 16, 1024, 128);"
        "tp_descriptor_anew(a); o[0] = tp_descriptor_uniform(tp_descriptor_advance(a, 32)); "
        "o[i] = tp_descriptor_uniform(i);",
        (r"SHFL\.IDX", r"STG\.E\.64"),
    ),
    Call(
        "the next tile",
        "n[0] = tp_next_tile((uint32_t *)p, n[1]);",
        (r"ATOMG?\.E\.INC",),
        ("ATOM.*CAS",),
    ),
    Call(
        "atomics of the hardware",
        "tp_atomic<TpAdd>(f + i, 1.0f); tp_atomic<TpAdd>(d + i, 1.0); tp_atomic<TpLarger>(n + i, 1)"
        "; tp_atomic<TpSmaller>((uint32_t *)p + i, 2u); tp_atomic<TpAdd>((int64_t *)p + i,"
        " (int64_t)n[0]); tp_atomic<TpXor>(n + i, 3); tp_atomic<TpOr>(n + i, n[1]);"
        "tp_atomic<TpAnd>(n + i, n[2]); f[0] = tp_atomic<TpExchange>(f + 9, 2.0f);",
        (r"REDG?\.E\.ADD\.F32", r"REDG?\.E\.ADD\.F64", r"REDG?\.E\.MAX\.S32", r"REDG?\.E\.MIN",
         r"REDG?\.E\.ADD\.64", r"REDG?\.E\.XOR", r"REDG?\.E\.OR", r"REDG?\.E\.AND",
         r"ATOMG\.E\.EXCH"),
        (r"CAS",),
    ),
    Call(
        "atomics by words",
        "tp_atomic<TpLarger>(f + i, 1.0f); tp_atomic<TpSmaller>(d + i, 1.0);"
        "f[1] = tp_atomic<TpAdd>((TpE4m3 *)p + i, 2.0f); tp_atomic<TpLarger>((TpBfloat *)p + i,"
        " 3.0f); tp_atomic<TpAdd>((int8_t *)p + i, (int8_t)n[0]);"
        "tp_atomic<TpAdd>((TpHalf *)p + i, 1.0f); tp_atomic<TpAdd>((TpBfloat *)p + i, 1.0f);",
        (r"CAS\S*\.STRONG", r"CAS\.64\S*"),
    ),
    Call(
        "combine",
        "float x[2] = {f[0], f[1]}; TpHalf h = {3}; f[2] = tp_combine<TpAdd>(&x[1], 2.0f) + x[1]"
        " + tp_combine<TpLarger>(&h, 5.0f) + tp_value(h);",
        (r"FADD",),
        (r"\bLDL", r"\bSTL"),
    ),
    Call(
        "atomic vectors",
        "float v[8]; tp_load_vector(v, f + 8 * i); tp_atomic_add_vector<2>(f, v);"
        "tp_atomic_add_vector<4>(f, v); TpHalf *h = (TpHalf *)p; TpBfloat *b = (TpBfloat *)d;"
        "tp_atomic_add_vector<2>(h, v); tp_atomic_add_vector<4>(h, v); tp_atomic_add_vector<8>(h,"
        " v); tp_atomic_add_vector<8>(b, v); tp_atomic_add_global(b + i, v[0]);",
        (r"REDG\.E\.ADD\.F32x2", r"REDG\.E\.ADD\.F32x4", r"REDG\.E\.ADD\.F16x2",
         r"REDG\.E\.ADD\.F16x4", r"REDG\.E\.ADD\.F16x8", r"REDG\.E\.ADD\.BF16x8",
         r"REDG\.E\.ADD\.BF16x2"),
        (r"CAS",),
        HOPPER,
    ),
    Call(
        "atomic half in global memory",
        "tp_atomic_add_global((TpHalf *)p + i, f[0]);",
        (r"RED\S*\.ADD\.F16x2",),
        (r"CAS",),
    ),
)  # fmt: skip
