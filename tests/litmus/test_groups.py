"""What a wait for groups covers: all but the newest N, against that sentence of PTX itself.

Both engines read the same instructions, so what they share is compared with plain arithmetic here.
"""

from __future__ import annotations

from itertools import product

import pytest

from titan.litmus.decide import decide
from titan.litmus.enumerate.candidates import allowed
from titan.litmus.language.printing import format_litmus
from titan.litmus.language.text import read_litmus
from titan.litmus.model.options import ModelOptions

HEAD = """\
PTX groups
"each copy is a group of its own; the thread reads one destination"
{{
g = 1; {places}
}}
 P0@cta 0,cluster 0,gpu 0 ;
{lines}
exists (P0:r0=0)
"""


def copies(groups: int, wait: str, asked: int, commits: bool = True) -> str:
    places = " ".join(f"shared x{n} = 0 @ cta 0,gpu 0;" for n in range(groups))
    lines: list[str] = []
    for number in range(groups):
        lines.append(f"cp.async x{number}, g")
        lines += ["cp.async.commit_group"] if commits else []
    lines += [wait, f"ld.weak r0, x{asked}"]
    return HEAD.format(places=places, lines="\n".join(f" {line} ;" for line in lines))


def unseen(text: str) -> bool:
    """Whether the thread may miss the copy, by both engines."""
    test = read_litmus("groups.litmus", text)
    found = decide(test, ModelOptions(), recheck=True)
    assert found.allowed == allowed(test, ModelOptions(), budget=100_000)
    assert format_litmus(read_litmus("again.litmus", format_litmus(test))) == format_litmus(test)
    return bool(found.allowed)


@pytest.mark.parametrize(("groups", "left"), list(product((1, 2, 3), range(6))))
def test_all_but_the_newest_are_complete(groups: int, left: int):
    for asked in range(groups):
        text = copies(groups, f"cp.async.wait_group {left}", asked)
        assert unseen(text) == (asked >= groups - left), (groups, left, asked)


@pytest.mark.parametrize("commits", [True, False])
def test_wait_all_needs_no_commit(commits: bool):
    for asked in range(2):
        assert not unseen(copies(2, "cp.async.wait_all", asked, commits))


def test_what_is_not_committed_is_in_no_group():
    assert unseen(copies(1, "cp.async.wait_group 0", 0, commits=False))
