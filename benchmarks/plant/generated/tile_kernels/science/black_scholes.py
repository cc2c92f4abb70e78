# ruff: noqa: ANN001, ANN201, D103
"""Prices of options to buy, by the formula of Black and Scholes."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def black_scholes(Price, Strike, Years):
    N = T.const("N")
    Price: T.Tensor((N,), T.float32)
    Strike: T.Tensor((N,), T.float32)
    Years: T.Tensor((N,), T.float32)
    Value = T.empty((N,), T.float32)
    options = 1024

    with T.Kernel(T.ceildiv(N, options), threads=256) as block:
        for i in T.Parallel(options):
            at = block * options + i
            spread = T.sqrt(Years[at]) * 0.3
            up = (T.log(Price[at] / Strike[at]) + Years[at] * 0.065) / spread
            first = T.erf(up * 0.70710678) * 0.5 + 0.5
            second = T.erf((up - spread) * 0.70710678) * 0.5 + 0.5
            later = T.exp(Years[at] * -0.02)
            Value[at] = Price[at] * first - Strike[at] * later * second
    return Value
