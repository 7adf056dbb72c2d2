"""Packages for AMD by numbers from their assembly, against the meaning of their tile programs.

clang's code runs on the machine of waves; `titan.codegen.tile.semantics` computes in another way,
from the tile program. That the numbers rest on the code shows where an instruction is changed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.emit.hip_kernels import FORMS, form, needs_clang
from tests.sampling import sampled
from titan.codegen.tile.outputs import difference, sample_inputs
from titan.codegen.tile.semantics import run
from titan.isa.gcn.module import Registers
from titan.validate.hip.gcn import assembled, emulate_gcn
from titan.validate.hip.run import KernelFault

pytestmark = needs_clang
OF_BYTES = "gemm in e4m3 on gfx950"
SIZES = {"M": 70, "N": 80, "K": 80}


def furthest(made, code):
    """The largest difference of an output, in units of what is tolerated."""
    manifest = made.emitted.manifest
    parameters = {item.name: SIZES[item.name] for item in made.tile.parameters}
    inputs = sample_inputs(made.tile, parameters, 5)
    found = emulate_gcn(code, manifest, inputs, parameters)
    meant = run(made.tile, inputs, parameters)
    assert set(found) == set(meant)
    return max(
        difference(made.tile, name, found[name], right).error for name, right in meant.items()
    )


def code_of(made):
    return assembled(made.emitted.files, made.emitted.manifest)


@pytest.mark.parametrize("name", sampled(list(FORMS), every=3))
def test_the_assembly_computes_what_is_meant(name):
    made = form(name)
    assert furthest(made, code_of(made)) <= 1


def test_products_of_bytes_are_computed():
    made = form(OF_BYTES)
    assert furthest(made, code_of(made)) <= 1


def test_what_is_not_computed_is_no_number():
    """A transposed read of half bytes."""
    made = form("copy")
    code = code_of(made)
    at = next(n for n, item in enumerate(code.instructions) if item.base == "ds_read_b128")
    item = code.instructions[at]
    first = item.operands[0]
    assert isinstance(first, Registers)
    name = "ds_read_b64_tr_b4"
    operands = (replace(first, count=2), *item.operands[1:])
    other = replace(item, opcode=name, base=name, operands=operands)
    instructions = (*code.instructions[:at], other, *code.instructions[at + 1 :])
    with pytest.raises(KernelFault, match=f"{name} is not computed"):
        furthest(made, replace(code, instructions=instructions))


@pytest.mark.parametrize(("base", "name"), [
    ("v_mfma_f32_32x32x8_bf16", "gemm of 4 waves"), ("v_exp_f32", "elementwise"),
    ("ds_read_b128", "copy"), ("buffer_store_dwordx4", "copy"),
])  # fmt: skip
def test_an_instruction_that_is_changed_changes_the_numbers(base, name):
    made = form(name)
    code = code_of(made)
    at = next(n for n, item in enumerate(code.instructions) if item.base.startswith(base))
    item = code.instructions[at]
    if base.startswith(("ds", "buffer")):
        other = replace(item, options=item.options | {"offset": str(item.integer("offset") + 16)})
    else:
        first = item.operands[1]
        assert isinstance(first, Registers)
        operands = (item.operands[0], replace(first, first=first.first ^ 2), *item.operands[2:])
        other = replace(item, operands=operands)
    instructions = (*code.instructions[:at], other, *code.instructions[at + 1 :])
    with suppress(KernelFault):  # it reads or writes where nothing is
        assert furthest(made, replace(code, instructions=instructions)) > 1


def test_sizes_that_are_odd_leave_the_rest_alone():
    made = form("copy")
    ones = {tensor.name: np.ones((3, 8)) for tensor in made.tile.tensors if not tensor.output}
    found = emulate_gcn(code_of(made), made.emitted.manifest, ones, {"M": 3, "N": 8})
    (values,) = found.values()
    assert values.shape == (3, 8)
    assert (values == 1).all()
