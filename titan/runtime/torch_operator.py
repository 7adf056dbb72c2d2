"""A package as an operator of PyTorch: `torch.library.custom_op` with a fake kernel.

The fake kernel gives shapes and types without launching, so that torch.compile and torch.export
trace through a call. Gradients flow where a backward is given: PyTorch calls it with the inputs,
the outputs, the gradients of the outputs and the scalar arguments, and it gives one gradient for
each input.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.runtime.arrays import CallError, Foreign
from titan.runtime.binding import input_names, named, output_names
from titan.runtime.frameworks import TORCH_TYPES, torch_types
from titan.runtime.leading import leading_dimensions
from titan.runtime.library import Library
from titan.runtime.loaded import LoadedKernel

NAMESPACE = "titan"
Backward = Callable[..., tuple[Foreign, ...]]


def torch_operator(
    kernel: LoadedKernel,
    name: str = "",
    backward: Backward | None = None,
    library: Library | None = None,
) -> Callable[..., Foreign]:
    """The operator `titan::NAME`, by default of the kernel's name, with the kernel's inputs.

    With a `library` each call is answered by the best of its packages, or pairs of them, for the
    shape and the memory of the arrays; `kernel`, one of these, says what is computed. Raises
    CallError where PyTorch is not installed or knows an operator of that name already.
    """
    try:
        import torch
    except ImportError as error:
        raise CallError(f"PyTorch cannot be imported: {error}") from None
    name = name or kernel.name
    if not name.isidentifier():
        raise CallError(f"{name!r} is no name of an operator: letters, digits and underscores")
    qualified = f"{NAMESPACE}::{name}"
    inputs = input_names(kernel.manifest)
    many = len(output_names(kernel.manifest)) > 1
    result = "Tensor[]" if many else "Tensor"
    scalars = [(item["name"], item["value"]) for item in kernel.manifest.get("scalars", ())]
    words = [f"Tensor {item}" for item in inputs]
    words += [f"float {item}={value!r}" for item, value in scalars]
    schema = f"({', '.join(words)}) -> {result}"
    if hasattr(torch.ops.titan, name):
        raise CallError(f"PyTorch knows an operator {qualified} already")

    def launched(*given: Foreign, **keywords: Foreign) -> Foreign:
        numbers = dict(zip((item for item, _ in scalars), given[len(inputs) :], strict=False))
        if library is None:
            found = kernel(*given[: len(inputs)], **numbers, **keywords)
        else:
            arrays = given[: len(inputs)]
            found = library(*arrays, kernel=kernel.name, **numbers, **keywords)
        return list(found) if many else found

    def fake(*given: Foreign, **keywords: Foreign) -> Foreign:
        made = _fake_outputs(kernel, given[: len(inputs)])
        return made if many else made[0]

    operator = torch.library.custom_op(qualified, launched, mutates_args=(), schema=schema)
    operator.register_fake(fake)
    if backward is not None:
        _with_gradient(operator, backward, len(inputs), many)
    found: Callable[..., Foreign] = operator
    return found


def _fake_outputs(kernel: LoadedKernel, arrays: tuple[Foreign, ...]) -> list[Foreign]:
    """Empty outputs; extents may be symbols of torch.compile, which notes that equal sizes are
    equal; expressions are left to the call. Raises CallError, and what torch._check raises."""
    import torch

    given: dict[str, Foreign] = named(kernel.manifest, arrays, {})
    shapes = {name: tuple(array.shape) for name, array in given.items()}
    leading = leading_dimensions(kernel.manifest, shapes)
    sizes: dict[str, Foreign] = {}
    for item in kernel.manifest["tensors"]:
        texts, name = item["shape"], item["name"]
        if name not in shapes:
            continue
        shape, folded = shapes[name], bool(texts) and texts[0] in leading
        first = len(shape) - len(texts) + 1 if folded else 0
        if len(texts[folded:]) != len(shape[first:]):
            taken = f"{name} has shape {list(shape)}, and [{', '.join(texts)}] is taken"
            raise CallError(f"{kernel.signature}: {taken}")
        if str(given[name].dtype).removeprefix("torch.") not in torch_types(item["dtype"]):
            taken = f"{name} holds {given[name].dtype}, and {item['dtype']} is taken"
            raise CallError(f"{kernel.signature}: {taken}")
        for text, extent in zip(texts[folded:], shape[first:], strict=True):
            known = int(text) if text.isdecimal() else sizes.setdefault(text, extent)
            torch._check(
                known == extent,
                lambda n=name, t=text: f"{kernel.signature}: {n} has another extent than {t}",
            )
    like = arrays[0]

    def extents(texts: list[str]) -> list[Foreign]:
        first = leading.get(texts[0]) if texts else None
        rest = texts if first is None else texts[1:]
        return [*(first or ()), *(sizes[text] if text in sizes else int(text) for text in rest)]

    return [
        torch.empty(
            extents(item["shape"]),
            dtype=getattr(torch, TORCH_TYPES[item["dtype"]]), device=like.device,
        )
        for item in kernel.manifest["tensors"]
        if item["output"]
    ]  # fmt: skip


def _with_gradient(operator: Foreign, backward: Backward, count: int, many: bool) -> None:
    def keep(ctx: Foreign, inputs: tuple[Foreign, ...], output: Foreign) -> None:
        outputs = tuple(output) if many else (output,)
        tensors = inputs[:count]
        ctx.scalars = inputs[count:]
        ctx.save_for_backward(*tensors, *outputs)

    def back(ctx: Foreign, *gradients: Foreign) -> Foreign:
        saved = ctx.saved_tensors
        flat = tuple(gradients[0]) if many else gradients
        found = backward(saved[:count], saved[count:], flat, *ctx.scalars)
        if not isinstance(found, tuple | list) or len(found) != count:
            gave = len(found) if isinstance(found, tuple | list) else type(found).__name__
            raise CallError(f"the backward gave {gave} where {count} gradients are taken")
        return (*found, *[None] * len(ctx.scalars))

    operator.register_autograd(back, setup_context=keep)
