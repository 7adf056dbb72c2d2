"""Checks as JUnit XML: a suite for each file, a case for each check.

Refuted is a failure, undecided is skipped with its reason, refused input and disagreeing engines
are errors. Characters that XML 1.0 does not allow are escaped. Source: the schema of Jenkins' xUnit
plugin, junit-10.xsd.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as xml

from titan.foundation.diagnostics.render import text as text_render
from titan.foundation.diagnostics.wording import clean, one_line
from titan.foundation.verdict import Verdict
from titan.report.checks import Check, by_path

_ELEMENT = {
    Verdict.REFUTED: "failure",
    Verdict.UNDECIDED: "skipped",
    Verdict.REFUSED: "error",
    Verdict.DISAGREEMENT: "error",
}


def render(checks: Sequence[Check]) -> str:
    """The XML document; no times, so that equal input gives equal output."""
    counts = _counts(checks)
    del counts["skipped"]  # which the schema gives to suites alone
    root = xml.Element("testsuites", {"name": "titan", **counts})
    for path, found in by_path(checks).items():
        suite = xml.SubElement(root, "testsuite", {"name": one_line(path), **_counts(found)})
        for check in found:
            _case(suite, check)
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, "unicode") + "\n"


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    kinds = [_kind(check) for check in checks]
    return {
        "tests": str(len(checks)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
    }


def _kind(check: Check) -> str | None:
    """The element of a check; undecided is not "skipped" where it fails the run."""
    if check.verdict is Verdict.UNDECIDED and not check.is_open:
        return "failure"
    return _ELEMENT.get(check.verdict)


def _case(suite: xml.Element, check: Check) -> None:
    name = one_line(check.name) or "file"
    case = xml.SubElement(suite, "testcase", classname=one_line(check.path), name=name)
    kind = _kind(check)
    if kind is None:
        xml.SubElement(case, "system-out").text = clean(check.summary)
        return
    found = xml.SubElement(case, kind, message=clean(check.summary))
    if kind != "skipped":
        codes = [item.code for item in check.errors]
        found.set("type", codes[0] if codes else check.word)
    shown = text_render.render(check.diagnostics, colour=False)
    if shown:
        found.text = "\n".join(clean(line) for line in shown.split("\n"))
