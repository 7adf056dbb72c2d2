"""The scope of a bounded verdict says which combinations of the listed values it covers."""

from __future__ import annotations

import itertools
import re

from tests.engines.explore.test_empty_turns import KERNEL
from titan.foundation.verdict import Verdict
from titan.frontends.lift.any_number import AnyNumber
from titan.frontends.ptx.sweep import labels_text
from titan.frontends.verify_code import for_any
from titan.language.kernel.decode import decode_text
from titan.package.certificate import scope
from titan.report.findings import as_dict, parameters_text
from titan.verify.model import Coverage, Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel
from titan.verify.sizes import size_sets


def _numbers(text: str) -> set[int]:
    first, dots, last = text.partition("..")
    return set(range(int(first), int(last) + 1)) if dots else {int(n) for n in text.split(", ")}


def test_a_number_for_each_round_is_not_tried_in_all_sequences():
    """What the words of the scope name is what the engines have tried."""
    text = KERNEL.replace("MINIMUM", "1").replace("WHEN", "true")
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    kernel = family.kernels[0]
    finding = verify_kernel(kernel, VerifyOptions(save_traces=None, engine="order"))
    assert finding.verdict is Verdict.VERIFIED
    found = re.fullmatch(
        r"n = (.+) only; m = (.+) only, the same for every w "
        r"\(of (.+) also two or three in turn\)",
        parameters_text(finding.coverage),
    )
    assert found
    rounds, alike, turns = (_numbers(item) for item in found.groups())
    tried = list(size_sets(kernel.program))
    ones = {(item["n"], item["m"]) for item in tried if isinstance(item["m"], int)}
    assert ones == set(itertools.product(rounds, alike))
    sequences = {item["m"] for item in tried if isinstance(item["m"], tuple)}
    for length in (2, 3):
        wanted = {item for item in itertools.product(turns, repeat=length) if item[-1] != item[-2]}
        assert {item for item in sequences if len(item) == length} == wanted
    assert scope(finding.coverage)["parameters"]["m"]["turns"] == [1, 2, 3]


def test_any_number_has_no_words_on_sequences():
    family, _ = decode_text(KERNEL.replace("MINIMUM", "1").replace("WHEN", "true"), "k.yaml")
    finding = verify_kernel(family.kernels[0], VerifyOptions(save_traces=None, engine="explore"))
    assert dict(finding.coverage.parameters)["m"] is None
    assert "turn" not in parameters_text(finding.coverage)
    assert "turns" not in scope(finding.coverage)["parameters"]["m"]


def test_numbers_of_launches_are_varied_one_at_a_time():
    made = AnyNumber(parameters=[("trips (a)", 0), ("trips (b)", 1)])
    finding = for_any(Finding("k.ptx", "k", "sm_90a", Verdict.VERIFIED), made)
    assert parameters_text(finding.coverage).endswith(
        "one of these numbers at a time, the others as launched"
    )
    assert as_dict(finding)["scope"]["combinations"] == finding.coverage.combinations
    alone = for_any(finding, AnyNumber(parameters=made.parameters[:1]))
    assert not alone.coverage.combinations
    assert "combinations" not in as_dict(alone)["scope"]


def test_launches_of_a_sweep_vary_one_parameter_each():
    labels = ["parameter 1 = 0 (0 trips)", "parameter 1 = 64 (1 trips)"]
    assert labels_text(labels) == ["parameter 1 = 0, 64 (0, 1 trips)"]
    found = labels_text([*labels, "parameter 2 = 8 (1 trips)"])
    assert found == [
        "parameter 1 = 0, 64 (0, 1 trips, the others as launched)",
        "parameter 2 = 8 (1 trips, the others as launched)",
    ]


def test_sizes_of_which_all_combinations_are_tried_have_no_words_on_it():
    coverage = Coverage(parameters=(("n", (0, 1)), ("m", (0, 1, 2))))
    assert parameters_text(coverage) == "n = 0, 1 only; m = 0..2 only"
