"""A small program with scalar arguments, whose heads share tiles in a ratio of the launch."""

from __future__ import annotations

import numpy as np

SCALED = """
titan: 1
tile: scaled
target: [sm_90a, gfx942]
sizes: {batch: any, shared: any, ratio: any, M: any, N: any, rows: 128, columns: 32}
scalars: {factor: 0.5, eps: 1e-5}
tensors:
  X: {shape: [batch, shared, M, N], dtype: f32}
  Z: {shape: [batch, shared * ratio, N], dtype: f32}
  Y: {shape: [batch, shared * ratio, M, N], dtype: bf16, output: true}
work: {b: batch, h: shared * ratio, m: (M + rows - 1) // rows}
groups: 1
loop: {t: (N + columns - 1) // columns}
body:
  - x: {load: "X[b, h // ratio, m * rows, t * columns]", tile: [rows, columns]}
  - wide: {read: x}
  - scaled: {scale: wide, by: -1.5 * factor}
  - raised: {offset: scaled, by: eps}
  - bias: {vector: "Z[b, h, t * columns]", tile: [columns]}
  - biased: {add: [raised, bias]}
  - narrow: {convert: biased, to: bf16}
  - y: {store: narrow, to: "Y[b, h, m * rows, t * columns]"}
"""
SIZES = {"batch": 2, "shared": 2, "ratio": 3, "M": 33, "N": 40}


def inputs(generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal numbers for the inputs at these sizes."""
    batch, shared, ratio, rows, columns = SIZES.values()
    shapes = {"X": (batch, shared, rows, columns), "Z": (batch, shared * ratio, columns)}
    return {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


def scaled(x: np.ndarray, z: np.ndarray, factor: float = 0.5, eps: float = 1e-5) -> np.ndarray:
    """What the program computes, before it is rounded to bf16."""
    shared = np.repeat(x, z.shape[1] // x.shape[1], axis=1)
    return shared * (-1.5 * factor) + eps + z[:, :, None, :]
