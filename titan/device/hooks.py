"""What the device header offers a runner: disturbance, delays, measured waits, progress of a hang.

The header compiles these parts where a macro asks for them (`-DTITAN_DISTURB` and so on); here
stand the levels of a stress run, the layout of what the parts write, and what it means. A delay is
work that a kernel does not have: it makes consumers lag behind their producer by a known amount.
Progress lies in a file that the child maps and registers with the driver, so that the parent reads
it after the child has been killed. Plain Python; source: backends/sm_90a/titan_device.cuh, "what a
runner may ask".
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from titan.codegen.tile.manifest import Manifest, ManifestRole
from titan.device.records import Progress, WaitRow, WarpProgress

DISTURB, MEASURE, PROGRESS = "TITAN_DISTURB", "TITAN_MEASURE", "TITAN_PROGRESS"
DELAY = "TITAN_DELAY"
CTAS = 8
WARPS = 32
RECORD = struct.Struct("<4I")
BASE_OFFSET = RECORD.size * CTAS * WARPS
PROGRESS_BYTES = 8192
TURNS_BYTES = 4 * CTAS * WARPS * 64
WAITED = struct.Struct("<64Q")
SPAN = struct.Struct(f"<{2 * CTAS * WARPS}Q")
ALL_WARPS = 0xFFFFFFFF
STRENGTHS = (1024, 16384)  # nanoseconds at most, for one role
# Knobs of the delay: rounds for a pair of numbers that is written, conflicting reads and rounds
# after a wait. A round of arithmetic takes about 4 cycles, a conflicting read 32, a round of
# special functions 40.
KNOBS = ("heavy-epilogue", "bank-conflicts", "instruction-stalls")
AMOUNTS = {KNOBS[0]: (16, 128, 1024), KNOBS[1]: (8, 64, 512), KNOBS[2]: (16, 128, 1024)}
ALONE = "one-cta"  # as much shared memory as a CTA may have, so that no second one fits next to it
PRODUCER = "producer"
SHARED_PER_MULTIPROCESSOR, SHARED_KEPT = 233472, 1024  # cc 9.0; kept for each CTA by the system
REGISTERS_PER_MULTIPROCESSOR, THREADS_PER_MULTIPROCESSOR = 65536, 2048
STATES = {1: "waiting", 2: "past"}
_BARRIER = re.compile(
    r"titan::u64\* const b_(\w+) = \(titan::u64\*\)\(shared \+ (\d+)\);", re.ASCII
)
_STAGES = re.compile(r"^//   (\w+) +mbarriers, (\d+) stages?,", re.M | re.ASCII)


@dataclass(frozen=True, slots=True)
class Level:
    """One way of timing: what is compiled in, which warps sleep, how long and how often.

    `knob` and `amount`: the delay of the warps that consume. `alone`: one CTA a multiprocessor.
    """

    name: str
    defines: tuple[str, ...] = ()
    warps: int = 0
    nanoseconds: int = 0
    every: int = 1
    knob: str = ""
    amount: int = 0
    alone: bool = False

    def disturbance(self, seed: int) -> tuple[int, int, int, int]:
        """The four words of `titan_disturbance`."""
        return (seed & 0xFFFFFFFF, self.warps, self.nanoseconds, max(1, self.every))

    def delay(self, manifest: Manifest) -> tuple[int, int, int, int]:
        """The four words of `titan_delay`."""
        first, second, third = (self.amount if self.knob == knob else 0 for knob in KNOBS)
        return (consumers(manifest) if self.knob else 0, first, second, third)


def levels(manifest: Manifest, source: str | None = None) -> list[Level]:
    """The kernel as it is, measured, all warps disturbed, each role or first group slow, delayed.

    With the text of the kernel: without what would change nothing in it. Kernels for AMD devices
    run as they are: their header has no hooks.
    """
    if str(manifest.get("target", "")).startswith("gfx"):
        return [Level("quiet")]
    everything = (DISTURB, DELAY, MEASURE, PROGRESS)
    found = [
        Level("quiet"),
        Level("measured", (MEASURE, PROGRESS)),
        Level("jitter", everything, ALL_WARPS, 512, 4),
        Level("storm", everything, ALL_WARPS, 8192, 2),
    ]
    for role in manifest["roles"]:
        name, warps = str(role["name"]), warps_of(role)
        found += [Level(f"slow:{name}@{most}", everything, mask(warps), most) for most in STRENGTHS]
        if len(warps) >= 8:
            found.append(Level(f"slow:{name}[0]", everything, mask(warps[:4]), STRENGTHS[-1]))
    for knob in KNOBS:
        if source is not None and not delays(knob, source):
            continue
        found += [
            Level(f"{knob}@{amount}", everything, knob=knob, amount=amount)
            for amount in AMOUNTS[knob]
        ]
    if source is None or several_fit(manifest):
        found.append(Level(ALONE, (MEASURE, PROGRESS), alone=True))
    return found


def delays(knob: str, source: str) -> bool:
    """Whether a kernel has the place where a delay is put: a wait, or numbers that are written."""
    places = (
        ("store_tile_pair", "store_matrices", "store_shared", "store_global")
        if knob == KNOBS[0]
        else ("barrier_wait",)
    )
    return any(f"titan::{place}" in source for place in places)


def several_fit(manifest: Manifest) -> bool:
    """Whether more than one CTA may be on a multiprocessor, by threads, memory and registers."""
    launch, roles = manifest["launch"], manifest["roles"]
    shared = int(launch["dynamic_shared_bytes"]) + SHARED_KEPT
    registers = sum(int(role["threads"]) * int(role.get("registers", 0)) for role in roles)
    return (
        2 * shared <= SHARED_PER_MULTIPROCESSOR
        and 2 * registers <= REGISTERS_PER_MULTIPROCESSOR
        and 2 * int(launch["block"]) <= THREADS_PER_MULTIPROCESSOR
    )


def consumers(manifest: Manifest) -> int:
    """The mask of the warps that a delay is put on: all but those of the producer."""
    roles = [role for role in manifest["roles"] if role["name"] != PRODUCER]
    return mask([warp for role in roles for warp in warps_of(role)])


def warps_of(role: ManifestRole) -> list[int]:
    """The warps that have threads of the role, by number in the CTA."""
    first, threads = int(role["first_thread"]), int(role["threads"])
    return list(range(first // 32, -(-(first + threads) // 32)))


def mask(warps: Sequence[int]) -> int:
    """One bit for each warp."""
    return sum(1 << (warp % 32) for warp in set(warps))


def role_of(manifest: Manifest, warp: int) -> str:
    """The name of the role that a warp belongs to; `none` where it belongs to none."""
    for role in manifest["roles"]:
        if warp in warps_of(role):
            return str(role["name"])
    return "none"


# ------------------------------------------------------------------------------ measured waits


def waits(manifest: Manifest, data: bytes, delay: bytes | None = None) -> list[WaitRow]:
    """What each role waited at barriers, over all CTAs: cycles, waits, cycles of one wait.

    The waits of a producer are its acquires. With `delay`, what came on top after a wait.
    """
    words = WAITED.unpack(data)
    more = WAITED.unpack(delay) if delay is not None else (0,) * 64
    found: list[WaitRow] = []
    for role in manifest["roles"]:
        places = [2 * (warp % 32) for warp in warps_of(role)]
        cycles, count = sum(words[at] for at in places), sum(words[at + 1] for at in places)
        each = round(cycles / count, 1) if count else None
        name = str(role["name"])
        row: WaitRow = {"role": name, "cycles": cycles, "waits": count, "cycles_each": each}
        if delay is not None:
            row["delay_cycles"] = sum(more[at] for at in places)
            row["delays"] = sum(more[at + 1] for at in places)
        found.append(row)
    return found


def longest_span(data: bytes) -> int:
    """Cycles from the first wait of a CTA to the end of its last one, of the slowest CTA seen."""
    words = SPAN.unpack(data)
    spans = []
    for cta in range(CTAS):
        pairs = [(words[2 * n], words[2 * n + 1]) for n in range(WARPS * cta, WARPS * (cta + 1))]
        known = [(begun, ended) for begun, ended in pairs if begun]
        if known:
            spans.append(max(ended for _, ended in known) - min(begun for begun, _ in known))
    return max(spans, default=0)


# ------------------------------------------------------------------------------------ progress


def barriers(source: str) -> dict[int, tuple[str, int]]:
    """Of each barrier's byte offset in shared memory: its name and stage, by the kernel's text."""
    stages = {name: int(count) for name, count in _STAGES.findall(source)}
    return {
        int(offset) + 8 * stage: (name, stage)
        for name, offset in _BARRIER.findall(source)
        for stage in range(stages.get(name, 1))
    }


def new_progress() -> Path:
    """A file of zeros for a child's records, in shared memory where the system has it."""
    place = Path("/dev/shm")
    with tempfile.NamedTemporaryFile(
        prefix="titan-progress-", dir=place if place.is_dir() else None, delete=False
    ) as file:
        file.write(bytes(PROGRESS_BYTES))
    return Path(file.name)


def read_progress(path: Path, manifest: Manifest, source: str, most: int = 16) -> Progress:
    """Where the warps were last seen; the ones that still wait first. Empty without records."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    if len(data) < PROGRESS_BYTES:
        return {}
    known = barriers(source)
    (base,) = struct.unpack_from("<I", data, BASE_OFFSET)
    seen: list[WarpProgress] = []
    for number in range(CTAS * WARPS):
        state, address, parity, turn = RECORD.unpack_from(data, RECORD.size * number)
        if state not in STATES:
            continue
        warp = number % WARPS
        name, stage = known.get(address - base, (f"shared byte {address - base}", 0))
        seen.append(
            {
                "cta": number // WARPS, "warp": warp, "role": role_of(manifest, warp),
                "state": STATES[state], "barrier": name, "stage": stage, "parity": parity,
                "turn": turn,
            }
        )  # fmt: skip
    seen.sort(key=lambda row: (row["state"] != "waiting", row["cta"], row["warp"]))
    return {"warps": seen[:most], "more": max(0, len(seen) - most)} if seen else {}


def describe(progress: Progress) -> str:
    """`producer waits at ring_a_empty[2], parity 1, after 3 waits there; ...`, each once."""
    texts: dict[str, int] = {}
    for row in progress.get("warps", ()):
        verb = "waits at" if row["state"] == "waiting" else "is past"
        text = (
            f"{row['role']} {verb} {row['barrier']}[{row['stage']}], parity {row['parity']}, "
            f"after {row['turn']} waits there"
        )
        texts[text] = texts.get(text, 0) + 1
    return "; ".join(f"{text} ({n} warps)" if n > 1 else text for text, n in texts.items())
