# ruff: noqa: ANN001, ANN201, D103
"""Poses of an arm's hand from the angles of its seven joints, by Denavit and Hartenberg."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def arm_poses(Angle, Link, BLOCK: int = 256):
    joints, N = T.const("joints, N")
    Angle: T.Tensor((joints, N), T.float32)
    Link: T.Tensor((joints, 5), T.float32)
    Pose = T.empty((12, N), T.float32)

    with T.Kernel(T.ceildiv(N, BLOCK), threads=128) as pid:
        link = T.alloc_shared((joints, 5), T.float32)

        T.copy(Link, link)
        for i in T.Parallel(BLOCK):
            n = pid * BLOCK + i
            pose = T.alloc_local((12,), T.float32)
            for e in T.unroll(12):
                pose[e] = T.if_then_else(e % 5 == 0, 1.0, 0.0)
            for joint in T.unroll(joints):
                theta = Angle[joint, n] + link[joint, 4]
                c, s = T.cos(theta), T.sin(theta)
                a, d = link[joint, 0], link[joint, 1]
                ca, sa = link[joint, 2], link[joint, 3]
                for r in T.unroll(3):
                    x, y, z = pose[r * 4], pose[r * 4 + 1], pose[r * 4 + 2]
                    pose[r * 4] = x * c + y * s
                    pose[r * 4 + 1] = (y * c - x * s) * ca + z * sa
                    pose[r * 4 + 2] = (x * s - y * c) * sa + z * ca
                    pose[r * 4 + 3] = pose[r * 4 + 3] + pose[r * 4] * a + z * d
            for e in T.unroll(12):
                Pose[e, n] = pose[e]
    return Pose
