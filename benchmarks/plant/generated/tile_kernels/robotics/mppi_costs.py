# ruff: noqa: ANN001, ANN201, D103
"""Costs of a car's sampled futures: a bicycle model, steered by noise, among round obstacles."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def mppi_costs(Steer, Push, Circle):
    horizon, samples, circles = T.const("horizon, samples, circles")
    Steer: T.Tensor((horizon, samples), T.float32)
    Push: T.Tensor((horizon, samples), T.float32)
    Circle: T.Tensor((circles, 3), T.float32)
    Cost = T.empty((samples,), T.float32)
    futures = 256
    dt, wheelbase = 0.05, 2.7

    with T.Kernel(T.ceildiv(samples, futures), threads=256) as bx:
        circle = T.alloc_shared((circles, 3), T.float32)
        px = T.alloc_fragment((futures,), T.float32)
        py = T.alloc_fragment((futures,), T.float32)
        heading = T.alloc_fragment((futures,), T.float32)
        speed = T.alloc_fragment((futures,), T.float32)
        cost = T.alloc_fragment((futures,), T.float32)

        T.copy(Circle, circle)
        T.clear(px)
        T.clear(py)
        T.clear(heading)
        T.fill(speed, 5.0)
        T.clear(cost)
        for t in T.serial(horizon):
            for i in T.Parallel(futures):
                turn = T.clamp(Steer[t, bx * futures + i] * 0.3, -0.5, 0.5)
                speed[i] += Push[t, bx * futures + i] * dt
                heading[i] += speed[i] * T.sin(turn) / T.cos(turn) * (dt / wheelbase)
                px[i] += speed[i] * T.cos(heading[i]) * dt
                py[i] += speed[i] * T.sin(heading[i]) * dt
                cost[i] += py[i] * py[i] + 0.1 * turn * turn
            for c in T.serial(circles):
                for i in T.Parallel(futures):
                    dx, dy = px[i] - circle[c, 0], py[i] - circle[c, 1]
                    inside = circle[c, 2] - T.sqrt(dx * dx + dy * dy)
                    cost[i] += 50.0 * T.max(inside, 0.0)
        T.copy(cost, Cost[bx * futures : (bx + 1) * futures])
    return Cost
