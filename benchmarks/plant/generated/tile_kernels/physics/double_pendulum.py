# ruff: noqa: ANN001, ANN201, D103
"""Double pendulums, moved on by steps of the fourth-order Runge-Kutta method."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def double_pendulum(State):
    N = T.const("N")
    State: T.Tensor((4, N), T.float32)
    Out = T.empty((4, N), T.float32)
    pendulums, steps = 256, 32
    gravity, step = 9.81, 0.002

    with T.Kernel(T.ceildiv(N, pendulums), threads=256) as block:
        state = T.alloc_fragment((4, pendulums), T.float32)
        trial = T.alloc_fragment((4, pendulums), T.float32)
        sums = T.alloc_fragment((4, pendulums), T.float32)

        T.copy(State[0:4, block * pendulums : (block + 1) * pendulums], state)
        for _ in T.serial(steps):
            T.copy(state, trial)
            T.copy(state, sums)
            for stage in T.serial(4):
                for i in T.Parallel(pendulums):
                    apart = trial[0, i] - trial[1, i]
                    s, c = T.__sin(apart), T.__cos(apart)
                    one, two = trial[2, i], trial[3, i]
                    below = 3.0 - T.__cos(2.0 * apart)
                    pull = 3.0 * T.__sin(trial[0, i]) + T.__sin(trial[0, i] - 2.0 * trial[1, i])
                    turn = (0.0 - gravity * pull - 2.0 * s * (two * two + one * one * c)) / below
                    inner = 2.0 * one * one + 2.0 * gravity * T.__cos(trial[0, i]) + two * two * c
                    other = 2.0 * s * inner / below
                    by = T.if_then_else(stage == 0 or stage == 3, step / 6.0, step / 3.0)
                    ahead = T.if_then_else(stage < 2, step * 0.5, step)
                    sums[0, i] += by * one
                    sums[1, i] += by * two
                    sums[2, i] += by * turn
                    sums[3, i] += by * other
                    trial[0, i] = state[0, i] + ahead * one
                    trial[1, i] = state[1, i] + ahead * two
                    trial[2, i] = state[2, i] + ahead * turn
                    trial[3, i] = state[3, i] + ahead * other
            T.copy(sums, state)
        T.copy(state, Out[0:4, block * pendulums : (block + 1) * pendulums])
    return Out
