"""Schedule and certificate files (JSON), written and read back; what is read is not trusted.

A schedule file names the loop and gives the interval, and for each operation its cycle and group. A
certificate is a schedule file with a claim: the lower bound, its kind and witness, which
`certify` re-derives by plain arithmetic. A refutation by a solver is recorded as a statement with
the names of the solvers; it is not re-checked and says so.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from titan.diagnostics.model import Diagnostic, diagnostic
from titan.loop.bounds import Unschedulable, bounds
from titan.loop.model import Loop
from titan.machine.load import Refused
from titan.schedule.check import Fault, check
from titan.schedule.model import Evidence, Schedule
from titan.source.reader import Reader
from titan.source.yaml import parse_file

FORMAT = "1"


def digest(loop: Loop) -> str:
    """A hash of everything that scheduling depends on; names of files are not part of it."""
    content = repr(
        (
            loop.operations,
            loop.dependences,
            loop.teams,
            loop.has_teams,
            sorted(loop.limits.items()),
            sorted((u.name, u.capacity) for u in loop.units.values()),
            [(p.name, p.members, p.amount, p.window_cycles) for p in loop.pools],
            loop.machine.threads_per_warp,
        )
    )
    return hashlib.sha256(content.encode()).hexdigest()


def as_data(loop: Loop, schedule: Schedule, evidence: Evidence | None = None) -> dict[str, Any]:
    """The content of a schedule file, or with evidence of a certificate."""
    data: dict[str, Any] = {
        "titan": FORMAT,
        "schedule": loop.name,
        "loop_digest": digest(loop),
        "ii": schedule.ii,
        "length": schedule.length(loop),
        "stages": schedule.stages(loop),
        "operations": {
            operation.name: {"cycle": start, "group": loop.teams[team].name}
            for operation, start, team in zip(
                loop.operations, schedule.starts, schedule.teams, strict=True
            )
        },
    }
    if evidence is not None:
        data["claim"] = {
            "kind": evidence.kind,
            "lower_bound": evidence.lower_bound,
            "detail": evidence.detail,
            "lengths_to": evidence.lengths_to,
            "complete": evidence.complete,
            "horizon": _horizon(evidence),
        }
    return data


def _horizon(evidence: Evidence) -> str:
    """Which schedules the evidence speaks of."""
    if evidence.complete:
        return "every length"
    return f"up to {evidence.lengths_to} cycles" if evidence.lengths_to else "not known"


def write(path: str | Path, data: dict[str, Any]) -> None:
    Path(path).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def read(path: str | Path, loop: Loop) -> tuple[Schedule, dict[str, Any]]:
    """The schedule of a file for `loop`, and its claim. Raises Refused with located faults."""
    tree, errors = parse_file(path)
    reader = Reader(errors)
    found = _decode(reader, tree, loop) if tree is not None else None
    if found is None or not reader.ok:
        raise Refused(reader.errors or [_broken(str(path))])
    return found


def _broken(path: str) -> Diagnostic:
    from titan.source.span import whole_file

    return diagnostic("TTN002", "the file is no schedule", whole_file(path))


def _decode(reader: Reader, tree: Any, loop: Loop) -> tuple[Schedule, dict[str, Any]] | None:
    top = reader.mapping(
        tree,
        required=("titan", "schedule", "ii", "operations"),
        optional=("loop_digest", "length", "stages", "claim"),
        what="a schedule",
    )
    if top is None or not reader.ok:
        return None
    reader.choice(top["titan"], (FORMAT,), "the format version")
    ii = reader.integer(top["ii"], minimum=1, what="the initiation interval")
    rows = reader.mapping(top["operations"], optional=None, what="the operations")
    starts: list[int] = []
    teams: list[int] = []
    names = [group.name for group in loop.teams]
    if rows is not None:
        for name in rows:
            if name not in loop.index:
                reader.undeclared(name, rows.key_span(name), loop.index, "operation")
    for operation in loop.operations:
        if rows is None or not rows.has(operation.name):
            text = f"the schedule lacks operation `{operation.name}`"
            reader.error("TTN007", text, top.key_span("operations"))
            continue
        row = reader.mapping(
            rows[operation.name],
            required=("cycle",),
            optional=("group",),
            what=f"the place of {operation.name}",
        )
        if row is None or not row.has("cycle"):
            continue
        start = reader.integer(row["cycle"], what="a cycle")
        group = reader.choice(row["group"], names, "the group") if row.has("group") else names[0]
        if start is not None and group is not None:
            starts.append(start)
            teams.append(names.index(group))
    if not reader.ok or ii is None:
        return None
    claim: dict[str, Any] = {}
    if top.has("loop_digest"):
        claim["loop_digest"] = reader.string(top["loop_digest"], "the digest")
    if top.has("length"):
        claim["length"] = reader.integer(top["length"], minimum=1, what="the length")
    if top.has("claim"):
        inner = reader.mapping(top["claim"], optional=None, what="the claim")
        for key in ("kind", "lower_bound"):
            if inner is not None and inner.has(key):
                claim[key] = getattr(inner[key], "text", None)
    return Schedule(ii, tuple(starts), tuple(teams)), claim


def certify(loop: Loop, schedule: Schedule, claim: dict[str, Any]) -> list[Fault]:
    """Faults of a schedule and of what it claims; bounds are derived anew, in plain Python."""
    faults = check(loop, schedule, claim.get("length"))
    stated = claim.get("loop_digest")
    if stated is not None and stated != digest(loop):
        faults.append(Fault("shape", "the schedule was made for another loop"))
    if claim.get("kind") == "bound":
        try:
            lower = bounds(loop)
        except Unschedulable as error:
            return [*faults, Fault("claim", str(error))]
        text = str(claim.get("lower_bound"))
        if text != str(lower.ii):
            faults.append(Fault("claim", f"the bound is {lower.ii}, not {text}"))
        elif schedule.ii != lower.ii:
            faults.append(Fault("claim", f"interval {schedule.ii} is not the bound {lower.ii}"))
    return faults
