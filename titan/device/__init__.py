"""What does a real GPU do? Runs packages, litmus tests and stress from their folders alone.

Nothing here imports another room or a solver: a machine with Python, NumPy and CuPy is enough.
"""
