"""Reads one instruction of a litmus test: PTX mnemonics with dotted qualifiers.

The order of qualifiers is not checked and state-space qualifiers are accepted but not needed, since
a location knows its space. `bar.cta.sync a`, `bar.cta.sync instance, id` and
`bar.cta.sync instance, id, count` follow the dialect of the public PTX litmus tests;
`bar.sync id, count` and `barrier.cta.sync id, count` follow PTX.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

from titan.foundation.errors import UserError
from titan.litmus.language.ast import (
    AliasFence,
    Assign,
    AsyncCopy,
    AsyncCopyArrive,
    AsyncStore,
    Atomic,
    Barrier,
    Branch,
    BulkCopy,
    ClusterBarrier,
    CommitGroup,
    DescriptorCopy,
    Direction,
    Fence,
    GroupKind,
    Label,
    LitmusInstruction,
    Load,
    MatrixRead,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInitFence,
    MbarrierWait,
    NoEffect,
    Operand,
    Proxy,
    ProxyFence,
    Register,
    Scope,
    Semantics,
    Space,
    Store,
    TensorCommit,
    WaitGroup,
)
from titan.litmus.language.qualifiers import (
    ARITHMETIC,
    ATOMIC_OPERATIONS,
    BULK_REDUCTIONS,
    QUALIFIERS,
    SCOPES,
)

RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_VIEWS = {
    "ld": Proxy.GENERIC,
    "st": Proxy.GENERIC,
    "sust": Proxy.SURFACE,
    "suld": Proxy.SURFACE,
    "tld": Proxy.TEXTURE,
    "cold": Proxy.CONSTANT,
}
_IDENTIFIER = re.compile(r"[A-Za-z_$%][A-Za-z0-9_$]*$")


class InstructionError(UserError):
    """An instruction that cannot be read."""


class InstructionLine:
    """One instruction split into qualifiers and operands, with accessors that explain failures."""

    def __init__(self, text: str) -> None:
        head, _, rest = text.strip().partition(" ")
        self.head = head
        self.qualifiers = head.split(".")
        self.operands = [part.strip() for part in _split_operands(rest)] if rest.strip() else []

    def has(self, *names: str) -> bool:
        """Whether one of these qualifiers is there."""
        return any(name in self.qualifiers for name in names)

    def scope(self, default: Scope | None = None) -> Scope:
        """The one scope of PTX. Raises InstructionError."""
        found = [SCOPES[q] for q in self.qualifiers[1:] if q in SCOPES]
        if len(found) == 1:
            return found[0]
        if not found and default is not None:
            return default
        raise InstructionError(f"`{self.head}` needs exactly one scope of cta, cluster, gpu, sys")

    def semantics(self, allowed: tuple[str, ...], default: str | None = None) -> Semantics:
        """The one order, of those that are allowed. Raises InstructionError."""
        found = [q for q in self.qualifiers[1:] if q in Semantics.__members__.values()]
        if not found and default is not None:
            return Semantics(default)
        if len(found) != 1 or found[0] not in allowed:
            raise InstructionError(f"`{self.head}` needs one of {', '.join(allowed)}")
        return Semantics(found[0])

    def take(self, minimum: int, maximum: int | None = None) -> list[str]:
        """The operands, so many of them. Raises InstructionError."""
        maximum = minimum if maximum is None else maximum
        if not minimum <= len(self.operands) <= maximum:
            wanted = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
            raise InstructionError(
                f"`{self.head}` takes {wanted} operands, but has {len(self.operands)}"
            )
        return self.operands


def _split_operands(text: str) -> list[str]:
    depth, part, parts = 0, "", []
    for character in text:
        depth += (character in "{[" and 1) or 0
        depth -= (character in "}]" and 1) or 0
        if character == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += character
    return [*parts, part]


def name_of(text: str) -> str:
    """A name, perhaps in brackets. Raises InstructionError."""
    inner = text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text
    if not _IDENTIFIER.match(inner):
        raise InstructionError(f"`{text}` is not a name")
    return inner


def _names(text: str) -> tuple[str, ...]:
    if text.startswith("{") and text.endswith("}"):
        return tuple(name_of(part.strip()) for part in text[1:-1].split(","))
    return (name_of(text),)


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise InstructionError(f"`{text}` is not a number") from None


def operand_of(text: str) -> Operand:
    """A number or a register. Raises InstructionError."""
    return _number(text) if re.match(r"-?\d", text) else Register(name_of(text))


def _access_order(
    line: InstructionLine, allowed: tuple[str, ...]
) -> tuple[Semantics, Scope | None]:
    if line.has("volatile", "mmio"):
        return Semantics.RELAXED, Scope.SYS
    semantics = line.semantics(allowed, default="weak")
    if semantics is Semantics.WEAK:
        if line.has(*SCOPES):
            raise InstructionError(f"`{line.head}` has a scope but no ordering")
        return semantics, None
    return semantics, line.scope()


def _load(line: InstructionLine) -> LitmusInstruction:
    destination, location = line.take(2)
    if re.match(r"-?\d", location):  # the public tests spell a move of a constant this way
        return Assign(name_of(destination), "mov", (_number(location),))
    semantics, scope = _access_order(line, ("weak", "relaxed", "acquire"))
    proxy = _VIEWS[line.qualifiers[0]]
    return Load(name_of(destination), name_of(location), semantics, scope, proxy)


def _store(line: InstructionLine) -> LitmusInstruction:
    if line.has("async", "mbarrier", "mbarrier::complete_tx::bytes"):
        return _async_store(line)
    location, value = line.take(2)
    semantics, scope = _access_order(line, ("weak", "relaxed", "release"))
    return Store(name_of(location), operand_of(value), semantics, scope, _VIEWS[line.qualifiers[0]])


def _async_store(line: InstructionLine) -> LitmusInstruction:
    if not line.has("async") or line.qualifiers[0] != "st":
        raise InstructionError("only st.async completes on an mbarrier")
    if line.semantics(("weak",), "weak") is not Semantics.WEAK or line.has(*SCOPES, "volatile"):
        raise InstructionError("st.async is weak")
    location, value, barrier = line.take(3)
    wide = line.has("b64", "u64", "s64", "f64")
    return AsyncStore(name_of(location), operand_of(value), name_of(barrier), 8 if wide else 4)


def _async_reduction(line: InstructionLine) -> LitmusInstruction:
    found = [q for q in line.qualifiers if q in BULK_REDUCTIONS]
    relaxed = line.semantics(("relaxed",), "relaxed") is Semantics.RELAXED
    if not line.has("async") or len(found) != 1 or not relaxed:
        raise InstructionError(f"`{line.head}` needs async and one operation of {BULK_REDUCTIONS}")
    if line.scope(Scope.CLUSTER) is not Scope.CLUSTER:
        raise InstructionError("red.async has cluster scope")
    location, value, barrier = line.take(3)
    wide = line.has("b64", "u64", "s64")
    size = 8 if wide else 4
    return AsyncStore(name_of(location), operand_of(value), name_of(barrier), size, found[0])


def _descriptor_copy(line: InstructionLine) -> LitmusInstruction:
    if not line.has("cp_fenceproxy"):
        raise InstructionError(f"`{line.head}` is not modelled")
    line.semantics(("release",), "release")
    destination, source, *rest = line.take(2, 3)
    if rest and _number(rest[0]) != 128:
        raise InstructionError("a tensor map has 128 bytes")
    return DescriptorCopy(name_of(destination), name_of(source), line.scope())


def _atomic(line: InstructionLine) -> LitmusInstruction:
    if line.has("async", "mbarrier", "mbarrier::complete_tx::bytes"):
        return _async_reduction(line)
    found = [q for q in line.qualifiers if q in ATOMIC_OPERATIONS]
    if len(found) != 1:
        raise InstructionError(f"`{line.head}` needs one operation of {ATOMIC_OPERATIONS}")
    reduction = line.qualifiers[0] == "red"
    inputs = 2 if found[0] == "cas" else 1
    operands = list(line.take(1 + inputs + (not reduction)))
    destination = None if reduction else name_of(operands.pop(0))
    allowed = ("relaxed", "acquire", "release", "acq_rel")
    semantics = line.semantics(allowed, default="relaxed")
    location, *values = operands
    return Atomic(
        found[0],
        name_of(location),
        tuple(operand_of(value) for value in values),
        semantics,
        line.scope(Scope.GPU),
        destination,
    )


def _fence(line: InstructionLine) -> LitmusInstruction:
    line.take(0, 2)
    if line.has("proxy"):
        return _proxy_fence(line)
    if line.has("mbarrier_init"):
        return MbarrierInitFence()
    semantics = line.semantics(("acq_rel", "acquire", "release", "sc"), default="acq_rel")
    return Fence(semantics, line.scope(), _restriction(line, semantics))


def _restriction(line: InstructionLine, semantics: Semantics) -> Space | None:
    """A release is restricted to its own cta's shared memory, an acquire to the cluster's."""
    found = [q for q in line.qualifiers if q.startswith("sync_restrict")]
    if not found:
        return None
    spaces = {
        (Semantics.RELEASE, "sync_restrict::shared::cta"): Space.OWN_SHARED,
        (Semantics.ACQUIRE, "sync_restrict::shared::cluster"): Space.SHARED,
    }
    if len(found) != 1 or (semantics, found[0]) not in spaces:
        raise InstructionError(f"`{line.head}` is not a restricted fence of ptx")
    if line.scope() is not Scope.CLUSTER:
        raise InstructionError("a restricted fence has cluster scope")
    return spaces[semantics, found[0]]


def _membar(line: InstructionLine) -> LitmusInstruction:
    levels = {"cta": Scope.CTA, "gl": Scope.GPU, "sys": Scope.SYS}
    found = [levels[q] for q in line.qualifiers[1:] if q in levels]
    if len(found) != 1:
        raise InstructionError(f"`{line.head}` needs one level of cta, gl, sys")
    return Fence(Semantics.SC, found[0])


def _proxy_fence(line: InstructionLine) -> LitmusInstruction:
    kind = line.qualifiers[line.qualifiers.index("proxy") + 1 : line.qualifiers.index("proxy") + 2]
    name, _, source = kind[0].partition("::") if kind else ("", "", "")
    if name == "alias":
        return AliasFence()
    if name not in ("constant", "texture", "surface", "async", "tensormap"):
        raise InstructionError(f"`{line.head}` names no proxy that has a fence")
    proxy = Proxy(name)
    if not source:
        if proxy is Proxy.TENSORMAP:
            raise InstructionError("the tensormap fence is uni-directional: tensormap::generic")
        return ProxyFence(proxy, space=_fence_space(line))
    semantics = line.semantics(("release", "acquire"))
    direction = Direction.RELEASE if semantics is Semantics.RELEASE else Direction.ACQUIRE
    if proxy is Proxy.ASYNC:
        if line.has("sync_restrict::shared::cluster::read"):
            if direction is not Direction.RELEASE:
                raise InstructionError("only the release half has a form for reads")
            return ProxyFence(proxy, direction, Scope.CLUSTER, Space.SHARED, reads_only=True)
        own = direction is Direction.RELEASE
        return ProxyFence(
            proxy, direction, Scope.CLUSTER, Space.OWN_SHARED if own else Space.SHARED
        )
    location = None
    if direction is Direction.ACQUIRE:
        location = name_of(line.take(1, 2)[0])
    return ProxyFence(proxy, direction, line.scope(), None, location)


def _fence_space(line: InstructionLine) -> Space | None:
    if line.has("global"):
        return Space.GLOBAL
    if line.has("shared"):
        raise InstructionError("the fence needs .shared::cta or .shared::cluster")
    if line.has("shared::cta"):
        return Space.OWN_SHARED
    return Space.SHARED if line.has("shared::cluster") else None


def _barrier(line: InstructionLine) -> LitmusInstruction:
    if line.has("cluster"):
        line.take(0)
        if line.has("arrive"):
            return ClusterBarrier(False, line.semantics(("release", "relaxed"), "release"))
        return ClusterBarrier(True, line.semantics(("acquire",), "acquire"))
    if line.has("sync") == line.has("arrive"):
        raise InstructionError(f"`{line.head}` needs one of sync, arrive")
    if line.qualifiers[:2] == ["bar", "cta"]:
        operands = [operand_of(part) for part in line.take(1, 3)]
        if len(operands) == 1:
            return Barrier(operands[0], line.has("sync"))
        if not isinstance(operands[0], int):
            raise InstructionError("the barrier instance must be a number")
        count = operands[2] if len(operands) == 3 else None
        return Barrier(operands[1], line.has("sync"), count, operands[0])
    operands = [operand_of(part) for part in line.take(1, 2)]
    return Barrier(operands[0], line.has("sync"), operands[1] if operands[1:] else None)


def _mbarrier(line: InstructionLine) -> LitmusInstruction:
    if line.has("init"):
        location, count = line.take(2)
        return MbarrierInit(name_of(location), _number(count))
    if line.has("arrive"):
        location, *rest = line.take(1, 2)
        number = _number(rest[0]) if rest else None
        expects = line.has("expect_tx")
        return MbarrierArrive(
            name_of(location),
            line.semantics(("release", "relaxed"), "release"),
            line.scope(Scope.CTA),
            1 if expects or number is None else number,
            (number if number is not None else 16) if expects else 0,
        )
    if line.has("expect_tx"):
        location, size = line.take(2)
        return MbarrierExpect(name_of(location), _number(size))
    if line.has("test_wait", "try_wait") and line.has("parity"):
        tests = line.has("test_wait")
        operands = list(line.take(3 if tests else 2))
        destination = name_of(operands.pop(0)) if tests else None
        parity = _number(operands[1])
        if parity not in (0, 1):
            raise InstructionError(f"parity {parity} is neither 0 nor 1")
        semantics = line.semantics(("acquire", "relaxed"), "acquire")
        return MbarrierWait(
            name_of(operands[0]), parity, semantics, line.scope(Scope.CTA), destination
        )
    raise InstructionError(f"unknown mbarrier operation `{line.head}`")


def _copy_async(line: InstructionLine) -> LitmusInstruction:
    if line.has("bulk"):
        return _bulk(line)
    if line.has("mbarrier") and line.has("arrive"):
        return AsyncCopyArrive(name_of(line.take(1)[0]), line.has("noinc"))
    if line.has("commit_group"):
        line.take(0)
        return CommitGroup(GroupKind.COPY)
    if line.has("wait_all"):
        line.take(0)
        return WaitGroup(GroupKind.COPY, 0, commits=True)
    if line.has("wait_group"):
        return WaitGroup(GroupKind.COPY, _number(line.take(1)[0]))
    destination, source = line.take(2)
    return AsyncCopy(name_of(destination), name_of(source))


def _bulk(line: InstructionLine) -> LitmusInstruction:
    if line.has("commit_group"):
        line.take(0)
        return CommitGroup(GroupKind.BULK)
    if line.has("wait_group"):
        return WaitGroup(GroupKind.BULK, _number(line.take(1)[0]), line.has("read"))
    operands = list(line.take(2, 5))
    sizes = [part for part in operands if re.match(r"\d", part)]
    operands = [part for part in operands if part not in sizes]
    size = _number(sizes[0]) if sizes else 16
    by_group = line.has("bulk_group")
    barriers = () if by_group else _names(operands.pop())
    destinations = _names(operands.pop(0))
    reduction = _reduction(line, destinations)
    if not by_group and len(barriers) != len(destinations):
        raise InstructionError(
            f"`{line.head}` names {len(destinations)} destinations and {len(barriers)} barriers"
        )
    tensormap = name_of(operands.pop(0)) if line.has("tensor") and operands else None
    source = name_of(operands.pop(0)) if operands else None
    if operands or (source is None and tensormap is None):
        raise InstructionError(f"`{line.head}` has too few or too many operands")
    if reduction is not None and (source is None or tensormap is not None):
        raise InstructionError("a reduction has one source and no descriptor here")
    return BulkCopy(destinations, source, barriers, tensormap, size, reduction)


def _reduction(line: InstructionLine, destinations: tuple[str, ...]) -> str | None:
    found = [q for q in line.qualifiers if q in BULK_REDUCTIONS]
    if not line.has("reduce"):
        if found:
            raise InstructionError(f"`{line.head}` has an operation but is not a reduction")
        return None
    if len(found) != 1 or len(destinations) != 1:
        raise InstructionError(f"`{line.head}` needs one operation of {BULK_REDUCTIONS}")
    return found[0]


def _wgmma(line: InstructionLine) -> LitmusInstruction:
    if line.has("fence"):
        return NoEffect(line.head)
    if line.has("commit_group"):
        line.take(0)
        return CommitGroup(GroupKind.WGMMA)
    if line.has("wait_group"):
        return WaitGroup(GroupKind.WGMMA, _number(line.take(1)[0]))
    destination, location = line.take(2)
    return MatrixRead(name_of(destination), name_of(location))


def _tcgen05(line: InstructionLine) -> LitmusInstruction:
    if line.qualifiers[1].startswith("fence"):
        return NoEffect(line.head)
    if line.has("commit"):
        return TensorCommit(name_of(line.take(1)[0]))
    if not line.has("mma"):
        raise InstructionError(f"`{line.head}` is not modelled")
    destination, location = line.take(2)
    return MatrixRead(name_of(destination), name_of(location), tensor_memory=True)


def _move(line: InstructionLine) -> LitmusInstruction:
    destination, value = line.take(2)
    return Assign(name_of(destination), "mov", (operand_of(value),))


def _arithmetic(line: InstructionLine) -> LitmusInstruction:
    destination, left, right = line.take(3)
    return Assign(name_of(destination), line.qualifiers[0], (operand_of(left), operand_of(right)))


def _branch(line: InstructionLine) -> LitmusInstruction:
    left, right, target = line.take(3)
    return Branch(
        name_of(target), RELATIONS[line.qualifiers[0][1:]], operand_of(left), operand_of(right)
    )


def _goto(line: InstructionLine) -> LitmusInstruction:
    return Branch(name_of(line.take(1)[0]))


_READERS: dict[str, Callable[[InstructionLine], LitmusInstruction]] = {
    **dict.fromkeys(("ld", "suld", "tld", "cold"), _load),
    **dict.fromkeys(("st", "sust"), _store),
    **dict.fromkeys(("atom", "red"), _atomic),
    **dict.fromkeys(("bar", "barrier"), _barrier),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **{f"b{relation}": _branch for relation in RELATIONS},
    "fence": _fence,
    "membar": _membar,
    "mbarrier": _mbarrier,
    "cp": _copy_async,
    "wgmma": _wgmma,
    "tcgen05": _tcgen05,
    "tensormap": _descriptor_copy,
    "mov": _move,
    "goto": _goto,
    "bra": _goto,
}


def read_instruction(text: str) -> LitmusInstruction:
    """The instruction that `text` spells; raises `InstructionError` with the reason."""
    text = text.strip()
    if text.endswith(":"):
        return Label(name_of(text[:-1].strip()))
    line = InstructionLine(text)
    reader = _READERS.get(line.qualifiers[0])
    if reader is None:
        near = get_close_matches(line.qualifiers[0], _READERS, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise InstructionError(f"unknown instruction `{line.qualifiers[0]}`{hint}")
    known = QUALIFIERS.get(line.qualifiers[0], ())
    for qualifier in line.qualifiers[1:]:
        if qualifier not in known:
            near = get_close_matches(qualifier, known, 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise InstructionError(f"`{line.head}` has no qualifier `{qualifier}`{hint}")
    return reader(line)
