"""Faults for the text of emitted kernels: lists by name, and changes of single lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What a line is changed to, where it holds such a call; each match of each line is one mutant.
DROPPED = re.compile(
    r"titan::(barrier_wait|barrier_arrive|barrier_arrive_expect|fence_proxy_async|bulk_commit|"
    r"bulk_wait|bulk_wait_read|wgmma_wait|wgmma_commit|wgmma_fence|named_barrier_sync|"
    r"named_barrier_arrive|block_sync|warp_sync|barrier_init|tensor_load|tensor_store|"
    r"registers_decrease|registers_increase|wgmma_ss|wgmma_rs|store_shared32|store_matrices)"
    r"(<[^;()]*>)?\("
)
CHANGED: list[tuple[str, re.Pattern[str], str]] = [
    ("parity", re.compile(r"(barrier_wait\(.*), ([^,]*)\);"), r"\1, (\2) ^ 1);"),
    ("count + 1", re.compile(r"(barrier_init\([^,]*), (\d+)\)"), r"\1, \2 + 1)"),
    ("count - 1", re.compile(r"(barrier_init\([^,]*), (\d+)\)"), r"\1, \2 - 1)"),
    ("bytes + 128", re.compile(r"(barrier_arrive_expect\(.*), (\d+)\)"), r"\1, \2 + 128)"),
    ("bytes - 128", re.compile(r"(barrier_arrive_expect\(.*), (\d+)\)"), r"\1, \2 - 128)"),
    ("one more in flight", re.compile(r"wgmma_wait<(\d)>"), r"wgmma_wait<\1 + 1>"),
    ("coordinates", re.compile(r"(tensor_\w+\(.*), ([^,]*), ([^,]*)\);"), r"\1, \3, \2);"),
    ("stride", re.compile(r", 1024\);"), r", 2048);"),
    ("swizzle of a descriptor", re.compile(r"shared_descriptor<128>"), r"shared_descriptor<64>"),
    ("swizzle of a store", re.compile(r"swizzled<128>"), r"swizzled<0>"),
    ("transposed", re.compile(r"(wgmma_.s<[^<>]*), false>"), r"\1, true>"),
    (
        "barrier of another group",
        re.compile(r"named_barrier_(\w+)\(x_group"),
        r"named_barrier_\1(0",
    ),
    ("stage", re.compile(r"(barrier_arrive\(\w+ \+ \(?)(?=r_)"), r"\1 1 + "),
    ("stage of an operand", re.compile(r"(descriptor_of_stage<\d+>\(d\d_\w+, )r_"), r"\1 0 * r_"),
    ("position", re.compile(r"titan::advance\(r_\w+\);"), ""),
]


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """(what was changed, the changed text), one change each."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        changes: list[tuple[str, str]] = []
        if not line.strip().startswith("//"):
            dropped = DROPPED.search(line)
            if dropped:
                # An expression statement keeps its condition or loop; its call is not made.
                at = dropped.start()
                changes.append((f"no {dropped.group(1)}", line[:at] + "if (false) " + line[at:]))
            for name, pattern, into in CHANGED:
                if pattern.search(line):
                    changes.append((name, pattern.sub(into, line, count=1)))
        for name, changed in changes:
            what = f"line {number + 1}, {name}: {line.strip()[:100]}"
            yield what, "\n".join([*lines[:number], changed, *lines[number + 1 :]])


# What is wrong: pattern and replacement in the text of `gemm_persistent_sm_100a`.
GEMM_FAULTS = {
    "no commit to empty": (
        r"titan::tensor_commit\(b_ring_a_empty[^;]*;",
        "",
    ),
    "no commit to full": (
        r"titan::tensor_commit\(b_ring_acc_full[^;]*;",
        "",
    ),
    "an arrival instead of the commit to empty": (
        r"titan::tensor_commit\(b_ring_a_empty",
        "titan::barrier_arrive(b_ring_a_empty",
    ),
    "an arrival instead of the commit to full": (
        r"titan::tensor_commit\(b_ring_acc_full",
        "titan::barrier_arrive(b_ring_acc_full",
    ),
    "no tensor_fence_after of the consumer": (
        r"(barrier_wait\(b_ring_acc_full[^;]*;)\s*titan::tensor_fence_after\(\);",
        r"\1",
    ),
    "no tensor_fence_after of the issuer": (
        r"(barrier_wait\(b_ring_a_full[^;]*;)\s*titan::tensor_fence_after\(\);",
        r"\1",
    ),
    "no tensor_fence_before": (
        r"(tensor_load_wait\(\);)\s*titan::tensor_fence_before\(\);",
        r"\1",
    ),
    "fetch without waiting for the multiplications": (
        r"titan::barrier_wait\(b_ring_acc_full[^;]*;",
        "",
    ),
    "numbers used before the fetch is waited for": (
        r"titan::tensor_load_wait\(\);",
        "",
    ),
    "released before the fetch is waited for": (
        r"titan::tensor_load_wait\(\);((?s:.)*?barrier_arrive\(b_ring_acc_empty[^;]*;)",
        r"\1 titan::tensor_load_wait();",
    ),
    "the accumulator is added to from the start": (
        r"x_t > 0 \|\| k > 0\)",
        "1)",
    ),
    "added to from the start, once both stages were used": (
        r"x_t > 0 \|\| k > 0\)",
        "x_w > 1 || x_t > 0 || k > 0)",
    ),
    "never added to": (
        r"x_t > 0 \|\| k > 0\)",
        "k > 0)",
    ),
    "wrong stage of the accumulator": (
        r"tensor_multiply(.*)\(x_w % 2\) \* 128",
        r"tensor_multiply\1((x_w + 1) % 2) * 128",
    ),
    "fetched from the wrong stage": (
        r"tensor_memory_fetch(.*)\(x_w % 2\) \* 128",
        r"tensor_memory_fetch\1((x_w + 1) % 2) * 128",
    ),
    "one stage of the accumulator for both": (
        r"\(x_w % 2\) \* 128",
        "0",
    ),
    "no wait for the accumulator to be free": (
        r"titan::barrier_wait\(b_ring_acc_empty[^;]*;",
        "",
    ),
    "lanes of another warp": (
        r"titan_warp % 4 \* 32 \+ 16",
        "(titan_warp + 1) % 4 * 32 + 16",
    ),
    "rows exchanged": (
        r"32 \+ 16 \* m\)",
        "32 + 16 * (1 - m))",
    ),
    "too few columns": (
        r"(tensor_memory_\w+)<256>",
        r"\1<128>",
    ),
    "not given back": (
        r"if \(titan_warp == 0\) titan::tensor_memory_free<256>\(titan_tensor\);",
        "",
    ),
    "given back by another warp": (
        r"titan_warp == 0\) titan::tensor_memory_free",
        "titan_warp == 1) titan::tensor_memory_free",
    ),
    "given back by one thread": (
        r"if \(titan_warp == 0\) titan::tensor_memory_free",
        "if (titan_thread == 0) titan::tensor_memory_free",
    ),
    "given back too early": (
        r"titan::block_sync\(\);(\s*titan::tensor_fence_after\(\);\s*if \(titan_warp == 0\) "
        r"titan::tensor_memory_free)",
        r"\1",
    ),
    "not freed by the amount allocated": (
        "tensor_memory_free<256>",
        "tensor_memory_free<128>",
    ),
    "the address assumed": (
        r"= \*titan_tensor_slot;",
        "= 0;",
    ),
    "no barrier behind the allocation": (
        r"(titan::tensor_fence_before\(\);)\s*titan::block_sync\(\);(\s*titan::tensor_fence_after)",
        r"\1\2",
    ),
    "all lanes multiply": (
        r"if \(titan_warp == 1 && titan::elect_one\(\)\)",
        "if (titan_warp == 1)",
    ),
    "swizzle of a descriptor": (
        r"tensor_descriptor<128>\(s_a",
        "tensor_descriptor<64>(s_a",
    ),
    "stride of a descriptor": (
        r"(titan::tensor_descriptor<128>\(s_b.*), 1024\)",
        r"\1, 512)",
    ),
    "operands exchanged": (
        ", a, b, x_t",
        ", b, a, x_t",
    ),
    "the issuer ends before its multiplications": (
        r"titan::tensor_commit\(b_issuer_drained(?s:.)*?titan::tensor_fence_after\(\);",
        "",
    ),
    "the other type": (
        "titan::bf16, 128, false",
        "titan::f16, 128, false",
    ),
}
# The same for `attention_forward_causal_64_sm_100a`.
ATTENTION_FAULTS = {
    "no wait for the scores": (
        r"titan::barrier_wait\(b_s_full[^;]*;",
        "",
    ),
    "no wait for the probabilities": (
        r"titan::barrier_wait\(b_p16_full[^;]*;",
        "",
    ),
    "no wait for the factor": (
        r"titan::barrier_wait\(b_shrink_full[^;]*;",
        "",
    ),
    "no wait for the rows to be free": (
        r"titan::barrier_wait\(b_shrink_empty[^;]*;",
        "",
    ),
    "no wait for the last product": (
        r"titan::barrier_wait\(b_o_full[^;]*;",
        "",
    ),
    "no wait for the sum of a row": (
        r"titan::barrier_wait\(b_total_full[^;]*;",
        "",
    ),
    "wrong parity of the scores": (
        r"(barrier_wait\(b_s_full \+ x_group, )x_t % 2",
        r"\1(x_t + 1) % 2",
    ),
    "wrong parity of the probabilities": (
        r"(barrier_wait\(b_p16_full \+ x_g, )\(x_t - 1\) % 2",
        r"\1x_t % 2",
    ),
    "the put is not waited for": (
        r"titan::tensor_put_wait\(\);",
        "",
    ),
    "the put of the probabilities is handed on before it is done": (
        r"titan::tensor_put_wait\(\);(\s*titan::tensor_fence_before\(\);\s*// arrive at p16_full"
        r"(?s:.*?)barrier_arrive\(b_p16_full[^;]*;)",
        r"\1 titan::tensor_put_wait();",
    ),
    "no fence behind the put": (
        r"(titan::tensor_put_wait\(\);)\s*titan::tensor_fence_before\(\);",
        r"\1",
    ),
    "no fence behind the wait of who puts": (
        r"(barrier_wait\(b_s_full[^;]*;)\s*titan::tensor_fence_after\(\);",
        r"\1",
    ),
    "no fence behind the wait of who multiplies": (
        r"(barrier_wait\(b_p16_full[^;]*;)\s*titan::tensor_fence_after\(\);",
        r"\1",
    ),
    "the fetch is not waited for": (
        r"titan::tensor_load_wait\(\);",
        "",
    ),
    "another column of the probabilities": (
        r"(tensor_memory_put_rows_pairs<128, 0, 32>\(titan_tensor)",
        r"\1 + 8",
    ),
    "probabilities of the other sub-tile": (
        r"(left = titan_columns \+ )x_g",
        r"\g<1>(1 - x_g)",
    ),
    "a step of the left operand twice": (
        r"left \+ k \* 8",
        "left + k / 2 * 16",
    ),
    "rows of the other sub-tile": (
        r"(tensor_descriptor<128>\(s_q, .*, )x_g",
        r"\g<1>(1 - x_g)",
    ),
    "both sub-tiles of one accumulator": (
        r"(tensor_multiply_pairs<[^>]*>\(titan_columns \+ 256 \+ )x_g",
        r"\g<1>0 * x_g",
    ),
    "scaled by the factor of the other sub-tile": (
        r"(rows = s_shrink \+ )x_g ",
        r"\g<1>(1 - x_g) ",
    ),
    "the first product adds": (
        r"\(x_t - 1\) > 0 \|\| k > 0",
        "1",
    ),
    "scores are added to": (
        r"a, b, k > 0\)",
        "a, b, 1)",
    ),
    "mask of the other sub-tile": (
        "titan_row = x_group",
        "titan_row = (1 - x_group)",
    ),
    "the rows of the output of the other sub-tile": (
        r"w_i \* 256 \+ x_g \* 128",
        "w_i * 256 + (1 - x_g) * 128",
    ),
    "the staging buffer is not waited for": (
        r"titan::bulk_wait_read<0>\(\);",
        "",
    ),
}
