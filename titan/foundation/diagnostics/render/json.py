"""Diagnostics as JSON, for programs.

The form is versioned by `FORMAT_VERSION`: new keys may come without a new version, keys never
change their meaning or go without one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from titan.foundation.diagnostics.model import Annotation, Diagnostic, TraceReference

FORMAT_VERSION = 1


def render(diagnostics: Sequence[Diagnostic], *, colour: bool = False) -> str:
    """One JSON object with the diagnostics in a list; ASCII only, keys in a fixed order."""
    del colour
    content = {
        "version": FORMAT_VERSION,
        "diagnostics": [as_dict(item) for item in diagnostics],
    }
    return json.dumps(content, indent=2) + "\n"


def as_dict(item: Diagnostic) -> dict[str, Any]:
    """A diagnostic as plain data; reports that hold more than diagnostics use it too."""
    return {
        "code": item.code,
        "rule": item.name,
        "severity": item.severity.value,
        "headline": item.headline,
        "annotations": [_annotation(annotation) for annotation in item.annotations],
        "notes": list(item.notes),
        "helps": list(item.helps),
        "trace": _trace(item.trace) if item.trace is not None else None,
        "fingerprint": item.fingerprint,
    }


def _annotation(annotation: Annotation) -> dict[str, Any]:
    place = annotation.span.as_dict()
    return {**place, "label": annotation.label, "primary": annotation.primary}


def _trace(trace: TraceReference) -> dict[str, Any]:
    steps = [
        {
            "agent": step.agent,
            "number": step.number,
            "text": step.text,
            "follows": step.follows,
            "place": step.span.as_dict() if step.span is not None else None,
        }
        for step in trace.steps
    ]
    return {"path": trace.path or None, "count": trace.count or len(steps), "steps": steps}
