STEP_MS = 136.6
RULE = "precision"
GAIN = 2.14
WAITS = 12 + 1212 + 12
