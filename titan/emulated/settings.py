"""Settings of the emulated device: the model, what is checked, which interleavings are computed.

Every setting has an environment variable, so that plug-ins loaded by a framework and programs
started by `titan run` find it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from titan.foundation.diagnostics.wording import suggestion
from titan.foundation.errors import UserError
from titan.frontends.ptx.policies import VALUES
from titan.isa.numbers.native import CoreOptions

STEPS_MAX = 100_000_000  # warp instructions of one launch


class CheckMode(StrEnum):
    """Which launches are decided in all interleavings before they run."""

    ALL = "all"
    FIRST = "first"  # the first of each kernel with each grid, block and cluster
    OFF = "off"


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The properties of a device that programs query; sizes in bytes."""

    name: str
    architecture: int  # 90: compute capability 9.0
    multiprocessors: int
    shared_bytes_max: int = 232_448  # of one CTA, on request
    shared_bytes: int = 49_152  # without a request
    shared_bytes_of_multiprocessor: int = 233_472
    registers: int = 65_536
    memory_bytes: int = 80 << 30
    lanes: int = 32  # of a warp or a wave
    assembly: str = ""  # the target of AMD's assembly, such as gfx942; else PTX is run

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor number."""
        return divmod(self.architecture, 10)

    def attribute(self, number: int) -> int:
        """A CUdevice_attribute by its number; 0 for one that says nothing here."""
        major, minor = self.capability
        known = {
            1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535,
            8: self.shared_bytes, 10: 32, 12: self.registers, 16: self.multiprocessors,
            39: 2048, 41: 1, 75: major, 76: minor, 81: self.shared_bytes_of_multiprocessor,
            82: self.registers, 95: 1, 97: self.shared_bytes_max, 106: 32, 111: 1024, 120: 1,
        }  # fmt: skip
        return known.get(number, 0)


def _instinct(name: str, target: str, units: int, lds_bytes: int, memory: int) -> DeviceModel:
    """A device of AMD. PyTorch gives the numbers of its target as its capability."""
    return DeviceModel(
        f"TITAN emulated {name}", int(target[3:5]), units, lds_bytes, lds_bytes, lds_bytes,
        registers=131_072, memory_bytes=memory << 30, lanes=64, assembly=target,
    )  # fmt: skip


# CUDA C++ Programming Guide, "Compute Capabilities"; multiprocessors of the SXM boards; AMD's data
# sheets of the accelerators
DEVICES = {
    "h100": DeviceModel("TITAN emulated H100", 90, 132),
    "b200": DeviceModel("TITAN emulated B200", 100, 148, memory_bytes=180 << 30),
    "mi300x": _instinct("MI300X", "gfx942", 304, 65_536, 192),
    "mi355x": _instinct("MI355X", "gfx950", 256, 163_840, 288),
}
CHECK, DEVICE, SEED, SCHEDULES = "TITAN_CHECK", "TITAN_DEVICE", "TITAN_SEED", "TITAN_SCHEDULES"
POLICIES = "TITAN_POLICIES"
# Triton and CUTLASS put their proxy fences behind a barrier: the reading that these rely on.
SHIPPED = (("fence_rule", "path"),)
BINARY32_SUMS = CoreOptions(exact=False)
# Schedules of warps and clusters, and of engines, of the runs of a launch beyond the first.
ADVERSARIES = (("starve", "late"), ("ahead", "early"), ("mixed", "random"), ("starve", "random"))
_CHECKS = {
    "1": CheckMode.ALL,
    "0": CheckMode.OFF,
    "": CheckMode.OFF,
    **{item.value: item for item in CheckMode},
}


@dataclass(frozen=True, slots=True)
class EmulationSettings:
    """`seed` chooses the interleaving that is computed; each launch is computed under `schedules`
    seeds from it on, of which the first gives the results. `policies`: readings of the hardware
    contract (`titan/frontends/ptx/policies.py`) that are not the default ones. `core`: schedule and
    engines of the first seed, and more; further seeds take the pairs of ADVERSARIES in turn.
    """

    check: CheckMode = CheckMode.OFF
    device: str = "h100"
    seed: int = 0
    schedules: int = 1
    steps_max: int = STEPS_MAX
    policies: tuple[tuple[str, str], ...] = SHIPPED
    core: CoreOptions = BINARY32_SUMS

    @property
    def model(self) -> DeviceModel:
        """The device that is emulated."""
        return DEVICES[self.device]

    def computed_under(self, number: int) -> tuple[int, CoreOptions]:
        """Seed and schedule of the run of a launch with this number."""
        if not number:
            return self.seed, self.core
        schedule, engines = ADVERSARIES[(number - 1) % len(ADVERSARIES)]
        return self.seed + number, replace(self.core, schedule=schedule, engines=engines)

    def as_environment(self) -> dict[str, str]:
        """The variables that give the same settings."""
        return {
            CHECK: self.check.value, DEVICE: self.device, SEED: str(self.seed),
            SCHEDULES: str(self.schedules),
            POLICIES: ",".join(f"{name}={value}" for name, value in self.policies),
        }  # fmt: skip


def from_environment(environment: Mapping[str, str]) -> EmulationSettings:
    """The settings of TITAN_CHECK, TITAN_DEVICE, TITAN_SEED, TITAN_SCHEDULES, TITAN_POLICIES.

    Raises UserError for a value that is none.
    """
    found = EmulationSettings()
    check = environment.get(CHECK, found.check.value).lower()
    device = environment.get(DEVICE, found.device).lower()
    if check not in _CHECKS:
        raise UserError(_wrong(CHECK, check, ["1", *CheckMode]))
    if device not in DEVICES:
        raise UserError(_wrong(DEVICE, device, list(DEVICES)))
    numbers = []
    for name, least, default in ((SEED, 0, found.seed), (SCHEDULES, 1, found.schedules)):
        text = environment.get(name, str(default))
        if not text.isdecimal() or int(text) < least:
            raise UserError(f"{name} is {text!r}, and has to be a number from {least} on")
        numbers.append(int(text))
    texts = [text for text in environment.get(POLICIES, "").split(",") if text]
    policies = policies_of(texts) if texts else SHIPPED
    return EmulationSettings(
        _CHECKS[check], device, numbers[0], numbers[1], found.steps_max, policies
    )


def policies_of(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`SHIPPED` with those changed that texts as `fence_rule=writer` name. Raises UserError."""
    found = dict(SHIPPED)
    for text in texts:
        name, _, value = text.partition("=")
        if name not in VALUES:
            raise UserError(_wrong("a policy", name, list(VALUES)))
        if value not in VALUES[name]:
            raise UserError(_wrong(f"the policy {name}", value, list(VALUES[name])))
        found[name] = value
    return tuple(found.items())


def _wrong(name: str, value: str, known: list[str]) -> str:
    text = f"{name} is {value!r}, and has to be one of {', '.join(known)}"
    return "; ".join((text, *suggestion(value, known)))
