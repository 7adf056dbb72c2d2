"""Softmax of rows in Triton, on arrays of NumPy: `titan run examples/triton_softmax.py`."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


rows, columns = 8, 100
x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
out = np.zeros_like(x)
softmax[(rows,)](x, out, columns, BLOCK=128)

powers = np.exp(x - x.max(axis=1, keepdims=True))
right = powers / powers.sum(axis=1, keepdims=True)
print(f"{rows} rows, largest difference from NumPy {np.abs(out - right).max():.1e}")
