"""Codes, names and explanations of all rules."""

import textwrap
from pathlib import Path

import pytest

from titan.foundation.diagnostics import rules
from titan.foundation.diagnostics.codes import BY_NAME, CODES, FAMILIES, find
from titan.foundation.diagnostics.model import Severity
from titan.foundation.source.yaml import parse_text


@pytest.mark.parametrize("entry", CODES.values(), ids=lambda entry: entry.code)
def test_every_rule_is_documented_under_the_fixed_headings(entry):
    found = rules.explanation(entry)
    assert (found.code, found.name) == (entry.code, entry.name)
    assert tuple(found.sections) == rules.HEADINGS
    assert all(text.strip() for text in found.sections.values())
    assert found.summary[:1].islower() or not found.summary[:1].isalpha()
    assert not found.summary.endswith(".")
    assert "\n" not in found.summary
    example = found.sections["Example"].split("\n")
    assert all(line.startswith("    ") for line in example if line)
    assert found.markdown().count("\n# ") == 0


# Rules whose example is what YAML itself refuses.
REFUSED_BY_YAML = {"TTN001", "TTN004", "TTN005"}


@pytest.mark.parametrize("entry", CODES.values(), ids=lambda entry: entry.code)
def test_examples_are_yaml_or_commands(entry):
    example = textwrap.dedent(rules.explanation(entry).sections["Example"])
    if example.startswith("titan "):
        return
    _, errors = parse_text(example)
    found = [error.code for error in errors]
    assert found == ([entry.code] if entry.code in REFUSED_BY_YAML else [])


def test_no_module_without_a_code():
    folder = Path(rules.__file__).parent
    modules = {
        f"titan.foundation.diagnostics.rules.{path.parent.name}.{path.stem}"
        for path in folder.glob("*/*.py")
        if path.stem != "__init__"
    }
    assert modules == {entry.module for entry in CODES.values()}


def test_codes_and_names_are_unique_and_well_formed():
    assert len(BY_NAME) == len(CODES)
    for code, entry in CODES.items():
        assert code == entry.code
        assert len(code) == 6 and code[:4] in FAMILIES and code[4:].isdigit()
        assert entry.severity in set(Severity)
        assert entry.name == entry.name.lower()
        assert not entry.name.startswith(("no-", "must-", "do-not-"))


def test_rules_are_found_by_code_and_by_name():
    assert find("ttn205") is CODES["TTN205"]
    assert find("Deadlock") is CODES["TTN205"]
    assert find("TTN000") is None
    assert find("") is None
