"""What a fence costs on a target: `backends/<target>/fences.yaml`, form by form.

The weights are estimates that keep the order known from the assembled code: a fence of its CTA's
shared memory costs less than one that waits for the whole device. Not cycles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from titan.foundation.resources import root
from titan.foundation.source.reader import Reader
from titan.foundation.source.tree import Node
from titan.foundation.source.yaml import parse_file
from titan.sync import program as ir

FORMS = (
    "async_shared_cta",
    "async_shared_cluster",
    "async_global",
    "async_all",
    "async_release",
    "async_acquire",
    "tensormap_release",
    "tensormap_acquire",
    "barrier_init",
)
_NVIDIA = re.compile(r"sm_(\d+)[af]?")
_ASYNC_PROXY_SINCE = 90


@dataclass(frozen=True, slots=True)
class FenceForm:
    """One fence instruction of the target and its weight for one execution."""

    name: str
    ptx: str
    weight: int
    source: str


@dataclass(frozen=True, slots=True)
class FenceCosts:
    """The forms of fence that a target has, with relative costs that are not cycles."""

    target: str
    forms: tuple[FenceForm, ...]

    def form(
        self, kind: ir.FenceKind, spaces: tuple[ir.Space, ...], far: bool = False
    ) -> FenceForm:
        """The form that a fence becomes; `far`: it covers the memory of another CTA, too."""
        return next(form for form in self.forms if form.name == form_name(kind, spaces, far))


def form_name(kind: ir.FenceKind, spaces: tuple[ir.Space, ...], far: bool = False) -> str:
    """The row of the table. A fence that no target has is priced like one of all memory."""
    if kind in ir.CACHED_FENCES:
        return "async_all"
    if kind is not ir.FenceKind.ASYNC:
        return {
            ir.FenceKind.ASYNC_RELEASE: "async_release",
            ir.FenceKind.ASYNC_ACQUIRE: "async_acquire",
            ir.FenceKind.TENSORMAP_RELEASE: "tensormap_release",
            ir.FenceKind.TENSORMAP_ACQUIRE: "tensormap_acquire",
            ir.FenceKind.BARRIER_INIT: "barrier_init",
        }[kind]
    if set(spaces) == {ir.Space.SHARED}:
        return "async_shared_cluster" if far else "async_shared_cta"
    return "async_global" if set(spaces) == {ir.Space.GLOBAL} else "async_all"


def table_of(target: str) -> str | None:
    """The backend whose table prices the target; None where there is no asynchronous proxy."""
    match = _NVIDIA.fullmatch(target)
    if match is None or int(match.group(1)) < _ASYNC_PROXY_SINCE:
        return None
    return "sm_90a" if int(match.group(1)) < 100 else "sm_100a"


@lru_cache(maxsize=16)
def costs(target: str) -> FenceCosts:
    """The costs of a target. Raises KeyError for one without proxy fences, ValueError if faulty."""
    name = table_of(target)
    if name is None:
        raise KeyError(target)
    path = root("backends") / name / "fences.yaml"
    node, errors = parse_file(path)
    reader = Reader(errors)
    top = None
    if node is not None:
        keys = ("titan", "fences", "instructions", "forms")
        top = reader.mapping(node, required=keys, what="the costs of fences")
    forms = _forms(reader, top["instructions"], top["forms"]) if top and reader.ok else []
    if reader.errors or {form.name for form in forms} != set(FORMS):
        reported = "; ".join(item.headline for item in reader.errors) or "a form is missing"
        raise ValueError(f"{path.name} of {name}: {reported}")
    return FenceCosts(name, tuple(forms))


def _forms(reader: Reader, instructions: Node, forms: Node) -> list[FenceForm]:
    weights: dict[str, int] = {}
    table = reader.mapping(instructions, optional=None, what="the instructions")
    for word in table or ():
        assert table is not None
        row = reader.mapping(table[word], required=("weight", "source"), what="an instruction")
        if row is not None and row.has("weight"):
            weights[word] = reader.integer(row["weight"], minimum=1, maximum=10**6) or 1
    found = []
    table = reader.mapping(forms, required=FORMS, what="the forms")
    for name in table or ():
        assert table is not None
        row = reader.mapping(table[name], required=("ptx", "instructions", "source"), what="a form")
        if row is None or not reader.ok:
            continue
        used = reader.list_of(
            row["instructions"],
            lambda item: reader.choice(item, tuple(weights), "an instruction"),
            what="the instructions of a form",
            at_least=1,
        )
        ptx, source = reader.string(row["ptx"]) or "", reader.string(row["source"]) or ""
        found.append(FenceForm(name, ptx, sum(weights[word] for word in used), source))
    return found
