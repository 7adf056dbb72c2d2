"""The qualifiers that each family of instructions may carry, as data.

A qualifier that is not listed is refused: ignoring a misspelled one could change a verdict.
"""

from __future__ import annotations

from titan.litmus.language.ast import PTX_SCOPES, Semantics

ATOMIC_OPERATIONS = ("add", "sub", "exch", "cas", "min", "max", "and", "or", "xor")
ARITHMETIC = ("add", "sub", "mul", "and", "or", "xor", "min", "max")
SCOPES = {scope.value: scope for scope in PTX_SCOPES}
_SPACES = ("global", "shared", "shared::cta", "shared::cluster")
_TYPES = tuple(f"{kind}{bits}" for kind in "usbf" for bits in (8, 16, 32, 64, 128))
_ORDERS = tuple(Semantics)
BULK_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
_GROUPS = ("commit_group", "wait_group", "sync", "aligned")
QUALIFIERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("ld", "suld", "sust", "tld", "cold"),
        (*_ORDERS, *SCOPES, *_SPACES, *_TYPES, "volatile", "mmio"),
    ),
    "st": (
        *_ORDERS,
        *SCOPES,
        *_SPACES,
        *_TYPES,
        "volatile",
        "mmio",
        "async",
        "mbarrier",
        "mbarrier::complete_tx::bytes",
    ),
    "tensormap": (
        "cp_fenceproxy",
        "tensormap::generic",
        "release",
        *SCOPES,
        *_SPACES,
        "sync",
        "aligned",
    ),
    "atom": (*_ORDERS, *SCOPES, *_SPACES, *_TYPES, *ATOMIC_OPERATIONS),
    "red": (
        *_ORDERS,
        *SCOPES,
        *_SPACES,
        *_TYPES,
        *ATOMIC_OPERATIONS,
        "async",
        "mbarrier",
        "mbarrier::complete_tx::bytes",
    ),
    **dict.fromkeys((*ARITHMETIC, "mov"), _TYPES),
    "fence": (
        *_ORDERS,
        *SCOPES,
        *_SPACES,
        "proxy",
        "alias",
        "constant",
        "texture",
        "surface",
        "async",
        "tensormap",
        "async::generic",
        "tensormap::generic",
        "mbarrier_init",
        "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster",
        "sync_restrict::shared::cluster::read",
    ),
    "membar": ("cta", "gl", "sys"),
    "bar": ("cta", "sync", "arrive"),
    "barrier": ("cta", "cluster", "sync", "arrive", "wait", "aligned", *_ORDERS),
    "mbarrier": (
        "init",
        "arrive",
        "expect_tx",
        "test_wait",
        "try_wait",
        "parity",
        *_ORDERS,
        *SCOPES,
        *_SPACES,
        *_TYPES,
    ),
    "cp": (
        "async",
        "bulk",
        "tensor",
        "mbarrier",
        "mbarrier::complete_tx::bytes",
        "bulk_group",
        "multicast::cluster",
        "arrive",
        "noinc",
        "reduce",
        *BULK_REDUCTIONS,
        "wait_all",
        "read",
        "ca",
        "cg",
        "tile",
        "1d",
        "2d",
        "3d",
        "4d",
        "5d",
        *_GROUPS,
        *_SPACES,
        *_TYPES,
    ),
    "wgmma": ("fence", "mma_async", *_GROUPS),
    "tcgen05": (
        "mma",
        "commit",
        "fence::before_thread_sync",
        "fence::after_thread_sync",
        "cta_group::1",
        "cta_group::2",
        "mbarrier::arrive::one",
        *_SPACES,
        *_TYPES,
    ),
}
