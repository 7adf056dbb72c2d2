"""Attention for sm_100a on the emulated device: its numbers, and faults planted in its text.

Trip counts below, at and beyond the depth of the rings, whole and ragged tiles of queries and keys,
under schedules that starve each role. A fault must end the run with a message, or give wrong
numbers, under one of the schedules tried.
"""

from __future__ import annotations

import re

import pytest

from tests.sampling import WHOLE, sampled
from tests.validate.emulate.emitted import emitted
from titan.foundation.resources import root
from titan.validate.emulate.compare import compare
from titan.validate.emulate.run import KernelFault

LIBRARY = sorted(
    path.stem for path in (root("protocols") / "tiles").glob("attention_*sm_100a.yaml")
)
QUICK = "attention_forward_causal_64_sm_100a"
ROLES = ("producer", "issuer", "softmax", "correction")
SCHEDULES = [
    ("uniform", "mixed"), ("latest", "lazy"), ("uneven", "eager"),
    *((f"starve:{role}", delay) for role in ROLES for delay in ("mixed", "lazy")),
]  # fmt: skip
# By default tests/package/test_attention_sm_100a.py runs a variant on the emulated device, and
# tests/validate/compare/test_tensor_attention.py plants faults.
pytestmark = pytest.mark.heavy

SIZES = [  # heads, queries, keys
    (2, 3, 5),
    (1, 128, 128),
    (1, 256, 256),
    (1, 257, 129),
    (1, 200, 333),
    (1, 130, 640),
]
LONG = (1, 300, 600)


def judged(tile, made, source, size, schedules=SCHEDULES, seed=0):
    """What showed that the text is wrong, or None."""
    sizes = dict(zip(("heads", "queries", "keys"), size, strict=True))
    for number, (policy, delay) in enumerate(schedules, seed):
        try:
            found = compare(
                tile, {"kernel.cu": source}, made.manifest, sizes,
                seed=number, policy=policy, delay=delay, processor_seconds=60,
            )  # fmt: skip
        except KernelFault as fault:
            return str(fault)
        if not found.same:
            return f"wrong numbers: {found.describe()}"
    return None


@pytest.mark.parametrize(
    "name", [n if n == QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in LIBRARY]
)
def test_computes_what_the_tile_program_means(name):
    tile, made = emitted(name, "sm_100a")
    for size in SIZES[:: 1 if WHOLE else 3]:
        assert judged(tile, made, made.files["kernel.cu"], size) is None


# what is wrong: (pattern, replacement, what is told)
FAULTS = {
    "no wait for the scores": (
        r"titan::barrier_wait\(b_s_full[^;]*;", "", r"in flight|nobody wrote|wrong numbers"),
    "no wait for the probabilities": (
        r"titan::barrier_wait\(b_p16_full[^;]*;", "",
        r"in flight|nobody wrote|wrong numbers|no wait has seen"),
    "no wait for the factor": (
        r"titan::barrier_wait\(b_shrink_full[^;]*;", "",
        r"nobody wrote|in flight|wrong numbers|no wait has seen"),
    "no wait for the rows to be free": (
        r"titan::barrier_wait\(b_shrink_empty[^;]*;", "", r"wrong numbers|no wait has seen"),
    "no wait for the last product": (
        r"titan::barrier_wait\(b_o_full[^;]*;", "", r"in flight|nobody wrote|wrong numbers"),
    "no wait for the sum of a row": (
        r"titan::barrier_wait\(b_total_full[^;]*;", "", r"nobody wrote|wrong numbers"),
    "wrong parity of the scores": (
        r"(barrier_wait\(b_s_full \+ x_group, )x_t % 2", r"\1(x_t + 1) % 2",
        r"in flight|nobody wrote|wrong numbers|hang"),
    "wrong parity of the probabilities": (
        r"(barrier_wait\(b_p16_full \+ x_g, )\(x_t - 1\) % 2", r"\1x_t % 2",
        r"in flight|nobody wrote|wrong numbers|hang|no wait"),
    "the put is not waited for": (
        r"titan::tensor_put_wait\(\);", "", r"a put in flight|nobody waited for"),
    "the put of the probabilities is handed on before it is done": (
        r"titan::tensor_put_wait\(\);(\s*titan::tensor_fence_before\(\);\s*// arrive at p16_full"
        r"(?s:.*?)barrier_arrive\(b_p16_full[^;]*;)", r"\1 titan::tensor_put_wait();",
        r"put in flight|to which a thread has put without one since"),
    "no fence behind the put": (
        r"(titan::tensor_put_wait\(\);)\s*titan::tensor_fence_before\(\);", r"\1",
        r"missing tensor_fence_before"),
    "no fence behind the wait of who puts": (
        r"(barrier_wait\(b_s_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        r"missing tensor_fence_after"),
    "no fence behind the wait of who multiplies": (
        r"(barrier_wait\(b_p16_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        r"missing tensor_fence_after"),
    "the fetch is not waited for": (
        r"titan::tensor_load_wait\(\);", "", r"fetch|nobody waited for|wrong numbers"),
    "another column of the probabilities": (
        r"(tensor_memory_put_pairs<128>\(titan_tensor)", r"\1 + 8",
        r"wrong numbers|nobody wrote"),
    "probabilities of the other sub-tile": (
        r"(left = titan_tensor \+ )x_g", r"\g<1>(1 - x_g)",
        r"in flight|nobody wrote|wrong numbers|without one since"),
    "a step of the left operand twice": (r"left \+ k \* 8", "left + k / 2 * 16", r"wrong numbers"),
    "rows of the other sub-tile": (
        r"(tensor_descriptor<128>\(s_q \+ )x_g", r"\g<1>(1 - x_g)", r"wrong numbers"),
    "both sub-tiles of one accumulator": (
        r"(tensor_multiply_pairs<[^>]*>\(titan_tensor \+ 256 \+ )x_g", r"\g<1>0 * x_g",
        r"in flight|nobody wrote|wrong numbers|without one since"),
    "the sum is never scaled": (
        r"v_o\[m\]\[2 \* j\] \* v_shrink\[m\]\[j % 2\]", "v_o[m][2 * j]", r"wrong numbers"),
    "scaled by the factor of the other sub-tile": (
        r"(rows = s_shrink \+ )x_g ", r"\g<1>(1 - x_g) ", r"wrong numbers|nobody wrote"),
    "the first product adds": (
        r"\(x_t - 1\) > 0 \|\| k > 0", "1", r"nobody wrote|wrong numbers"),
    "scores are added to": (r"a, b, k > 0\)", "a, b, 1)", r"nobody wrote|wrong numbers"),
    "mask of the other sub-tile": (
        r"titan_row = x_group", "titan_row = (1 - x_group)", r"wrong numbers"),
    "the rows of the output of the other sub-tile": (
        r"w_i \* 256 \+ x_g \* 128", "w_i * 256 + (1 - x_g) * 128", r"wrong numbers"),
    "the staging buffer is not waited for": (
        r"titan::bulk_wait_read<0>\(\);", "", r"in flight|wrong numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAULTS))
def test_a_planted_fault_is_seen(name):
    pattern, replacement, told = FAULTS[name]
    tile, made = emitted(QUICK, "sm_100a")
    source, count = re.subn(pattern, replacement, made.files["kernel.cu"])
    assert count >= 1, "the fault changes the text"
    found = judged(tile, made, source, LONG) or judged(tile, made, source, SIZES[-1], seed=40)
    assert found is not None
    # Which schedule the search finds in its time decides whether a lapped wait hangs first.
    assert re.search(f"{told}|^hang", found), found
