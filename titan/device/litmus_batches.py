"""Batches of one rendered litmus test, whatever runs them: a GPU or the emulated device.

Batches differ in seed, delays and placement; each placement is compiled once, when it is first
asked for. One batch of each is always run, more as long as the time lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from titan.device.litmus_plan import PLACEMENTS, NotRun, Placement, placements_of
from titan.device.manifests import LitmusManifest
from titan.device.records import BatchCounts, Job


class BulkTest(Protocol):
    """One compiled test with its memory."""

    def batch(self, seed: int, number: int) -> BatchCounts:
        """One round: prepare, run, collect."""


@dataclass(frozen=True, slots=True)
class BatchRunner:
    """What a back end can do: set-up steps, placements, and the batches that are always run.

    `lacking` says what a step that is not supported has not: `has no host code`.
    """

    supported: tuple[str, ...]
    lacking: str
    most: int
    placements: tuple[tuple[int, int, int], ...] = PLACEMENTS
    least: int | None = None  # None: as many as there are placements

    def check(self, manifest: LitmusManifest) -> None:
        """Raises NotRun for a test whose set-up is not supported."""
        missing = [step["step"] for step in manifest["setup"] if step["step"] not in self.supported]
        if missing:
            raise NotRun(f"set-up by `{missing[0]}` {self.lacking}")

    def batches(
        self, manifest: LitmusManifest, job: Job, open_test: Callable[[Mapping[str, int]], BulkTest]
    ) -> Iterator[BatchCounts]:
        """Counts of batches as long as the time lasts.

        The job has `seconds`, `seed`; `most`: placements that are tried, for each has to be
        compiled; `only`: the number of the one batch that is run, as often as the time lasts.
        Raises NotRun.
        """
        self.check(manifest)
        seconds, seed, only = job["seconds"], job["seed"], job.get("only")
        most = min(job.get("most", self.most), self.most)
        placements = placements_of(manifest, most, self.placements)
        least = 1 if only is not None else (self.least or len(placements))
        tests: dict[Placement, BulkTest] = {}
        started = time.monotonic()
        done = 0
        while done < least or time.monotonic() - started < seconds:
            number = done if only is None else int(only)
            options = placements[number % len(placements)]
            if options not in tests:
                tests[options] = open_test(dict(options))
            batch = tests[options].batch(seed + number, number)
            batch["number"], batch["options"] = number, dict(options)
            yield batch
            done += 1
