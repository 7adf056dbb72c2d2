"""Checks as a Code Quality report of GitLab: a JSON list of issues.

Source: GitLab, Code Quality report format (description, check_name, fingerprint, severity,
location.path, location.lines.begin).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from titan.foundation.diagnostics.model import Diagnostic, Severity
from titan.foundation.diagnostics.wording import clean
from titan.report.checks import Check

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.INFO: "info"}
Issue = dict[str, object]


def render(checks: Sequence[Check]) -> str:
    """The issues, in the order of the checks."""
    found: list[Issue] = []
    for check in checks:
        found += [_issue(check, item) for item in check.diagnostics]
        if check.unreported:
            weight = "major" if check.is_open else "critical"
            found.append(_whole(check, check.word, weight))
    return json.dumps(_distinct(found), indent=2) + "\n"


def _issue(check: Check, item: Diagnostic) -> Issue:
    span = item.span
    return {
        "description": clean(item.headline),
        "check_name": f"{item.code} {item.name}",
        "fingerprint": item.fingerprint,
        "severity": _SEVERITY[item.severity],
        "location": {
            "path": span.path if span is not None else check.path,
            "lines": {"begin": max(1, span.start_line) if span is not None else 1},
        },
    }


def _whole(check: Check, name: str, severity: str) -> Issue:
    mark = hashlib.sha256(f"{check.path}\0{check.name}\0{name}".encode()).hexdigest()[:16]
    return {
        "description": clean(f"{check.name}: {check.summary}"),
        "check_name": name,
        "fingerprint": mark,
        "severity": severity,
        "location": {"path": check.path, "lines": {"begin": 1}},
    }


def _distinct(issues: list[Issue]) -> list[Issue]:
    """The issues with fingerprints made distinct: the host drops those that repeat."""
    seen: dict[str, int] = {}
    for issue in issues:
        mark = str(issue["fingerprint"])
        seen[mark] = seen.get(mark, 0) + 1
        if seen[mark] > 1:
            issue["fingerprint"] = hashlib.sha256(f"{mark}\0{seen[mark]}".encode()).hexdigest()[:16]
    return issues
