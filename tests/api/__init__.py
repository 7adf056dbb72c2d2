"""The public functions of `titan`, and kernels built in Python."""
