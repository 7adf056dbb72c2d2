"""The modulo reservation table: rows of counts, probe before commit.

A pooled row is a unit; a fractional pool is counted over its window. The warps of a group are a
resource too: an operation that waits may not start while another of its group is being issued.
"""

from __future__ import annotations

from typing import NamedTuple

from titan.scheduling.problem import Problem


class SeatConflict(NamedTuple):
    """What rejected a seat: the unit, pool or group, the modulo row, and what the row holds."""

    what: str
    row: int
    held: int
    limit: int
    skip: int


class ReservationTable:
    """Reservations of one candidate interval; `probe` changes nothing.

    Beside the counts a bit mask is kept for each unit and amount: the rows where that amount no
    longer fits. A probe is a few operations on these masks, however many cycles it covers.
    """

    def __init__(self, problem: Problem, ii: int) -> None:
        self.problem = problem
        self.ii = ii
        self.probes = 0  # seats that were examined
        self.all_rows = (1 << ii) - 1
        self.rows = [[0] * ii for _ in problem.capacity]
        groups = max(problem.teams, default=-1) + 1
        self.issuing = [[0] * ii for _ in range(groups)]
        self.waiting = [[0] * ii for _ in range(groups)]
        self.waiting_mask = [0] * groups
        self.full: list[dict[int, int]] = [{} for _ in problem.capacity]
        for blocks in problem.blocks:
            for unit, _, cycles, amount in blocks:
                whole, rest = divmod(cycles, ii)
                if whole:
                    self.full[unit][amount * whole] = 0
                if rest:
                    self.full[unit][amount * (whole + 1)] = 0
        for unit, masks in enumerate(self.full):
            for amount in masks:
                if amount > problem.capacity[unit]:
                    masks[amount] = self.all_rows

    def _last_set(self, mask: int, first: int, count: int) -> int:
        """The last of `count` rows from `first` (around the end) in the mask; -1 for none."""
        turned = (mask >> first) | (mask << (self.ii - first))
        return (turned & ((1 << count) - 1)).bit_length() - 1

    def probe(self, operation: int, start: int) -> SeatConflict | None:
        """None when the operation fits at `start`; `skip` cycles further on it may fit."""
        ii, problem = self.ii, self.problem
        self.probes += 1
        for unit, first, cycles, amount in problem.blocks[operation]:
            whole, rest = divmod(cycles, ii)
            if whole and (blocked := self.full[unit][amount * whole]):
                return self._conflict(unit, blocked.bit_length() - 1, ii)
            if not rest:
                continue
            base = (start + first) % ii
            k = self._last_set(self.full[unit][amount * (whole + 1)], base, rest)
            if k >= 0:
                return self._conflict(unit, (base + k) % ii, k + 1)
        found = self._probe_warps(operation, start)
        return found or self._probe_fractional(operation, start)

    def blocked(self, operation: int) -> int:
        """The rows at which the operation may not start, as a mask; fractional pools are left
        out. Where a bit is 0 and there are no such pools, `probe` finds nothing."""
        ii, problem = self.ii, self.problem
        found = 0
        for unit, first, cycles, amount in problem.blocks[operation]:
            whole, rest = divmod(cycles, ii)
            if whole and self.full[unit][amount * whole]:
                return self.all_rows
            if rest:
                found |= self._reaching(self.full[unit][amount * (whole + 1)], first % ii, rest)
        team = problem.teams[operation]
        if team >= 0:
            if problem.waits[operation]:
                found |= sum(1 << row for row, held in enumerate(self.issuing[team]) if held)
            window = min(problem.windows[operation], ii)
            found |= self._reaching(self.waiting_mask[team], 0, window)
        return found

    def _reaching(self, mask: int, first: int, count: int) -> int:
        """The rows from which one of `count` rows, beginning `first` rows on, is in the mask."""
        if not mask or not count:
            return 0
        found, done = self._turned(mask, first), 1
        while done < count:
            step = min(done, count - done)
            found |= self._turned(found, step)
            done += step
        return found

    def _turned(self, mask: int, rows: int) -> int:
        """The mask with row `rows` as its first one."""
        return ((mask >> rows) | (mask << (self.ii - rows))) & self.all_rows

    def _conflict(self, unit: int, row: int, skip: int) -> SeatConflict:
        problem = self.problem
        return SeatConflict(
            problem.units[unit], row, self.rows[unit][row], problem.capacity[unit], skip
        )

    def _probe_warps(self, operation: int, start: int) -> SeatConflict | None:
        team = self.problem.teams[operation]
        if team < 0:
            return None
        base = start % self.ii
        if self.problem.waits[operation] and self.issuing[team][base]:
            held = self.issuing[team][base]
            return SeatConflict(f"warp group {team} is issuing", base, held, 0, 1)
        window = min(self.problem.windows[operation], self.ii)
        k = self._last_set(self.waiting_mask[team], base, window)
        if k < 0:
            return None
        row = (base + k) % self.ii
        return SeatConflict(f"warp group {team} waits", row, self.waiting[team][row], 0, k + 1)

    def _probe_fractional(self, operation: int, start: int) -> SeatConflict | None:
        for pool in self.problem.fractional:
            if not any(unit in pool.weights for unit, *_ in self.problem.blocks[operation]):
                continue
            self.commit(operation, start)
            found = self._fullest_window(pool.weights, pool.window, pool.amount)
            self.remove(operation, start)
            if found is not None:
                return SeatConflict(f"pool {pool.name}", found[0], found[1], pool.amount, 1)
        return None

    def _fullest_window(
        self, weights: dict[int, int], window: int, amount: int
    ) -> tuple[int, int] | None:
        """First row of a window that holds more than `amount`, and what it holds."""
        ii = self.ii
        sums = [sum(w * self.rows[unit][row] for unit, w in weights.items()) for row in range(ii)]
        whole, rest = divmod(window, ii)
        total = whole * sum(sums) + sum(sums[:rest])
        for row in range(ii):
            if total > amount:
                return row, total
            if rest:
                total += sums[(row + rest) % ii] - sums[row]
        return None

    def commit(self, operation: int, start: int) -> None:
        """Reserve what the operation takes from `start` on; it must fit."""
        self._change(operation, start, 1)

    def remove(self, operation: int, start: int) -> None:
        """Take back what `commit` reserved."""
        self._change(operation, start, -1)

    def _change(self, operation: int, start: int, sign: int) -> None:
        ii = self.ii
        for unit, first, cycles, amount in self.problem.blocks[operation]:
            rows = self.rows[unit]
            touched = [(start + first + k) % ii for k in range(cycles)]
            for row in touched:
                rows[row] += sign * amount
            self._refresh(unit, touched)
        team = self.problem.teams[operation]
        if team >= 0:
            row = start % ii
            if self.problem.waits[operation]:
                self.waiting[team][row] += sign
                bit = 1 << row
                if self.waiting[team][row]:
                    self.waiting_mask[team] |= bit
                else:
                    self.waiting_mask[team] &= ~bit
            for k in range(min(self.problem.windows[operation], ii)):
                self.issuing[team][(start + k) % ii] += sign

    def _refresh(self, unit: int, touched: list[int]) -> None:
        """The masks of a unit after some of its rows have changed."""
        rows, capacity = self.rows[unit], self.problem.capacity[unit]
        for amount, old in self.full[unit].items():
            mask = old
            for row in touched:
                if rows[row] + amount > capacity:
                    mask |= 1 << row
                else:
                    mask &= ~(1 << row)
            self.full[unit][amount] = mask

    def collide(self, v: int, tv: int, w: int, tw: int) -> bool:
        """Would v at tv and w at tw share a row of a unit, or a waiting start? Pools count too."""
        ii, problem = self.ii, self.problem
        pooled = [pool.weights for pool in problem.fractional]
        for unit, first, cycles, _ in problem.blocks[v]:
            for other, first_w, cycles_w, _ in problem.blocks[w]:
                if any(unit in weights and other in weights for weights in pooled):
                    return True
                if unit != other:
                    continue
                a, b = tv + first, tw + first_w
                if (b - a) % ii < cycles or (a - b) % ii < cycles_w:
                    return True
        if problem.teams[v] < 0 or problem.teams[v] != problem.teams[w]:
            return False
        if problem.waits[v] and (tv - tw) % ii < problem.windows[w]:
            return True
        return problem.waits[w] and (tw - tv) % ii < problem.windows[v]
