"""Attention for sm_100a beside its sync program: clean kernels pass, planted faults are told."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from random import Random

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission
from titan.foundation.resources import root
from titan.validate.compare.compile import compile_package, nvcc
from titan.validate.compare.tensor import fenced
from titan.validate.compare.thread_events import ThreadEvent
from titan.validate.compare.translation import translation

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
LIBRARY = sorted(
    path.stem for path in (root("protocols") / "tiles").glob("attention_*sm_100a.yaml")
)
QUICK = "attention_forward_64_sm_100a"


@needs_nvcc
@pytest.mark.parametrize(
    "name", [n if n == QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in LIBRARY]
)
def test_what_is_emitted_does_what_its_program_says_and_does_not_spill(name):
    made = emission(name, "sm_100a")
    compiled = compile_package(made.files, "sm_100a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert found.faults == [] and found.notes == []
    assert found.launches >= 3


# what is wrong: (file, pattern, replacement, what is told)
FAULTS = {
    "no wait for the scores": (
        SOURCE, r"titan::barrier_wait\(b_s_full[^;]*;", "", "Wait of s_full"),
    "no wait for the probabilities": (
        SOURCE, r"titan::barrier_wait\(b_p16_full[^;]*;", "", "Wait of p16_full"),
    "no wait for the last product": (
        SOURCE, r"titan::barrier_wait\(b_o_full[^;]*;", "", "Wait of o_full"),
    "no wait for the rows to be free": (
        SOURCE, r"titan::barrier_wait\(b_shrink_empty[^;]*;", "", "Wait of shrink_empty"),
    "wrong parity of the scores": (
        SOURCE, r"(barrier_wait\(b_s_full \+ x_group, )x_t % 2", r"\1(x_t + 1) % 2",
        "Wait of s_full"),
    "wrong parity of the probabilities": (
        SOURCE, r"(barrier_wait\(b_p16_full \+ x_g, )\(x_t - 1\) % 2", r"\1x_t % 2",
        "Wait of p16_full"),
    "the other sub-tile's barrier": (
        SOURCE, r"barrier_arrive\(b_p16_full \+ x_group", "barrier_arrive(b_p16_full + 1 - x_group",
        "Arrive of p16_full"),
    "the put is not waited for": (
        SOURCE, r"titan::tensor_put_wait\(\);", "", "no wait after the put"),
    "header: no wait for puts": (
        HEADER, r'asm volatile\("tcgen05.wait::st[^;]*;[^;]*;', "",
        "no wait after the put"),
    "the fetch is not waited for before the put": (
        SOURCE, r"titan::tensor_load_wait\(\);", "", "a store before a load is waited for"),
    "no fence behind the put": (
        SOURCE, r"(titan::tensor_put_wait\(\);)\s*titan::tensor_fence_before\(\);", r"\1",
        "no fence after the put"),
    "no fence behind the wait of who puts": (
        SOURCE, r"(barrier_wait\(b_s_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "no fence behind the wait of who multiplies": (
        SOURCE, r"(barrier_wait\(b_p16_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "no fence before the accumulator is fetched": (
        SOURCE, r"(any_of_warp\(titan_changes\)\) \{\s*)titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "a fence behind the accumulator instead of before it": (
        SOURCE, r"(?s)(any_of_warp\(titan_changes\)\) \{\s*)titan::tensor_fence_after\(\);(.*?)"
        r"(titan::tensor_fence_before)", r"\1\2titan::tensor_fence_after(); \3",
        "no fence after the wait"),
    "a fence before the accumulator is put instead of behind it": (
        SOURCE, r"(?s)(any_of_warp\(titan_changes\)\) \{)(.*?)titan::tensor_fence_before\(\);",
        r"\1 titan::tensor_fence_before();\2", "no fence after the put"),
    "the fence for the sums is where they are corrected": (
        SOURCE, r"(barrier_wait\(b_o_full[^;]*;)\s*titan::tensor_fence_after\(\);", r"\1",
        "no fence after the wait"),
    "the factor is given back before it is read": (
        SOURCE, r"(?s)(// shrink: from shared memory.*?)"
        r"(if \(titan_elected\) titan::barrier_arrive\(b_shrink_empty[^;]*;)", r"\2 \1",
        "is expected"),
    "arrivals before the warp has met": (
        SOURCE, r"titan::warp_sync\(\);(\s*if \(titan_elected\) "
        r"titan::barrier_arrive\(b_p16_full \+ x_g\);)", r"\1",
        "Arrive of shrink_empty: one thread arrives before its warp has synchronised"),
    "the correction is fetched and not put": (
        SOURCE, r"titan::tensor_memory_put_rows<64, 32, 32>[^;]*;", "", "control depends on data"),
    "the correction arrives only where it corrects": (
        SOURCE, r"(if \(titan::any_of_warp\(titan_changes\)\) \{)",
        r"\1 titan::barrier_arrive(b_p16_full + x_g);", "control depends on data"),
    "scores are fetched where data say so": (
        SOURCE,
        r"(TITAN_UNROLL\s*for \(int m = 0; m < 1; \+\+m\) \{\s*titan::\w+fetch_rows<128>)",
        r"if (v_top[0][0] < 1.0f) \1", "control depends on data"),
    "another column of the probabilities": (
        SOURCE, r"(tensor_memory_put_rows_pairs<128, 0, 32>\(titan_tensor)", r"\1 + 8",
        "Access (store)"),
    "half of the probabilities": (
        SOURCE, r"titan::tensor_memory_put_rows_pairs<128, 64, 32>[^;]*;", "", "Access (store)"),
    "header: columns of pairs": (
        HEADER, r"address \+ c / 2, words", "address + c, words", "Access (store)"),
    "header: another shape of puts": (
        HEADER, r"st(.*)32x32b\.x16", r"st\g<1>16x64b.x16", "unknown access"),
    "probabilities of the other sub-tile": (
        SOURCE, r"(left = titan_columns \+ )x_g", r"\g<1>(1 - x_g)", "another column|Access"),
    "probabilities from another column": (
        SOURCE, r"left \+ k \* 8", "left + k / 2 * 16", "another column of the left operand"),
    "rows of the other sub-tile": (
        SOURCE, r"(tensor_descriptor<128>\(s_q, .*, )x_g", r"\g<1>(1 - x_g)",
        "the rows of another sub-tile"),
    "one sub-tile of the queries for both": (
        SOURCE, r"(tensor_descriptor<128>\(s_q, .*, )x_g", r"\g<1>0 * x_g",
        "the rows of another sub-tile"),
    "both sub-tiles of one accumulator": (
        SOURCE, r"(tensor_multiply_pairs<[^>]*>\(titan_columns \+ 256 \+ )x_g", r"\g<1>0 * x_g",
        "Access (load)"),
    "the accumulator in the columns of the scores": (
        SOURCE, r"(tensor_m\w+<[^>]*>\((?:v_o\[m\], )?titan_(?:tensor|columns) \+ )256",
        r"\g<1>128",
        "overlap in tensor memory"),
    "another column is scaled": (
        SOURCE, r"(tensor_memory_put_rows<64, 0, 32>\(titan_tensor \+ 256)", r"\1 + 16",
        "control depends on data"),
    "the first product adds": (
        SOURCE, r"\(x_t - 1\) > 0 \|\| k > 0", "1", "whether the product is added"),
    "products replace each other": (
        SOURCE, r"\(x_t - 1\) > 0 \|\| k > 0", "k > 0", "whether the product is added"),
    "scores are added to": (SOURCE, r"a, b, k > 0\)", "a, b, 1)", "whether the product is added"),
    "probabilities from shared memory": (
        HEADER, r"\[%0\], \[%1\], %2", "[%0], %5, %2", "CannotCompile"),
    "the factor into the rows of the other sub-tile": (
        SOURCE, r"(rows = s_shrink \+ )x_group", r"\g<1>(1 - x_group)", "Access (store)"),
    "the factor from the rows of the other sub-tile": (
        SOURCE, r"(rows = s_shrink \+ )x_g ", r"\g<1>(1 - x_g) ", "Access (load)"),
    "lanes put the factor into rows of others": (
        SOURCE, r"(titan::store_row\(rows, titan_row0)", r"\1 - titan_lane % 4", "Access (store)"),
    "some lanes put no factor": (
        SOURCE, r"(titan::store_row\(rows, titan_row0)", r"if (titan_lane % 4 == 0) \1",
        "Access (store)"),
    "a row twice": (
        SOURCE, r"(load_row\(rows, titan_row0)", r"\1 / 2 * 2", "Access (load)"),
    "rows of another warp": (
        SOURCE, r"load_row\(rows, titan_row0", "load_row(rows, (titan_row0 + 32) % 128",
        "Access (load)"),
    "the commit of the scores is left out": (
        SOURCE, r"titan::tensor_commit\(b_s_full[^;]*;", "", "QueueArrive of s_full"),
    "committed before the second product": (
        SOURCE, r"( *// issue s: (?s:.*?))( *titan::tensor_commit\(b_s_full.*\n)", r"\2\1",
        "is expected"),
    "results into the place of keys": (SOURCE, r"tile = s_out;", "tile = s_k;", "is not in out"),
    "results before their place is free": (
        SOURCE, r"(titan::bulk_wait_read<0>\(\);\s*\}\s*titan::tensor_fence_before\(\);\s*)"
        r"titan::named_barrier_sync[^;]*;", r"\1", "BarrierSync of together"),
    "something else is written between two fetches": (
        HEADER, r"(u32 r\[Step\];)(\s*if constexpr \(Step == 32\))",
        r"\1 if (c > First) "
        r'asm volatile("st.shared.b32 [%0], 0;\\n" :: "r"(4096) : "memory");\2',
        "an unexpected write"),
    "no fence before the named barrier": (
        SOURCE, r"titan::tensor_fence_before\(\);\s*titan::named_barrier_sync",
        "titan::named_barrier_sync", "no fence after the fetch"),
}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", sampled(FAULTS, every=12))
def test_a_planted_fault_is_told(name):
    file, pattern, replacement, told = FAULTS[name]
    made = emission(QUICK, "sm_100a")
    text, count = re.subn(pattern, replacement, made.files[file])
    assert count >= 1, "the fault changes the text"
    found = made.faults({**made.files, file: text})
    wanted = told.split("|")
    assert any(part in fault for fault in found for part in wanted), found


ITEMS = "attention_forward_persistent_sm_100a"
OF_ITEMS = {
    "the first product of an item adds": (r"\(x_t - 1\) > 0 \|\| k > 0", "x_n - 1 > 0 || k > 0",
                                          "whether the product is added"),
    "the last product of an item replaces": (r"\(x_tiles - 1\) > 0 \|\| k > 0", "k > 0",
                                             "whether the product is added"),
    "the accumulator is free before it is fetched": (
        r"(?s)(// wait for o_full.*?)(titan::tensor_memory_fetch)",
        r"\1if (titan::elect_one()) titan::barrier_arrive(b_p16_full + x_g); \2",
        "is expected|arrive",
    ),
    "the queries are given back twice": (
        r"(titan::tensor_commit\(b_q_empty[^;]*;)", r"\1 \1", "executed by|tensor_commit"),
    "the sums are not given back": (
        r"titan::barrier_arrive\(b_total_empty[^;]*;", "", "Arrive of total_empty"),
    "phases of one item alone": (r"(barrier_wait\(b_s_full \+ x_group, )x_n", r"\1x_t",
                                 "Wait of s_full"),
}  # fmt: skip


@needs_nvcc
@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("name", OF_ITEMS)
def test_a_planted_fault_between_work_items_is_told(name):
    pattern, replacement, told = OF_ITEMS[name]
    made = emission(ITEMS, "sm_100a")
    text, count = re.subn(pattern, replacement, made.files[SOURCE])
    assert count >= 1, "the fault changes the text"
    found = made.faults({**made.files, SOURCE: text})
    assert found and any(part in fault for fault in found for part in told.split("|")), found


def events(*kinds):
    return [ThreadEvent(kind, (), (), line) for line, kind in enumerate(kinds, 1)]


KINDS = (
    "wait", "tensor_after", "tensor_load", "tensor_wait", "tensor_put", "tensor_put_wait",
    "tensor_before", "arrive",
)  # fmt: skip


def with_arms(random: Random) -> list[ThreadEvent]:
    """Events, some of them in arms that a run may leave out; most of them in a good order."""
    made: list[ThreadEvent] = []
    arm = 0
    for _ in range(3):
        may_be_left_out = random.random() < 0.6
        kinds = [kind for kind in KINDS if random.random() < 0.85]
        if random.random() < 0.3:
            random.shuffle(kinds)
        for kind in kinds:
            inside = may_be_left_out and kind not in ("wait", "arrive")
            arm += inside and not (made and made[-1].arm)
            made.append(ThreadEvent(kind, (), (), len(made) + 1, arm=arm if inside else 0))
    return made


def test_arms_are_judged_as_all_runs_are():
    random, counts = Random(5), Counter[bool]()
    for _ in range(3000):
        made = with_arms(random)
        arms = sorted({event.arm for event in made} - {0})
        wrong = any(
            fenced([one._replace(arm=0) for one in made if one.arm not in left])[1]
            for count in range(len(arms) + 1)
            for left in combinations(arms, count)
        )
        assert bool(fenced(made)[1]) is wrong, made
        counts[wrong] += 1
    assert min(counts.values()) > 100, counts


def test_a_fence_in_an_arm_is_none_behind_it():
    """Each of these is right where the arm is taken."""
    behind_the_wait = events("wait", "tensor_after", "tensor_load")
    assert fenced([*behind_the_wait, *events("tensor_wait", "tensor_before")])[1] == []
    behind_the_wait[1] = behind_the_wait[1]._replace(arm=1)
    assert "no fence after the wait" in fenced(behind_the_wait)[1][0]
    before_the_arrival = events(
        "wait", "tensor_after", "tensor_load", "tensor_wait", "tensor_before", "arrive"
    )
    assert fenced(before_the_arrival)[1] == []
    before_the_arrival[4] = before_the_arrival[4]._replace(arm=1)
    assert "no fence after the fetch" in fenced(before_the_arrival)[1][0]


def test_fences_around_puts_are_judged_and_taken_away():
    good = events(
        "wait", "tensor_after", "tensor_load", "tensor_wait", "tensor_put", "tensor_put_wait",
        "tensor_before", "arrive",
    )  # fmt: skip
    kept, faults = fenced(good)
    assert [event.kind for event in kept] == ["wait", "tensor_load", "tensor_put", "arrive"]
    assert faults == []
    for missing in (1, 3, 5, 6):
        assert fenced(good[:missing] + good[missing + 1 :])[1], missing
    assert fenced(good[:5])[1] == [
        "line 3: nothing waits for this fetch, or no fence follows",
        "line 5: nothing waits for this put, or no fence follows",
    ]
