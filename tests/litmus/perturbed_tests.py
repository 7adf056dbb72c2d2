"""Files of the suite with a few random edits: close to the rules, where random code is not."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

from hypothesis import strategies as st

from titan.foundation.resources import root
from titan.litmus.language import ast
from titan.litmus.language.ast import (
    PTX_SCOPES,
    Direction,
    LitmusTest,
    Proxy,
    Scope,
    Semantics,
    Space,
    ThreadPlacement,
)
from titan.litmus.language.suite import find_tests, read_test

FENCES = (
    ast.Fence(Semantics.ACQ_REL, Scope.GPU),
    ast.Fence(Semantics.SC, Scope.CTA),
    ast.AliasFence(),
    ast.MbarrierInitFence(),
    ast.ProxyFence(Proxy.ASYNC),
    ast.ProxyFence(Proxy.ASYNC, space=Space.SHARED),
    ast.ProxyFence(Proxy.ASYNC, space=Space.OWN_SHARED),
    ast.ProxyFence(Proxy.ASYNC, Direction.RELEASE, Scope.CLUSTER, Space.OWN_SHARED),
    ast.ProxyFence(Proxy.ASYNC, Direction.ACQUIRE, Scope.CLUSTER, Space.SHARED),
    ast.ProxyFence(Proxy.SURFACE),
    ast.ProxyFence(Proxy.TEXTURE),
)
FOLDERS = ("async", "cluster", "tensormap", "proxy", "classic", "ptx")


@cache
def originals(folder: str) -> tuple[LitmusTest, ...]:
    tests = [read_test(entry.path) for entry in find_tests([root("litmus") / folder])]
    return tuple(test for test in tests if sum(len(t.instructions) for t in test.threads) <= 14)


@st.composite
def perturbed_tests(draw) -> LitmusTest:
    test = draw(st.sampled_from(originals(draw(st.sampled_from(FOLDERS)))))
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(test.threads) - 1))
        places = [*(thread.placement for thread in test.threads), ThreadPlacement(0, 1009, 9)]
        thread = draw(edited(test.threads[number], places))
        test = replace(test, threads=(*test.threads[:number], thread, *test.threads[number + 1 :]))
    return test


@st.composite
def edited(draw, thread: ast.LitmusThread, places: list[ThreadPlacement]) -> ast.LitmusThread:
    code = list(thread.instructions)
    edit = draw(st.sampled_from(["delete", "swap", "insert", "scope", "order", "move"]))
    if edit == "insert":
        code.insert(draw(st.integers(0, len(code))), draw(st.sampled_from(FENCES)))
    elif edit == "move":
        return replace(thread, placement=draw(st.sampled_from(places)))
    elif code:
        at = draw(st.integers(0, len(code) - 1))
        names = {field.name for field in fields(code[at])}
        if isinstance(code[at], ast.Label | ast.Branch):
            return thread
        if edit == "delete":
            del code[at]
        elif edit == "swap" and at + 1 < len(code):
            code[at], code[at + 1] = code[at + 1], code[at]
        elif edit == "scope" and "scope" in names and code[at].scope is not None:
            code[at] = replace(code[at], scope=draw(st.sampled_from(PTX_SCOPES)))
        elif edit == "order" and "semantics" in names:
            code[at] = weaker_or_stronger(draw, code[at])
    return replace(thread, instructions=tuple(code))


def weaker_or_stronger(draw, code: ast.LitmusInstruction) -> ast.LitmusInstruction:
    if isinstance(code, ast.Load | ast.Store) and code.proxy is Proxy.GENERIC:
        strong = Semantics.ACQUIRE if isinstance(code, ast.Load) else Semantics.RELEASE
        order = draw(st.sampled_from([Semantics.WEAK, Semantics.RELAXED, strong]))
        scope = None if order is Semantics.WEAK else code.scope or Scope.GPU
        return replace(code, semantics=order, scope=scope)
    if isinstance(code, ast.MbarrierWait):
        return replace(code, semantics=Semantics.RELAXED)
    if isinstance(code, ast.MbarrierArrive):
        return replace(
            code, semantics=draw(st.sampled_from([Semantics.RELAXED, Semantics.RELEASE]))
        )
    if isinstance(code, ast.ClusterBarrier) and not code.waits:
        return replace(code, semantics=Semantics.RELAXED)
    return code
