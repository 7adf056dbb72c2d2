"""Both file formats: what they mean, and where they say a fault is."""

from __future__ import annotations

import pytest

from titan.litmus.language.ast import Compare, FinalRegister, Proxy, Quantifier, ThreadPlacement
from titan.litmus.language.condition import LitmusError, format_condition
from titan.litmus.language.printing import format_litmus
from titan.litmus.language.text import read_litmus
from titan.litmus.language.yaml import read_litmus_yaml

MP = """PTX MP
"message passing"
{ x = 0; flag = 0; P1:r1 = 7; }
 P0@cta 0,gpu 0         | P1@cta 1,gpu 0          ; // placements
 st.weak x, 1           | ld.acquire.gpu r0, flag ;
 st.release.gpu flag, 1 | ld.weak r1, x           ;
filter (P1:r0 = 1)
~exists (1:r1 != 1 \\/ [x] = 0 /\\ ~(flag = 1))
"""
YAML = """litmus: MP
comment: message passing
locations: [x = 0, flag = 0]
registers: ["P1:r1 = 7"]
threads:
  - name: P0
    at: cta 0,gpu 0
    code: ["st.weak x, 1", "st.release.gpu flag, 1"]
  - name: P1
    at: cta 1,gpu 0
    code:
      - ld.acquire.gpu r0, flag
      - ld.weak r1, x
filter: P1:r0 = 1
not_exists: 1:r1 != 1 \\/ [x] = 0 /\\ ~(flag = 1)
"""


def test_text_is_read() -> None:
    test = read_litmus("mp.litmus", MP)
    assert test.name == "MP"
    assert test.comment == "message passing"
    assert [thread.placement.cta for thread in test.threads] == [0, 1]
    assert test.threads[1].registers == (("r1", 7),)
    assert test.quantifier is Quantifier.NOT_EXISTS
    assert test.filter == Compare(FinalRegister("P1", "r0"), "==", 1)
    assert format_condition(test.condition) == "P1:r1!=1 \\/ (x=0 /\\ ~(flag=1))"


def test_yaml_is_the_same_test() -> None:
    assert read_litmus_yaml("mp.yaml", YAML) == read_litmus("mp.litmus", MP)


def test_scope_tree() -> None:
    text = (
        MP.replace("P0@cta 0,gpu 0        ", "P0")
        .replace("P1@cta 1,gpu 0", "P1")
        .replace("filter", "scopes: (sys (gpu (cluster (cta P0) (cta P1))))\nfilter")
    )
    placements = [thread.placement for thread in read_litmus("mp.litmus", text).threads]
    assert placements == [ThreadPlacement(0, 0, 0), ThreadPlacement(0, 0, 1)]


def test_a_cta_is_in_one_cluster() -> None:
    text = MP.replace("P0@cta 0,gpu 0 ", "P0@cta 0,cluster 0,gpu 0").replace("P1@cta 1", "P1@cta 0")
    with pytest.raises(LitmusError, match="cta 0 of gpu 0 is in two clusters"):
        read_litmus("t", text)


def test_mbarriers_are_no_data() -> None:
    text = "PTX t\n{ mbarrier b = 1 @ cta 0; }\n P0@cta 0,gpu 0 ;\n ld r0, b ;\nexists (P0:r0=0)\n"
    with pytest.raises(LitmusError, match="`b` is an mbarrier"):
        read_litmus("t", text)


def test_views_share_an_address_and_aliases_do_not() -> None:
    test = read_litmus(
        "a.litmus",
        "PTX a\n{ x = 0; v @ generic aliases x; s @ surface aliases v; }\n"
        " P0@cta 0,gpu 0 ;\n suld r0, s ;\nexists (P0:r0=0)\n",
    )
    assert test.location("s").proxy is Proxy.SURFACE
    assert (test.address("s"), test.memory("s")) == ("v", "x")
    assert read_litmus("b", format_litmus(test)) == test


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("st.weak x, 1", "st.weak q, 1", "unknown location `q`", (5, 2)),
        ("st.weak x, 1", "stt.weak x, 1", "did you mean `st`", (5, 2)),
        ("st.weak x, 1", "st.week x, 1", "did you mean `weak`", (5, 2)),
        ("st.weak x, 1", "st.gpu x, 1", "has a scope but no ordering", (5, 2)),
        ("ld.acquire.gpu r0", "ld.acquire r0", "needs exactly one scope", (5, 27)),
        ("ld.weak r1, x  ", "ld.weak r1     ", "takes 2 operands, but has 1", (6, 27)),
        ("1:r1", "5:r1", "unknown thread `5`", (8, 10)),
        ("\\/ [x]", "% [x]", "has no meaning", (8, 20)),
        ("flag = 0; P1", "x = 0; P1", "declared twice", (3, 10)),
        ("~exists", "sometimes", "expected `exists`", (9, 1)),
        ("PTX MP", "X86 MP", "starts with `PTX`", (1, 1)),
    ],
)
def test_faults_have_a_place(old: str, new: str, message: str, place: tuple[int, int]) -> None:
    assert old in MP
    with pytest.raises(LitmusError) as caught:
        read_litmus("mp.litmus", MP.replace(old, new))
    assert message in caught.value.message
    span = caught.value.span
    assert span is not None
    assert (span.start_line, span.start_column) == place


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("ld.weak r1, x", "ld.weak r1, q", "unknown location `q`", 13),
        ("registers:", "register:", "unknown key `register`", 4),
        ("filter: P1:r0 = 1", "filter: P9:r0 = 1", "unknown thread `P9`", 14),
        ("not_exists", "never", "unknown key `never`", 15),
    ],
)
def test_faults_of_yaml_have_a_line(old: str, new: str, message: str, line: int) -> None:
    with pytest.raises(LitmusError) as caught:
        read_litmus_yaml("mp.yaml", YAML.replace(old, new))
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.start_line == line


UNDECLARED = """PTX implied
{ x = 0; P0:r1 = 0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.weak y, 1   | ld.weak r0, y  ;
 st.weak x, 1   | ld.weak r1, x  ;
exists (P1:r0 = 0)
"""


def test_a_location_that_two_instructions_name_may_be_left_out() -> None:
    test = read_litmus("implied.litmus", UNDECLARED)
    assert {(loc.name, loc.initial) for loc in test.locations} == {("x", 0), ("y", 0)}
    slip = UNDECLARED.replace("x = 0", "flag = 0").replace("weak x", "weak flag")
    slip = slip.replace("r1, x", "r1, flga")
    with pytest.raises(LitmusError, match="unknown location `flga`; did you mean `flag`"):
        read_litmus("slip.litmus", slip)
