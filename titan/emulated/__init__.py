"""Runs programs without a GPU, every launch checked: the emulated device as programs see it.

Launches come from Triton (`triton/`), from CUDA programs (`cuda/`) and from Python (`machine`);
`titan/isa/numbers` computes them, `titan/frontends` decides all interleavings of them.
"""
