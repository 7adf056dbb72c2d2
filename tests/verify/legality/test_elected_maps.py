"""Fences of one thread: not enough for what others have written, however it is handed over."""

from __future__ import annotations

import pytest

from tests.verify.legality.kernels import examined, text

TWO = "{p: {warpgroups: 1}, q: {warps: 1}}"
TAKE = "{bulk_store: A = 1, queue: out}, {drain: out}"
HANDED = {  # how p hands over, and how q takes over
    "meeting of both": ("{sync: both}", "{sync: both}"),
    "arrival at a meeting": ("{arrive: both}", "{sync: both}"),
    "arrival": ("{arrive: m}", "{wait: m, phase: 0}"),
    "meeting, then arrival": ("{sync: own}, {arrive: m, by: thread}", "{wait: m, phase: 0}"),
}
MAP = """{store: D = 1}, {fence: tensormap_release, by: WHO}, MEET
         {fence: tensormap_acquire, by: thread}, {arrive: full, bytes: 64},
         {bulk_load: A = 1, completes: full, descriptor: D = 1}"""


def codes(program: str, roles: str = TWO, policies: str = "{}") -> set[str]:
    kernel = text(
        buffers="{A: {bytes: 64}, D: {space: global, bytes: 128, initial: 0}}",
        barriers="{m: 1, full: 1}",
        named_barriers="{own: {threads: 128}, both: {threads: 160}}",
        queues="{out: bulk, c: cp_async}",
        policies=policies,
        roles=roles,
        program=program,
    )
    return {item.code for item in examined(kernel).errors}


@pytest.mark.parametrize("handed", HANDED)
@pytest.mark.parametrize("who", ["thread", "all"])
@pytest.mark.parametrize("rule", ["writer", "path"])
def test_a_fence_of_one_thread_before_others_take_over(handed: str, who: str, rule: str):
    give, take = HANDED[handed]
    program = "{p: [{store: A = 1}, {fence: async, by: WHO}, GIVE], q: [TAKE, " + TAKE + "]}"
    program = program.replace("WHO", who).replace("GIVE", give).replace("TAKE", take, 1)
    policies = "{fence_rule: " + rule + "}"
    assert codes(program, policies=policies) == ({"TTN432"} if who == "thread" else set())
    met = program.replace("{fence: async", "{sync: own}, {fence: async")
    wrong = who == "thread" and rule == "writer"
    assert codes(met, policies=policies) == ({"TTN432"} if wrong else set())
    taken = program.replace(TAKE, "{fence: async}, " + TAKE)  # another fence on the path
    assert codes(taken, policies=policies) == ({"TTN432"} if wrong else set())


def test_a_meeting_of_its_own_threads_hands_nothing_over():
    """What one thread has left out, all may fence behind it."""
    fences = "{fence: async, by: thread}, {sync: own}, {fence: async}, {sync: both}"
    assert codes("{p: [{store: A = 1}, " + fences + "], q: [{sync: both}, " + TAKE + "]}") == set()


@pytest.mark.parametrize("who", ["thread", "all"])
@pytest.mark.parametrize("meet", ["{sync: own}, ", ""])
@pytest.mark.parametrize("threads", ["{warpgroups: 1}", "{threads: 1}"])
def test_a_tensor_map_is_written_released_and_met_for(who: str, meet: str, threads: str):
    """Of one thread, and of a warpgroup of which one thread copies."""
    meet = meet.replace("sync: own", "sync: own" if "group" in threads else "compute: nothing")
    program = "{p: [" + MAP.replace("WHO", who).replace("MEET", meet) + "]}"
    wrong = "group" in threads and (who == "thread" or not meet)
    assert codes(program, "{p: " + threads + "}") == ({"TTN432"} if wrong else set())


def test_a_map_that_another_role_uses():
    """Released by one thread for all, and handed over by a meeting."""
    use = "{fence: tensormap_acquire}, {bulk_load: A = 1, completes: full, descriptor: D = 1}"
    give = "{store: D = 1}, {fence: tensormap_release, by: WHO}, {sync: both}"
    program = "{p: [" + give + "], q: [{sync: both}, " + use + "]}"
    assert codes(program.replace("WHO", "thread")) == {"TTN432"}
    assert codes(program.replace("WHO", "all")) == set()


@pytest.mark.parametrize(
    ("behind", "right"),
    [
        ("{fence: async, by: thread}, {arrive: m}", False),
        ("{sync: own}, {fence: async, by: thread}, {arrive: m, by: thread}", True),
        ("{fence: async}, {arrive: m}", True),
        ("{arrive: m}", True),  # a fence of who takes over is behind the copies as well
    ],
)
def test_a_fence_of_one_thread_is_behind_the_copies_of_all(behind: str, right: bool):
    copy = "{cp_async: A = 1, queue: c}, {commit: c}, {drain: c}"
    take = "{wait: m, phase: 0}, {fence: async}, " + TAKE
    assert codes("{p: [" + copy + ", " + behind + "], q: [" + take + "]}") == (
        set() if right else {"TTN432"}
    )


@pytest.mark.parametrize("verb", ["take", "give"])
def test_registers_are_reallocated_by_all_threads(verb: str):
    for by, legal in (("all", True), ("warp", False), ("thread", False)):
        kernel = text(
            pools="{registers: 512}", roles="{w: {warpgroups: 1}}",
            program="{w: [{" + verb + ": registers, amount: 8, by: " + by + "}]}",
        )  # fmt: skip
        found = {item.code for item in examined(kernel).errors}
        assert found == (set() if legal else {"TTN433"})


@pytest.mark.parametrize(
    ("behind", "wrong"),
    [
        # One thread acts for what the lanes of a warp have stored, and they have not met.
        ("{fence: async, by: thread}, {arrive: m, by: thread}", True),
        ("{fence: async, by: warp}, {arrive: m, by: thread}", True),
        ("{bulk_store: A = 1, queue: out, by: thread}, {drain: out, by: thread}", True),
        ("{fence: async, by: thread}, {sync: own}, {arrive: m, by: thread}", True),
        # The warp does all of it, or all threads have met.
        ("{fence: async, by: warp}, {arrive: m, by: warp}", False),
        ("{fence: async, by: warp}, {sync: own}, {arrive: m, by: thread}", False),
        ("{fence: async}, {sync: own}, {arrive: m, by: thread}", False),
    ],
)
def test_the_lanes_of_one_warp_of_several_meet_before_one_acts(behind: str, wrong: bool):
    program = "{p: [{store: A = 1, by: warp}, " + behind + "], q: [TAKE" + TAKE + "]}"
    program = program.replace("TAKE", "{wait: m, phase: 0}, " if "arrive" in behind else "", 1)
    assert codes(program) == ({"TTN432"} if wrong else set())
