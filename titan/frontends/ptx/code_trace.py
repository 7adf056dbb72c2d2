"""Saved interleavings of compiled code: the text, the launch, the steps on the machine.

A file is JSON and complete in itself, so that it means the same after the code has changed. A
digest over all of it finds accidental edits; what makes it believable is that it replays.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from titan.foundation.atomic import write_text
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.foundation.source.json_text import read_json
from titan.foundation.source.loading import head_of
from titan.frontends.ptx.interleaving import COMPLETES, WARP, MachineInterleaving, MachineStep
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, LaunchTensorMap
from titan.sync.fault import FaultKind

VERSION = 1
KEY = "titan_code_trace"
BYTES_MAX = 64 << 20


class CodeTraceError(UserError):
    """The file is not a saved interleaving of code, or has been changed.

    `diagnostics` where it cannot be read.
    """

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class CodeTrace:
    """`cta` and `seed`: which cluster was run, and under which seed."""

    path: str
    kernel: str
    text: str
    launch: Launch
    cta: int
    seed: int
    interleaving: MachineInterleaving


def save_code_trace(trace: CodeTrace, folder: str) -> str:
    """Write it into `folder` in one piece; returns its path. Raises OSError."""
    found = trace.interleaving
    content: dict[str, Any] = {
        KEY: VERSION,
        "path": trace.path,
        "kernel": trace.kernel,
        "cta": trace.cta,
        "seed": trace.seed,
        "fault": {"code": found.code, "message": found.message},
        "steps": [[item.kind, item.cta, item.warp, item.count] for item in found.steps],
        "accesses": [
            [[cta, warp, number] for (cta, warp), number in events] for events in found.accesses
        ],
        "launch": _launch_data(trace.launch),
        "text": trace.text,
    }
    content["digest"] = _digest(content)
    safe = re.sub(r"[^A-Za-z0-9_]+", "_", trace.kernel).strip("_")[:64] or "kernel"
    target = Path(folder) / f"{safe}-{found.code}-{content['digest'][:8]}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, json.dumps(content) + "\n")
    return str(target)


def is_code_trace(path: str) -> bool:
    """Whether a file says that it is a saved interleaving of code."""
    return f'"{KEY}"'.encode() in head_of(path, 64)


def load_code_trace(path: str) -> CodeTrace:
    """Read a file. Raises CodeTraceError."""
    content, errors = read_json(path, BYTES_MAX)
    if errors:
        raise CodeTraceError(errors[0].headline, tuple(errors))
    if not isinstance(content, dict) or content.get(KEY) != VERSION:
        raise CodeTraceError(f"the file is not an interleaving of code of version {VERSION}")
    if content.get("digest") != _digest(content):
        raise CodeTraceError("the trace was changed after it was saved")
    try:
        return _decoded(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CodeTraceError("the trace lacks a field or has it in another form") from None


def _decoded(content: dict[str, Any]) -> CodeTrace:
    steps = tuple(MachineStep(str(kind), *map(_natural, rest)) for kind, *rest in content["steps"])
    if any(item.kind not in (WARP, COMPLETES) for item in steps):
        raise ValueError
    accesses = tuple(
        tuple(((_natural(cta), _natural(warp)), _natural(number)) for cta, warp, number in events)
        for events in content["accesses"]
    )
    fault = content["fault"]
    found = MachineInterleaving(
        FaultKind(fault["code"]).value, str(fault["message"]), steps, accesses
    )
    return CodeTrace(
        str(content["path"]),
        str(content["kernel"]),
        str(content["text"]),
        _launch(content["launch"]),
        _natural(content["cta"]),
        _natural(content["seed"]),
        found,
    )


def _digest(content: dict[str, Any]) -> str:
    plain = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _launch_data(launch: Launch) -> dict[str, Any]:
    return {
        "entry": launch.entry,
        "grid": launch.grid,
        "block": launch.block,
        "cluster": launch.cluster,
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "parameters": [
            [item.data.hex(), None if item.known is None else item.known.hex()]
            for item in launch.parameters
        ],
        "tensor_maps": [[key.hex(), asdict(item)] for key, item in launch.tensor_maps.items()],
        "memory": [[at, data.hex()] for at, data in launch.memory.items()],
        "allocations": [[item.start, item.size_bytes] for item in launch.allocations],
        "pointed": [[item.start, item.size_bytes] for item in launch.pointed],
        "cancelled": launch.cancelled,
        "in_turn": launch.in_turn,
    }


def _launch(data: dict[str, Any]) -> Launch:
    known = bytes.fromhex
    return Launch(
        None if data["entry"] is None else str(data["entry"]),
        _extents(data["grid"]),
        _extents(data["block"]),
        _extents(data["cluster"]),
        _natural(data["dynamic_shared_bytes"]),
        tuple(_parameter(value, mask) for value, mask in data["parameters"]),
        {known(key): _tensor_map(item) for key, item in data["tensor_maps"]},
        {_natural(at): known(value) for at, value in data["memory"]},
        _allocations(data["allocations"]),
        pointed=_allocations(data.get("pointed", [])),
        cancelled=_natural(data.get("cancelled", 0)),
        in_turn=bool(data.get("in_turn", False)),
    )


def _parameter(value: str, mask: str | None) -> LaunchParameter:
    data, known = bytes.fromhex(value), None if mask is None else bytes.fromhex(mask)
    if known is not None and len(known) != len(data):
        raise ValueError
    return LaunchParameter(data, known)


def _allocations(pairs: list[list[object]]) -> tuple[Allocation, ...]:
    return tuple(Allocation(_natural(start), _natural(size)) for start, size in pairs)


def _extents(values: list[int]) -> tuple[int, int, int]:
    """Three numbers from 1 on; how large they may be is judged before the run."""
    x, y, z = map(_natural, values)
    if min(x, y, z) < 1:
        raise ValueError
    return x, y, z


def _tensor_map(item: dict[str, Any]) -> LaunchTensorMap:
    values: dict[str, Any] = {
        name: tuple(map(int, value)) if isinstance(value, list) else int(value)
        for name, value in item.items()
    }
    return LaunchTensorMap(**values)


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise ValueError
    return value
