"""Saved counterexamples: the kernel as it was, the choices, the steps; checked when read.

A trace file is JSON and complete in itself: it holds the text of the kernel, so that it means the
same after the kernel has changed. A digest over all of it finds accidental edits; what makes a
trace believable is that it replays.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from titan.foundation.atomic import write_text
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.foundation.records import dataclass
from titan.foundation.source.json_text import read_json
from titan.sync.fault import Actor, Fault, FaultKind, Step, Trace

VERSION = 1
BYTES_MAX = 16 << 20
STEPS_MAX = 1_000_000
DEFAULT_FOLDER = ".titan/traces"


class TraceFileError(UserError):
    """The file is not a trace, or has been changed; `diagnostics` where it cannot be read."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class SavedTrace:
    """What a trace file holds."""

    path: str
    kernel: str
    text: str
    sizes: tuple[tuple[str, int], ...]
    policies: tuple[tuple[str, str], ...]
    trace: Trace
    rewrites: tuple[str, ...] = ()
    as_written: bool | None = None


def save(saved: SavedTrace, folder: str) -> str:
    """Write the trace into `folder` as a whole; returns its path. Raises OSError."""
    content = _content(saved)
    content["digest"] = _digest(content)
    mark = content["digest"][:8]
    safe = re.sub(r"[^A-Za-z0-9_]", "_", saved.kernel)[:64] or "kernel"
    target = Path(folder) / f"{safe}-{saved.trace.fault.kind.value}-{mark}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, json.dumps(content, indent=1) + "\n")
    return str(target)


def _content(saved: SavedTrace) -> dict[str, Any]:
    trace = saved.trace
    return {
        "titan_trace": VERSION,
        "path": saved.path,
        "kernel": saved.kernel,
        "sizes": {name: value for name, value in saved.sizes},
        "policies": {name: value for name, value in saved.policies},
        "rewrites": list(saved.rewrites),
        "as_written": saved.as_written,
        "parameters": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in trace.parameters
        },
        "fault": {"code": trace.fault.kind.value, "message": trace.fault.message},
        "steps": [[step.actor.value, step.agent, step.ordinal] for step in trace.steps],
        "text": saved.text,
    }


def _digest(content: dict[str, Any]) -> str:
    plain = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load(path: str) -> SavedTrace:
    """Read a trace file. Raises TraceFileError."""
    content, errors = read_json(path, BYTES_MAX)
    if errors:
        raise TraceFileError(errors[0].headline, tuple(errors))
    if not isinstance(content, dict) or content.get("titan_trace") != VERSION:
        raise TraceFileError(f"the file is not a trace of version {VERSION}")
    if content.get("digest") != _digest(content):
        raise TraceFileError("the trace was changed after it was saved")
    try:
        return _decoded(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise TraceFileError("the trace lacks a field or has it in another form") from None


def _decoded(content: dict[str, Any]) -> SavedTrace:
    steps = content["steps"]
    if len(steps) > STEPS_MAX:
        raise ValueError
    parameters = tuple(
        (str(name), tuple(map(_integer, value)) if isinstance(value, list) else _integer(value))
        for name, value in content["parameters"].items()
    )
    fault = Fault(FaultKind(content["fault"]["code"]), str(content["fault"]["message"]))
    trace = Trace(
        parameters,
        tuple(Step(Actor(actor), _integer(agent), _integer(n)) for actor, agent, n in steps),
        fault,
    )
    return SavedTrace(
        str(content["path"]),
        str(content["kernel"]),
        str(content["text"]),
        tuple((str(name), _integer(value)) for name, value in content["sizes"].items()),
        tuple((str(name), str(value)) for name, value in content["policies"].items()),
        trace,
        tuple(str(name) for name in content["rewrites"]),
        None if content["as_written"] is None else bool(content["as_written"]),
    )


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**31:
        raise ValueError
    return value
