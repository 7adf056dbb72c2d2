"""A package as an operator of PyTorch: `torch.library.custom_op` with a fake kernel.

The fake kernel gives shapes and types without launching, so that torch.compile and torch.export
trace through a call. Gradients flow where a backward is given: PyTorch calls it with the inputs,
the outputs, the gradients of the outputs, and the sizes and scalar arguments, and it gives one
gradient for each input. Where PyTorch traces the backward, it is an operator too (`NAME_backward`),
since packages that it calls take no tensors without memory.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.codegen.tile.manifest import sizes_by_name
from titan.device.expressions import evaluate
from titan.runtime.arrays import CallError, Foreign
from titan.runtime.binding import input_names, named, output_names, usual_scalars
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
    scalars = usual_scalars(kernel.manifest)
    sizes = sizes_by_name(kernel.manifest)
    words = [f"Tensor {item}" for item in inputs] + [f"SymInt {item}" for item in sizes]
    words += [f"float {item}={value!r}" for item, value in scalars.items()]
    schema = f"({', '.join(words)}) -> {result}"
    if hasattr(torch.ops.titan, name):
        raise CallError(f"PyTorch knows an operator {qualified} already")

    def launched(*given: Foreign, **keywords: Foreign) -> Foreign:
        arrays = given[: len(inputs)]
        numbers = dict(zip((*sizes, *scalars), given[len(inputs) :], strict=False)) | keywords
        with torch.no_grad():
            if library is None:
                found = kernel(*arrays, **numbers)
            else:
                found = library(*arrays, kernel=kernel.name, **numbers)
        return list(found) if many else found

    def fake(*given: Foreign, **keywords: Foreign) -> Foreign:
        numbers = dict(zip(sizes, given[len(inputs) :], strict=False)) | keywords
        known = {item: numbers[item] for item in sizes}
        made = _fake_outputs(kernel, given[: len(inputs)], known)
        return made if many else made[0]

    operator = torch.library.custom_op(qualified, launched, mutates_args=(), schema=schema)
    operator.register_fake(fake)
    if backward is not None:
        _with_gradient(operator, backward, len(inputs), many, qualified)
    found: Callable[..., Foreign] = operator
    return found


def _fake_outputs(
    kernel: LoadedKernel, arrays: tuple[Foreign, ...], given_sizes: dict[str, Foreign]
) -> list[Foreign]:
    """Empty outputs; extents may be symbols of torch.compile, which notes that equal sizes are
    equal; that extents are what expressions say is left to the call. Raises CallError, and what
    torch._check raises."""
    import torch

    given: dict[str, Foreign] = named(kernel.manifest, arrays, {})
    shapes = {name: tuple(array.shape) for name, array in given.items()}
    leading = leading_dimensions(kernel.manifest, shapes)
    sizes = dict(given_sizes)
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
        return [*(first or ()), *(sizes[t] if t in sizes else evaluate(t, sizes) for t in rest)]

    return [
        torch.empty(
            extents(item["shape"]),
            dtype=getattr(torch, TORCH_TYPES[item["dtype"]]), device=like.device,
        )
        for item in kernel.manifest["tensors"]
        if item["output"]
    ]  # fmt: skip


def _with_gradient(
    operator: Foreign, backward: Backward, count: int, many: bool, qualified: str
) -> None:
    traced = _traced_backward(backward, count, f"{qualified}_backward")

    def keep(ctx: Foreign, inputs: tuple[Foreign, ...], output: Foreign) -> None:
        outputs = tuple(output) if many else (output,)
        tensors = inputs[:count]
        ctx.numbers = inputs[count:]
        ctx.save_for_backward(*tensors, *outputs)

    def back(ctx: Foreign, *gradients: Foreign) -> Foreign:
        saved = ctx.saved_tensors
        flat = tuple(gradients[0]) if many else gradients
        if any(_without_memory(one) for one in (*saved, *flat)):
            found = traced(saved[:count], saved[count:], flat, *ctx.numbers)
        else:
            found = _gradients(backward, count, saved[:count], saved[count:], flat, *ctx.numbers)
        return (*found, *[None] * len(ctx.numbers))

    operator.register_autograd(back, setup_context=keep)


def _gradients(backward: Backward, count: int, *given: Foreign) -> tuple[Foreign, ...]:
    found = backward(*given)
    if not isinstance(found, tuple | list) or len(found) != count:
        gave = len(found) if isinstance(found, tuple | list) else type(found).__name__
        raise CallError(f"the backward gave {gave} where {count} gradients are taken")
    return tuple(found)


def _without_memory(tensor: Foreign) -> bool:
    """Whether a tensor is one of those by which PyTorch traces, or vmap's."""
    if tensor is None or not tensor.numel():
        return False
    try:
        return int(tensor.data_ptr()) == 0
    except RuntimeError:
        return True


def _traced_backward(backward: Backward, count: int, qualified: str) -> Backward:
    """The backward as an operator: of each input of floating-point numbers a dense gradient, of
    zeros where the backward gives None; made where it is first needed."""
    import torch

    def launched(
        inputs: Foreign, outputs: Foreign, gradients: Foreign, integers: list[int],
        floats: list[float],
    ) -> list[Foreign]:  # fmt: skip
        numbers = (*integers, *floats)
        given = {one.untyped_storage().data_ptr() for one in (*inputs, *outputs, *gradients)
                 if one is not None}  # fmt: skip
        with torch.no_grad():
            found = _gradients(
                backward, count, tuple(inputs), tuple(outputs), tuple(gradients), *numbers
            )
            made = []
            for one, array in zip(found, inputs, strict=True):
                if not array.is_floating_point():
                    continue
                if one is None:
                    made.append(torch.zeros(array.shape, dtype=array.dtype, device=array.device))
                    continue
                if one.shape != array.shape:
                    shapes = f"{list(one.shape)} where {list(array.shape)} is taken"
                    raise CallError(f"the backward gave a gradient of shape {shapes}")
                dense = one.to(array.dtype).contiguous()
                given_back = dense.untyped_storage().data_ptr() in given
                made.append(dense.clone() if given_back else dense)
        return made

    def fake(inputs: Foreign, *rest: Foreign) -> list[Foreign]:
        return [
            torch.empty(one.shape, dtype=one.dtype, device=one.device)
            for one in inputs
            if one.is_floating_point()
        ]

    made: list[Foreign] = []

    def called(inputs: Foreign, outputs: Foreign, gradients: Foreign, *numbers: Foreign) -> Foreign:
        if not made:
            schema = (
                "(Tensor[] inputs, Tensor[] outputs, Tensor?[] gradients, SymInt[] integers,"
                " float[] floats) -> Tensor[]"
            )
            operator = torch.library.custom_op(qualified, launched, mutates_args=(), schema=schema)
            operator.register_fake(fake)
            made.append(operator)
        floats = [one for one in numbers if isinstance(one, float)]
        integers = [one for one in numbers if not isinstance(one, float)]
        found = iter(made[0](list(inputs), list(outputs), list(gradients), integers, floats))
        return tuple(next(found) if one.is_floating_point() else None for one in inputs)

    return called
