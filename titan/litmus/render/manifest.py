"""What a host needs to run a rendered test from its folder alone: the manifest.

Names of the test occur here only, as JSON strings. Sizes in bytes. docs/reference/litmus_kernels.md
says what each entry means and what the host has to set up.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.condition import format_condition
from titan.litmus.language.printing import format_instruction
from titan.litmus.render import tensors
from titan.litmus.render.outcomes import ModelVerdict, Outcomes
from titan.litmus.render.places import AMD, TENSOR_TILE_BYTES, LitmusLayout, LitmusRegion

TARGET = "sm_90a"
FORMAT = 2
INSTANCES = 1 << 14  # suggested instances a launch
PATIENCE = 1 << 16  # suggested tries before a wait gives up
CONSTANT_INSTANCES = 1 << 16  # bytes of constant memory a module has
SURFACE_TEXELS_MAX = 1 << 15  # width of a one-dimensional surface


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Greatest value of each macro, and how many threads of the test share a CTA at most.

    `targets` are the architectures that the source is for, that which it is named by first.
    """

    limits: dict[str, int]
    slots_per_cta: int
    targets: tuple[str, ...] = (TARGET,)
    language: str = "cuda"


_POINTER = "unsigned char*"
_HANDLE = "unsigned long long"


def target_of(test: LitmusTest) -> str:
    """The architecture that the kernels are for."""
    return tensors.TARGET if any(map(tensors.uses_tensors, test.threads)) else TARGET


def parameters(layout: LitmusLayout, bindings: set[str]) -> list[dict[str, str]]:
    """The parameters of every kernel of the source, in order."""
    found = [
        {"name": f"memory{view}", "type": _POINTER, "role": "memory" if not view else "view"}
        for view in range(layout.views[LitmusRegion.MEMORY])
    ]
    found += [
        {"name": "outcomes", "type": "int*", "role": "outcomes"},
        {"name": "histogram", "type": "unsigned long long*", "role": "histogram"},
        {"name": "scratch", "type": "unsigned*", "role": "scratch"},
        {"name": "scratch_words", "type": "unsigned", "role": "scratch words"},
        {"name": "instances", "type": "unsigned", "role": "instances"},
        {"name": "patience", "type": "unsigned", "role": "patience"},
        {"name": "seed", "type": "unsigned", "role": "seed"},
        {"name": "spread", "type": "unsigned", "role": "spread"},
        {"name": "stress_rounds", "type": "unsigned", "role": "stress rounds"},
    ]
    if any(cell.is_map for cell in layout.cells.values()):
        found.append({"name": "maps", "type": "const unsigned char*", "role": "tensor maps"})
    if layout.texels:
        for view in range(layout.views[LitmusRegion.ARRAY]):
            role = "view" if view else "array memory"
            found.append({"name": f"array{view}", "type": _POINTER, "role": role})
        found += [
            {"name": "array_bytes", "type": _HANDLE, "role": "array bytes"},
            {"name": "offsets", "type": "unsigned*", "role": "texel offsets"},
            {"name": "surface", "type": _HANDLE, "role": "surface"},
        ]
    if "texture" in bindings:
        found.append({"name": "texture", "type": _HANDLE, "role": "array texture"})
    for view in range(layout.views[LitmusRegion.MEMORY]):
        if f"texture{view}" in bindings:
            found.append({"name": f"texture{view}", "type": _HANDLE, "role": "linear texture"})
    if layout.constant_bytes:
        found.append({"name": "constant0", "type": _POINTER, "role": "constant memory"})
    if layout.device is AMD:
        found.append({"name": "xcds", "type": "unsigned", "role": "xcds"})
    return found


def describe(
    test: LitmusTest,
    layout: LitmusLayout,
    outcomes: Outcomes,
    options: RenderOptions,
    bindings: set[str],
    verdict: ModelVerdict | None,
) -> dict[str, object]:
    """The manifest, less the name of the source."""
    kernels = ["titan_litmus_prepare", "titan_litmus_run", "titan_litmus_collect"]
    return {
        "format": FORMAT,
        "test": test.name,
        "comment": test.comment,
        "target": options.targets[0],
        "targets": list(options.targets),
        "language": options.language,
        "kernels": kernels,
        "setup_kernels": ["titan_litmus_mark", "titan_litmus_find"] if layout.texels else [],
        "parameters": parameters(layout, bindings),
        "buffers": _buffers(test, layout, outcomes),
        "setup": _setup(layout, bindings),
        "options": {
            name: {"default": int(name in ("TITAN_LANES", "TITAN_GROUPS")), "max": most}
            for name, most in options.limits.items()
        },
        "launch": {
            "instances": _instances(layout),
            "instances_max": _instances_max(layout),
            "patience": PATIENCE,
            "spread_cycles": 256,
            "stress_rounds": 256,
            "ctas_per_instance": layout.ctas,
            "cluster_ctas": layout.cluster_ctas,
            "clusters_per_instance": layout.clusters,
            "warp_threads": layout.device.warp_threads,
            "warps_per_group": layout.group_warps,
            "threads_per_cta": layout.cta_threads,
            "slots_per_cta": options.slots_per_cta,
        },
        "scopes": _scopes(test, layout),
        "threads": [
            {
                "name": seat.thread.name,
                "cta": seat.cta,
                "first_warp": seat.warp,
                "warps": seat.warps,
                "instructions": [format_instruction(step) for step in seat.thread.instructions],
            }
            for seat in layout.seats
        ],
        "locations": _locations(layout),
        "outcomes": outcomes.as_json(),
        "quantifier": test.quantifier.value,
        "condition": outcomes.condition(test.condition),
        "condition_text": format_condition(test.condition),
        "filter": outcomes.condition(test.filter) if test.filter is not None else None,
        "verdict": verdict.as_json() if verdict is not None else None,
    }


def _instances_max(layout: LitmusLayout) -> int:
    most = (1 << 31) // max(layout.global_bytes, 1)
    if layout.texels:
        most = min(most, SURFACE_TEXELS_MAX // layout.texels)
    if layout.constant_bytes:
        most = min(most, CONSTANT_INSTANCES // layout.constant_bytes)
    return most


def _instances(layout: LitmusLayout) -> int:
    return min(INSTANCES, _instances_max(layout))


def _scopes(test: LitmusTest, layout: LitmusLayout) -> dict[str, object]:
    """The narrowest place that all threads share, and which CTAs of an instance are clusters."""
    ctas = {seat.cta for seat in layout.seats}
    clusters = {layout.cluster(cta) for cta in ctas}
    words = ("work-group", "xcd", "agent") if layout.device is AMD else ("cta", "cluster", "gpu")
    shared = words[0 if len(ctas) == 1 else 1 if len(clusters) == 1 else 2]
    return {
        "all_threads_share": shared,
        "clusters": [
            [cta for cta in range(layout.ctas) if layout.cluster(cta) == cluster]
            for cluster in range(layout.clusters)
        ],
        "ctas": [
            [seat.thread.name for seat in layout.seats if seat.cta == cta]
            for cta in range(layout.ctas)
        ],
    }


def _locations(layout: LitmusLayout) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "space": "shared" if cell.shared else "global",
            "region": cell.region.value,
            "view": cell.view,
            "alias_of": cell.location.alias_of,
            "proxy": cell.location.proxy.value,
            "cta": cell.cta,
            "offset_bytes": cell.offset * (4 if cell.region is LitmusRegion.ARRAY else 1),
            "size_bytes": cell.size,
            "initial": cell.location.initial,
            "mbarrier_count": cell.location.count,
        }
        for name, cell in layout.cells.items()
    ]


def _fine_grained(test: LitmusTest) -> bool:
    """Whether some access is atomic at system scope, for which AMD devices have such memory."""
    steps = [step for thread in test.threads for step in thread.instructions]
    return test.dialect.amd and any(
        isinstance(step, ast.Load | ast.Store | ast.Atomic) and step.scope is ast.Scope.SYS
        for step in steps
    )


def _buffers(test: LitmusTest, layout: LitmusLayout, outcomes: Outcomes) -> list[dict[str, object]]:
    """What the host allocates, filled with zeros: `bytes`, and `bytes_per_instance` for each."""
    memory: dict[str, object] = {
        "parameter": "memory0", "bytes_per_instance": layout.global_bytes, "bytes": 0,
    }  # fmt: skip
    if _fine_grained(test):
        memory["fine_grained"] = True
    found: list[dict[str, object]] = [
        memory,
        {"parameter": "outcomes", "bytes_per_instance": 4 * outcomes.words, "bytes": 0},
        {"parameter": "histogram", "bytes_per_instance": 0, "bytes": 8 * (outcomes.buckets + 1)},
        {"parameter": "scratch", "bytes_per_instance": 0, "bytes": 1 << 20},
    ]
    if layout.texels:
        found.append({"parameter": "offsets", "bytes_per_instance": 4 * layout.texels, "bytes": 0})
    maps = sum(cell.is_map for cell in layout.cells.values())
    if maps:
        found.append({"parameter": "maps", "bytes_per_instance": 0, "bytes": 128 * maps})
    return found


def _setup(layout: LitmusLayout, bindings: set[str]) -> list[dict[str, object]]:
    """What the host does besides allocating, in order."""
    steps: list[dict[str, object]] = [
        {"step": "map again", "parameter": f"memory{view}", "alias_of": "memory0"}
        for view in range(1, layout.views[LitmusRegion.MEMORY])
    ]
    if layout.texels:
        steps.append(
            {
                "step": "array over mapped memory",
                "array_memory": "array0",
                "array_bytes": "array_bytes",
                "surface": "surface",
                "texture": "texture" if "texture" in bindings else None,
                "dimensions": 1,
                "format": "one signed 32-bit integer",
                "texels_per_instance": layout.texels,
            }
        )
        steps += [
            {"step": "map again", "parameter": f"array{view}", "alias_of": "array0"}
            for view in range(1, layout.views[LitmusRegion.ARRAY])
        ]
        steps.append(
            {
                "step": "find texels",
                "kernels": ["titan_litmus_mark", "titan_litmus_find"],
                "offsets": "offsets",
            }
        )
    for view in range(layout.views[LitmusRegion.MEMORY]):
        if f"texture{view}" in bindings:
            steps.append(
                {
                    "step": "linear texture",
                    "parameter": f"texture{view}",
                    "memory": f"memory{view}",
                    "format": "one signed 32-bit integer",
                }
            )
    if layout.constant_bytes:
        steps.append(
            {"step": "constant symbol", "parameter": "constant0", "symbol": "titan_constant"}
        )
    for number, cell in enumerate(c for c in layout.cells.values() if c.is_map):
        steps.append(
            {
                "step": "encode tensor map",
                "parameter": "maps",
                "offset_bytes": 128 * number,
                "location": cell.location.name,
                "address": {"parameter": "memory0", "offset_bytes": cell.tiles[0][1]},
                "type": "int32",
                "dimensions": [TENSOR_TILE_BYTES // 4],
                "box": [TENSOR_TILE_BYTES // 4],
                "element_strides": [1],
                "interleave": "none",
                "swizzle": "none",
                "l2_promotion": "none",
                "out_of_bounds": "zeros",
            }
        )
    return steps
