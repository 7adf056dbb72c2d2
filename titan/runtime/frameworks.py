"""What differs between frameworks: how an output is made, and on which stream a launch goes.

A framework is recognised by the module of an array's type, and imported by nobody else. Where a
framework lacks an element type, its bits are integers, as those of the inputs are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import TypeVar

from titan.runtime.arrays import BITS_OF, ArrayFacts, CallError, Foreign

TORCH_TYPES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "u32": "uint32",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "ue8m0": "float8_e8m0fnu", "e2m1x2": "float4_e2m1fn_x2",
}  # fmt: skip
_NUMPY = {"f32": "float32", "f16": "float16", "i32": "int32", "u32": "uint32"}
_INTEGERS = {"16 bits": "uint16", "8 bits": "uint8"}
_NOT_TRACED = "a launch is not traced; titan.torch_operator makes an operator that is"
Called = TypeVar("Called", bound=Callable[..., Foreign])


@dataclass(frozen=True, slots=True)
class Framework:
    """`empty(shape, dtype, like)` makes an output beside an input; `stream(like)` is a handle.
    `clear(array)` fills a new output with zeros, in order before a launch on that stream.

    `ready(array)` waits for what computes an array, and `waits` says that a launch is waited for:
    so it is where a framework gives no stream on which its work and the launch are in order.
    `immutable`: its arrays are not written, since others may be the same memory.
    """

    name: str
    empty: Callable[[tuple[int, ...], str, object], Foreign]
    stream: Callable[[object], int]
    clear: Callable[[Foreign], object]
    ready: Callable[[object], None] = lambda array: None
    waits: bool = False
    immutable: bool = False


def torch_types(dtype: str) -> tuple[str, ...]:
    """The element types of PyTorch that hold numbers of a type, or their bits."""
    integers = _INTEGERS.get(BITS_OF.get(dtype, ""))
    bits = (integers, integers.removeprefix("u")) if integers is not None else ()
    return (TORCH_TYPES[dtype], *bits)


def untraced(function: Called) -> Called:
    """The function, called between two graphs where torch.compile traces what calls it."""
    made: list[Foreign] = []

    @wraps(function)
    def called(*given: Foreign, **keywords: Foreign) -> Foreign:
        torch = sys.modules.get("torch")
        if torch is None:
            return function(*given, **keywords)
        if not made:
            made.append(torch.compiler.disable(function, reason=_NOT_TRACED))
        return made[0](*given, **keywords)

    found: Foreign = called
    return found  # type: ignore[no-any-return]  # wraps keeps the signature


def _root(array: object) -> str:
    return type(array).__module__.partition(".")[0]


def framework_of(array: object) -> Framework:
    """The framework of an array. Raises CallError for one that no output can be made for."""
    if (root := _root(array)) in _FRAMEWORKS:
        return _FRAMEWORKS[root]
    known = ", ".join(dict.fromkeys(item.name for item in _FRAMEWORKS.values()))
    raise CallError(f"outputs are made for {known}, not for {type(array).__name__}; give `out`")


def _torch_empty(shape: tuple[int, ...], dtype: str, like: object) -> object:
    import torch

    assert isinstance(like, torch.Tensor)
    return torch.empty(shape, dtype=getattr(torch, TORCH_TYPES[dtype]), device=like.device)


def _torch_stream(like: object) -> int:
    import torch

    assert isinstance(like, torch.Tensor)
    return int(torch.cuda.current_stream(like.device).cuda_stream) if like.is_cuda else 0


def _numpy_empty(shape: tuple[int, ...], dtype: str, like: object) -> object:
    """With the type of the input where that has it (ml_dtypes), else the bits."""
    import numpy

    assert isinstance(like, numpy.ndarray)
    same = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}.get(dtype)
    if same is not None and like.dtype.name == same:
        return numpy.empty(shape, like.dtype)
    return numpy.empty(shape, _NUMPY.get(dtype) or _INTEGERS[BITS_OF[dtype]])


def _cupy_empty(shape: tuple[int, ...], dtype: str, like: object) -> object:
    import cupy

    return cupy.empty(shape, _NUMPY.get(dtype) or _INTEGERS[BITS_OF[dtype]])


def _cupy_stream(like: object) -> int:
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)


def _jax_empty(shape: tuple[int, ...], dtype: str, like: Foreign) -> object:
    """Zeros, which are there: the kernel writes into them before anybody else has them."""
    import jax

    kind = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}.get(dtype)
    with jax.default_device(next(iter(like.devices()))):
        made = jax.numpy.zeros(shape, kind or _NUMPY[dtype])
    return made.block_until_ready()


def _jax_ready(array: Foreign) -> None:
    array.block_until_ready()


_FRAMEWORKS = {
    "torch": Framework("PyTorch", _torch_empty, _torch_stream, lambda array: array.zero_()),
    "numpy": Framework("NumPy", _numpy_empty, lambda like: 0, lambda array: array.fill(0)),
    "cupy": Framework("CuPy", _cupy_empty, _cupy_stream, lambda array: array.fill(0)),
    **dict.fromkeys(
        ("jax", "jaxlib"),
        Framework(
            "JAX",
            _jax_empty,
            lambda like: 0,
            lambda array: None,
            _jax_ready,
            waits=True,
            immutable=True,
        ),
    ),
}


def without_gradient(
    outputs: Sequence[Foreign], inputs: Iterable[Foreign], kernel: str
) -> tuple[Foreign, ...]:
    """The outputs of a launch; where PyTorch records, such that a gradient that would flow through
    them raises CallError, and is not left out without a word."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return tuple(outputs)
    recorded = [one for one in inputs if isinstance(one, torch.Tensor) and one.requires_grad]
    if not recorded or not all(isinstance(one, torch.Tensor) for one in outputs):
        return tuple(outputs)
    found: tuple[Foreign, ...] = _no_gradient(torch).apply(kernel, tuple(outputs), *recorded)
    return found


def check_writable(outputs: Mapping[str, object], inputs: Iterable[object], kernel: str) -> None:
    """Raises CallError for arrays of `out` that nobody may write, and where PyTorch records: no
    gradient would flow through what is written. Notes for PyTorch that they are written."""
    for name, array in outputs.items():
        framework = _FRAMEWORKS.get(_root(array))
        if framework is not None and framework.immutable:
            raise CallError(
                f"{name} is an array of {framework.name}, which cannot be written; without `out`"
                " a call makes one"
            )
    torch = sys.modules.get("torch")
    if torch is None:
        return
    every = [one for one in (*outputs.values(), *inputs) if isinstance(one, torch.Tensor)]
    if torch.is_grad_enabled() and any(one.requires_grad for one in every):
        raise CallError(
            f"no gradient flows through a call of {kernel} with `out`; under torch.no_grad() none"
            " is asked for"
        )
    for one in outputs.values():
        if isinstance(one, torch.Tensor):
            torch.autograd.graph.increment_version(one)


@cache
def _no_gradient(torch: Foreign) -> Foreign:
    """A function of PyTorch whose backward says that there is none."""

    def forward(
        ctx: Foreign, kernel: str, outputs: tuple[Foreign, ...], *inputs: Foreign
    ) -> Foreign:
        ctx.kernel = kernel
        ctx.mark_non_differentiable(*(one for one in outputs if not one.is_floating_point()))
        return outputs

    def backward(ctx: Foreign, *gradients: Foreign) -> Foreign:
        raise CallError(
            f"no gradient flows through a call of {ctx.kernel}; an operator of"
            " titan.torch_operator has one where it is given its backward"
        )

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("NoGradient", (torch.autograd.Function,), body)


def wait_for(arrays: Iterable[object]) -> None:
    """Wait for what computes these arrays where their frameworks give no stream."""
    for array in arrays:
        framework = _FRAMEWORKS.get(_root(array))
        if framework is not None:
            framework.ready(array)


def same_place(one: ArrayFacts, other: ArrayFacts) -> bool:
    """Whether two arrays are on one device."""
    return (one.place, one.number) == (other.place, other.number)
