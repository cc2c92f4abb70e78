"""Running kernels: devices, arguments of any framework, launches and who listens to them.

In: a `Program` of the compiler and the caller's arrays.  Out: results in place, and for a listener
the time, work and in-kernel times of each launch.  The interpreter defines what every op means.
"""
