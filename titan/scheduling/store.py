"""Schedule and certificate files (JSON), written and read back; what is read is not trusted.

A schedule file names the loop and gives the interval, and for each operation its cycle and group. A
certificate is a schedule file with a claim: the lower bound, its kind and witness, which
`certify` re-derives by plain arithmetic; or refutations of the smaller intervals with their lemmas,
which it checks by unit propagation. A refutation without lemmas is recorded as a statement with the
names of the solvers; it is not re-checked and says so. Nothing here imports a solver.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from titan.foundation.atomic import write_text
from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.reader import Reader
from titan.foundation.source.tree import Node
from titan.foundation.source.yaml import parse_file, parse_text
from titan.scheduling.check import ScheduleViolation, check
from titan.scheduling.loop.bounds import Unschedulable, bounds
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Evidence, Schedule
from titan.scheduling.refutation import Cover, Refutation, check_refutation
from titan.target.load import TargetRefused

FORMAT = "1"
REFUTATIONS_MAX = 64
PARTS_MAX = 10_000


class ScheduleClaim(TypedDict, total=False):
    """What a schedule file says beside cycles and groups; None where an entry is no such value."""

    operation_stages: dict[str, int | None]
    stages: int | None
    loop_digest: str | None
    length: int | None
    kind: str | None
    lower_bound: str | int | None
    refutations: Sequence[Refutation]


def digest(loop: Loop) -> str:
    """A hash of everything that scheduling depends on; names of files are not part of it.

    A field that operations got later counts where it is set only: what was saved still holds.
    """
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
    ).replace(", inside=None)", ")")
    return hashlib.sha256(content.encode()).hexdigest()


def as_data(
    loop: Loop,
    schedule: Schedule,
    evidence: Evidence | None = None,
    refutations: tuple[Refutation, ...] = (),
) -> dict[str, object]:
    """The content of a schedule file, or with evidence of a certificate."""
    data: dict[str, object] = {
        "titan": FORMAT,
        "schedule": loop.name,
        "loop_digest": digest(loop),
        "ii": schedule.ii,
        "length": schedule.length(loop),
        "stages": schedule.stages(loop),
        "operations": {
            operation.name: {
                "cycle": start,
                "stage": start // schedule.ii,
                "group": loop.teams[team].name,
            }
            for operation, start, team in zip(
                loop.operations, schedule.starts, schedule.teams, strict=True
            )
        },
    }
    if evidence is not None:
        claim: dict[str, object] = {
            "kind": evidence.kind,
            "lower_bound": evidence.lower_bound,
            "detail": evidence.detail,
            "lengths_to": evidence.lengths_to,
            "complete": evidence.complete,
            "horizon": _horizon(evidence),
        }
        if refutations:
            claim["refutations"] = [refutation_data(loop, r) for r in refutations]
        data["claim"] = claim
    return data


def refutation_data(loop: Loop, refutation: Refutation) -> dict[str, object]:
    """A refutation with operations by name; lemmas as one text, each ended by 0."""
    names = [operation.name for operation in loop.operations]
    return {
        "ii": refutation.ii,
        "covers": [
            {"what": cover.what, "copies": {names[u]: count for u, count in cover.copies}}
            for cover in refutation.covers
        ],
        "pairs": [[names[v], names[o]] for v, o in refutation.pairs],
        "lemmas": " ".join(f"{' '.join(map(str, (*lemma, 0)))}" for lemma in refutation.lemmas),
    }


def _horizon(evidence: Evidence) -> str:
    """Which schedules the evidence refers to."""
    if evidence.complete:
        return "every length"
    return f"up to {evidence.lengths_to} cycles" if evidence.lengths_to else "not known"


def write(path: str | Path, data: dict[str, object]) -> None:
    """Write data as JSON, indented. Raises OSError."""
    write_text(path, json.dumps(data, indent=2) + "\n")


def read(path: str | Path, loop: Loop) -> tuple[Schedule, ScheduleClaim]:
    """The schedule of a file for `loop`, and its claim. Raises TargetRefused with located
    faults."""
    return _read(*parse_file(path), str(path), loop)


def read_text(text: str, path: str, loop: Loop) -> tuple[Schedule, ScheduleClaim]:
    """`read` for a text that is already there; `path` is its name in faults."""
    return _read(*parse_text(text, path), path, loop)


def _read(
    tree: Node | None, errors: list[Diagnostic], path: str, loop: Loop
) -> tuple[Schedule, ScheduleClaim]:
    reader = Reader(errors)
    found = _decode(reader, tree, loop) if tree is not None else None
    if found is None or not reader.ok:
        raise TargetRefused(reader.errors or [_broken(path)])
    return found


def _broken(path: str) -> Diagnostic:
    from titan.foundation.source.span import whole_file

    return diagnostic("TTN002", "the file is not a schedule", whole_file(path))


def _decode(reader: Reader, tree: Node, loop: Loop) -> tuple[Schedule, ScheduleClaim] | None:
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
    stages: dict[str, int | None] = {}
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
            optional=("group", "stage"),
            what=f"the place of {operation.name}",
        )
        if row is None or not row.has("cycle"):
            continue
        start = reader.integer(row["cycle"], what="a cycle")
        group = reader.choice(row["group"], names, "the group") if row.has("group") else names[0]
        if row.has("stage"):
            stages[operation.name] = reader.integer(row["stage"], what="a stage")
        if start is not None and group is not None:
            starts.append(start)
            teams.append(names.index(group))
    if not reader.ok or ii is None:
        return None
    claim: ScheduleClaim = {"operation_stages": stages}
    if top.has("stages"):
        claim["stages"] = reader.integer(top["stages"], minimum=1, what="the stages")
    if top.has("loop_digest"):
        claim["loop_digest"] = reader.string(top["loop_digest"], "the digest")
    if top.has("length"):
        claim["length"] = reader.integer(top["length"], minimum=1, what="the length")
    if top.has("claim"):
        inner = reader.mapping(top["claim"], optional=None, what="the claim")
        if inner is not None and inner.has("kind"):
            claim["kind"] = getattr(inner["kind"], "text", None)
        if inner is not None and inner.has("lower_bound"):
            claim["lower_bound"] = getattr(inner["lower_bound"], "text", None)
        if inner is not None and inner.has("refutations"):
            claim["refutations"] = reader.list_of(
                inner["refutations"],
                lambda node: _refutation(reader, node, loop),
                what="the refutations",
                at_most=REFUTATIONS_MAX,
            )
            if not reader.ok:
                return None
    return Schedule(ii, tuple(starts), tuple(teams)), claim


def _refutation(reader: Reader, node: Node, loop: Loop) -> Refutation | None:
    keys = ("ii", "covers", "pairs", "lemmas")
    fields = reader.mapping(node, required=keys, what="a refutation")
    if fields is None or not all(fields.has(key) for key in keys):
        return None
    ii = reader.integer(fields["ii"], minimum=1, what="the interval of a refutation")
    covers = reader.list_of(
        fields["covers"], lambda item: _cover(reader, item, loop), what="covers", at_most=PARTS_MAX
    )
    pairs = reader.list_of(
        fields["pairs"], lambda item: _pair(reader, item, loop), what="pairs", at_most=PARTS_MAX
    )
    text = getattr(fields["lemmas"], "text", None)
    if text is None or not re.fullmatch(r"(-?[0-9]{1,9} ?)*", text):
        return reader.error("TTN008", "lemmas must be numbers, each list ended by 0", node.span)
    lemmas, lemma = [], list[int]()
    for number in map(int, text.split()):
        if number:
            lemma.append(number)
        else:
            lemmas.append(tuple(lemma))
            lemma = []
    if ii is None or lemma:
        return reader.error("TTN008", "lemmas must be numbers, each list ended by 0", node.span)
    return Refutation(ii, tuple(covers), tuple(pairs), tuple(lemmas))


def _operation(reader: Reader, node: Node, loop: Loop) -> int | None:
    name = reader.string(node, "an operation")
    if name is not None and name not in loop.index:
        reader.undeclared(name, node.span, loop.index, "operation")
        return None
    return None if name is None else loop.index[name]


def _cover(reader: Reader, node: Node, loop: Loop) -> Cover | None:
    fields = reader.mapping(node, required=("what", "copies"), what="a cover")
    if fields is None or not (fields.has("what") and fields.has("copies")):
        return None
    what = reader.string(fields["what"], "what a cover takes")
    inner = reader.mapping(fields["copies"], optional=None, what="the copies of a cover")
    copies = []
    for name in inner or ():
        assert inner is not None
        count = reader.integer(inner[name], minimum=1, maximum=1 << 20, what="copies of a value")
        if name not in loop.index:
            reader.undeclared(name, inner.key_span(name), loop.index, "operation")
        elif count is not None:
            copies.append((loop.index[name], count))
    return None if what is None else Cover(what, tuple(copies))


def _pair(reader: Reader, node: Node, loop: Loop) -> tuple[int, int] | None:
    items = reader.sequence(node, what="a pair", at_least=2, at_most=2)
    if items is None:
        return None
    v, o = (_operation(reader, item, loop) for item in items)
    return None if v is None or o is None else (v, o)


def certify(loop: Loop, schedule: Schedule, claim: ScheduleClaim) -> list[ScheduleViolation]:
    """Faults of a schedule and of what it claims; bounds are derived again, in plain Python."""
    faults = check(loop, schedule, claim.get("length"))
    stated = claim.get("loop_digest")
    if stated is not None and stated != digest(loop):
        faults.append(ScheduleViolation("shape", "the schedule was made for another loop"))
    faults += _stages(loop, schedule, claim)
    if claim.get("kind") in ("bound", "proof"):
        try:
            lower = bounds(loop)
        except Unschedulable as error:
            return [*faults, ScheduleViolation("claim", str(error))]
        text = str(claim.get("lower_bound"))
        if claim["kind"] == "proof":
            faults += _proof(loop, schedule, claim, lower.ii)
        elif text != str(lower.ii):
            faults.append(ScheduleViolation("claim", f"the bound is {lower.ii}, not {text}"))
        elif schedule.ii != lower.ii:
            faults.append(
                ScheduleViolation("claim", f"interval {schedule.ii} is not the bound {lower.ii}")
            )
    return faults


def _stages(loop: Loop, schedule: Schedule, claim: ScheduleClaim) -> list[ScheduleViolation]:
    """Stages are for readers; where a file states them they are what the cycles say."""
    faults = []
    stated = claim.get("stages")
    if stated is not None and stated != schedule.stages(loop):
        faults.append(
            ScheduleViolation("shape", f"the stages are {schedule.stages(loop)}, not {stated}")
        )
    for v, operation in enumerate(loop.operations):
        known = claim.get("operation_stages", {}).get(operation.name)
        if known is not None and known != schedule.stage(v):
            text = f"`{operation.name}` is in stage {schedule.stage(v)}, not {known}"
            faults.append(ScheduleViolation("shape", text, (operation.name,)))
    return faults


def _proof(
    loop: Loop, schedule: Schedule, claim: ScheduleClaim, lower: int
) -> list[ScheduleViolation]:
    """Faults of the claim that every interval from the bound to `schedule.ii` - 1 is refuted."""
    if str(claim.get("lower_bound")) != str(schedule.ii):
        text = f"interval {schedule.ii} is not the bound {claim.get('lower_bound')}"
        return [ScheduleViolation("claim", text)]
    given = {r.ii: r for r in claim.get("refutations", ())}
    faults = []
    for ii in range(lower, schedule.ii):
        wrong = check_refutation(loop, given[ii]) if ii in given else "no refutation is given"
        if wrong is not None:
            faults.append(ScheduleViolation("claim", f"interval {ii} is not refuted: {wrong}"))
            break
    return faults
