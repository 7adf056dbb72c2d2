"""What a histogram of a litmus run says, next to what the model allows.

The manifest of a rendered test numbers its outcomes and lists those that the model allows, under
its strictest reading (which allows more) and its most generous one. An outcome that no reading
allows is a finding about the device or the model. One that only the strict reading allows shows
which reading the device takes. What is allowed and was never seen is distinguished from what was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.device.manifests import ConditionTree, LitmusManifest, OutcomeWord, WordReference
from titan.foundation.errors import UserError

Values = tuple[int | None, ...]  # None: another value than the manifest knows
OTHER = None


class BadManifest(UserError):
    """The manifest is none of a rendered litmus test; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class ObservedOutcome:
    """`state`: allowed, decides (only the strict reading allows it), forbidden, open (the verdict
    is not complete)."""

    values: Values
    count: int
    state: str
    asked: bool


@dataclass(frozen=True, slots=True)
class ObservedVerdict:
    """What a run of a test showed; `unseen` is allowed and was never counted."""

    test: str
    names: tuple[str, ...]
    outcomes: tuple[ObservedOutcome, ...]
    unseen: tuple[Values, ...]
    observations: int
    incomplete: int

    @property
    def forbidden(self) -> tuple[ObservedOutcome, ...]:
        """Outcomes that no reading of the model allows."""
        return tuple(item for item in self.outcomes if item.state == "forbidden")

    @property
    def state(self) -> str:
        """finding, decides, seen (the outcome asked for), not seen, nothing observed."""
        if self.forbidden:
            return "finding"
        if not self.observations:
            return "nothing observed"
        if any(item.state == "decides" for item in self.outcomes):
            return "decides"
        return "seen" if any(item.asked for item in self.outcomes) else "not seen"


def judge(manifest: LitmusManifest, histogram: Sequence[int]) -> ObservedVerdict:
    """The outcomes that were counted. Raises BadManifest."""
    try:
        return _judge(manifest, histogram)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise BadManifest(f"{manifest.get('test', '?')}: {type(error).__name__} {error}") from None


def _judge(manifest: LitmusManifest, histogram: Sequence[int]) -> ObservedVerdict:
    words = manifest["outcomes"]["words"][1:]
    buckets = int(manifest["outcomes"]["buckets"])
    incomplete = int(manifest["outcomes"]["incomplete_bucket"])
    if len(histogram) <= max(buckets - 1, incomplete):
        raise ValueError(f"a histogram of {len(histogram)} counters")
    strict, generous = _allowed(manifest)
    complete = bool(manifest["verdict"].get("complete", True))
    found = []
    for key in range(buckets):
        if histogram[key] and key != incomplete:
            values = values_of(key, words)
            if not holds(manifest.get("filter"), values):
                continue
            state = _state(values, strict, generous, complete)
            asked = holds(manifest["condition"], values)
            found.append(ObservedOutcome(values, int(histogram[key]), state, asked))
    seen = {outcome.values for outcome in found}
    unseen = tuple(v for v in strict or () if v not in seen and holds(manifest.get("filter"), v))
    return ObservedVerdict(
        str(manifest["test"]),
        tuple(str(word["means"]) for word in words),
        tuple(sorted(found, key=lambda outcome: -outcome.count)),
        unseen,
        sum(outcome.count for outcome in found),
        int(histogram[incomplete]),
    )


def values_of(key: int, words: Sequence[OutcomeWord]) -> Values:
    """The values that a key represents: mixed radix, the first word has the highest digit."""
    digits: list[int | None] = []
    for word in reversed(words):
        known = word["values"]
        key, digit = divmod(key, len(known) + 1)
        digits.append(int(known[digit]) if digit < len(known) else OTHER)
    if key:
        raise ValueError("a key beyond the last outcome")
    return tuple(reversed(digits))


def _allowed(manifest: LitmusManifest) -> tuple[list[Values] | None, list[Values] | None]:
    """What the strict and the generous reading allow; None where the list is too long."""
    readings = manifest["verdict"]["readings"]
    lists = [
        None if item["allowed"] is None else [tuple(values) for values in item["allowed"]]
        for item in (readings[0], readings[-1])
    ]
    return lists[0], lists[1]


def _state(
    values: Values, strict: list[Values] | None, generous: list[Values] | None, complete: bool
) -> str:
    if strict is None or (not complete and values not in strict):
        return "open"
    if values not in strict:
        return "forbidden"
    return "allowed" if generous is None or values in generous else "decides"


def holds(tree: ConditionTree | None, values: Values) -> bool:
    """Whether a condition holds; one that is not there always does."""
    if tree is None:
        return True
    if "connective" in tree:
        parts = [holds(part, values) for part in tree["parts"]]
        match tree["connective"]:
            case "and":
                return all(parts)
            case "or":
                return any(parts)
            case "not":
                return not parts[0]
        raise ValueError(f"no connective {tree['connective']!r}")
    if "relation" in tree:
        left, right = _term(tree["left"], values), _term(tree["right"], values)
        if left is OTHER or right is OTHER:
            return tree["relation"] == "!="
        return {"==": left == right, "!=": left != right}[tree["relation"]]
    raise ValueError("a condition without connective or relation")


def _term(item: int | WordReference, values: Values) -> int | None:
    return int(item) if isinstance(item, int) else values[int(item["word"]) - 1]
