"""Facts of one kernel that several rules ask for: launches, loops, memory, queues, what is left.

In: a `KernelCase`. Out: numbers with their units, samples by row. Rules make findings of them.
"""
