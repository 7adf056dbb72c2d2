"""Products with block scales called from Python: types and shapes of scales are checked."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import titan
from tests.runtime.packages import numbers, package_for
from titan.codegen.tile.dtypes import decode
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.semantics import run
from titan.foundation.resources import root
from titan.runtime import arrays
from titan.runtime.arrays import CallError, facts_of
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NVF4, MXF8 = "gemm_nvf4_sm_100a", "gemm_mxf8_sm_100a"
TYPES = {NVF4: ("e2m1x2", "e4m3"), MXF8: ("e4m3", "ue8m0")}


def given(name: str, rows: int = 60, columns: int = 40, depth: int = 144):
    """Bytes of factors and scales; `depth` in bytes, no scale or factor is NaN."""
    random = np.random.default_rng(5)
    blocks = {NVF4: 32, MXF8: 128}[name]  # bytes along K in an atom
    shape = (1, -(-depth // blocks) * 32, 16)
    low, high = {NVF4: (0x28, 0x40), MXF8: (120, 134)}[name]
    most = {NVF4: 256, MXF8: 0x7F}[name]
    factors = [random.integers(0, most, (n, depth), dtype=np.uint8) for n in (rows, columns)]
    scales = [random.integers(low, high, shape, dtype=np.uint8) for _ in range(2)]
    return [*factors, *scales]


@needs_nvcc
@pytest.mark.parametrize("name", [NVF4, pytest.param(MXF8, marks=pytest.mark.heavy)])
def test_bytes_are_factors_and_scales(name):
    kernel = titan.load(package_for(name, "sm_100a"))
    a, b, a_scale, b_scale = given(name)
    found = numbers(kernel(a, b, a_scale, b_scale))
    of_factors, of_scales = TYPES[name]
    inputs = {"A": decode(a, of_factors), "B": decode(b, of_factors)}
    inputs |= {"A_scale": decode(a_scale, of_scales), "B_scale": decode(b_scale, of_scales)}
    tile = load_tile(root("protocols") / "tiles" / f"{name}.yaml")
    sizes = dict(zip([p.name for p in tile.parameters], (60, 40, 144), strict=True))
    meant = run(tile, inputs, sizes)["C"]
    assert np.abs(found - meant).max() <= 2.0**-7 * np.abs(meant).max()


WRONG = {
    "scales for another K": (2, lambda x: x[:, 32:], "A_scale has the extent 128"),
    "scales of more rows": (3, lambda x: np.repeat(x, 2, axis=0), "B_scale has the extent 2"),
    "scales in f32": (2, lambda x: x.astype(np.float32), "A_scale holds f32, and e4m3 is taken"),
    "scales of two dimensions": (3, lambda x: x[0], "B_scale"),
    "factors in f16": (0, lambda x: x.astype(np.float16), "A holds f16, and e2m1x2 is taken"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_scales_are_refused_before_the_launch(what):
    kernel = titan.load(package_for(NVF4, "sm_100a"))
    place, change, said = WRONG[what]
    arguments = given(NVF4)
    arguments[place] = change(arguments[place])
    with pytest.raises(CallError, match=said):
        kernel(*arguments)


class Exported:
    """An array that a framework exports with a type code, bits and lanes of DLPack."""

    def __init__(self, code: int, bits: int, lanes: int) -> None:
        self.held = np.zeros((4, 16), np.uint8)
        self.shape = (ctypes.c_int64 * 2)(4, 16)
        self.tensor = arrays._Tensor(
            self.held.ctypes.data, arrays._Device(1, 0), 2, code, bits, lanes, self.shape, None, 0
        )

    def __dlpack__(self):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.parametrize(
    ("exported", "dtype"), [((14, 8, 1), "ue8m0"), ((17, 4, 2), "e2m1x2"), ((10, 8, 1), "e4m3")]
)
def test_types_of_dlpack_are_known(exported, dtype):
    """float8_e8m0fnu, float4_e2m1fn_x2 and float8_e4m3fn of PyTorch."""
    facts = facts_of(Exported(*exported))
    assert facts.dtype == dtype and facts.shape == (4, 16)


def test_other_vectors_are_refused():
    with pytest.raises(CallError, match="vectors of 2 elements"):
        facts_of(Exported(2, 32, 2))


def test_bytes_hold_every_type_of_eight_bits():
    facts = facts_of(np.zeros((4, 16), np.uint8))
    for dtype in ("ue8m0", "e2m1x2", "e4m3"):
        assert facts.holds(dtype)
    assert arrays.BITS_OF["e2m1x2"] == "8 bits"
