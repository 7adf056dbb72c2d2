"""What does a real GPU do? Runs packages, litmus tests and stress from their folders alone.

Nothing here imports a solver, and of other rooms only types and exceptions where no package is
emulated: a machine with Python, NumPy and CuPy is enough.
"""
