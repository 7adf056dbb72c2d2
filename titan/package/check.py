"""Checks a package without searching: everything that follows from its files is derived again.

From the tile program comes the loop, from loop and schedule the pipeline, from the pipeline the
sync program, from tile program and sync program the source and the manifest. Each is compared with
what the package holds, byte for byte, and the certificate with all of them. A certificate of the
verdict (`verdict.cert`) is derived again, line by line. The schedule is judged
by the schedule checker, its bound by plain arithmetic, the program by the rules of the target. What
is left is whether the protocol is verified for the stated scope: a `RecheckQuestion` for
`verdicts.py`.

Imports no solver. Evidence other than a bound is a statement of a solver and is reported as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.yaml import parse_text
from titan.package import canonical, certified, contents
from titan.package.certificate import (
    FORMAT,
    LATER,
    digests,
    schedule_section,
    sealed,
    versions,
)
from titan.package.contents import Altered, Broken, Unsound
from titan.package.difference import difference
from titan.package.failures import GateFailure
from titan.package.verdicts import RecheckQuestion
from titan.scheduling.check import check as schedule_faults
from titan.scheduling.loop.bounds import Unschedulable, bounds
from titan.scheduling.model import Evidence, Schedule
from titan.scheduling.store import ScheduleClaim, as_data, certify, digest, read_text

if TYPE_CHECKING:
    from titan.codegen.pipeline.model import Shape
    from titan.codegen.tile.model import TileProgram
    from titan.language.kernel.model import Kernel
    from titan.scheduling.loop.model import Loop
    from titan.sync.program import SyncProgram

KEYS = (
    "titan", "certificate", "target", "files", "loop_digest", "schedule", "pipeline",
    "verification", "tools", "digest",
)  # fmt: skip
KINDS = ("bound", "proof", "refutation", "agreement", "none")


@dataclass(frozen=True, slots=True)
class Checked:
    """What is found without a search; `question` remains where there is no fault.

    `fault` is why the package is refused, or empty. `stated`: claims that are not derived here.
    """

    name: str
    target: str = ""
    fault: str = ""
    stated: tuple[str, ...] = ()
    question: RecheckQuestion | None = None
    failure: GateFailure = GateFailure.NONE


def check_package(folder: str | Path) -> Checked:
    """Never raises for the content of a folder; reports the first fault."""
    name = ""
    try:
        files = contents.read_package(folder)
        data = _certificate(files)
        name = str(data["certificate"])
        stated, question = _Package(files, data).check()
    except Broken as broken:
        name = contents.printable(name)
        return Checked(name, fault=str(broken), failure=broken.failure)
    return Checked(name, str(data["target"]), stated=stated, question=question)


def _certificate(files: dict[str, bytes]) -> dict[str, Any]:
    """The certificate, its shape, its own digest and those of all other files."""
    raw = files[contents.CERTIFICATE]
    data = contents.from_json(raw, contents.CERTIFICATE)
    if not isinstance(data, dict) or tuple(data) != KEYS:
        raise Broken("certificate.json does not hold the fields of a certificate")
    if data["titan"] != FORMAT:
        raise Broken(f"the certificate has another format than {FORMAT}")
    _same(sealed(data), data, "certificate")
    if contents.to_json(data) != raw:
        raise Altered("certificate.json is not written as titan writes it")
    others = {name: content for name, content in files.items() if name != contents.CERTIFICATE}
    _same_files(digests(others), data["files"])
    return data


def _same_files(found: dict[str, str], stated: object) -> None:
    """The digests of the files, against those of the certificate; says which file was changed."""
    for name, own in found.items():
        other = stated.get(name) if isinstance(stated, dict) else None
        if isinstance(other, str) and other != own:
            raise Altered(f"{name} was changed after the package was built: it has another digest")
    _same(found, stated, "files")


def _same(expected: Any, stated: Any, what: str) -> None:
    found = difference(expected, stated, what)
    if found is not None:
        raise Altered(found)


class _Package:
    """The steps of the check in order; each raises Broken at its first fault."""

    def __init__(self, files: dict[str, bytes], data: dict[str, Any]) -> None:
        self.files = files
        self.data = data
        self.stages = 0  # of the rings that the loop was scheduled with

    def text(self, name: str) -> str:
        try:
            return self.files[name].decode("utf-8")
        except UnicodeDecodeError:
            raise Broken(f"{name} is not UTF-8") from None

    def check(self) -> tuple[tuple[str, ...], RecheckQuestion]:
        tile = self._tile()
        loop = self._loop(tile)
        schedule, evidence = self._schedule(loop)
        self._timeline(loop, schedule)
        shape = self._shape(tile, loop, schedule)
        self._constructed(tile, loop, schedule, shape)
        kernel, program = self._lowered(tile)
        self._emitted(tile, kernel, program)
        self._proved(program)
        question = self._question(kernel, program)
        return self._statements(evidence), question

    def _tile(self) -> TileProgram:
        from titan.codegen.tile.load import read_tile
        from titan.foundation.source.loading import load_bytes
        from titan.target.load import TargetRefused

        source, errors = load_bytes(self.files[contents.TILE], contents.TILE)
        if source is None:
            raise Broken(f"tile.yaml: {_headlines(errors)}")
        target = self.data["target"]
        try:
            tile = read_tile(source, target if isinstance(target, str) else None)
        except TargetRefused as refused:
            raise Broken(f"tile.yaml: {_headlines(list(refused.diagnostics))}") from None
        except ValueError as error:
            raise Broken(f"tile.yaml: {contents.printable(str(error))}") from None
        _same(tile.name, self.data["certificate"], "certificate")
        _same(tile.target, self.data["target"], "target")
        return tile

    def _loop(self, tile: TileProgram) -> Loop:
        """The loop with rings of as many stages as were asked for and have any schedule."""
        from titan.codegen.pipeline.candidates import DEPTH_DEFAULT
        from titan.codegen.tile.cost import CostError
        from titan.codegen.tile.loops import loop_of
        from titan.target.load import machine

        for depth in range(tile.depth or DEPTH_DEFAULT, 0, -1):
            try:
                loop = loop_of(tile, machine(tile.target), depth)
                bounds(loop)
            except Unschedulable:
                continue
            except (CostError, KeyError) as error:
                raise Broken(f"tile.yaml has no loop: {contents.printable(str(error))}") from None
            _same(digest(loop), self.data["loop_digest"], "loop_digest")
            self.stages = depth
            return loop
        raise Broken("tile.yaml has no loop with a schedule")

    def _schedule(self, loop: Loop) -> tuple[Schedule, Evidence]:
        """Read, judged by the schedule checker, and its claim derived again."""
        raw = self.files[contents.SCHEDULE]
        data = contents.from_json(raw, contents.SCHEDULE)
        schedule, evidence = _read_schedule(data, loop)
        claim: ScheduleClaim = {}
        if "refutations" in data["claim"]:
            claim = self._refutations(loop)
        refutations = tuple(claim.get("refutations", ()))
        _same(as_data(loop, schedule, evidence, refutations), data, "schedule.json")
        if contents.to_json(data) != raw:
            raise Altered("schedule.json is not written as titan writes it")
        claim["kind"], claim["lower_bound"] = evidence.kind, evidence.lower_bound
        faults = schedule_faults(loop, schedule) or certify(loop, schedule, claim)
        if faults:
            raise Unsound(f"schedule.json: {contents.printable(faults[0].text)}")
        _same(schedule_section(loop, schedule, evidence), self.data["schedule"], "schedule")
        _check_claim(loop, schedule, evidence)
        return schedule, evidence

    def _refutations(self, loop: Loop) -> ScheduleClaim:
        """The claim as schedule files are read otherwise: refutations have a form of their own."""
        from titan.target.load import TargetRefused

        try:
            return read_text(self.text(contents.SCHEDULE), contents.SCHEDULE, loop)[1]
        except TargetRefused as refused:
            raise Unsound(f"schedule.json: {_headlines(list(refused.diagnostics))}") from None

    def _timeline(self, loop: Loop, schedule: Schedule) -> None:
        from titan.report.schedule_trace import trace

        if trace(loop, schedule).encode() != self.files[contents.TIMELINE]:
            raise Altered("timeline.json is not the timeline of the schedule")

    def _shape(self, tile: TileProgram, loop: Loop, schedule: Schedule) -> Shape:
        """The chosen shape: the last of the candidates, which are of the fixed list, each once, in
        the order of a model that is not derived again; before them what of the schedule was not
        taken."""
        from titan.codegen.pipeline.model import UNTAKEN, Shape

        section = self.data["pipeline"]
        keys = ("kernel", "sync_program", "shape", "candidates")
        if not isinstance(section, dict) or tuple(section) != keys:
            raise Broken("the certificate's `pipeline` lacks a field or has an unknown one")
        tried = section["candidates"]
        if not isinstance(tried, list) or not tried:
            raise Broken("the certificate lists no candidates")
        following = self._candidates(tile, loop, schedule)
        of_schedule = [Shape(name, self.stages) for name in UNTAKEN]
        shape: Shape | None = None
        for position, entry in enumerate(tried):
            where = f"pipeline.candidates[{position}]"
            if not isinstance(entry, dict) or tuple(entry) != ("shape", "taken", "reason"):
                raise Broken(f"{where} lacks a field or has an unknown one")
            shape = _read_shape(entry["shape"], where)
            last = position == len(tried) - 1
            listed = following if last or shape not in of_schedule else of_schedule
            if shape not in listed:
                raise Altered(f"{where} is not of the fixed list of shapes, or there twice")
            listed.remove(shape)
            _same(last, entry["taken"], f"{where}.taken")
            if not isinstance(entry["reason"], str) or bool(entry["reason"]) == last:
                raise Broken(f"{where}: a refused candidate has a reason, the chosen one has none")
        _same(tried[-1]["shape"], section["shape"], "pipeline.shape")
        assert shape is not None
        return shape

    def _candidates(self, tile: TileProgram, loop: Loop, schedule: Schedule) -> list[Shape]:
        """The fixed list of shapes for this loop and schedule."""
        from titan.codegen.pipeline.build import over_time
        from titan.codegen.pipeline.candidates import DEPTH_DEFAULT, shapes
        from titan.scheduling.explain import rings

        needed = max((ring.needed for ring in rings(loop, schedule)), default=DEPTH_DEFAULT)
        listed = list(shapes(tile, needed, self.stages))
        return [*listed, *over_time(listed)]

    def _constructed(self, tile: TileProgram, loop: Loop, schedule: Schedule, shape: Shape) -> None:
        """The pipeline is the one of this tile program, schedule and shape."""
        from titan.codegen.pipeline.build import group_starts
        from titan.codegen.pipeline.forms import form_of
        from titan.codegen.pipeline.model import FormRefused
        from titan.codegen.pipeline.printer import pipeline_text

        try:
            form = form_of(tile.target)
            starts = group_starts(tile, loop, schedule.starts)
            text = pipeline_text(form(tile, shape, starts, schedule.ii))
        except FormRefused as refused:
            raise Unsound(f"this shape has no pipeline: {refused}") from None
        if text != self.text(contents.PIPELINE):
            raise Altered("pipeline.yaml is not the pipeline of tile program, schedule and shape")

    def _lowered(self, tile: TileProgram) -> tuple[Kernel, SyncProgram]:
        """The kernel without computations, its sync program with them."""
        from titan.language.kernel.decode import decode
        from titan.verify.legality.check import examine
        from titan.verify.lowering import NotLowered, sync_program

        tree, broken = parse_text(self.text(contents.PIPELINE), contents.PIPELINE)
        family, errors = decode(tree, broken, contents.PIPELINE, {})
        whole, more = decode(tree, broken, contents.PIPELINE, {}, computations=True)
        if family is None or whole is None:
            raise Unsound(f"pipeline.yaml: {_headlines([*errors, *more])}")
        if len(family.kernels) != 1:
            raise Broken("pipeline.yaml describes several kernels")
        try:
            program = sync_program(whole.kernels[0], together=True).program
            plain = sync_program(family.kernels[0]).program
        except NotLowered as refusal:
            raise Unsound(f"pipeline.yaml: {contents.printable(str(refusal))}") from None
        if canonical.for_engines(program) != plain:
            raise Unsound("computations change what pipeline.yaml does")
        if unlawful := examine(family.kernels[0], plain).errors:
            raise Unsound(f"pipeline.yaml: {_headlines(list(unlawful))}")
        _same(canonical.digest(program), self.data["pipeline"]["sync_program"], "sync_program")
        _same(family.kernels[0].name, self.data["pipeline"]["kernel"], "pipeline.kernel")
        _same(tile.target, family.kernels[0].target, "target of pipeline.yaml")
        return family.kernels[0], program

    def _emitted(self, tile: TileProgram, kernel: Kernel, program: SyncProgram) -> None:
        """Source, header and manifest are those that emission writes for this program."""
        from titan.codegen.emit.model import EmissionRefused
        from titan.codegen.emit.write import emit
        from titan.package.write import manifest_of

        try:
            emitted = emit(tile, kernel, program)
        except EmissionRefused as refused:
            raise Unsound(f"no source can be written: {refused}") from None
        for name, text in sorted(emitted.files.items()):
            if name not in self.files:
                raise Broken(f"the package lacks {name}")
            _same_text(text, self.text(name), name)
        manifest = contents.to_json(manifest_of(tile, emitted))
        stated = contents.from_json(self.files[contents.MANIFEST], contents.MANIFEST)
        _same(contents.from_json(manifest, contents.MANIFEST), stated, "manifest.json")
        if manifest != self.files[contents.MANIFEST]:
            raise Altered("manifest.json is not written as titan writes it")

    def _proved(self, program: SyncProgram) -> None:
        """The certificate of the verdict, where the package has one, is derived again."""
        if contents.PROOF not in self.files:
            return
        try:
            certified.refuse_unproved(self.files[contents.PROOF], program)
        except certified.NotProved as reason:
            raise Broken(f"{contents.PROOF}: {reason}") from None

    def _question(self, kernel: Kernel, program: SyncProgram) -> RecheckQuestion:
        section = self.data["verification"]
        keys = ("verdict", "engine", "scope", "policies")
        if not isinstance(section, dict) or tuple(section) != keys:
            raise Broken("the certificate's `verification` lacks a field or has an unknown one")
        if section["verdict"] != "verified":
            raise Broken("the certificate does not say that the pipeline is verified")
        return RecheckQuestion.of(self.text(contents.PIPELINE), kernel, program, section)

    def _statements(self, evidence: Evidence) -> tuple[str, ...]:
        """What the package claims and this check does not derive."""
        tools = self.data["tools"]
        plain = isinstance(tools, dict) and all(isinstance(v, str) for v in tools.values())
        if not plain or "titan" not in tools:
            raise Broken("the certificate does not say which titan made it")
        stated = []
        if evidence.kind in ("refutation", "agreement"):
            stated.append(f"interval: {evidence.kind} by a solver, not re-derived")
        elif evidence.kind == "none":
            stated.append("interval: no claim that it is the least")
        if tools["titan"] != versions()["titan"]:
            stated.append(f"made by titan {contents.printable(tools['titan'])}")
        return tuple(stated)


def _read_schedule(data: Any, loop: Loop) -> tuple[Schedule, Evidence]:
    """Whatever else the file states is compared with what is derived from these."""
    try:
        rows = data["operations"]
        names = [team.name for team in loop.teams]
        starts = tuple(rows[operation.name]["cycle"] for operation in loop.operations)
        teams = tuple(names.index(rows[operation.name]["group"]) for operation in loop.operations)
        claim = data["claim"]
        evidence = Evidence(
            claim["kind"], claim["lower_bound"], claim["detail"], claim["lengths_to"],
            claim["complete"],
        )  # fmt: skip
        ii = data["ii"]
    except (KeyError, TypeError, ValueError):
        raise Broken("schedule.json is not a schedule of the loop with its claim") from None
    numbers = [ii, *starts, evidence.lower_bound]
    if evidence.lengths_to is not None:
        numbers.append(evidence.lengths_to)
    if any(type(number) is not int or not 0 <= number < 2**31 for number in numbers) or ii < 1:
        raise Broken("schedule.json holds a number that is not a cycle")
    if evidence.kind not in KINDS or not isinstance(evidence.detail, str):
        raise Broken("schedule.json holds no kind of evidence that is known")
    if not isinstance(evidence.complete, bool):
        raise Broken("schedule.json does not say which schedules its evidence covers")
    return Schedule(ii, starts, teams), evidence


def _check_claim(loop: Loop, schedule: Schedule, evidence: Evidence) -> None:
    """What the claim says besides the interval, as far as it follows from its kind."""
    best = bounds(loop).best
    if not best.ii <= evidence.lower_bound <= schedule.ii:
        raise Unsound("schedule.json claims a bound that is not between the plain one and its own")
    if evidence.kind == "bound" and evidence.detail != f"{best.kind}: {best.detail}":
        raise Unsound("schedule.json states another bound than the one that holds")
    if evidence.kind in ("bound", "proof") and (
        not evidence.complete or evidence.lengths_to is not None
    ):
        raise Unsound("schedule.json restricts evidence that holds for every length")
    if (
        evidence.kind in ("refutation", "agreement")
        and evidence.complete
        and (evidence.lower_bound != schedule.ii)
    ):
        raise Unsound("schedule.json claims a least interval that is not its own")


def _read_shape(data: Any, where: str) -> Shape:
    from dataclasses import fields

    from titan.codegen.pipeline.model import Shape

    kinds = {"name": str, "depth": int}
    names = [item.name for item in fields(Shape)]
    if not isinstance(data, dict):
        raise Broken(f"{where} is not a shape")
    if list(data) != [name for name in names if name not in LATER or data.get(name)]:
        raise Broken(f"{where} is not a shape")
    for name, value in data.items():
        if type(value) is not kinds.get(name, bool):
            raise Broken(f"{where}.{name} is not a value of a shape")
    return Shape(**data)


def _same_text(expected: str, stated: str, name: str) -> None:
    if expected == stated:
        return
    lines = zip(expected.split("\n"), stated.split("\n"), strict=False)
    number = next((i for i, (one, other) in enumerate(lines, start=1) if one != other), None)
    place = f"line {number}" if number is not None else "its end"
    raise Altered(f"{name} is not what is emitted for this pipeline, from {place} on")


def _headlines(errors: list[Diagnostic]) -> str:
    if not errors:
        return "it cannot be read"
    return contents.printable(f"{errors[0].code}: {errors[0].headline}")
