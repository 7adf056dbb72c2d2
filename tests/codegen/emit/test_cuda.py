"""Kernels for sm_90a: what is spelled for which operation, the manifest, the same text again."""

from __future__ import annotations

import json
import re

import pytest

from tests.codegen.emit.cuda_kernels import WHOLE, emitted, loops, overlapped, parts
from titan.codegen.emit.write import emit
from titan.sync import program as ir
from titan.sync.expression import evaluate, parse_expression

NAMES = ("gemm", "gemm_bias_gelu", "gemm_persistent", "gemm_cluster2", "gemm_fp8", "copy",
         "softmax_rows", "scale_bias_silu", "attention_forward_64",
         "attention_forward_causal_64")  # fmt: skip
CALL = re.compile(r"titan::(\w+)(?:<[^>]*>)?\(")


def body(text: str) -> str:
    """The kernel behind its preparation."""
    return text[text.index("    // ---- ") :]


def calls(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in CALL.findall(text):
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_text_depends_on_the_input_alone(name):
    assert emit(*parts(name)) == emitted(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_synchronising_operation_is_spelled_once(name):
    """One role text covers the roles of all CTAs; arrivals at all CTAs are one call. Of a loop in
    two parts the first is left out, which `test_parted` compares with the second."""
    _, kernel, program = parts(name)
    source = emitted(name).files["kernel.cu"]
    found = calls(body(source.replace(loops(source)[0], "") if WHOLE in source else source))
    expected: dict[str, int] = {}

    def count(key: str, number: int = 1) -> None:
        expected[key] = expected.get(key, 0) + number

    cluster = {b.name for b in program.named_barriers if b.scope is ir.Scope.CLUSTER}
    pipelined = {queue.name for queue in program.queues if queue.pipelined}
    for role in program.roles:
        for operation in ir.walk(role.body) if role.cta == 0 else ():
            match operation:
                case ir.Wait(order=ir.Order.RELAXED):
                    count("barrier_wait_relaxed")
                case ir.Wait(scope=scope):
                    count("barrier_wait" + ("_cluster" if scope is ir.Scope.CLUSTER else ""))
                case ir.Arrive(order=ir.Order.RELAXED, barrier=barrier):
                    count("barrier_arrive_remote_relaxed", barrier.name.endswith("@0"))
                case ir.Arrive(transaction=size, scope=scope):
                    remote = scope is ir.Scope.CLUSTER
                    kind = "remote" if remote else "expect" if evaluate(size, {}) else ""
                    count("barrier_arrive" + ("_" + kind if kind else ""))
                case ir.BarrierSync(barrier=barrier) if barrier.name not in cluster:
                    count("named_barrier_sync")
                case ir.Fence():
                    count("fence_proxy_async")
                case ir.Commit(queue=queue):
                    count("wgmma_commit" if queue in pipelined else "bulk_commit")
                case ir.QueueWait(queue=queue, until=until):
                    read = "_read" if until is ir.Until.READ else ""
                    count("wgmma_wait" if queue in pipelined else "bulk_wait" + read)
                case ir.Asynchronous(queue=queue, completes=completes):
                    if completes:
                        count("tensor_load" + ("_multicast" if len(completes) > 1 else ""))
                    else:
                        count("wgmma_fence" if queue in pipelined else "tensor_store")
    assert {key: found.get(key, 0) for key in expected} == expected
    assert found.get("cluster_sync", 0) == (1 if kernel.ctas > 1 else 0)


def test_hardware_counts_are_arrivals_of_warps():
    text = emitted("gemm").files["kernel.cu"]
    assert "titan::barrier_init(b_ring_a_full + stage, 1);" in text
    assert "titan::barrier_init(b_ring_a_empty + stage, 8);" in text, "two groups of four warps"


def test_a_group_that_loads_for_itself_arrives_with_every_warp_and_expects_once():
    text = emitted("gemm", 2, False).files["kernel.cu"]
    assert "titan::barrier_init(b_ring_a_full + stage, 4);" in text, "one group of four warps"
    assert re.search(
        r"if \(titan_leader\) \{\s*titan::barrier_arrive_expect\(.*\);\s*"
        r"\} else if \(titan_warp % 4 != 0 && titan::elect_one\(\)\) \{\s*"
        r"titan::barrier_arrive\(",
        text,
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_is_plain_data_and_its_expressions_have_values(name):
    tile, kernel, _ = parts(name)
    made = emitted(name).manifest
    assert json.loads(json.dumps(made)) == made
    values = {item["name"]: 300 for item in made["parameters"]} | {"processors": 132}
    work = evaluate(parse_expression(made["work"]), values)
    grid = evaluate(parse_expression(made["launch"]["grid"]), values)
    assert 1 <= grid <= work and grid % made["launch"]["cluster"] == 0
    for text in made["constraints"]:
        assert evaluate(parse_expression(text), values | {"K": 304, "N": 304}) in (0, 1)
    assert made["launch"]["cluster"] == kernel.ctas
    for item in made["arguments"]:
        if item["kind"] == "tensor_map":
            size = {"f32": 4, "bf16": 2, "f16": 2}.get(item["dtype"], 1)
            assert item["box"][0] * size == int(item["swizzle"].removesuffix("B"))
            assert all(1 <= extent <= 256 for extent in item["box"])
    threads = sum(role["threads"] for role in made["roles"])
    assert threads <= made["launch"]["block"]
    assert {tensor["name"] for tensor in made["tensors"]} == {t.name for t in tile.tensors}


def test_arguments_stand_in_the_order_of_the_manifest():
    made = emitted("gemm_bias_gelu")
    text = made.files["kernel.cu"]
    head = text[text.index("titan_gemm_bias_gelu(") : text.index(") {")]
    spelled = [f"n_{i['name']}" if i["kind"] == "size" else i["name"]
               for i in made.manifest["arguments"]]  # fmt: skip
    places = [re.search(rf"\b{name}\b", head) for name in spelled]
    assert all(places)
    assert [p.start() for p in places if p] == sorted(p.start() for p in places if p)


def test_accumulators_are_carried_in_place():
    text = emitted("gemm").files["kernel.cu"]
    assert "float v_acc[1][64];  // acc, acc_next: fragment" in text
    assert "v_acc_next" not in text


def test_a_value_of_the_iteration_before_keeps_registers_of_its_own():
    """With p one iteration behind, its registers are not those of the scores in flight."""
    late = ("p", "p_sum", "total_next", "p16", "o_next")
    text = emit(*overlapped("attention_forward_64", *late)).files["kernel.cu"]
    scores = re.search(r"float v_s\[1\]\[\d+\];  // ([\w, ]+):", text)
    assert scores and "p" not in scores.group(1).split(", ")


def test_a_wait_behind_a_condition_stands_on_every_path():
    """ptxas overlaps multiplications only where it sees each wait; too many waits are safe."""
    late = ("p", "p_sum", "total_next", "p16", "o_shrunk", "o_next")
    tile, kernel, program = overlapped("attention_forward_64", *late)
    text = emit(tile, kernel, program).files["kernel.cu"]
    assert not re.search(r"if \([^{]*\{\s*titan::wgmma_wait", text)
