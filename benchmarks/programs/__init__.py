"""Real programs with standard changes, each measured: does the first suggestion name the best?"""
