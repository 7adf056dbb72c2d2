"""One tile program on its way to numbers: refused with a reason, or built and right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.codegen.pipeline.written import form_of
from tests.device.compared import SCHEDULES, outputs
from titan.codegen.emit.model import EmissionRefused, Emitted
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import (
    BuildHooks,
    BuildLimits,
    BuildRefused,
    NotVerified,
    build,
    decoded,
    judged,
)
from titan.codegen.pipeline.model import Built, FormRefused, Shape
from titan.codegen.tile import functional
from titan.codegen.tile.dtypes import rounded
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.outputs import furthest
from titan.codegen.tile.semantics import run, shape_of
from titan.device.plan import Unlaunchable
from titan.sync.program import SyncProgram
from titan.target.load import TargetRefused
from titan.validate.hip.run import LaunchRefused

LIMITS = BuildLimits(schedule_seconds=2, verify_seconds=5)


@dataclass(frozen=True)
class Made:
    tile: TileProgram
    pipeline: str
    program: SyncProgram
    emitted: Emitted


def as_built(text: str) -> Made | str:
    """What `titan build` makes of a file, or its reason."""
    try:
        tile = parse_tile(text)
    except TargetRefused as refused:
        assert refused.diagnostics
        assert all(item.span is not None and item.headline for item in refused.diagnostics)
        return f"refused: {refused.diagnostics[0].code}"
    found: list[Emitted] = []

    def accept(built: Built) -> str | None:
        try:
            found.append(emit(built.tile, built.kernel, built.program))
        except EmissionRefused as refused:
            return str(refused)
        return None

    try:
        built = build(tile, text, LIMITS, BuildHooks(accept))
    except BuildRefused as refused:
        assert str(refused)
        return "refused: " + (refused.steps[0].reason if refused.steps else str(refused))
    return Made(tile, built.pipeline_text, built.program, found[-1])


def as_shaped(text: str, random: Random) -> Made | str:
    """A pipeline in a shape and with start cycles that no scheduler asked for."""
    try:
        tile = parse_tile(text)
    except TargetRefused as refused:
        return f"refused: {refused.diagnostics[0].code}"
    computed = [operation.name for operation in tile.body if operation.kind != "load"]
    late = random.randint(0, len(computed))
    starts = {name: random.randint(0, 9) for name in computed}
    if random.random() < 0.7:  # in the order of the program, a suffix one interval later
        starts = {name: i + 1000 * (i >= late) for i, name in enumerate(computed)}
    shape = Shape(
        "", random.randint(1, 5), random.random() < 0.85, random.random() < 0.9,
        tile.groups == 2 and random.random() < 0.5, tile.persistent,
    )  # fmt: skip
    try:
        pipeline = form_of(tile.target)(tile, shape, starts, random.choice((1000, 10, 5)))
        kernel, program = decoded(pipeline)
        judged(kernel, LIMITS)
        return Made(tile, pipeline, program, emit(tile, kernel, program))
    except (FormRefused, NotVerified, EmissionRefused) as refused:
        assert str(refused)
        return f"refused: {type(refused).__name__}: {refused}"


def launch(made: Made, numbers: dict[str, int], seed: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Parameters that the constraints allow, and small whole numbers for every input."""
    manifest = made.emitted.manifest
    values = {item["name"]: max(item["minimum"], numbers[item["name"]])
              for item in manifest["parameters"]}  # fmt: skip
    for constraint in manifest["constraints"]:
        found = re.fullmatch(r"(\w+) % (\d+) == 0", constraint)
        if found and found.group(1) in values:
            unit = int(found.group(2))
            values[found.group(1)] = -(-values[found.group(1)] // unit) * unit
    random = np.random.default_rng(seed)
    extents = dict(made.tile.sizes) | values
    inputs = {}
    for tensor in made.tile.tensors:
        if not tensor.output:
            shape = shape_of(tensor, extents)
            inputs[tensor.name] = rounded(random.integers(-2, 3, shape) * 1.0, tensor.dtype)
    return values, inputs


def faults(made: Made, numbers: dict[str, int], seed: int, runs: int = 2) -> str:
    """How the kernel differs from its meaning in some run; nothing where it does not."""
    random = Random(seed)
    try:
        values, inputs = launch(made, numbers, seed)
        expected = run(made.tile, inputs, dict(made.tile.sizes) | values)
        for number in range(runs):
            policy, processors = random.choice(SCHEDULES), random.choice((1, 2, 3))
            got = outputs(
                made.emitted.manifest, made.emitted.files, values, inputs, seed + number, policy,
                processors,
            )  # fmt: skip
            found = furthest(made.tile, got, expected)
            if not found.same:
                return f"{policy}, seed {seed + number}: {found.describe()} with {values}"
    except (LaunchRefused, Unlaunchable) as refused:
        return "" if "needs" in str(refused) or "breaks" in str(refused) else str(refused)
    return ""


def disagreement(made: Made, numbers: dict[str, int], seed: int) -> str:
    """What the functional check says against the verified pipeline."""
    values, inputs = launch(made, numbers, seed)
    runs = functional.interleavings(2, seed=seed)
    found = functional.check(made.tile, made.program, inputs, values, runs)
    return f"{found[0].text} ({found[0].worst:g}) under {found[0].interleaving}" if found else ""
