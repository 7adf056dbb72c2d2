"""Launches are computed, or refused with a reason, before any device is touched."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from titan.device.expressions import BadExpression, evaluate
from titan.device.plan import Number, Pointer, TensorMapArguments, Unlaunchable, plan
from titan.sync.expression import evaluate as evaluate_kernel
from titan.sync.expression import parse_expression

MANIFEST = {
    "entry": "titan_gemm",
    "parameters": [{"name": n, "minimum": 1} for n in ("M", "N", "K")],
    "tensors": [
        {"name": "A", "dtype": "bf16", "shape": ["M", "K"], "output": False},
        {"name": "bias", "dtype": "f32", "shape": ["N"], "output": False},
        {"name": "C", "dtype": "bf16", "shape": ["M", "N"], "output": True},
    ],
    "arguments": [
        {"kind": "tensor_map", "tensor": "A", "box": [64, 128], "swizzle": "128B"},
        {"kind": "pointer", "tensor": "bias"},
        {"kind": "size", "name": "K"},
    ],
    "constraints": ["K % 8 == 0"],
    "launch": {
        "block": 384,
        "grid": "min(processors, ((M + 127) // 128) * ((N + 127) // 128))",
        "cluster": 1,
        "dynamic_shared_bytes": 100_000,
    },
}
SIZES = {"M": 300, "N": 200, "K": 72}


def test_a_launch():
    launch = plan(MANIFEST, SIZES, 132)
    assert (launch.grid, launch.block, launch.shared_bytes) == (6, 384, 100_000)
    first, second, third = launch.arguments
    assert first == TensorMapArguments("A", "bf16", (72, 300), (144,), (64, 128), "128B")
    assert (second, third) == (Pointer("bias"), Number(72))
    assert launch.tensors[2].bytes == 300 * 200 * 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"M": 0}, "M is 0, less than 1"),
        ({"K": 71}, "needs K % 8 == 0"),
        ({"X": 1}, "no size X"),
    ],
)
def test_sizes_that_are_refused(change, reason):
    with pytest.raises(Unlaunchable, match=reason):
        plan(MANIFEST, {**SIZES, **change}, 132)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("launch", "grid"), "0", "grid of 0"),
        (("launch", "grid"), "M // 0", "division by zero"),
        (("launch", "grid"), "__import__('os')", "uses what manifests do not have"),
        (("launch", "cluster"), 4, "not a multiple of the cluster"),
        (("tensors", 0, "dtype"), "f64", "element type f64"),
        (("arguments", 0, "box"), [64], "box of 1 dimensions"),
        (("arguments", 0, "box"), [128, 128], "under swizzle"),
        (("arguments", 0, "box"), [4, 128], "box row of 8 bytes"),
        (("arguments", 0, "swizzle"), "256B", "no swizzle"),
        (("arguments", 1, "kind"), "file", "argument of kind"),
        (("constraints",), [], "not a multiple of 16"),
    ],
)
def test_manifests_that_are_refused(place, value, reason):
    manifest = copy.deepcopy(MANIFEST)
    inner = manifest
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    sizes = {**SIZES, "K": 71} if place == ("constraints",) else SIZES
    with pytest.raises(Unlaunchable, match=reason):
        plan(manifest, sizes, 132)


def texts(depth):
    leaf = st.one_of(st.integers(0, 50).map(str), st.sampled_from(["a", "b"]))
    if depth == 0:
        return leaf
    inner = texts(depth - 1)
    operators = st.sampled_from(["+", "-", "*", "//", "%", "<", ">=", "==", "and", "or"])
    binary = st.tuples(inner, operators, inner).map(lambda x: f"({x[0]} {x[1]} {x[2]})")
    call = st.tuples(st.sampled_from(["min", "max"]), inner, inner)
    return st.one_of(leaf, binary, call.map(lambda x: f"{x[0]}({x[1]}, {x[2]})"))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(3), st.integers(0, 40), st.integers(1, 40))
def test_expressions_mean_what_they_mean_in_kernels(text, a, b):
    names = {"a": a, "b": b}
    try:
        expected = evaluate_kernel(parse_expression(text), names)
    except ZeroDivisionError:
        with pytest.raises(BadExpression, match="zero"):
            evaluate(text, names)
        return
    value = evaluate(text, names)
    assert bool(value) == bool(expected)
    if " and " not in text and " or " not in text:
        assert value == expected


@pytest.mark.parametrize(
    "text", ["a.b", "a[0]", "lambda: 1", "f(1)", "1.5", "'x'", "a <", "9**9", ""]
)
def test_what_is_no_expression(text):
    with pytest.raises(BadExpression):
        evaluate(text, {"a": 1})
