"""The device header of a kernel for NVIDIA: primitives of sm_90a, and what other targets add."""

from __future__ import annotations

from titan.foundation.resources import root

TEMPLATES = "sm_90a"
HEADER = "titan_device.cuh"
TENSOR_HEADER = "titan_tcgen05.cuh"
PAIR_HEADER = "titan_pair.cuh"
ASKING_HEADER = "titan_next.cuh"
SCALES_HEADER = "titan_scales.cuh"
SUMS_HEADER = "titan_sums.cuh"
TRANSPOSED_HEADER = "titan_transposed.cuh"
COLUMNS_HEADER = "titan_columns.cuh"
MASKS_HEADER = "titan_masks.cuh"


def device_header(
    target: str, together: bool, asks: bool, scales: bool, more: tuple[str, ...] = ()
) -> str:
    """The header, for sm_100a with what that target has beyond sm_90a.

    With more where CTAs multiply `together`, where the kernel `asks` for work items, where
    products have `scales`, and the headers of sm_90a that are `more`: for a kernel that adds to
    tensors, writes what it transposes, reads vectors along columns, or masks ranges of fragments.
    """
    names = [(TEMPLATES, HEADER)]
    if target != TEMPLATES:
        names.append((target, TENSOR_HEADER))
    if together:
        names.append((target, PAIR_HEADER))
    if asks:
        names.append((target, ASKING_HEADER))
    if scales:
        names.append((target, SCALES_HEADER))
    names += [(TEMPLATES, name) for name in more]
    texts = [(root("backends") / one / name).read_text(encoding="utf-8") for one, name in names]
    return "\n".join(texts)
