"""The domain of values "numbers" on the SIMT machine: copies move bytes, tensor cores multiply.

`titan.isa.numbers.run.compute(module, launch, options)` runs a launch whose memory is known and
gives the memory that it leaves. It is the machine of `titan.isa.simt` with results where that
machine has opaque ones; what stays unknown stays opaque, and is reported where it reaches an
output.
"""
