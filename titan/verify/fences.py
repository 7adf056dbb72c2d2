"""From a kernel file to its fences: what each is for, which are missing, and the cheapest set.

A marker fence is written at every place of the text where a fence may stand, and the kernel is
decoded, lowered and run once for each of several sizes; a pair of accesses that needs a fence then
has the markers between the two as its alternatives. `titan/engines/fences` picks the cheapest set;
the kernel with just these fences is verified by the engines, which know nothing of markers, and
sizes at which they refute it join the others. Costs count executions at the largest of the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.engines.fences.cost import costs
from titan.engines.fences.demands import Choice, Demand, Demands
from titan.engines.fences.synthesis import Solution, Weighed, cheapest
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.foundation.source.yaml import parse_text
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.verify.coverage import with_policies
from titan.verify.fence_runs import (
    Loaded,
    Runs,
    far_agents,
    fences_in,
    line_of,
    run_all,
)
from titan.verify.fence_text import Edited, Insertion, WrittenFence, edit, places
from titan.verify.judge import judge
from titan.verify.lowering import NotLowered, sync_program
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel
from titan.verify.sizes import Values

ROUNDS_MAX = 4
FENCE_FAULTS = {
    FaultKind.MISSING_FENCE,
    FaultKind.MISSING_FENCE_WAR,
    FaultKind.UNPUBLISHED_INIT,
    FaultKind.MISSING_TENSORMAP_FENCE,
    FaultKind.MISSING_CACHED_FENCE,
}
_VARIANTS: tuple[tuple[ir.Space, ...], ...] = ((ir.Space.SHARED,), (ir.Space.GLOBAL,), ())


class BadInput(UserError):
    """The file is not a kernel, or a kernel without a form on its target."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("; ".join(item.headline for item in diagnostics))
        self.diagnostics = diagnostics


def load(text: str, path: str, options: VerifyOptions) -> Loaded:
    """Decode and lower. Raises BadInput."""
    root, errors = parse_text(text, path)
    family, diagnostics = decode(root, errors, path, dict(options.overrides))
    if family is None or root is None:
        raise BadInput(diagnostics)
    kernels = tuple(with_policies(kernel, options.policies) for kernel in family.kernels)
    try:
        programs = tuple(sync_program(kernel).program for kernel in kernels)
    except NotLowered as refusal:
        raise BadInput(list(refusal.diagnostics)) from None
    return Loaded(root, text, kernels, programs)


def kinds_of(programs: tuple[ir.SyncProgram, ...]) -> tuple[ir.FenceKind, ...]:
    """The kinds of fences that the programs can have a use for.

    None of cached proxies: no target has them. No halves: a fence of the CTA's own shared memory
    does what both do, and costs no more than the release.
    """
    proxies: set[ir.Proxy] = set()
    inits = False
    for program in programs:
        for role in program.roles:
            for operation in ir.walk(role.body):
                if isinstance(operation, ir.Access | ir.Asynchronous):
                    proxies |= {effect.proxy for effect in operation.effects}
                inits = inits or (
                    isinstance(operation, ir.Init) and program.policies.barrier_init == "fence"
                )
    kinds = [ir.FenceKind.ASYNC] if ir.Proxy.ASYNC in proxies else []
    if ir.Proxy.TENSORMAP in proxies:
        kinds += [ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE]
    return (*kinds, *((ir.FenceKind.BARRIER_INIT,) if inits else ()))


# ----------------------------------------------------------------------------- synthesis


@dataclass(slots=True)
class Markers:
    """The text with a marker at every place, and what each marker line may become."""

    loaded: Loaded
    edited: Edited
    standing: dict[int, WrittenFence]

    def choices(self, fence: ir.Fence) -> tuple[Choice, ...]:
        """What a marker fence may become; a fence without a marker stays as it is."""
        insertion = self.edited.insertions.get(line_of(fence))
        if insertion is None:
            return (fixed_choice(fence),)
        point = (insertion.place.number, insertion.when)
        return tuple(Choice(point, insertion.kind, spaces) for spaces in variants(insertion))


def variants(insertion: Insertion) -> tuple[tuple[ir.Space, ...], ...]:
    """The spaces that a marker may name; also those of the fence in whose place it stands."""
    if insertion.kind is not ir.FenceKind.ASYNC:
        return ((),)
    written = insertion.place.fence
    own = (written.spaces,) if written is not None and written.kind is insertion.kind else ()
    return (*_VARIANTS, *(spaces for spaces in own if spaces not in _VARIANTS))


def fixed_choice(fence: ir.Fence) -> Choice:
    """A fence that no edit removes: lowering makes it, or it is in a list in brackets."""
    return Choice(("fixed", line_of(fence), id(fence)), fence.kind, fence.spaces)


def mark(original: Loaded, options: VerifyOptions) -> Markers:
    """Markers of all kinds that the kernel can use, at all places. Raises BadInput."""
    spots = places(original.root, original.text)
    standing = {place.number: place.fence for place in spots if place.fence is not None}
    kinds = kinds_of(original.programs)
    insertions = [
        Insertion(place, kind, (), when)
        for place in spots
        for when in ("", *place.whens)
        for kind in kinds
    ]
    edited = edit(original.text, standing.values(), insertions)
    loaded = load(edited.text, original.kernels[0].path, options)
    return Markers(loaded, edited, standing)


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The cheapest set; `text` is the kernel with it, `cost` includes fences that stay."""

    solution: Solution
    chosen: tuple[Insertion, ...]
    text: str
    cost: int
    reason: str
    demands: int


def synthesise(
    original: Loaded, options: VerifyOptions, extra: tuple[Values, ...] = (), keep: bool = False
) -> Synthesis:
    """Choose the fences. With `keep` existing fences stay and cost nothing.

    Raises Unsatisfiable and GaveUp (titan/engines/fences/synthesis), BadInput.
    """
    markers = mark(original, options)
    runs = run_all(markers.loaded.programs, extra)
    demands: list[Demand] = []
    for _, recording in runs.recordings:
        demands += Demands(recording, markers.choices).all()
    weights, fixed, spent = _weights(markers, runs, original.kernels[0].target, keep)
    solution = cheapest(demands, weights, fixed)
    spaces_of = {(choice.point, choice.kind): choice.spaces for choice in solution.chosen}
    chosen = []
    for _, insertion in sorted(markers.edited.insertions.items()):  # in the order of their lines
        key = (insertion.place.number, insertion.when), insertion.kind
        if key in spaces_of:
            chosen.append(replace(insertion, spaces=spaces_of[key]))
    text = _final(original, markers, chosen, keep)
    cost = solution.cost + spent
    return Synthesis(solution, tuple(chosen), text, cost, runs.reason, len(demands))


def _weights(
    markers: Markers, runs: Runs, target: str, keep: bool
) -> tuple[dict[Choice, Weighed], frozenset[Choice], int]:
    """The price of every choice; the fixed ones; what the fixed ones cost."""
    table = costs(target)
    price: dict[Choice, int] = {}
    fixed: set[Choice] = set()
    spent = 0
    for recording in runs.largest:
        far = far_agents(recording)
        for agent, fence in fences_in(recording.graph, recording.fences):
            for choice in markers.choices(fence):
                weight = table.form(choice.kind, choice.spaces, agent in far).weight
                if choice.point == fixed_choice(fence).point:
                    spent += weight
                    fixed.add(choice)
                price[choice] = price.get(choice, 0) + weight
    weights: dict[Choice, Weighed] = {}
    standing: set[Choice] = set()
    for insertion in markers.edited.insertions.values():
        written = insertion.place.fence
        for spaces in variants(insertion):
            choice = Choice((insertion.place.number, insertion.when), insertion.kind, spaces)
            change = 2
            if written is not None and (written.kind, written.when) == (
                insertion.kind,
                insertion.when,
            ):
                change = 0 if written.spaces == spaces else 1
            if change == 0 and keep:
                standing.add(choice)
            # A line that the largest run does not execute is not free: it is a line.
            cost = max(1, price.get(choice, 0))
            weights[choice] = Weighed(cost, change, insertion.place.number)
    for _, recording in runs.recordings:
        for _, fence in fences_in(recording.graph, recording.fences):
            fixed |= {c for c in markers.choices(fence) if c not in weights}
    return weights, frozenset(fixed | standing), spent


def _final(original: Loaded, markers: Markers, chosen: list[Insertion], keep: bool) -> str:
    """The text with the chosen fences; an existing one that is chosen is left alone. At one place
    the order is that of the markers, for existing and new fences.
    """
    staying = {
        insertion.place.number
        for insertion in chosen
        if _stands(insertion) and insertion.spaces == _written(insertion).spaces
    }
    if keep:
        staying |= set(markers.standing)
    position = {
        (item.place.number, item.kind, item.when): line
        for line, item in markers.edited.insertions.items()
    }
    added = []
    for insertion in chosen:
        place = insertion.place
        if place.number not in staying:
            added.append(insertion)
            continue
        written = _written(insertion)
        stands_at = position.get((place.number, written.kind, written.when), 0)
        if _stands(insertion) and not keep:
            continue
        if position[(place.number, insertion.kind, insertion.when)] > stands_at:
            added.append(replace(insertion, place=replace(place, line=written.last + 1)))
        else:
            added.append(insertion)
    removed = [fence for number, fence in markers.standing.items() if number not in staying]
    return edit(original.text, removed, added).text


def _written(insertion: Insertion) -> WrittenFence:
    assert insertion.place.fence is not None
    return insertion.place.fence


def _stands(insertion: Insertion) -> bool:
    """Whether the marker means the fence that is written at its place."""
    written = insertion.place.fence
    return written is not None and (written.kind, written.when) == (insertion.kind, insertion.when)


# --------------------------------------------------------------------------- the way out


@dataclass(frozen=True, slots=True)
class Fixed:
    """A synthesis with what the engines say of it, kernel by kernel.

    `kept`: the fences that stood were kept, and those chosen come on top.
    """

    synthesis: Synthesis
    loaded: Loaded
    findings: tuple[Finding, ...]
    kept: bool = False

    @property
    def verified(self) -> bool:
        """Whether every kernel's verdict is VERIFIED; undecided counts as no."""
        return all(finding.verdict is Verdict.VERIFIED for finding in self.findings)


def fix(original: Loaded, options: VerifyOptions, keep: bool = False) -> Fixed:
    """The kernel with the cheapest fences, verified; refuting sizes are taken in and tried again.

    Raises Unsatisfiable, GaveUp, BadInput.
    """
    extra: tuple[Values, ...] = ()
    for _ in range(ROUNDS_MAX):
        made = synthesise(original, options, extra, keep)
        loaded = load(made.text, original.kernels[0].path, options)
        findings = tuple(verify_kernel(kernel, options) for kernel in loaded.kernels)
        more = _refuting_sizes(findings)
        if not more or set(map(repr, more)) <= set(map(repr, extra)):
            break
        extra += more
    return Fixed(made, loaded, findings, keep)


def _refuting_sizes(findings: tuple[Finding, ...]) -> tuple[Values, ...]:
    return tuple(
        dict(finding.trace.parameters)
        for finding in findings
        if finding.trace is not None and finding.trace.fault.kind in FENCE_FAULTS
    )


def without_line(program: ir.SyncProgram, line: int) -> ir.SyncProgram:
    """The lowered program without the fences that come from one line of the text."""

    def kept(operation: ir.Operation) -> ir.Operation:
        if isinstance(operation, ir.Loop):
            return replace(operation, body=block(operation.body))
        if isinstance(operation, ir.Branch):
            then, otherwise = block(operation.then), block(operation.otherwise)
            return replace(operation, then=then, otherwise=otherwise)
        return operation

    def block(body: ir.Block) -> ir.Block:
        return tuple(
            kept(item)
            for item in body
            if not (isinstance(item, ir.Fence) and line_of(item) == line)
        )

    roles = tuple(replace(role, body=block(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def refuted_without(fixed: Fixed, line: int, options: VerifyOptions) -> bool:
    """Whether the engines refute some kernel of the family without the fence of a line."""
    for kernel, program in zip(fixed.loaded.kernels, fixed.loaded.programs, strict=True):
        decision = judge(kernel, without_line(program, line), options)
        if decision.verdict is Verdict.REFUTED:
            return True
    return False


def lines_of_fences(program: ir.SyncProgram) -> list[int]:
    """The lines of the text that are fences, each once."""
    return sorted(
        {
            line_of(operation)
            for role in program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.Fence)
        }
    )
