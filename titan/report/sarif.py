"""Checks as SARIF 2.1.0, for code scanning.

What refutes or refuses is a result of kind `fail`, what is undecided one of kind `open`; a failure
without a diagnostic is a result of a rule named for its kind. A verified check is not a result,
since code hosts show every result as an alert: it is listed in the properties of the run. An
interleaving is a code flow with one thread flow for each agent; `executionOrder` gives the order
across them. Source: OASIS SARIF 2.1.0, sections 3.27 (results), 3.36 (code flows), 3.38 (thread
flow locations).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from titan.foundation.diagnostics import rules
from titan.foundation.diagnostics.codes import CODES
from titan.foundation.diagnostics.model import Diagnostic, Severity, TraceReference, TraceStep
from titan.foundation.diagnostics.wording import clean
from titan.foundation.source.span import Span
from titan.foundation.verdict import Verdict
from titan.foundation.version import __version__
from titan.report.checks import Check, relative_uri

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
WORD = "TTN-"  # begins the rules of failures that are no diagnostics
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
Sarif = dict[str, object]


def render(checks: Sequence[Check]) -> str:
    """One SARIF log with one run."""
    used = sorted({item.code for check in checks for item in check.diagnostics})
    numbers = {code: number for number, code in enumerate(used)}
    results = [_result(item, numbers[item.code]) for check in checks for item in check.diagnostics]
    unreported = [check for check in checks if check.unreported]
    words = sorted({check.word for check in unreported})
    results += [_whole(check, len(used) + words.index(check.word)) for check in unreported]
    described = [_rule(code) for code in used] + [_rule_of_word(word) for word in words]
    run = {
        "tool": {
            "driver": {
                "name": "titan",
                "semanticVersion": _semantic(__version__),
                "rules": described,
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {
            "checks": [
                {
                    "path": relative_uri(check.path),
                    "name": clean(check.name),
                    "verdict": check.verdict.value,
                    "summary": clean(check.summary),
                }
                for check in checks
            ]
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _semantic(version: str) -> str:
    """A version of three numbers, as SARIF requires."""
    numbers = [part for part in version.split(".") if part.isdigit()][:3]
    return ".".join(numbers + ["0"] * (3 - len(numbers)))


def _rule(code: str) -> Sarif:
    entry = CODES[code]
    explained = rules.explanation(entry)
    meaning = explained.sections[rules.HEADINGS[0]]
    return {
        "id": code,
        "name": entry.name,
        "shortDescription": {"text": explained.summary},
        "fullDescription": {"text": " ".join(meaning.split())},
        "help": {"text": explained.markdown(), "markdown": explained.markdown()},
        "defaultConfiguration": {"level": _LEVEL[Severity(entry.severity)]},
        "properties": {"precision": "very-high", "problem.severity": entry.severity},
    }


def _result(item: Diagnostic, number: int) -> Sarif:
    more = [*item.notes, *(f"help: {text}" for text in item.helps)]
    text = "\n".join(clean(part) for part in (item.headline, *more))
    result: Sarif = {
        "ruleId": item.code,
        "ruleIndex": number,
        "kind": "fail",
        "level": _LEVEL[item.severity],
        "message": {"text": text},
        "partialFingerprints": {"titan/v1": item.fingerprint},
    }
    if item.span is not None:
        result["locations"] = [_location(item.span, item.primary.label if item.primary else "")]
    others = [one for one in item.annotations if one is not item.primary]
    if others:
        result["relatedLocations"] = [_location(one.span, one.label) for one in others]
    if item.trace is not None and item.trace.steps:
        result["codeFlows"] = [_flow(item.trace)]
    return result


def _rule_of_word(word: str) -> Sarif:
    """The rule of failures that are no diagnostics: the verdict itself, or a kind of failure."""
    text = "the verdict is not decided" if word == Verdict.UNDECIDED else f"the check is {word}"
    return {"id": f"{WORD}{word.replace(' ', '-')}", "shortDescription": {"text": text}}


def _whole(check: Check, number: int) -> Sarif:
    """A check that is open, or fails without a diagnostic."""
    where = {"artifactLocation": {"uri": relative_uri(check.path)}}
    return {
        "ruleId": _rule_of_word(check.word)["id"],
        "ruleIndex": number,
        "kind": "open" if check.is_open else "fail",
        "level": "none" if check.is_open else "error",
        "message": {"text": clean(f"{check.name}: {check.summary}")},
        "locations": [{"physicalLocation": where}],
    }


def _location(span: Span, text: str = "") -> Sarif:
    region = {
        "startLine": max(1, span.start_line),
        "startColumn": max(1, span.start_column),
        "endLine": max(1, span.end_line),
        "endColumn": max(1, span.end_column),
    }
    found: Sarif = {
        "physicalLocation": {
            "artifactLocation": {"uri": relative_uri(span.path)},
            "region": region,
        }
    }
    if text:
        found["message"] = {"text": clean(text)}
    return found


def _flow(trace: TraceReference) -> Sarif:
    """One thread flow for each agent, in the order of their first steps."""
    agents: dict[str, list[Sarif]] = {}
    for order, step in enumerate(trace.steps, start=1):
        agents.setdefault(step.agent, []).append(_step(step, order))
    return {
        "threadFlows": [{"id": clean(agent), "locations": steps} for agent, steps in agents.items()]
    }


def _step(step: TraceStep, order: int) -> Sarif:
    text = clean(f"{step.agent}: {step.text}")
    location = _location(step.span, text) if step.span else {"message": {"text": text}}
    return {"location": location, "executionOrder": order}
