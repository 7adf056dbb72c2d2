"""One machine that executes the PTX of a whole launch and records what synchronises.

`titan.isa.simt.run.run(module, launch, options)` gives a `Run` (`outcome.py`): events, how it
ended, and whether it may represent all interleavings.
"""
