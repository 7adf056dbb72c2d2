"""The state of a sync program as Promela variables, and the steps of its engines.

Memory is one array of cells, mbarriers of all stages are one array, and so on. The operations in
flight lies in lanes: one for every agent and queue (and one for what an agent issues without a
queue), each a row of `capacity` slots in the order of issue. A slot holds a flight (kind 1 a
transfer, kind 2 an arrival that waits for its turn) or the mark of a commit (kind 3). Effects of a
flight are intervals of cells; bit 0 of their flags says that they write, bit 1 that they use the
generic proxy, the bits above hold one more than the CTA that owns the memory (0: none).
"""

from __future__ import annotations

from titan.engines.spin.names import (
    comment_text,
)
from titan.engines.spin.promela_layout import (
    OUT_OF_CAPACITY,
    TRANSACTION_MAX,
    PromelaLayout,
    fail,
    indent,
    number_of,
    when_sound,
)
from titan.engines.spin.promela_marks import Marks
from titan.sync.fault import FaultKind
from titan.sync.parts import peer_commits


class PromelaState:
    """Declarations, first values, and everything that concerns flights."""

    def __init__(self, layout: PromelaLayout, marks: Marks) -> None:
        self.layout, self.p, self.marks = layout, layout.prefix, marks

    def declarations(self) -> list[str]:
        """Promela declarations of all global variables, only for what the program has."""
        layout, p = self.layout, self.p
        lines = []
        for agent in layout.agents:
            lines.append(f"short {agent.pc}; /* {comment_text(agent.role.name)} */")
            lines += [f"int {name};" for name in agent.scope.variables.values()]
        barriers = layout.barrier_base[""]
        if barriers:
            lines.append(f"byte {p}status[{barriers}]; byte {p}owner[{barriers}];")
            lines.append(f"byte {p}observed[{barriers}];")
            names = ("expected", "pending", "bytes", "phase", "tokens", "keys")
            lines += [f"int {p}{name}[{barriers}];" for name in names]
        named = layout.named_base[""]
        if named:
            for name in ("arrived", "threads", "passed", "blocked", "armed"):
                lines.append(f"int {p}{name}[{named}];")
        if layout.cells:
            lines += [
                f"int {p}{name}[{layout.cells}];" for name in ("tile", "writers", "readers", "map")
            ]
            lines += self.marks.declarations()
        if layout.pools:
            lines.append(f"int {p}pool[{len(layout.pools)}];")
        if layout.lanes:
            lines += self._flight_declarations()
        return lines

    def _flight_declarations(self) -> list[str]:
        layout, p = self.layout, self.p
        n, lanes = layout.slots, len(layout.lanes)
        effects, completions = n * layout.effects_max, n * layout.completions_max
        lines = [f"byte {p}{name}[{n}];" for name in ("kind", "reading", "chunks", "chunked")]
        lines += [f"short {p}{name}[{effects}];" for name in ("low", "length", "flags")]
        lines += [f"int {p}held[{effects}]; short {p}reduces[{effects}];"]
        lines += [f"byte {p}target[{completions}]; int {p}share[{completions}];"]
        # Used slots; slots that may finish; unfinished groups; groups still read; first that reads
        names = ("used", "closed", "undone", "unread", "first")
        lines += [f"byte {p}{name}[{lanes}];" for name in names]
        lines += [f"byte {p}chosen; byte {p}reads;"]
        return lines + self._recounts() + self._shift()

    def first(self) -> str:
        """Assignments that make the first state."""
        layout, p, lines = self.layout, self.p, []
        for agent in layout.agents:
            for name, variable in agent.scope.variables.items():
                value = agent.scope.first.get(name, 0)
                lines += [f"{variable} = {value};"] if value else []
        for barrier in layout.program.barriers:
            for stage in range(barrier.stages):
                at = layout.barrier_base[barrier.name] + stage
                lines.append(f"{p}status[{at}] = {2 if barrier.initialised else 0};")
                lines.append(f"{p}owner[{at}] = NONE; {p}observed[{at}] = 1;")
                lines.append(f"{p}expected[{at}] = {barrier.count};")
                lines.append(f"{p}pending[{at}] = {barrier.count};")
        for cell, content in self._first_tiles().items():
            lines.append(f"{p}tile[{cell}] = {'UNDEFINED' if content is None else content};")
        for pool in layout.program.pools:
            lines.append(f"{p}pool[{layout.pools[pool.name]}] = {pool.available};")
        lines += [f"{p}first[{lane}] = NONE;" for lane in layout.lanes.values()]
        return " ".join(lines)

    def _first_tiles(self) -> dict[int, int | None]:
        tiles: dict[int, int | None] = {cell: None for cell in range(self.layout.cells)}
        for buffer in self.layout.program.buffers:
            if buffer.initial is not None:
                start = self.layout.storage_base[buffer.storage or buffer.name] + buffer.offset
                for unit in range(buffer.stages * buffer.parts * buffer.units):
                    tiles[start + unit] = buffer.initial
        return tiles

    # ----------------------------------------------------------------------------- lanes

    def _recounts(self) -> list[str]:
        """One inline a lane: its derived numbers from its slots."""
        lines = []
        for (_, queue), lane in self.layout.lanes.items():
            grouped = queue is not None and self.layout.queues[queue].grouped
            ordered = queue is not None and self.layout.queues[queue].ordered
            lines += [f"inline {self.p}recount_{lane}() {{"]
            lines += indent(self._recount(lane, grouped, ordered))
            lines += ["}"]
        return lines

    def _recount(self, lane: int, grouped: bool, ordered: bool) -> list[str]:
        """In `grouped` lanes a group ends at a mark; in others each slot is a group of its own.

        What an arrival stands behind may finish before its group ends.
        """
        p, base = self.p, lane * self.layout.capacity
        mark, used = f"{p}kind[{base} + i] == 3", f"{p}used[{lane}]"
        undone, unread, closed = f"{p}undone[{lane}]", f"{p}unread[{lane}]", f"{p}closed[{lane}]"
        lines = [f"{undone} = 0; {unread} = 0; {p}first[{lane}] = NONE;"]
        lines += [f"{closed} = {'0' if grouped else used};"]
        if grouped:
            arrival = f"{p}kind[{base} + i] == 2"
            ends = f"if :: {mark} || {arrival} -> {closed} = i + 1 :: else fi"
            lines += [f"for (i : 0 .. {used} - 1) {{ {ends} }};"]
        reads = f"{p}reading[{base} + i] == 1"
        lines += ["j = 0; k = 0; /* whether an unfinished group, one still read, was met */"]
        lines += [f"for (i : 0 .. {closed} - 1) {{"]
        lines += [f"  if :: !({mark}) -> j = 1; if :: {reads} -> k = 1 :: else fi :: else fi;"]
        first = f"{p}first[{lane}]"
        lines += [f"  if :: {reads} && {first} == NONE -> {first} = i :: else fi;"]
        group_ends = mark if grouped else "true"
        forget = "" if ordered else " j = 0; k = 0;"
        count = f"{undone} = {undone} + j; {unread} = {unread} + k;{forget}"
        lines += [f"  if :: {group_ends} -> {count} :: else fi", "};", "i = 0; j = 0; k = 0"]
        return lines

    def _shift(self) -> list[str]:
        """`drop_slot(base, end)`: remove slot `slot`, moving those behind it one up."""
        layout, p = self.layout, self.p
        one = ["kind", "reading", "chunks", "chunked"]
        lines = [f"inline {p}clear_slot() {{"]
        lines += [f"  {p}{name}[slot] = 0;" for name in one]
        for names, size in self._wide():
            for j in range(size):
                lines += [f"  {p}{name}[slot * {size} + {j}] = 0;" for name in names]
        lines += ["  skip", "}", f"inline {p}drop_slot(last) {{", "  do", "  :: slot < last ->"]
        lines += [f"    {p}{name}[slot] = {p}{name}[slot + 1];" for name in one]
        for names, size in self._wide():
            for j in range(size):
                here, there = f"slot * {size} + {j}", f"(slot + 1) * {size} + {j}"
                lines += [f"    {p}{name}[{here}] = {p}{name}[{there}];" for name in names]
        lines += ["    slot = slot + 1", "  :: else -> break", "  od;", f"  {p}clear_slot()", "}"]
        return lines if layout.lanes else []

    def _wide(self) -> list[tuple[tuple[str, ...], int]]:
        effects = (("low", "length", "flags", "held", "reduces"), self.layout.effects_max)
        return [effects, (("target", "share"), self.layout.completions_max)]

    def append(self, lane: int, kind: int, filling: list[str]) -> list[str]:
        """Put something at the end of the lane; `filling` sets the fields of slot `slot`."""
        p, capacity = self.p, self.layout.capacity
        used = f"{p}used[{lane}]"
        lines = [fail(f"{used} == {capacity}", OUT_OF_CAPACITY)]
        body = [f"slot = {lane * capacity} + {used};", f"{p}kind[slot] = {kind};", *filling]
        body += [f"{used} = {used} + 1;", f"{p}recount_{lane}(); slot = 0"]
        return [*lines, when_sound(*body)]

    # --------------------------------------------------------------------------- engines

    def engine_choices(self) -> list[tuple[str, str, bool]]:
        """(guard, slot, whether only the reads end) for everything that an engine may do."""
        choices = []
        for (_, queue), lane in self.layout.lanes.items():
            base = lane * self.layout.capacity
            split = queue in self.layout.split_reads
            ordered = queue is not None and self.layout.queues[queue].ordered
            reading, closed = f"{self.p}reading[{base}]", f"{self.p}closed[{lane}]"
            first = f"{self.p}first[{lane}]"
            if ordered:
                done = f"{closed} > 0 && {reading} == 0" if split else f"{closed} > 0"
                choices.append((done, str(base), False))
                if split:
                    choices.append((f"{first} != NONE", f"{base} + {first}", True))
                continue
            for slot in range(self.layout.capacity):
                there = f"{closed} > {slot} && {self.p}kind[{base + slot}] != 3"
                reads = f"{self.p}reading[{base + slot}]"
                if split:
                    choices.append((f"{there} && {reads} == 1", str(base + slot), True))
                    there = f"{there} && {reads} == 0"
                choices.append((there, str(base + slot), False))
        return choices

    def finish(self) -> list[str]:
        """Engine step on slot `chosen`."""
        p, layout = self.p, self.layout
        lines = [f"slot = {p}chosen;", "if", f":: {p}reads == 1 ->"]
        lines += indent(self._reads_over())
        lines += [f"  {p}reading[slot] = 0"]
        lines += [":: else ->", *indent(self._effects_of_finish())]
        for j in range(layout.completions_max):
            lines += indent(self._complete(f"slot * {layout.completions_max} + {j}"))
        lines += ["fi;", "if"]
        for (_, queue), lane in layout.lanes.items():
            base = lane * layout.capacity
            here = f"fault == 0 && {p}chosen >= {base} && {p}chosen < {base + layout.capacity}"
            last = (
                f"{p}drop_slot({base + layout.capacity - 1}); {p}used[{lane}] = {p}used[{lane}] - 1"
            )
            shrink = f"if :: {p}reads == 1 -> skip :: {p}reads == 0 && {p}chunks[slot] > 1 -> "
            shrink += f"{p}chunks[slot] = {p}chunks[slot] - 1 :: else -> {last}; "
            shrink += f"{' '.join(self._tidy(lane, queue))} skip fi"
            lines.append(f":: {here} -> {shrink}; {p}recount_{lane}()")
        return [*lines, ":: else", "fi; slot = 0;"]

    def _effects_of_finish(self) -> list[str]:
        p, size = self.p, self.layout.effects_max
        if not self.layout.cells:
            return ["skip;"]
        bit = self.layout.engine_bit
        at = f"slot * {size} + j"
        kept = f"({p}reduces[{at}] == 0 -> {p}held[{at}] : {p}tile[c])"
        write = f"{p}tile[c] = {kept}"
        generic = f"{p}writers[c] = {p}writers[c] | {bit}; {self.written_map(bit)}"
        wrote, read = f"{self.marks.outside(True)} skip", f"{self.marks.outside(False)} skip"
        return [
            f"if :: {p}chunks[slot] == 1 -> for (j : 0 .. {size - 1}) {{",
            f"  for (c : {p}low[{at}] .. {p}low[{at}] + {p}length[{at}] - 1) {{",
            f"    if :: ({p}flags[{at}] & 3) == 3 -> {write}; {generic}; {wrote}",
            f"       :: ({p}flags[{at}] & 3) == 1 -> {write}; {self.written_map(bit)}; {wrote}",
            f"       :: ({p}flags[{at}] & 3) == 2 -> {p}readers[c] = {p}readers[c] | {bit}; {read}",
            f"       :: ({p}flags[{at}] & 3) == 0 && {p}reading[slot] == 1 -> {read}",
            "       :: else fi } }",
            ":: else fi; j = 0; c = 0;",
        ]

    def _reads_over(self) -> list[str]:
        """Reads through other proxies are over: their completion has its implicit fence."""
        if not self.marks.cached:
            return []
        p, size = self.p, self.layout.effects_max
        at = f"slot * {size} + j"
        cells = f"for (c : {p}low[{at}] .. {p}low[{at}] + {p}length[{at}] - 1)"
        inner = f"if :: ({p}flags[{at}] & 3) == 0 -> {self.marks.outside(False)} skip :: else fi"
        return [f"for (j : 0 .. {size - 1}) {{ {cells} {{ {inner} }} }}; j = 0; c = 0;"]

    def written_map(self, bit: int) -> str:
        """Whoever has written cell `c` has to release it for the tensor map proxy."""
        at = f"{self.p}map[c]"
        return f"{at} = ({at} == RELEASED -> {bit} : {at} | {bit})"

    def _complete(self, at: str) -> list[str]:
        """The completion of the flight in `slot`: bytes or arrivals; `target` is one more."""
        p = self.p
        if not self.layout.barrier_base[""]:
            return []
        lines = [f"barrier = {p}target[{at}] - 1;", "if :: fault == 0 && barrier >= 0 ->"]
        inner = [
            fail(f"{p}status[barrier] == 0", FaultKind.BARRIER_UNINITIALISED),
            fail(f"{p}status[barrier] == 1", FaultKind.UNPUBLISHED_INIT),
        ]
        inner += [fail(self.barrier_home_ended(), FaultKind.LEAK_AT_EXIT)]
        total, share = f"{p}chunked[slot]", f"{p}share[{at}]"
        even = f"FLOOR_DIV({share}, {total})"
        rest = f"({share} - {even} * ({total} - 1))"
        inner += [f"if :: {p}kind[slot] == 2 -> count = {share}; size = 0"]
        inner += [f":: else -> count = 0; size = 0 - ({p}chunks[slot] == 1 -> {rest} : {even}) fi;"]
        inner += [fail(f"{p}kind[slot] == 2 && {self.over_arrival()}", FaultKind.OVER_ARRIVAL)]
        inner += [
            fail(f"{p}kind[slot] == 2 && {self.unobserved()}", FaultKind.UNOBSERVED_PHASE),
            *self.set_barrier(),
        ]
        return [*lines, *indent(inner), "  skip", ":: else fi; barrier = 0; count = 0; size = 0;"]

    def barrier_home_ended(self) -> str:
        """Condition: the CTA of mbarrier `barrier` has ended."""
        conditions = []
        for barrier in self.layout.program.barriers:
            base = self.layout.barrier_base[barrier.name]
            inside = f"barrier >= {base} && barrier < {base + barrier.stages}"
            conditions.append(f"({inside} && {self.layout.ended(barrier.cta)})")
        return " || ".join(conditions) or "false"

    def over_arrival(self) -> str:
        """Condition: more arrivals than the phase awaits, or more dropped than take part."""
        p = self.p
        return f"(count < 0 || count > {p}pending[barrier] || {p}expected[barrier] < 0)"

    def unobserved(self) -> str:
        """Condition: an arrival, and no wait has passed for the phase before."""
        if self.layout.program.policies.unobserved_phase == "allow":
            return "false"
        return f"(count != 0 && {self.p}observed[barrier] == 0)"

    def _observed_of_a_new_phase(self) -> str:
        """Without the rule of waits only barriers at which a peer's engines arrive are asked."""
        if self.layout.program.policies.unobserved_phase != "allow":
            return "0"
        watched = []
        for barrier in self.layout.program.barriers:
            if barrier.name in peer_commits(self.layout.program):
                base = self.layout.barrier_base[barrier.name]
                watched.append(f"(barrier >= {base} && barrier < {base + barrier.stages})")
        return f"(({' || '.join(watched)}) -> 0 : 1)" if watched else "1"

    def set_barrier(self) -> list[str]:
        """mbarrier `barrier` after `count` arrivals and `size` more bytes outstanding."""
        p = self.p
        outstanding, pending = f"{p}bytes[barrier]", f"{p}pending[barrier]"
        observed = self._observed_of_a_new_phase()
        beyond = f"{outstanding} > {TRANSACTION_MAX} || {outstanding} < 0 - {TRANSACTION_MAX}"
        turn = f"{pending} = {p}expected[barrier]; {p}phase[barrier] = {p}phase[barrier] + 1"
        return [
            when_sound(f"{pending} = {pending} - count; {outstanding} = {outstanding} + size"),
            fail(beyond, FaultKind.TRANSACTION_MISMATCH),
            fail(f"{pending} == 0 && {outstanding} < 0", FaultKind.TRANSACTION_MISMATCH),
            f"if :: fault == 0 && {pending} == 0 && {outstanding} == 0 -> {turn}; "
            f"{p}keys[barrier] = {p}tokens[barrier]; {p}tokens[barrier] = 0; "
            f"{p}observed[barrier] = {observed} :: else fi;",
        ]

    def _tidy(self, lane: int, queue: str | None) -> list[str]:
        """Take out marks of groups that count no more, after a flight of the lane has finished."""
        if queue is None:
            return []
        p, declared = self.p, self.layout.queues[queue]
        base, last = lane * self.layout.capacity, (lane + 1) * self.layout.capacity - 1
        used = f"{p}used[{lane}]"
        drop = f"{p}drop_slot({last}); {used} = {used} - 1"
        if declared.ordered:
            leading = f"{p}kind[{base}] == 3"
            return [f"do :: {leading} -> slot = {base}; {drop} :: else -> break od;"]
        before = f"(k == {base} || {p}kind[k - 1] == 3)" if declared.grouped else "true"
        return [
            f"k = {base};",
            f"do :: k >= {base} + {used} -> break",
            f":: k < {base} + {used} && {p}kind[k] == 3 && {before} -> slot = k; {drop}",
            ":: else -> k = k + 1 od; k = 0;",
        ]

    def exit_check(self) -> list[str]:
        """Nothing in flight may touch the memory, or complete on a barrier, of an ended CTA."""
        layout, p = self.layout, self.p
        if layout.program.policies.exit_in_flight == "allow" or not layout.lanes:
            return []
        ctas = sorted({agent.role.cta for agent in layout.agents})
        leak = number_of(FaultKind.LEAK_AT_EXIT)
        lines = []
        for cta in ctas:
            effect = f"m * {layout.effects_max} + j"
            home = f"({p}flags[{effect}] >> 7) == {cta + 1} && {p}length[{effect}] > 0"
            used = f"(({p}flags[{effect}] & 1) == 1 || {p}reading[m] == 1)"
            check = f"if :: {home} && {used} -> fault = {leak} :: else fi"
            scan = f"for (j : 0 .. {layout.effects_max - 1}) {{ {check} }};"
            for barrier in layout.program.barriers:
                base = layout.barrier_base[barrier.name] + 1
                if barrier.cta == cta:
                    for j in range(layout.completions_max):
                        target = f"{p}target[m * {layout.completions_max} + {j}]"
                        inside = f"{target} >= {base} && {target} < {base + barrier.stages}"
                        scan += f" if :: {inside} -> fault = {leak} :: else fi;"
            body = f"for (m : 0 .. {layout.slots - 1}) {{ {scan} skip }}; m = 0; j = 0"
            lines.append(f"if :: fault == 0 && {layout.ended(cta)} -> {body} :: else fi;")
            lines += self._waited_at_exit(cta, leak)
        return lines

    def _waited_at_exit(self, cta: int, leak: int) -> list[str]:
        """A CTA has waited for the last phase of barriers at which a peer's engines arrive."""
        layout, p, lines = self.layout, self.p, []
        for barrier in layout.program.barriers:
            if barrier.cta != cta or barrier.name not in peer_commits(layout.program):
                continue
            base = layout.barrier_base[barrier.name]
            for at in range(base, base + barrier.stages):
                waited = f"{p}observed[{at}] == 1 && {p}pending[{at}] == {p}expected[{at}]"
                late = f"{layout.ended(cta)} && {p}status[{at}] != 0 && !({waited})"
                lines.append(f"if :: fault == 0 && {late} -> fault = {leak} :: else fi;")
        return lines
