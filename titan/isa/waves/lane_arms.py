"""Numbers of what lanes compute (`lane_values.py`) where arms whose lanes data choose are skipped.

No number is followed through arms: what they write, in registers or in memory, equals nothing else
behind them.
"""

from __future__ import annotations

import numpy as np

from titan.isa.simt.footprints import MemorySpace
from titan.isa.waves.events import OperationIssued
from titan.isa.waves.lane_values import LaneValues
from titan.isa.waves.skipped_lanes import SkippedArms
from titan.isa.waves.state import LANES, Wave


class ArmsValues(LaneValues):
    """The numbers of one run with arms."""

    def skipped(self, wave: Wave, arms: SkippedArms, begun: int) -> None:
        """Arms whose lanes data choose have been skipped: what they have written is of no number
        that is known."""
        rows = self._all_rows(wave)
        for register in arms.vectors:
            rows[register] = self._own(LANES)
        for register in arms.scalars:
            self._set_scalar(wave, register, self._own(1)[0])
        self._condition[wave.number] = self._own(1)[0]
        for event in self.group.events[begun:]:
            for use in event.uses if isinstance(event, OperationIssued) else ():
                if not (use.write or use.atomic):
                    continue
                if use.footprint.space is not MemorySpace.SHARED:
                    self._written.append(use.footprint.bounds)
                    continue
                for low, high in use.footprint.ranges():
                    self._put(np.arange(low, high), None)
