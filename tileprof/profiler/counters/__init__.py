"""Hardware counters of launches: what is asked for, CUPTI's plan for it, what was read.

In: `--metrics` of a session; from the native recorder images of counters with the launches that
they are of.  Out: numbers at the nodes of kernels, and in words what could not be read.

`requests` reads what a user wrote, `host` calls those functions of CUPTI's that need no device,
`planning` finds out what a device can count and in how many passes, `control` switches the native
recorder, `reading` turns images into numbers at nodes.
"""
