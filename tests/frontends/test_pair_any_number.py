"""The PTX of pairs of CTAs, for any number of steps along K, of work items, of keys."""

from __future__ import annotations

import pytest

from tests.validate.compare.kernels import SOURCE, emission
from titan.foundation.verdict import Verdict
from titan.frontends.lift.any_number import AnyNumber, any_number
from titan.frontends.lift.launched import LaunchedPtx
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.sweep import drivers_of
from titan.frontends.ptx.trial import judge_run
from titan.frontends.verify_code import ANY_NUMBER
from titan.validate.compare.compile import nvcc, ptx_of
from titan.validate.compare.threads import launch_of, parse_kernel

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_large_sm_100a"
SIZES = {"M": 1024, "N": 256, "K": 640}
ALONG_M, ALONG_K = 3, 5  # the parameters
SCALED, ALONG_K_SCALED = "gemm_mxf8_pair_sm_100a", 8
ATTENTION, ALONG_KEYS = "attention_forward_pair_sm_100a", 6


def compiled(name: str, old: str = "", new: str = ""):
    """The kernel as PTX, or one with a fault, and its manifest."""
    made = emission(name, "sm_100a")
    assert not old or made.files[SOURCE].count(old) == 1
    files = {**made.files, SOURCE: made.files[SOURCE].replace(old, new)} if old else made.files
    return parse_kernel(ptx_of(files, "sm_100a"), made.manifest["entry"]), made.manifest


def lifted(
    monkeypatch: pytest.MonkeyPatch,
    along: int,
    old: str = "",
    new: str = "",
    *,
    name: str = NAME,
    sizes: dict[str, int] | None = None,
) -> AnyNumber:
    """What one pair of CTAs does for any number, of the kernel or of one with a fault."""
    kernel, manifest = compiled(name, old, new)

    def chosen(*given):
        drivers, notes, unknown = drivers_of(*given)
        return [one for one in drivers if one.words[0].number == along], notes, unknown

    monkeypatch.setattr("titan.frontends.lift.any_number.drivers_of", chosen)
    code = CodeKernel(kernel.module, kernel.source, kernel.function)
    places = CodePlaces(kernel.module, kernel.source)
    launch = launch_of(kernel, manifest, sizes or SIZES, 8 if name == NAME else 2)
    launched = LaunchedPtx(code, launch, places, CodePolicies(), 20_000_000)
    return any_number(launched, (0,), ANY_NUMBER)


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("along", [ALONG_K, ALONG_M])
def test_a_pair_is_verified_for_any_number(monkeypatch, along):
    """Of steps; and of work items, each of ten steps, which no ring of four stages divides."""
    found = lifted(monkeypatch, along)
    assert not found.missing and not found.refuted, found.missing
    assert [least for _, least in found.parameters] == [0]


FAULTS = {
    "no wait for the sum, of one item": (
        "        titan::barrier_wait_relaxed(b_ring_acc_empty",
        "        if (x_w != 40) titan::barrier_wait_relaxed(b_ring_acc_empty",
    ),
    "no wait for the stage, of one step": (
        "          titan::barrier_wait(b_ring_a_full",
        "          if (x_n != 403) titan::barrier_wait(b_ring_a_full",
    ),
    "the sum is handed back too early": (
        "        titan::barrier_wait(b_ring_acc_full",
        "        if (x_w < 30) titan::barrier_wait(b_ring_acc_full",
    ),
}


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_later_item_is_found(monkeypatch, name):
    """It comes after more items than any launch has that a file is folded from."""
    found = lifted(monkeypatch, ALONG_M, *FAULTS[name])
    assert not found.parameters
    assert found.refuted or "trips and more" in found.missing[0][1], found.missing


SCALED_SIZES = {"M": 256, "N": 256, "K": 1280}


def scaled(monkeypatch: pytest.MonkeyPatch, old: str = "", new: str = "") -> AnyNumber:
    """The block-scaled GEMM, along K."""
    return lifted(monkeypatch, ALONG_K_SCALED, old, new, name=SCALED, sizes=SCALED_SIZES)


@pytest.mark.long
@pytest.mark.heavy
def test_a_pair_with_block_scales_is_verified_for_any_number(monkeypatch):
    """The pipe keeps copies of scales in front of the products that read them."""
    found = scaled(monkeypatch)
    assert not found.missing and not found.refuted, found.missing
    assert [least for _, least in found.parameters] == [0]


@pytest.mark.long
@pytest.mark.heavy
def test_attention_in_pairs_is_verified_for_any_number_of_keys(monkeypatch):
    sizes = {"heads": 1, "queries": 512, "keys": 640}
    found = lifted(monkeypatch, ALONG_KEYS, name=ATTENTION, sizes=sizes)
    assert not found.missing and not found.refuted, found.missing
    assert found.parameters


COMMIT = "titan::tensor_commit_everywhere(b_ring_a_empty + (x_t % 4), 3);"
FULL = "titan::barrier_wait(b_ring_a_full + (x_t % 4), x_t / 4 % 2);"
EMPTY = "titan::barrier_wait(b_ring_a_empty + (x_t % 4), (x_t / 4 - 1 + 2) % 2);"
LAST = "titan::tensor_commit_everywhere(b_ring_acc_full + 0, 3);"
INITIALISED = "barrier_init(b_ring_a_empty + stage, 1)"
EXPECTED = "(b_ring_a_full + (x_t % 4), 68608)"
SCALES = "s_a_scale + (x_t % 4) * 512, &map"
PIECE = "<1, 4, 2>(titan_tensor + 256 + (x_t % 4) * 4,"
SCALED_FAULTS = {
    "no commit to the peer": (COMMIT, COMMIT.replace("3)", "1)")),
    "no commit at the end to the peer": (LAST, LAST.replace("3)", "1)")),
    "a stage freed by an arrival": (
        COMMIT,
        f"titan::barrier_arrive(b_ring_a_empty + (x_t % 4)); {COMMIT.replace('3)', '2)')}",
    ),
    "scale copy not waited for": (FULL, ""),
    "wrong phase": (EMPTY, EMPTY.replace("- 1 + 2", "+ 2")),
    "wrong count": (INITIALISED, INITIALISED.replace("1)", "2)")),
    "bytes of one CTA alone": (EXPECTED, EXPECTED.replace("68608", "34304")),
    "one stage less": (SCALES, SCALES.replace("% 4", "% 3")),
    "one stage less in tensor memory": (PIECE, PIECE.replace("% 4", "% 3")),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", SCALED_FAULTS)
def test_a_fault_of_a_pair_with_block_scales_is_found(name):
    """The launch shows it, or that columns are read which nobody has written."""
    kernel, manifest = compiled(SCALED, *SCALED_FAULTS[name])
    launch = launch_of(kernel, manifest, SCALED_SIZES, 2)
    run, errors = Runner(kernel.module, kernel.source, 20_000_000).run(launch, 0)
    assert run is not None, errors
    places = CodePlaces(kernel.module, kernel.source)
    judged = judge_run(run, ("", ""), kernel.function.name, places, CodePolicies())
    unwritten = name == "one stage less in tensor memory"
    assert judged.verdict is (Verdict.UNDECIDED if unwritten else Verdict.REFUTED), judged


LATE_SCALED_FAULTS = {
    "no commit to the peer": (COMMIT, COMMIT.replace("3)", "x_t == 403 ? 1 : 3)")),
    "scale copy not waited for": (FULL, f"if (x_t != 403) {FULL}"),
    "wrong phase": (EMPTY, EMPTY.replace("- 1 + 2", "- 1 + 2 + (x_t == 403)")),
}


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("name", LATE_SCALED_FAULTS)
def test_a_fault_of_a_later_step_with_block_scales_is_found(monkeypatch, name):
    found = scaled(monkeypatch, *LATE_SCALED_FAULTS[name])
    assert not found.parameters
    assert found.refuted or "trips and more" in found.missing[0][1], found.missing
