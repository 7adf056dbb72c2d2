"""The PTX of a block-scaled GEMM: verified for any number, and refuted where scales are handed over
unsafely, whatever order the tensor core is taken to keep."""

from __future__ import annotations

import re

import pytest

from tests.isa.numbers.test_emitted import furthest
from tests.validate.compare.kernels import SOURCE, emission
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.numbers.device import LaunchError
from titan.validate.compare.compile import nvcc, ptx_of
from titan.verify.model import Finding

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_mxf8_sm_100a"
OPERAND = "map: {data_type: u8, dimensions: [640, 128], box: [128, 128], swizzle: 128B}"
SCALES = "map: {data_type: u8, dimensions: [16, 160, 1], box: [16, 32, 1]}"
RESULT = "map: {data_type: bf16, dimensions: [128, 128], box: [64, 128], swizzle: 128B}"
MAPS = ", ".join(f"{{{one}}}" for one in (OPERAND, OPERAND, SCALES, SCALES, RESULT))
LAUNCH = f"{{grid: 1, block: 256, dynamic_shared: 170000, parameters: [{MAPS}, 128, 128, 640]}}"


def verified(source: str, pipe: str = "in_order", **more) -> Finding:
    made = emission(NAME, "sm_100a")
    text = ptx_of({**made.files, SOURCE: source}, "sm_100a")
    described, errors = read_launch_text(LAUNCH, "gemm.yaml")
    assert errors == []
    options = CodeOptions(policies=chosen((("tensor_pipe", pipe),)), **more)
    (finding,) = verify_code(Source("gemm.ptx", text), described, options, [], 0.0)
    return finding


def emitted() -> str:
    return emission(NAME, "sm_100a").files[SOURCE]


def test_it_is_verified_for_any_number_of_trips():
    finding = verified(emitted(), require="any")
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    assert {values for _, values in finding.coverage.parameters} == {None}


@pytest.mark.parametrize(
    ("name", "atoms"),
    [("gemm_nvf4_sm_100a", 4), pytest.param("gemm_mxf4_sm_100a", 2, marks=pytest.mark.heavy)],
)
def test_products_of_four_bits_are_verified(name, atoms):
    """For the launch; the lifting does not depend on what is multiplied."""
    made = emission(name, "sm_100a")
    scales = (
        f"map: {{data_type: u8, dimensions: [16, {160 * atoms}, 1], box: [16, {32 * atoms}, 1]}}"
    )
    launch = LAUNCH.replace(SCALES, scales).replace(
        "dynamic_shared: 170000", "dynamic_shared: 190000"
    )
    described, errors = read_launch_text(launch, "gemm.yaml")
    assert errors == []
    for pipe in ("in_order", "listed"):
        options = CodeOptions(policies=chosen((("tensor_pipe", pipe),)))
        source = Source("gemm.ptx", ptx_of(made.files, "sm_100a"))
        (finding,) = verify_code(source, described, options, [], 0.0)
        assert finding.verdict is Verdict.VERIFIED, [one.headline for one in finding.diagnostics]


COPIES = re.compile(r"        // a_scale: 1 atom.*?\n(?=        // issue)", re.S)
ISSUE = re.compile(r"        // issue acc_next.*?\n        }\n", re.S)
COMMIT = "        titan::tensor_commit(b_ring_a_empty + (x_t % 4));  //\n"
WAIT = re.compile(r"        // wait for ring_a_full.*?tensor_fence_after\(\);\n", re.S)
ROLE = "    // ---- role_issuer"
DESCRIPTORS = re.compile(r"      const titan::u64 d\d_\w+_scale = .*;\n")


def copier(more: str = "") -> str:
    """A warp of its own that copies scales to tensor memory."""
    copies = COPIES.search(emitted())[0]
    wait = WAIT.search(emitted())[0]
    return (
        "    if (titan_warp == 2 && titan::elect_one()) {\n"
        "      const int x_tiles = titan::larger(1, (n_K + 128 - 1) / 128);\n"
        f"{''.join(DESCRIPTORS.findall(emitted()))}"
        f"      for (int x_t = 0; x_t < x_tiles; ++x_t) {{\n{wait}{copies}{more}      }}\n    }}\n"
    )


def once(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def elsewhere(text: str, more: str = "") -> str:
    """The copies of the issuer are done by another warp."""
    return once(COPIES.sub("", text, count=1), ROLE, copier(more) + ROLE)


UNSAFE = {
    "the stage is freed by an arrival": lambda t: once(
        t, COMMIT, COMMIT.replace("tensor_commit", "barrier_arrive")),
    "the stage is freed before its products": lambda t: once(
        t, COMMIT, "").replace("        // issue", f"{COMMIT}        // issue", 1),
    "the stage is freed before its scales are copied": lambda t: once(
        once(t, COMMIT, ""), "        // a_scale: 1 atom",
        COMMIT + "        // a_scale: 1 atom"),
    "no wait for the stage": lambda t: WAIT.sub("", t, count=1),
    "another thread copies": elsewhere,
}  # fmt: skip


@pytest.mark.parametrize("pipe", ["in_order", "listed"])
@pytest.mark.parametrize("what", UNSAFE)
def test_scales_that_are_handed_over_unsafely_are_refuted(what, pipe):
    text = UNSAFE[what](emitted())
    assert text != emitted()
    assert verified(text, pipe).verdict is Verdict.REFUTED


def test_scales_that_are_copied_behind_the_products_are_seen_in_the_numbers():
    """In order no access races, but the first products read what nobody has written."""
    text = COPIES.sub("", emitted(), count=1)
    text = once(text, COMMIT, COPIES.search(emitted())[0] + COMMIT)
    assert verified(text, "listed").verdict is Verdict.REFUTED
    made = emission(NAME, "sm_100a")
    wrong = ptx_of({**made.files, SOURCE: text}, "sm_100a")
    with pytest.raises(LaunchError):  # unknown bytes
        furthest(made, wrong, {"M": 128, "N": 128, "K": 128}, 0)


def test_another_thread_may_copy_if_its_commit_is_waited_for():
    barrier = "  titan::u64* const b_moved = (titan::u64*)(shared + 168064);\n"
    text = once(emitted(), "  const int titan_thread", f"{barrier}  const int titan_thread")
    start = "    titan::fence_barrier_init();\n"
    init = "    for (int s = 0; s < 4; ++s) titan::barrier_init(b_moved + s, 1);\n"
    text = elsewhere(once(text, start, init + start),
                     "        titan::tensor_commit(b_moved + x_t % 4);\n")  # fmt: skip
    wait = (
        "        titan::barrier_wait(b_moved + x_t % 4, x_t / 4 % 2);\n"
        "        titan::tensor_fence_after();\n"
    )
    text = text.replace("        // issue acc_next", f"{wait}        // issue acc_next", 1)
    for pipe in ("in_order", "listed"):
        finding = verified(text, pipe)
        assert finding.verdict is Verdict.VERIFIED, [one.headline for one in finding.diagnostics]
