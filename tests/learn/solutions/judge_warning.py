COSTS = "bank_conflict"
LINE = 34
HARMLESS = "copy_wait"
REAL = ["softmax", "scale"]
