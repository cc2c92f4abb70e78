"""What machine code says: instructions with their samples, jumps, addresses of lanes, arithmetic.

In: functions of a profile, with their code. Out: places of instructions, samples, numbers. Nothing
here knows of launches, or of what a kernel was made of.
"""
