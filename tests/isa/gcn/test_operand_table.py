"""The table of operand forms is what its generator writes, and what an assembler shows."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.amd import operand_table
from benchmarks.amd.random_encodings import accepted_texts
from titan.isa.gcn.opcodes import OPCODES, OpcodeKind, base_name, expanded
from titan.isa.gcn.operand_forms import FORMS
from titan.isa.gcn.operand_table import TABLE

needs_assembler = pytest.mark.skipif(
    shutil.which(operand_table.ASSEMBLER) is None,
    reason=f"{operand_table.ASSEMBLER} is not installed",
)


def named_forms():
    """The forms of each mnemonic as the table has them, read line by line."""
    found, heading = {}, ""
    for line in TABLE.split("\n"):
        if not line.startswith(" "):
            heading = f"{heading} {line}" if not heading.endswith("=") else line
            continue
        forms = heading.strip().rstrip("=").strip().split(" ; ")
        for pattern in line.split():
            for name in expanded(pattern):
                found[name] = {"" if form == "none" else form for form in forms}
    return found


def test_the_table_is_what_the_generator_writes():
    forms = named_forms()
    assert set(forms) == set(FORMS)
    assert operand_table.written(forms) == operand_table.TABLE.read_text(encoding="utf-8")


def test_another_form_is_written_differently():
    forms = named_forms()
    forms["v_perm_b32"] = {*forms["v_perm_b32"], "v1 v1"}
    assert operand_table.written(forms) != operand_table.TABLE.read_text(encoding="utf-8")


@needs_assembler
@pytest.mark.parametrize("target", operand_table.TARGETS)
def test_random_code_has_no_form_that_the_table_lacks(target):
    sample = operand_table.Sample()
    texts = accepted_texts(operand_table.ASSEMBLER, target, 0.004, 3)
    assert len(texts) > 1000
    for text in texts:
        sample.add(text)
    assert len(sample.forms) > 400
    for mnemonic, seen in sample.forms.items():
        opcode = OPCODES[base_name(mnemonic)]
        if mnemonic.startswith(("s_branch", "s_cbranch_")) or opcode.kind is OpcodeKind.CACHE:
            continue
        for options, all_kinds in seen.items():
            for kinds in all_kinds:
                assert any(
                    form.options == set(options) and _fits(kinds, form.operands, opcode.results)
                    for form in FORMS[mnemonic]
                ), (mnemonic, options, kinds)


def _fits(kinds, places, results):
    """Whether each kind is one of those of its place; a literal may be one of 16 bits, or inline
    where it is written as another number. Random results have names that no program writes."""
    names = {"l": {"l", "h", "i"}, "i": {"i", "h", "l"}, "vcc": {"vcc", "s2"}}
    return len(kinds) == len(places) and all(
        names.get(kind, {kind.lstrip("=").rstrip("(")}) & place or kind == "=lit("
        for kind, place in zip(kinds[results:], places[results:], strict=True)
    )
