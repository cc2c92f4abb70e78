# ruff: noqa: ANN001, ANN201, D103
"""Elastic energies of tetrahedra whose corners have moved, by Saint-Venant and Kirchhoff."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def tet_strain(Node, Tet, Rest):
    V, E = T.const("V, E")
    Node: T.Tensor((3, V), T.float32)
    Tet: T.Tensor((4, E), T.int32)
    Rest: T.Tensor((9, E), T.float32)
    Energy = T.empty((E,), T.float32)
    nt = 256

    with T.Kernel(T.ceildiv(E, nt), threads=nt) as bx:
        for t in T.Parallel(nt):
            e = bx * nt + t
            if e < E:
                shape = T.alloc_local((9,), T.float32)
                moved = T.alloc_local((9,), T.float32)
                corner, one, two, three = Tet[0, e], Tet[1, e], Tet[2, e], Tet[3, e]
                for axis in T.unroll(3):
                    origin = Node[axis, corner]
                    shape[axis * 3] = Node[axis, one] - origin
                    shape[axis * 3 + 1] = Node[axis, two] - origin
                    shape[axis * 3 + 2] = Node[axis, three] - origin
                for c in T.unroll(3):
                    x, y, z = Rest[c, e], Rest[3 + c, e], Rest[6 + c, e]
                    for r in T.unroll(3):
                        along = shape[r * 3] * x + shape[r * 3 + 1] * y
                        moved[r * 3 + c] = along + shape[r * 3 + 2] * z
                trace, squares = 0.0, 0.0
                for r in T.unroll(3):
                    for c in T.unroll(3):
                        dot = moved[r] * moved[c] + moved[3 + r] * moved[3 + c]
                        dot = dot + moved[6 + r] * moved[6 + c]
                        same = T.if_then_else(r == c, 1.0, 0.0)
                        strain = 0.5 * (dot - same)
                        trace = trace + strain * same
                        squares = squares + strain * strain
                Energy[e] = 0.4 * squares + 0.3 * trace * trace
    return Energy
