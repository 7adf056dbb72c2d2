"""What a verdict on a kernel covers before any engine has run, and under which policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from titan.language.kernel.model import Kernel
from titan.language.protocol.model import Protocol
from titan.sync.policies import POLICY_WORDS
from titan.sync.program import Policies, Queue, SyncProgram
from titan.verify.model import Coverage
from titan.verify.sizes import TURNS_MAX

OF_TENSOR_MEMORY = {name: POLICY_WORDS[name][0] for name in ("tensor", "tensor_pipe")}


def level_of(kernel: Kernel) -> Protocol | SyncProgram:
    """The level that the kernel is written at."""
    level = kernel.protocol if kernel.protocol is not None else kernel.program
    if level is None:
        raise ValueError("a kernel without a level")
    return level


def with_policies(kernel: Kernel, chosen: tuple[tuple[str, str], ...]) -> Kernel:
    """The kernel under the policies of the command line."""
    if not chosen:
        return kernel
    values: dict[str, object] = {}
    for name, text in chosen:
        values[name] = text == "true" if text in ("true", "false") else text
    policies = replace(level_of(kernel).policies, **values)  # type: ignore[arg-type]
    if kernel.protocol is not None:
        return replace(kernel, protocol=replace(kernel.protocol, policies=policies))
    program = kernel.program
    return replace(kernel, program=replace(program, policies=policies) if program else None)


def coverage_of(kernel: Kernel) -> Coverage:
    """What a verdict on the kernel covers; parameters are narrowed to what engines have done."""
    level = level_of(kernel)
    agents: Counter[str] = Counter()
    for role in level.roles:  # one for each CTA that has it: `producer@1`
        agents[role.name.partition("@")[0]] += role.agents
    return Coverage(
        kernel.sizes,
        tuple(
            (parameter.name, (parameter.value,) if parameter.value is not None else None)
            for parameter in level.parameters
        ),
        tuple((parameter.name, parameter.minimum) for parameter in level.parameters),
        tuple((role.name, agents[role.name] or role.agents, role.threads) for role in kernel.roles),
        kernel.ctas,
        tuple(
            (name, value)
            for name, value in policies_text(level.policies)
            if name not in OF_TENSOR_MEMORY
            or value != OF_TENSOR_MEMORY[name]
            or _multiplies_in_tensor_memory(level.queues)
        ),
        turns=tuple(
            (parameter.name, parameter.per, parameter.minimum + TURNS_MAX)
            for parameter in level.parameters
            if parameter.per is not None and parameter.value is None
        ),
    )


def narrowed(coverage: Coverage, sizes: tuple[tuple[str, tuple[int, ...] | None], ...]) -> Coverage:
    """The coverage with open parameters narrowed to the values that were explored."""
    known = dict(sizes)
    parameters = tuple(
        (name, value if value is not None else known.get(name))
        for name, value in coverage.parameters
    )
    return replace(coverage, parameters=parameters)


def _multiplies_in_tensor_memory(queues: Sequence[Queue]) -> bool:
    """Whether there are products of tcgen05, of which two policies speak."""
    return any(queue.pipelined and not queue.grouped for queue in queues)


def policies_text(policies: Policies) -> tuple[tuple[str, str], ...]:
    """The policies as words, in the spelling of the language."""
    return tuple(
        (item.name, str(getattr(policies, item.name)).lower()) for item in fields(policies)
    )


def relaxed_policies(coverage: Coverage) -> tuple[tuple[str, str], ...]:
    """The policies that differ from the defaults."""
    defaults = dict(policies_text(Policies()))
    return tuple((name, value) for name, value in coverage.policies if defaults[name] != value)
