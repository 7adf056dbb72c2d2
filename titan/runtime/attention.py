"""The backward pass of attention from packages, as a function that `torch_operator` takes.

`attention_backward` gives dK, dV and the gradient of the queries in f32, added up by tiles of keys
in no fixed order, and `attention_backward_query_sums` scales, rounds and transposes that: five
products and one more pass. Where one of the two is not built, where the numbers have to be the same
bits in every run, or where a row of the sums is not a multiple of 16 bytes, two kernels with seven
products do it, `attention_backward_dkv` and `attention_backward_dq`. The choice is made from names
and shapes alone. Head dimension 128, queries, keys and values of bf16 in [heads, sequence, 128].
"""

from __future__ import annotations

from collections.abc import Callable

from titan.runtime.arrays import CallError, Foreign
from titan.runtime.library import Library

QUERIES_MULTIPLE = 4  # f32: rows of the sums are a multiple of 16 bytes
Gradients = tuple[Foreign, Foreign, Foreign]


def attention_gradients(
    packages: Library, causal: bool = False, deterministic: bool = False
) -> Callable[..., Gradients]:
    """The gradients of queries, keys and values of `attention_forward_training` (`causal`:
    `attention_forward_causal_training`): a function of its inputs, its outputs O and L and the
    gradients of these, of which that of L has no part. Raises CallError where neither way is built.

    `deterministic`: only kernels whose sums have one order.
    """
    form = "attention_backward_causal" if causal else "attention_backward"
    delta, sums = "attention_backward_delta", "attention_backward_query_sums"
    built = {kernel.name for kernel in packages.kernels}
    one = {delta, form, sums} <= built and not deterministic
    two = {delta, f"{form}_dkv", f"{form}_dq"} <= built
    if not (one or two):
        raise CallError(
            f"no packages for the gradients of attention: {delta} and either {form} with {sums}, "
            f"or {form}_dkv with {form}_dq"
        )

    def gradients(inputs: Foreign, outputs: Foreign, given: Foreign, *_: Foreign) -> Gradients:
        queries, keys, values = inputs
        output, statistics = outputs
        gradient = _dense(given[0])
        of_rows = packages(output, gradient, kernel=delta)
        arrays = (queries, keys, values, gradient, statistics, of_rows)
        if one and (queries.shape[-2] % QUERIES_MULTIPLE == 0 or not two):
            of_keys, of_values, summed = packages(*arrays, kernel=form)
            return packages(summed, kernel=sums), of_keys, of_values
        of_keys, of_values = packages(*arrays, kernel=f"{form}_dkv")
        return packages(*arrays, kernel=f"{form}_dq"), of_keys, of_values

    return gradients


def _dense(array: Foreign) -> Foreign:
    """Gradients that PyTorch has expanded from one number, as an array of their own."""
    contiguous = getattr(array, "contiguous", None)
    return array if contiguous is None else contiguous()
