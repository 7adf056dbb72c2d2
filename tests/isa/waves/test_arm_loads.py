"""Accesses and waits in arms that data choose, against runs of given data and another count."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from tests.isa.waves.test_skipped_lanes import HEAD, SOURCE, loop_of, machine
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.events import CounterWait, OperationIssued, PendingRegister, WaveQueue

REGISTERS = range(20, 60)
LOADS = (
    "global_load_dword v{r}, v2, s[4:5] offset:{o}", "ds_read_b32 v{r}, v2 offset:{o}",
    "buffer_load_dword v{r}, v2, s[40:43], 0 offen",
)  # fmt: skip
STORES = (
    "global_store_dword v2, v{}, s[4:5]", "ds_write_b32 v2, v{}", "ds_add_u32 v2, v{}",
    "global_atomic_add v2, v{}, s[4:5]",
)  # fmt: skip
BEGIN = f"{HEAD}s_mov_b32 s40, s4\ns_mov_b32 s41, s5\ns_movk_i32 s42, 0x200\ns_mov_b32 s43, 0\n"
BEGIN += "s_load_dword s47, s[4:5], 0x0\ns_load_dword s48, s[4:5], 0x100\ns_waitcnt lgkmcnt(0)\n"
BEGIN += "".join(f"v_mov_b32_e32 v{register}, 1\n" for register in REGISTERS)


class Program:
    """Conditions over data with loads, waits that may be too weak, and uses."""

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.labels = 0
        self.registers = iter(REGISTERS)
        self.loaded: list[int] = []
        self.apart = ""  # blocks behind the end of the kernel

    def line(self) -> str:
        """A load to a register of its own, a wait, or a use of what was loaded."""
        choose, roll = self.chooser.choice, self.chooser.random()
        if roll < 0.5 or not self.loaded:
            again = self.loaded and self.chooser.random() < 0.1
            self.loaded.append(choose(self.loaded) if again else next(self.registers))
            line = self.chooser.choices(LOADS, (6, 2, 2))[0]
            return line.format(r=self.loaded[-1], o=choose((0, 4, 8)))
        if roll < 0.55:
            return choose(STORES).format(choose((5, *self.loaded)))
        if roll < 0.58:
            return "s_load_dword s44, s[4:5], 0x10"
        counter = choose(("vmcnt", "vmcnt", "lgkmcnt"))
        wait = f"s_waitcnt {counter}({choose((0, 0, 1, 1, 2, 3))})"
        if roll < 0.75:
            return wait
        use = f"v_add_u32_e32 v5, v6, v{choose(self.loaded)}"
        return f"{wait}\n{use}" if self.chooser.random() < 0.7 else use

    def block(self, depth: int, count: int) -> str:
        lines = ""
        for _ in range(count):
            inner = depth < 2 and self.chooser.random() < 0.3
            lines += self.condition(depth) if inner else self.line() + "\n"
        return lines

    def condition(self, depth: int) -> str:
        self.labels += 1
        name, low = f".L{self.labels}", 10 + 4 * depth
        mask, other = f"s[{low}:{low + 1}]", f"s[{low + 2}:{low + 3}]"
        if self.chooser.random() < 0.3:
            return self.branch(name, depth)
        head = f"v_cmp_gt_u32_e64 {mask}, v{self.chooser.choice((3, 4))}, 2\ns_nop 1\n"
        jump = f"s_cbranch_execz {name}\n" if self.chooser.random() < 0.8 else ""
        then = self.block(depth + 1, self.chooser.randrange(1, 4))
        if self.chooser.random() < 0.25:
            compare = f"v_cmp_ge_u32_e32 vcc, {{}}, v{self.chooser.choice((3, 4))}"
            then = loop_of(then, depth, name, compare)
        if self.chooser.random() < 0.3:
            end = f"s_or_b64 exec, exec, {other}\n"
            begin = f"{head}s_and_saveexec_b64 {other}, {mask}\ns_cbranch_execnz {name}x\n"
            if self.chooser.random() < 0.4:
                self.apart += f"{name}x:\n{then}s_branch {name}\n"
            else:  # what is behind the arm stands there twice
                twice = choose_wait(self.chooser)
                self.apart += f"{name}x:\n{then}{end}{twice}s_branch {name}j\n"
            return f"{begin}{name}:\n{end}{choose_wait(self.chooser)}{name}j:\n"
        if self.chooser.random() < 0.6:
            return (
                f"{head}s_and_saveexec_b64 {other}, {mask}\n{jump}{then}{name}:\n"
                f"s_or_b64 exec, exec, {other}\n"
            )
        other_arm = self.block(depth + 1, 2)
        jump_too = f"s_cbranch_execz {name}e\n" if jump else ""
        return (
            f"{head}s_and_saveexec_b64 {other}, {mask}\ns_xor_b64 {mask}, exec, {other}\n"
            f"{jump}{then}{name}:\ns_andn2_saveexec_b64 {mask}, {mask}\n{jump_too}{other_arm}"
            f"{name}e:\ns_or_b64 exec, exec, {mask}\n"
        )

    def branch(self, name: str, depth: int) -> str:
        """All lanes go on, or none does."""
        word = self.chooser.choice(("scc0", "scc1"))
        then = self.block(depth + 1, self.chooser.randrange(1, 4))
        head = f"s_cmp_gt_u32 s{self.chooser.choice((47, 48))}, 2\ns_cbranch_{word} {name}\n"
        roll = self.chooser.random()
        if roll < 0.2:
            self.apart += f"{name}:\n{then}s_branch {name}e\n"
            return f"{head}{self.block(depth + 1, 1)}{name}e:\n"
        if roll < 0.5:
            return f"{head}{then}{name}:\n"
        other = self.block(depth + 1, 2)
        return f"{head}{then}s_branch {name}e\n{name}:\n{other}{name}e:\n"

    def text(self) -> str:
        lines = BEGIN + self.block(2, 2) + self.condition(0) + self.block(2, 3)
        return f"{lines}s_endpgm\n{self.apart}" if self.apart else lines


def choose_wait(chooser):
    return chooser.choice(("", "", "s_waitcnt vmcnt(0)\n", "s_waitcnt vmcnt(1)\n"))


KINDS = {"glob": "v", "buff": "v", "ds_r": "d", "ds_w": "d", "ds_a": "d", "s_lo": "s"}


class Count:
    """What one run of given data has in flight, by the text of its instructions alone."""

    def __init__(self) -> None:
        self.flying: list[tuple[str, int, frozenset[int]]] = []
        self.hazards = 0
        self.issued: Counter[int] = Counter()
        self.done: Counter[int] = Counter()

    def before(self, wave, code):
        base = code.item.base
        busy = [one for one in self.flying if not one[2].isdisjoint(code.touches)]
        kind = KINDS.get(base[:4], "")
        # A later load of vector memory also returns later.
        loads = "_load_" in base
        again = (
            kind == "v" and loads and all(one[0] == "v" and one[2] == code.writes for one in busy)
        )
        reads = any(not one[2].isdisjoint(code.reads) for one in busy)
        self.hazards += bool(busy) and (reads or not again)
        if kind:
            self.flying.append((kind, code.number, code.writes))
            self.issued[code.number] += 1
        if base == "s_waitcnt":
            counter, limit = re.match(r"(\w+)\((\d)\)", code.item.operands[0].name).groups()
            self._wait("v" if counter == "vmcnt" else "d", int(limit))
            if counter == "lgkmcnt" and limit == "0":
                self._wait("s", 0)

    def _wait(self, kind, limit):
        mine = [one for one in self.flying if one[0] == kind]
        for one in mine[: max(0, len(mine) - limit)]:
            self.flying.remove(one)
            self.done[one[1]] += 1

    def after(self, wave, code):
        pass


def done_by_events(events):
    """The instructions whose operations a run shows to be done."""
    issued = {queue: [] for queue in WaveQueue}
    done = dict.fromkeys(WaveQueue, 0)
    for event in events:
        if isinstance(event, OperationIssued):
            assert event.number == len(issued[event.queue])
            issued[event.queue].append(event.instruction)
        elif isinstance(event, CounterWait):
            left = len(issued[event.queue]) - event.pending
            done[event.queue] = max(done[event.queue], left)
    return {at for queue in WaveQueue for at in issued[queue][: done[queue]]}


DATA = (np.random.default_rng(1).integers(0, 6, 512), np.zeros(512), np.full(512, 5))
HALVES = (np.repeat([0, 5, 5, 0], 64), np.repeat([5, 0, 0, 5], 64), np.repeat([5, 5, 0, 0], 64))


def runs_of(text):
    for data in (*DATA, *(np.tile(one, 2) for one in HALVES)):
        words = data.astype(np.uint32).view(np.uint8).copy()
        computing = machine(text, Contents([(SOURCE, words)]))
        computing.follower = count = Count()
        outcome = computing.run().outcome
        assert outcome.ending is Ending.FINISHED, outcome
        yield count


def decided(text):
    """Whether all is waited for, None where that is undecided; asserts what given data show."""
    found = machine(text).run()
    if found.outcome.ending is Ending.REFUSED:
        return None
    assert found.outcome.ending is Ending.FINISHED
    right = not any(isinstance(event, PendingRegister) for event in found.events)
    done, counts = done_by_events(found.events), list(runs_of(text))
    assert right is not any(count.hazards for count in counts), text
    for count in counts:
        assert all(count.done[at] == count.issued[at] for at in done), text
    return right


@pytest.mark.parametrize("part", range(4))
def test_what_is_waited_for_is_waited_for_whatever_data_choose(part):
    """A fault is found where some data show one, and what counts as done is so for all data."""
    programs = (
        Program(seed).text().removeprefix(HEAD) for seed in range(50 * part, 50 * part + 50)
    )
    outcomes = Counter(decided(text) for text in programs)
    assert outcomes[True] > 5
    assert outcomes[False] > 5


A, B, C = (f"global_load_dword v{at}, v2, s[4:5]\n" for at in (20, 21, 22))
LDS, LDS_WAIT = "ds_read_b32 v20, v2\n", "s_waitcnt lgkmcnt(0)\n"
SCALAR = "s_load_dword s44, s[4:5], 0x10\n"
STORE = "global_store_dword v2, v5, s[4:5]\n"
USE = "v_add_u32_e32 v5, v6, v{}\n"


def arm(lines, depth=0, jump=True):
    """Lines in lanes that data choose."""
    low = 10 + 4 * depth
    over = f"s_cbranch_execz .L{depth}\n" if jump else ""
    return (
        f"v_cmp_gt_u32_e64 s[{low}:{low + 1}], v{3 + depth}, 2\ns_nop 1\n"
        f"s_and_saveexec_b64 s[{low + 2}:{low + 3}], s[{low}:{low + 1}]\n{over}{lines}"
        f".L{depth}:\ns_or_b64 exec, exec, s[{low + 2}:{low + 3}]\n"
    )


def branch(lines, other="", name=""):
    """Lines on one of two ways that all lanes go."""
    end = f".Lelse{name}:\n"
    if other:
        end = f"s_branch .Lend{name}\n.Lelse{name}:\n{other}.Lend{name}:\n"
    return f"s_cmp_gt_u32 s4{7 + (name == '1')}, 2\ns_cbranch_scc0 .Lelse{name}\n{lines}{end}"


def wait(limit):
    return f"s_waitcnt vmcnt({limit})\n"


BOTH_PARTS = """v_cmp_gt_u32_e64 s[10:11], v3, 2
s_nop 1
s_and_saveexec_b64 s[12:13], s[10:11]
s_xor_b64 s[10:11], exec, s[12:13]
s_cbranch_execz .Lother
{}.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lboth
{}.Lboth:
s_or_b64 exec, exec, s[10:11]
"""


def loop(lines):
    """Lines in rounds that data choose for each lane."""
    return loop_of(lines, 0, ".Lr", "v_cmp_ge_u32_e32 vcc, {}, v4")


def turns(lines):
    """Lines in rounds that data choose for all lanes."""
    back = "s_add_u32 s49, s49, 1\ns_cmp_lt_u32 s49, s48\ns_cbranch_scc1 .Lt\n"
    return f"s_mov_b32 s49, 0\n.Lt:\n{lines}{back}"


JOIN = "s_or_b64 exec, exec, s[12:13]\n"
APART = f"""v_cmp_gt_u32_e64 s[10:11], v3, 2
s_nop 1
s_and_saveexec_b64 s[12:13], s[10:11]
s_cbranch_execnz .Lapart
s_branch .Lback
.Lapart:
{A}{{join}}{{end}}.Lback:
{JOIN}.Lbehind:
"""
PLACES = {
    "counted on a load of an arm": (A + arm(B) + wait(1) + USE.format(20), None),
    "counted on a load that no branch leads over": (
        A + arm(B, jump=False) + wait(1) + USE.format(20), True,
    ),
    "counted on a load behind the arm": (arm(A) + B + wait(1) + USE.format(20), True),
    "counted one too high": (arm(A) + B + wait(2) + USE.format(20), False),
    "a wait in an arm": (A + arm(wait(0)) + USE.format(20), False),
    "a wait and the use in an arm": (A + arm(wait(0) + USE.format(20)), True),
    "a wait in the arm of the load": (arm(A + wait(0)) + USE.format(20), True),
    "a wait of an outer arm": (arm(arm(A, 1) + wait(0)) + USE.format(20), True),
    "a wait of an inner arm": (arm(A + arm(wait(0), 1)) + USE.format(20), False),
    "in an arm, counted on a load of an inner one": (
        arm(A + arm(B, 1) + wait(1) + USE.format(20)), None,
    ),
    "in an arm, counted on a load of the arm": (
        arm(arm(A, 1) + B + wait(1) + USE.format(20)), True,
    ),
    "in an inner arm, counted on its load": (arm(A + arm(B + wait(1) + USE.format(20), 1)), True),
    "counted on a load of the same arm": (arm(A + B) + wait(1) + USE.format(20), True),
    "no wait for the last load of the arm": (arm(A + B) + wait(1) + USE.format(21), False),
    "counted on one of two arms": (arm(A) + arm(B, 1) + wait(1) + USE.format(20), None),
    "one register by both": (A + arm(A) + wait(0) + USE.format(20), True),
    "one register by both, counted on one": (A + arm(A) + wait(1) + USE.format(20), False),
    "one register by both, counted on a later load": (
        A + arm(A) + B + wait(1) + USE.format(20), True,
    ),
    "one register by two counters": (A + arm(LDS) + wait(0) + USE.format(20), None),
    "one register by two counters, the first waited for": (
        A + arm(wait(0) + LDS) + LDS_WAIT + USE.format(20), False,
    ),
    "one register by two counters, both waited for": (
        A + arm(wait(0) + LDS) + wait(0) + LDS_WAIT + USE.format(20), True,
    ),
    "one register in two arms of which one is taken": (
        branch(A, A) + wait(0) + USE.format(20), True,
    ),
    "one register in two arms of which one is taken, no wait": (
        branch(A, A) + wait(1) + USE.format(20), False,
    ),
    "one register in two arms of which one is taken, a wait in one": (
        branch(A + wait(0), A) + USE.format(20), False,
    ),
    "one register in two arms of which one is taken, a wait in each": (
        branch(A + wait(0), A + wait(0)) + USE.format(20), True,
    ),
    "one register by two counters in two arms of which one is taken": (
        branch(A, LDS) + wait(0) + LDS_WAIT + USE.format(20), True,
    ),
    "one register by two counters in two arms of which one is taken, a wait for one": (
        branch(A, LDS) + wait(0) + USE.format(20), False,
    ),
    "one register by the scalar unit in two arms of which one is taken": (
        branch(SCALAR, SCALAR) + LDS_WAIT + "s_add_u32 s45, s44, 1\n", True,
    ),
    "one register by the scalar unit before an arm and in it": (
        SCALAR + branch(SCALAR) + LDS_WAIT + "s_add_u32 s45, s44, 1\n", None,
    ),
    "one register loaded in an arm, written in the other one": (
        branch(A, "v_mov_b32_e32 v20, 1\n") + wait(0) + USE.format(20), True,
    ),
    "one register loaded in both parts of the lanes": (
        BOTH_PARTS.format(A, A) + wait(0) + USE.format(20), True,
    ),
    "one register loaded in both parts of the lanes, counted": (
        BOTH_PARTS.format(A, A) + wait(1) + USE.format(20), False,
    ),
    "one register written where other lanes load it": (
        BOTH_PARTS.format(A, "v_mov_b32_e32 v20, 1\n") + wait(0) + USE.format(20), None,
    ),
    "one register by both, waited for in between": (
        A + wait(0) + arm(A) + wait(0) + USE.format(20), True,
    ),
    "no wait at all": (A + arm(B) + USE.format(21), False),
    "counted on a store of an arm": (A + arm(STORE) + wait(1) + USE.format(20), None),
    "a store of an arm behind which a load is counted": (
        arm(STORE) + A + B + wait(1) + USE.format(20), True,
    ),
    "an arm stores what is loaded": (A + arm(STORE.replace("v5", "v20")) + wait(0), None),
    "an arm stores what it has waited for": (A + arm(wait(0) + STORE.replace("v5", "v20")), True),
    "a branch of all lanes over a load, waited for": (
        branch(A) + wait(0) + USE.format(20), True,
    ),
    "a branch of all lanes over a load, counted on": (
        A + branch(B) + wait(1) + USE.format(20), None,
    ),
    "a branch of all lanes over a wait": (A + branch(wait(0)) + USE.format(20), False),
    "a branch of all lanes, each way a wait": (
        A + branch(wait(0) + USE.format(20), wait(0)) + USE.format(20), True,
    ),
    "a branch of all lanes, a wait on one of two ways": (
        A + branch(wait(0), USE.format(5)) + USE.format(20), False,
    ),
    # Data may be such that one of them is taken.
    "two arms, each with a wait": (
        A + arm(wait(0)) + arm(wait(0), 1) + USE.format(20), None,
    ),
    "two arms of which one is taken, each with a wait": (
        A + BOTH_PARTS.format(wait(0), wait(0)) + USE.format(20), True,
    ),
    "two arms of which one is taken, one with a wait that is too weak": (
        A + BOTH_PARTS.format(wait(0), wait(1)) + USE.format(20), False,
    ),
    "two arms of which one is taken, each with a load and a wait for all but it": (
        A + BOTH_PARTS.format(B + wait(1), C + wait(1)) + USE.format(20), True,
    ),
    "two arms of which one is taken, one within another arm, each with a wait": (
        A + BOTH_PARTS.format(arm(wait(0), 1), wait(0)) + USE.format(20), None,
    ),
    "a branch in each of two arms, each with a wait": (
        A + branch(branch(wait(0), wait(0), "1"), wait(0), "2") + USE.format(20), True,
    ),
    "a branch in one of two arms, a wait in all but one": (
        A + branch(branch(wait(0), wait(1), "1"), wait(0), "2") + USE.format(20), None,
    ),
    "a branch of all lanes within an arm": (arm(branch(A + wait(0)) + B) + wait(0), True),
    "an arm within a branch of all lanes": (branch(arm(A) + wait(0) + USE.format(20), B), True),
    "a loop loads and waits": (arm(loop(A + wait(0) + USE.format(20))), True),
    "a loop loads and does not wait": (arm(loop(A + USE.format(20))), None),
    "a loop uses what it has loaded in the round before": (
        A + wait(0) + arm(loop(USE.format(20) + A)) + wait(0), None,
    ),
    "a loop waits for what was loaded before": (arm(A + loop(wait(0) + USE.format(20))), True),
    "a loop counts on its load": (arm(A + loop(B + wait(1) + USE.format(20) + wait(0))), True),
    "a loop waits for what is used behind its arm": (
        A + arm(loop(wait(0) + USE.format(5))) + USE.format(20), False,
    ),
    "a loop counts one too high": (arm(A + loop(wait(1) + USE.format(20))), None),
    "a loop stores, and a load before it is counted on": (
        A + arm(loop(STORE)) + wait(1) + USE.format(20), None,
    ),
    "a loop stores, and a load before it in the arm is counted on": (
        arm(A + loop(STORE) + wait(1) + USE.format(20)), True,
    ),
    "a loop of all lanes": (branch(turns(A + wait(0) + USE.format(20))), True),
    "a loop of all lanes, used behind": (branch(turns(A)) + USE.format(20), None),
    "an arm out of line": (APART.format(join="", end="s_branch .Lback\n") + wait(0), True),
    "an arm out of line, used without a wait": (
        APART.format(join="", end="s_branch .Lback\n") + USE.format(20), False,
    ),
    "an arm out of line, and what is behind it": (
        APART.format(join=JOIN, end="s_branch .Lbehind\n") + wait(0) + USE.format(20), True,
    ),
    "an arm out of line, and what is behind it with a wait": (
        APART.format(join=JOIN, end=wait(0) + "s_branch .Lbehind\n") + USE.format(20), True,
    ),
    "an arm out of line, and what is behind it with a wait for what was loaded before": (
        C + APART.format(join=JOIN, end=wait(0) + "s_branch .Lbehind\n") + USE.format(22), False,
    ),
    "a load behind, waited for": (arm(A) + B + wait(0) + USE.format(20) + USE.format(21), True),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_places_of_waits(name):
    lines, expected = PLACES[name]
    assert decided(BEGIN.removeprefix(HEAD) + lines) is expected
