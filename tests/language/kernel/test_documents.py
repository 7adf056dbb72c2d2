"""The documents say what the table says, and their examples mean what the text around them says."""

from __future__ import annotations

import re

import pytest

from tests.language.kernel.examples import DOCUMENTS, documented
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.language.kernel import table
from titan.language.kernel.decode import decode_text
from titan.verify.lowering import sync_program

LANGUAGE = DOCUMENTS[0].read_text(encoding="utf-8")
CODE = " ".join(re.findall(r"`([^`\n]+)`", LANGUAGE))
EXPECTED = {"gemm_early_release": "TTN202"}


def mentioned(word: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w])", CODE) is not None


@pytest.mark.parametrize("verb", table.VERBS, ids=lambda verb: verb.name)
def test_every_verb_and_option_is_documented(verb: table.Verb):
    assert [
        name for name in (verb.name, *(key.name for key in verb.options)) if not mentioned(name)
    ] == []
    words = [word for key in verb.options for word in key.words if word not in ("done", "cta")]
    assert [word for word in words if word != "synchronising" and not mentioned(word)] == []


@pytest.mark.parametrize("section", table.SECTIONS, ids=lambda section: section.name)
def test_every_section_and_key_is_documented(section: table.Section):
    missing = [key.name for key in section.keys if not mentioned(key.name)]
    assert mentioned(section.name) and missing == []


def test_words_are_documented():
    words = [*table.TARGETS, *table.RESERVED - {"any", "all"}, *table.QUEUE_KINDS, *table.FENCES]
    words += [key.name for key in (*table.TOP_LEVEL, *table.POLICIES)]
    assert [word for word in words if not mentioned(word)] == []
    for number in (table.STAGES_MAX, table.AGENTS_MAX, table.CTAS_MAX, table.NESTING_MAX):
        assert f" {number} " in LANGUAGE or f"{number} CTAs" in LANGUAGE
    assert f"{table.STATEMENTS_MAX:,}" in LANGUAGE


def test_the_documents_have_examples():
    assert len(documented()) >= 5


@pytest.mark.parametrize(
    "text", [text for _, text in documented()], ids=[n for n, _ in documented()]
)
def test_examples_mean_what_is_said_of_them(text: str):
    family, errors = decode_text(text, overrides={"depth": (2,)})
    assert errors == [] and family is not None
    (kernel,) = family.kernels
    program = sync_program(kernel).program
    codes = set()
    for tiles in range(4):
        result = explore_reference(program, {"tiles": tiles}, Budget(100_000))
        codes |= {result.trace.fault.kind.value} if result.trace else {result.verdict.value}
    assert (
        codes - {"verified"} == {EXPECTED[kernel.name]}
        if kernel.name in EXPECTED
        else codes == {"verified"}
    )
