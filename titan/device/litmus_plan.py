"""How the kernels of a rendered litmus test are launched: options, buffers, grids, numbers.

What a GPU and the emulated device have in common; nothing here needs either. Source:
docs/reference/litmus_kernels.md, "Running".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titan.device.manifests import BufferEntry, LitmusManifest, SetupStep
from titan.device.plan import TensorMapArguments
from titan.foundation.errors import Refusal

# Options of a batch: lanes, together, stress warps; what a test does not have stays at its default.
PLACEMENTS = ((1, 0, 0), (8, 0, 0), (32, 0, 2), (1, 0, 4), (32, 1, 0), (8, 1, 4))
DTYPES = {"int32": "i32", "uint32": "u32", "float32": "f32"}
OTHERS_CTAS, OTHERS_THREADS = 256, 256  # of the kernels that prepare and collect: any will do
Placement = tuple[tuple[str, int], ...]


class NotRun(Refusal):
    """The test needs a set-up that the back end has not."""


def placements_of(
    manifest: LitmusManifest, most: int,
    choices: tuple[tuple[int, int, int], ...] = PLACEMENTS,
) -> list[Placement]:  # fmt: skip
    """Options of the first `most` placements, those with more threads first."""
    chosen = sorted(choices, key=lambda choice: -sum(choice))[:most]
    return list(dict.fromkeys(_options(manifest, *choice) for choice in chosen))


def _options(manifest: LitmusManifest, lanes: int, together: int, stress: int) -> Placement:
    wanted = {"TITAN_LANES": lanes, "TITAN_TOGETHER": together, "TITAN_STRESS_WARPS": stress}
    return tuple(
        (name, min(wanted.get(name, int(limits["default"])), int(limits["max"])))
        for name, limits in sorted(manifest["options"].items())
    )


@dataclass(frozen=True, slots=True)
class LitmusPlan:
    """A test with the options it was compiled with, for so many instances."""

    manifest: LitmusManifest
    options: Mapping[str, int]
    instances: int
    xcds: int = 1

    @classmethod
    def of(
        cls, manifest: LitmusManifest, options: Mapping[str, int], scale: float, xcds: int = 1
    ) -> LitmusPlan:
        """`scale`: instances as a multiple of what the manifest suggests; `xcds` of the device."""
        launch = manifest["launch"]
        wanted = max(1, int(int(launch["instances"]) * scale))
        return cls(manifest, options, min(wanted, int(launch["instances_max"])), xcds)

    def buffer_bytes(self, item: BufferEntry) -> int:
        """The size of a buffer."""
        return int(item["bytes"]) + int(item["bytes_per_instance"]) * self.instances

    def values(self, seed: int, number: int) -> dict[str, int]:
        """The numbers of batch `number` by the role of their parameter."""
        launch = self.manifest["launch"]
        scratch = sum(
            self.buffer_bytes(item)
            for item in self.manifest["buffers"]
            if item["parameter"] == "scratch"
        )
        return {
            "instances": self.instances,
            "patience": int(launch["patience"]),
            "seed": seed,
            "spread": self.spread_cycles(number),
            "stress rounds": int(launch["stress_rounds"]),
            "xcds": self.xcds,
            "scratch words": scratch // 4 if self.options["TITAN_STRESS_WARPS"] else 0,
        }

    def spread_cycles(self, number: int) -> int:
        """The bound of the delays of batch `number`; every second batch is without."""
        spread = int(self.manifest["launch"]["spread_cycles"])
        return 0 if number % 2 == 0 else spread << (number // 2 % 4)

    def launches(self, others_ctas: int = OTHERS_CTAS) -> tuple[tuple[str, int, int], ...]:
        """Kernel, CTAs and threads of each launch of a batch, in order."""
        launch, options = self.manifest["launch"], self.options
        copies = options["TITAN_LANES"] * options["TITAN_GROUPS"]
        sets = -(-self.instances // copies)
        ctas = sets * int(launch["ctas_per_instance"])
        if any(item["role"] == "xcds" for item in self.manifest.get("parameters", ())):
            ctas = self._rows(sets)
        each = 1 if options["TITAN_TOGETHER"] else int(launch["warps_per_group"])
        warps = options["TITAN_GROUPS"] * each + options["TITAN_STRESS_WARPS"]
        return (
            ("titan_litmus_prepare", others_ctas, OTHERS_THREADS),
            ("titan_litmus_run", ctas, int(launch.get("warp_threads", 32)) * warps),
            ("titan_litmus_collect", others_ctas, OTHERS_THREADS),
        )

    def _rows(self, sets: int) -> int:
        """Work-groups of a launch whose rows have one on each XCD; sets stand side by side."""
        launch = self.manifest["launch"]
        taken = int(launch["clusters_per_instance"])
        here = max(self.xcds, taken)
        rows = -(-sets // (here // taken)) * (int(launch["ctas_per_instance"]) // taken)
        return rows * here


def map_arguments(step: SetupStep) -> TensorMapArguments:
    """The tensor map of a set-up step: lists from the innermost dimension outwards."""
    extents = tuple(int(extent) for extent in step["dimensions"])
    strides, size = [], 4
    for extent in extents[:-1]:
        size *= extent
        strides.append(size)
    box = tuple(int(side) for side in step["box"])
    dtype = DTYPES[str(step["type"])]
    return TensorMapArguments("map", dtype, extents, tuple(strides), box, str(step["swizzle"]))
