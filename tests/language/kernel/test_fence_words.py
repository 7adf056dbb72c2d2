"""The words of fences: each stands for a fence, and each fence has a word."""

from __future__ import annotations

from titan.language.kernel.sync_verbs import FENCES
from titan.language.kernel.table import FENCES as WORDS
from titan.sync.program import FenceKind


def test_every_fence_has_one_word():
    assert tuple(FENCES) == WORDS
    assert set(FENCES.values()) == set(FenceKind) and len(FENCES) == len(FenceKind)
    for word, kind in FENCES.items():
        plain = kind.value.removeprefix("proxy.").removeprefix("m").replace(".", "_")
        assert plain in (word, f"barrier_{word.removeprefix('barrier_')}"), word
