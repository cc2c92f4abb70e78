# ruff: noqa: ANN001, ANN201, D103
"""Options that may be used early, priced backwards through a tree of 255 steps."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def american_put(Price, Strike):
    N = T.const("N")
    Price: T.Tensor((N,), T.float32)
    Strike: T.Tensor((N,), T.float32)
    Value = T.empty((N,), T.float32)
    nodes = 256
    up, chance, discount = 0.0270, 0.4984, 0.9999

    with T.Kernel(N, threads=256) as option:
        value = T.alloc_shared((2, nodes), T.float32)

        for i in T.Parallel(nodes):
            price = Price[option] * T.exp2(up * T.cast(2 * i - nodes + 1, T.float32))
            value[0, i] = T.max(Strike[option] - price, 0.0)
        for back in T.serial(nodes - 1):
            for i in T.Parallel(nodes - 1):
                step = nodes - 2 - back
                if i <= step:
                    later = value[back % 2, i + 1] * chance + value[back % 2, i] * (1.0 - chance)
                    price = Price[option] * T.exp2(up * T.cast(2 * i - step, T.float32))
                    value[(back + 1) % 2, i] = T.max(later * discount, Strike[option] - price)
        Value[option] = value[(nodes - 1) % 2, 0]
    return Value
