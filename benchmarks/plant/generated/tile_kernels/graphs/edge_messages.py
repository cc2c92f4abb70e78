# ruff: noqa: ANN001, ANN201, D103
"""Messages between atoms: filters made of distances by Gaussians, times features of neighbours."""

import tileprof
import tileprof.lang as T

CENTRES = 64


@tileprof.jit
def edge_messages(Distance, Neighbour, Feature, Filter, per_block: int = 8):
    V, near, dim = T.const("V, near, dim")
    Distance: T.Tensor((V, near), T.float32)
    Neighbour: T.Tensor((V, near), T.int32)
    Feature: T.Tensor((V, dim), T.bfloat16)
    Filter: T.Tensor((CENTRES, dim), T.bfloat16)
    Message = T.empty((V, dim), T.float32)
    spacing = 0.1

    with T.Kernel(T.ceildiv(V, per_block), threads=128) as bv:
        basis = T.alloc_shared((near, CENTRES), T.bfloat16)
        feature = T.alloc_shared((near, dim), T.bfloat16)
        weight = T.alloc_shared((CENTRES, dim), T.bfloat16)
        made = T.alloc_fragment((near, dim), T.float32)
        total = T.alloc_fragment((dim,), T.float32)

        T.copy(Filter, weight)
        for n in T.serial(per_block):
            atom = bv * per_block + n
            for e, c in T.Parallel(near, CENTRES):
                off = (Distance[atom, e] - T.cast(c, T.float32) * spacing) / spacing
                basis[e, c] = T.__exp2(off * off * -0.72134752)
            for e, j in T.Parallel(near, dim):
                feature[e, j] = Feature[Neighbour[atom, e], j]
            T.gemm(basis, weight, made, clear_accum=True)
            for e, j in T.Parallel(near, dim):
                made[e, j] *= T.cast(feature[e, j], T.float32)
            T.reduce_sum(made, total, dim=0)
            T.copy(total, Message[atom, 0:dim])
    return Message
