"""Hints name words that the language has, and know the words of others."""

from __future__ import annotations

import re

import pytest

from titan.foundation.diagnostics.codes import CODES
from titan.foundation.diagnostics.rules import explanation
from titan.foundation.source.reader import Reader
from titan.foundation.source.yaml import parse_text
from titan.language.kernel.clause import read_clause
from titan.language.kernel.foreign import OTHER_WORDS, named_otherwise
from titan.language.kernel.table import FENCES, POLICIES, SECTIONS, TOP_LEVEL, VERB_OF, VERBS, WHEN

KEYS = [*TOP_LEVEL, *POLICIES, WHEN, *(key for section in SECTIONS for key in section.keys),
        *(key for verb in VERBS for key in verb.options)]  # fmt: skip
WORDS = {
    *VERB_OF, *FENCES, *(section.name for section in SECTIONS), *(key.name for key in KEYS),
    *(word for key in KEYS for word in key.words),
}  # fmt: skip
# What a help may name besides: commands, expressions, keys of loop and tile files, assembly.
BESIDES = {
    "titan", "schema", "fences", "--rewrite", "--as-designed", "t", "ld.global", "delay", "low",
    "high", "mod", "div", "min", "max", "and", "or", "not", "operands", "self", "true", "false",
    "wgmma.wait_group", "tcgen05.wait", "register_ready", "backends", "TARGET", "machine.yaml",
    "completion.yaml", "target", "variable_latency", "k.T", "narrow", "convert", "acc", "bf16",
    "to", "output", "depth", "lgkm", "writes", "when", "poisoned", "low..high", "ld", "s_waitcnt",
    "s_nop",
}  # fmt: skip
FORMAL = {"QUEUE", "BARRIER", "RING", "BUFFER", "POOL", "NAMED_BARRIER", "TILE", "GROUP", "N", "K",
          "P", "A", "B", "i", "t", "tiles", "CONDITION", "in"}  # fmt: skip


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text))


@pytest.mark.parametrize(("others", "written"), OTHER_WORDS)
def test_what_is_hinted_is_of_the_language(others: tuple[str, ...], written: str):
    named = {word for quoted in re.findall(r"`([^`]*)`", written) for word in words_of(quoted)}
    assert named - WORDS - FORMAL == set()
    verb = words_of(written.partition("`")[2]).intersection(VERB_OF)
    assert verb, "a hint begins with a verb"
    assert not set(others) & set(VERB_OF), "a verb needs no hint"


@pytest.mark.parametrize(
    ("word", "verb"),
    [("wait_group", "drain"), ("wgmma.wait_group", "drain"), ("__syncthreads", "sync"),
     ("cp.async.bulk.commit_group", "commit"), ("mbarrier.try_wait", "wait"),
     ("TMA_load", "bulk_load")],
)  # fmt: skip
def test_words_of_others_are_known_however_they_are_spelled(word: str, verb: str):
    for text in (f"{word}: x\n", f"{word}\n"):
        root, _ = parse_text(text)
        assert root is not None
        reader = Reader()
        assert read_clause(reader, root) is None
        (help_,) = reader.errors[0].helps
        assert f"`{verb}" in help_


def test_a_misspelled_verb_is_no_word_of_others():
    assert named_otherwise("aquire") == ()
    assert named_otherwise("") == ()


@pytest.mark.parametrize("code", CODES)
def test_helps_of_rules_name_words_that_there_are(code: str):
    """The first paragraph of "What to do" is the help of the diagnostic."""
    advice = explanation(CODES[code]).sections.get("What to do", "").split("\n\n")[0]
    advice = re.sub(r"\(in PTX\s[^)]*?(; |\))", "(", advice)  # there are words of PTX
    for quoted in re.findall(r"`([^`]*)`", advice):
        named = set(re.findall(r"-{0,2}[A-Za-z_][A-Za-z0-9_.-]*", quoted))
        assert named - WORDS - BESIDES == set(), quoted
