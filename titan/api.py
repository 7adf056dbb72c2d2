"""TITAN from Python: `titan.verify`, `titan.schedule`, `titan.build`, `titan.litmus`.

The input is a path, a text (anything with a line break), or for `verify` a kernel built by
`titan.Kernel`. `verify` raises nothing for bad input: its finding has the verdict REFUSED and the
diagnostics. The others raise InputError with them. Options mean the same as those of the commands,
and are explained there; a word or a number that is none of an option's raises ValueError. Calls
from several threads go one after the other, since solvers share their state.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, get_args

from titan.builder import Kernel
from titan.results import Findings, InputError, LitmusResult, Package, Scheduled

if TYPE_CHECKING:
    from titan.foundation.diagnostics.model import Diagnostic
    from titan.foundation.source.span import Source
    from titan.litmus.language.ast import LitmusTest
    from titan.verify.model import Finding

__all__ = [
    "Findings", "InputError", "Kernel", "LitmusResult", "LoweringOptions", "Package", "Scheduled",
    "build", "litmus", "schedule", "verify", "verify_ptx",
]  # fmt: skip

Given = str | os.PathLike[str]
Sizes = Mapping[str, int | Sequence[int]]
Policies = Mapping[str, str | bool]
Engine = Literal["auto", "explore", "order", "reference"]
Requirement = Literal["any", "bounded"]
Solver = Literal["auto", "rau", "joint", "gauss"]
Objective = Literal["ii", "length", "registers", "edges"]
LitmusSolver = Literal["z3", "cvc5"]
_P = ParamSpec("_P")
_R = TypeVar("_R")
_alone = [threading.RLock()]


def _after_fork() -> None:
    """A child has a lock of its own: the thread that held the old one is not there."""
    _alone[:] = [threading.RLock()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _one_at_a_time(function: Callable[_P, _R]) -> Callable[_P, _R]:
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _alone[0]:
            return function(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What lowering may change of a protocol: the options of `titan verify` with these names.

    `rewrites`: what it may rewrite where the target cannot say the protocol as it is.
    `as_written`: whether it adds no fence; None: it adds none to kernels that model existing code.
    """

    rewrites: Iterable[str] = ()
    as_written: bool | None = None


@_one_at_a_time
def verify(
    given: Given | Kernel,
    *,
    sizes: Sizes | None = None,
    policies: Policies | None = None,
    engine: Engine = "auto",
    require: Requirement = "bounded",
    states_max: int = 10_000_000,
    lowering: LoweringOptions | None = None,
) -> Findings:
    """Verify a kernel; one finding for each choice of its sizes.

    `sizes` gives sizes other values: a number, or several to go through. `policies` are other
    readings of the hardware contract (`{"fence_rule": "path"}`). `states_max` bounds a search.
    `lowering`: what the way from the protocol to primitives may change.
    """
    from titan.language.kernel.decode import decode, size_names
    from titan.verify.model import VerifyOptions
    from titan.verify.pipeline import KernelFile, verify_each

    _check_word("engine", engine, Engine)
    _check_word("require", require, Requirement)
    if states_max < 1:
        raise ValueError(f"states_max is at least 1, not {states_max}")
    lowering = lowering or LoweringOptions()
    options = VerifyOptions(
        _overrides(sizes),
        tuple((name, _word(value)) for name, value in (policies or {}).items()),
        engine,
        require,
        states_max=states_max,
        save_traces=None,
        rewrites=frozenset(lowering.rewrites),
        as_written=lowering.as_written,
    )
    _check_policies(options.policies)
    _check_rewrites(options.rewrites)
    from titan.foundation.source.yaml import parse

    source, errors = _source(given.text() if isinstance(given, Kernel) else given, "<kernel>")
    root = None
    if source is not None:
        root, errors = parse(source)
    path = source.path if source is not None else str(given)
    family, diagnostics = decode(root, errors, path, dict(options.overrides))
    known = size_names(root)
    unknown = [name for name, _ in options.overrides if name not in known]
    if family is not None and unknown:
        raise ValueError(f"the kernel has no size {unknown[0]!r}")
    file = KernelFile(path, family, tuple(diagnostics), frozenset(known))
    return Findings(tuple(verify_each(file, options)))


@_one_at_a_time
def schedule(
    given: Given,
    *,
    solver: Solver = "auto",
    objective: Objective = "edges",
    budget_seconds: float = 60.0,
    proofs: bool = False,
) -> Scheduled:
    """Schedule a loop; the schedule is checked, and comes with what is proved of it.

    `proofs`: where solvers refute smaller intervals, look for proofs that plain code checks. Raises
    InputError, and Unschedulable where no interval exists.
    """
    from titan.foundation.source.span import Source
    from titan.scheduling.loop.load import load_loop, read_loop
    from titan.scheduling.run import Request, run
    from titan.target.load import TargetRefused

    _check_word("solver", solver, Solver)
    _check_word("objective", objective, Objective)
    _check_flag("proofs", proofs)
    if not 0 < budget_seconds < math.inf:
        raise ValueError(f"budget_seconds is a number above 0, not {budget_seconds}")
    try:
        text = _text(given)
        loop = read_loop(Source("<loop>", text), Path()) if text else load_loop(str(given))
    except TargetRefused as refused:
        raise InputError(refused.diagnostics) from None
    request = Request(solver, objective, budget_seconds, proofs=proofs)
    return Scheduled(run(loop, request))


@_one_at_a_time
def build(
    given: Given,
    output: str | os.PathLike[str],
    *,
    target: str | None = None,
    solver: Solver = "auto",
    require: Requirement = "bounded",
    compile: bool = True,
    cache: str | None = None,
) -> Package:
    """Build a tile program into a folder of its own below `output`: verified CUDA or HIP.

    `target`: one of those that the file names, the first by default. `compile`: ask the toolchain
    of the target, where there is one. Raises InputError, BuildRefused where no pipeline of the
    program is verified, and CannotWrite.
    """
    from titan.codegen.pipeline.build import BuildLimits
    from titan.codegen.tile.load import read_tile
    from titan.package.produce import produce
    from titan.target.load import TargetRefused

    _check_word("solver", solver, Solver)
    _check_word("require", require, Requirement)
    _check_flag("compile", compile)
    source, errors = _source(given, "<tile>")
    if source is None:
        raise InputError(errors)
    try:
        tile = read_tile(source, target)
    except TargetRefused as refused:
        raise InputError(refused.diagnostics) from None
    limits = BuildLimits(require_any=require == "any", cache=cache, solver=solver)
    made = produce(tile, source.text, Path(output), limits, with_toolchain=compile)
    return Package(source.path, made)


@_one_at_a_time
def litmus(
    given: Given,
    *,
    fence_rule: Literal["writer", "path"] = "writer",
    solver: LitmusSolver = "z3",
    unroll: int = 2,
) -> LitmusResult:
    """Decide a litmus test (text or YAML form) under the PTX memory model with proxies.

    Raises InputError, and UnsupportedTest for what the model does not decide.
    """
    _check_word("solver", solver, LitmusSolver)
    from titan.litmus.decide import decide
    from titan.litmus.model.options import FenceRule, ModelOptions

    return LitmusResult(
        decide(
            _test(given),
            ModelOptions(FenceRule(fence_rule)),
            unroll=unroll,
            solver=solver,
        )
    )


@_one_at_a_time
def verify_ptx(
    text: str,
    launch: Mapping[str, object] | str | None = None,
    *,
    entry: str | None = None,
    sweep: bool = False,
    path: str = "<ptx>",
) -> list[Finding]:
    """Verify the kernels of a PTX text; one finding each.

    `launch` is what a launch file holds: its text, or the same as a mapping; None where the text
    itself says enough. `entry`: one kernel of the module. `sweep`: other trip counts, too.
    """
    from titan.foundation.source.loading import load_text
    from titan.frontends.ptx.launch import read_launch_text
    from titan.frontends.read_code import refused
    from titan.frontends.verify_code import CodeOptions, verify_code

    _check_flag("sweep", sweep)
    started = time.process_time()
    source, errors = load_text(text, path)
    if source is None:
        return [refused(path, errors, started)]
    description = None
    if launch is not None:
        written = launch if isinstance(launch, str) else json.dumps(launch)
        description, errors = read_launch_text(written, "<launch>")
        if description is None:
            return [refused(path, errors, started)]
    options = CodeOptions(entry=entry, sweep=sweep)
    return list(verify_code(source, description, options, [], started))


# ------------------------------------------------------------------------------------- input


def _text(given: Given) -> str:
    """The given text; empty if it is a path."""
    return given if isinstance(given, str) and "\n" in given else ""


def _source(given: Given, name: str) -> tuple[Source | None, list[Diagnostic]]:
    from titan.foundation.source.loading import load_file, load_text

    text = _text(given)
    return load_text(text, name) if text else load_file(os.fspath(given))


def _test(given: Given) -> LitmusTest:
    """A litmus test in either form. Raises InputError."""
    from titan.foundation.diagnostics.model import diagnostic
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import read_test
    from titan.litmus.language.text import read_litmus
    from titan.litmus.language.yaml import read_litmus_yaml

    text = _text(given)
    try:
        if not text:
            return read_test(Path(given))
        reader = read_litmus_yaml if text.lstrip().startswith("litmus:") else read_litmus
        return reader("<litmus>", text)
    except LitmusError as error:
        raise InputError([diagnostic("TTN001", error.message, error.span)]) from None


def _overrides(sizes: Sizes | None) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Sizes in the form of the command's options. Raises ValueError for what is no number."""
    return tuple((name, _numbers(name, value)) for name, value in (sizes or {}).items())


def _numbers(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """One integer of any type, or at least one; a boolean, as of `any: true`, is none."""
    given = value if isinstance(value, Sequence) else (value,)
    try:
        found = tuple(map(operator.index, given))
    except TypeError:
        found = ()
    if any(isinstance(item, bool) for item in given):
        found = ()
    if not found:
        raise ValueError(f"the size {name} is an integer, or several, not {value!r}")
    return found


def _check_word(name: str, value: str, words: object) -> None:
    """Raises ValueError for a word that an option does not have."""
    known = get_args(words)
    if value not in known:
        raise ValueError(f"{name} is {' or '.join(known)}, not {value!r}")


def _check_flag(name: str, value: object) -> None:
    """Raises ValueError for what is neither true nor false, such as a word for one of them."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is True or False, not {value!r}")


def _word(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _check_policies(policies: Iterable[tuple[str, str]]) -> None:
    """Raises ValueError for an unknown policy or value."""
    from titan.language.kernel.table import POLICIES

    known = {key.name: key.words or ("true", "false") for key in POLICIES}
    for name, value in policies:
        if name not in known:
            raise ValueError(f"no policy {name!r}; known are {', '.join(known)}")
        if value not in known[name]:
            raise ValueError(f"the policy {name} is {' or '.join(known[name])}, not {value!r}")


def _check_rewrites(rewrites: Iterable[str]) -> None:
    """Raises ValueError for an unknown rewrite."""
    from titan.language.protocol.rewrites import Rewrite

    for name in rewrites:
        if name not in list(Rewrite):
            raise ValueError(f"no rewrite {name!r}; known are {', '.join(Rewrite)}")
