"""Kernels for sm_100a: accumulators in tensor memory, fenced, taken and given back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.written import blackwell as construct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.tensor_places import allocated, tensor_places
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.validate.compare.compile import compile_package, nvcc


def gemm(**more):
    return replace(examples.gemm(groups=1, **more), target="sm_100a")


def emitted(tile, depth=2):
    shape = Shape("", depth, persistent=tile.persistent)
    kernel, program = decoded(construct(tile, shape, {"acc_next": 0}, 1))
    return emit(tile, kernel, program), kernel, program


def block(source, role):
    start = source.index(f"---- role_{role}")
    following = source.find("---- role_", start + 5)
    return source[start : following if following > 0 else len(source)]


@pytest.mark.parametrize("persistent", [False, True])
def test_who_does_what(persistent):
    made, _, _ = emitted(gemm(persistent=persistent))
    source = made.files["kernel.cu"]
    issuer, consumer = block(source, "issuer"), block(source, "consumer")
    assert "tensor_multiply<titan::bf16, 128, false>" in issuer
    assert "tensor_load(" in block(source, "producer")
    assert "tensor_memory_fetch<128>(v_acc[m]" in consumer
    assert "tensor_multiply" not in consumer
    assert "v_acc" not in issuer
    assert made.manifest["target"] == "sm_100a"
    assert made.manifest["resources"]["tensor_columns"] == (256 if persistent else 128)
    assert "wgmma" not in source


def test_the_first_product_of_a_work_item_overwrites():
    source = emitted(gemm())[0].files["kernel.cu"]
    assert "x_t > 0 || k > 0" in source


def test_a_counter_over_work_items_is_declared_not_to_be_negative_where_it_counts():
    known = re.compile(r"for \(int x_t = .*\n *titan::not_negative\(x_n\);")
    issuer = block(emitted(gemm(persistent=True))[0].files["kernel.cu"], "issuer")
    assert known.search(issuer) and issuer.count("not_negative") == 1
    assert "not_negative" not in emitted(gemm())[0].files["kernel.cu"]


def test_fences_stand_around_every_synchronisation_of_who_touches_tensor_memory():
    source = emitted(gemm(persistent=True))[0].files["kernel.cu"]
    for role in ("issuer", "consumer"):
        lines = [line.strip() for line in block(source, role).splitlines()]
        waited = fences = 0
        for number, line in enumerate(lines, 1):
            if re.match(r"titan::(barrier_wait|named_barrier_sync|block_sync)\(", line):
                waited = number
            elif line == "titan::tensor_fence_after();":
                assert waited, "not one without a wait"
                waited, fences = 0, fences + 1
            assert not waited or not re.search(r"tensor_(multiply|memory_fetch|commit)", line), line
        assert fences
    consumer = block(source, "consumer")
    fetched = consumer.index("tensor_load_wait()")
    arrival = consumer.index("barrier_arrive(b_ring_acc_empty")
    assert "tensor_fence_before()" in consumer[fetched:arrival]
    assert "tensor_fence" not in block(source, "producer")[: block(source, "producer").index("}")]


def test_taken_and_given_back_by_the_same_warp():
    source = emitted(gemm())[0].files["kernel.cu"]
    taken = re.search(r"if \(titan_warp == (\d+)\) titan::tensor_memory_allocate<(\d+)>", source)
    given = re.search(r"if \(titan_warp == (\d+)\) titan::tensor_memory_free<(\d+)>", source)
    assert taken and given
    assert taken.groups() == given.groups()
    tail = source[: given.start()].rstrip().splitlines()[-4:]
    assert [line.strip() for line in tail] == [
        "titan::warp_sync();",
        "titan::tensor_fence_before();",
        "titan::block_sync();",
        "titan::tensor_fence_after();",
    ]


def test_accumulators_lie_side_by_side_in_a_power_of_two():
    _, kernel, program = emitted(gemm(persistent=True, columns=48))
    places = tensor_places(kernel, program)
    assert [(p.column, p.columns, p.stages) for p in places.values()] == [(0, 48, 2)]
    assert allocated(places) == 128
    assert allocated({}) == 0


def test_an_accumulator_that_begins_with_another_number_is_refused():
    tile = gemm()
    _, kernel, program = emitted(tile)
    carried = (replace(tile.carried[0], initial=1.0),)
    with pytest.raises(EmissionRefused, match="begins with 0"):
        emit(replace(tile, carried=carried), kernel, program)


@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
def test_it_compiles_without_spills_or_remarks():
    made = emitted(gemm(persistent=True))[0]
    figures = compile_package(made.files, "sm_100a").figures
    assert figures.faults() == []
    assert figures.registers > 0
