"""Unsafe variants of an emitted kernel: each breaks one rule of the protocol, for all to see.

They are edits of the text of `kernel.cu`, made for stress runs only and never part of a package.
What each one is without: seed evaluation plan, A1 to A4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

SAFE = "safe"
BANNER = "// UNSAFE on purpose: {about}. For stress runs only.\n"
_EMPTY_WAIT = re.compile(r"^\s*titan::barrier_wait\(b_\w+_empty\b.*$", re.M)
_FULL_PARITY = re.compile(r"(titan::barrier_wait\(b_\w+_full \+ [^;]*, )([^;,]*% 2|\w+\.parity)\);")
_DRAIN = re.compile(r"titan::wgmma_wait<\d+>\(\);  // drain")
_FENCE = re.compile(r"^\s*titan::fence_proxy_async\(\);.*$", re.M)
_RELEASE = re.compile(
    r"^\s*if \((?:titan::elect_one\(\)|titan_elected)\) titan::barrier_arrive\(b_\w+_empty\b"
)
_COMMIT_EMPTY = re.compile(r"titan::tensor_commit\((b_\w+_empty\b)")
_COMMIT_FULL = re.compile(r"titan::tensor_commit\((b_\w+_full\b)")
# All waits for copies to LDS. For tiles that pass through registers the compiler waits anyway.
_COPIES_WAIT = re.compile(
    r"((?:^\s*titan::loaded\(.*\n)+^\s*titan::wait_vector<.*$)"
    r"|^\s*titan::wait_(?:copies|vector)<.*$",
    re.M,
)
_COPIES_LEFT = re.compile(r"(titan::wait_copies<[^>]*>\()(.*)\);")
_MEETING = re.compile(r"^\s*titan::workgroup_barrier\(\);.*$", re.M)
_READS_WAIT = re.compile(r"^\s*titan::wait_shared\(\);.*$", re.M)
_GROUP_WAIT = re.compile(r"^\s*titan::wgmma_wait<")
NEAR_LINES = 12


@dataclass(frozen=True, slots=True)
class EditedVariant:
    """`edit` gives the changed text, or the same where the kernel has nothing of the kind."""

    name: str
    about: str
    edit: Callable[[str], str]


def _early(text: str) -> str:
    """Every release stands before the wait for the multiplications that read the stage."""
    lines = text.split("\n")
    for number in range(len(lines)):
        if not _RELEASE.match(lines[number]):
            continue
        for before in range(number - 1, max(-1, number - NEAR_LINES), -1):
            if _GROUP_WAIT.match(lines[before]):
                lines.insert(before, lines.pop(number))
                break
    return "\n".join(lines)


VARIANTS = (
    EditedVariant("non-blocking acquire", "the producer does not wait for a free stage",
            lambda text: _EMPTY_WAIT.sub("", text)),
    EditedVariant("early release", "a stage is given back while it is still read", _early),
    EditedVariant("missing drain", "nobody waits for the tensor cores before results are used",
            lambda text: _DRAIN.sub("titan::wgmma_wait<7>();  // drain", text)),
    EditedVariant("missing fence", "bulk copies read what threads wrote without a proxy fence",
            lambda text: _FENCE.sub("", text)),
    EditedVariant("parity without epoch", "readers wait for the same parity in every round",
            lambda text: _FULL_PARITY.sub(r"\g<1>0);", text)),
)  # fmt: skip


# Products that stand in tensor memory (sm_100a), beside those above that fit.
TENSOR_VARIANTS = (
    EditedVariant("early release", "a stage is given back while products still read it",
            lambda text: _COMMIT_EMPTY.sub(r"titan::barrier_arrive(\g<1>", text)),
    EditedVariant("missing drain", "results are handed over before the products are done",
            lambda text: _COMMIT_FULL.sub(r"titan::barrier_arrive(\g<1>", text)),
)  # fmt: skip

# Wait counters and one barrier of the workgroup (gfx942, gfx950).
COUNTER_VARIANTS = (
    EditedVariant("missing wait", "a wave does not wait for its copies before the barrier",
            lambda text: _COPIES_WAIT.sub(lambda found: found[1] or "", text)),
    EditedVariant("one tile too few", "a wave waits for all but one tile more than it may leave",
            lambda text: _COPIES_LEFT.sub(r"\g<1>\g<2> + 1);", text)),
    EditedVariant("missing barrier", "waves read what others copied without synchronising first",
            lambda text: _MEETING.sub("", text)),
    EditedVariant("early release", "a stage is refilled before reads of it have returned",
            lambda text: _READS_WAIT.sub("", text)),
)  # fmt: skip
ALL_VARIANTS = (*VARIANTS, *TENSOR_VARIANTS, *COUNTER_VARIANTS)


def variants(text: str) -> dict[str, str]:
    """The safe text and every variant that differs from it, by name."""
    made = {SAFE: text}
    for variant in ALL_VARIANTS:
        changed = variant.edit(text)
        if changed != text:
            made[variant.name] = BANNER.format(about=variant.about) + changed
    return made
