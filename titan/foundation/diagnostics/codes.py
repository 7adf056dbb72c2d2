"""The table of rule codes.

A code is never used again for another rule, even after its rule is gone.

Each entry names the module under `titan.foundation.diagnostics.rules` whose docstring explains the
rule; nothing is imported from here, so that the table costs nothing to load.
"""

from __future__ import annotations

from titan.foundation.records import dataclass

FAMILIES = {
    "TTN0": ("input", "input and language"),
    "TTN1": ("typestate", "protocol typestate"),
    "TTN2": ("exploration", "races, stale reads, deadlocks, barrier misuse, leaks"),
    "TTN3": ("visibility", "proxy fences and publication"),
    "TTN4": ("legality", "hardware legality and lowering"),
    "TTN5": ("schedules", "schedules"),
    "TTN6": ("tiles", "tile programs"),
    "TTN9": ("internal", "faults of TITAN itself"),
}


@dataclass(frozen=True, slots=True)
class Code:
    """A row of the table: the name states the fault and reads after "allow"."""

    code: str
    name: str
    severity: str
    module: str

    @property
    def family(self) -> str:
        """The title of the family that the first four characters of the code name."""
        return FAMILIES[self.code[:4]][0]


def _table(rows: str) -> dict[str, Code]:
    table: dict[str, Code] = {}
    for row in rows.split("\n"):
        if not row.strip():
            continue
        code, name, severity = row.split()
        if code in table:
            raise ValueError(f"code {code} is twice in the table")
        family = FAMILIES[code[:4]][0]
        module = f"titan.foundation.diagnostics.rules.{family}.{name.replace('-', '_')}"
        table[code] = Code(code, name, severity, module)
    return table


CODES: dict[str, Code] = _table("""
TTN001 invalid-syntax error
TTN002 unreadable-file error
TTN003 input-too-large error
TTN004 duplicate-key error
TTN005 cyclic-alias error
TTN006 unknown-key error
TTN007 missing-key error
TTN008 wrong-type error
TTN009 value-out-of-range error
TTN010 unknown-name error
TTN011 undeclared-name error
TTN012 non-affine-index error
TTN013 duplicate-name error
TTN014 cyclic-definition error
TTN015 invalid-expression error
TTN016 unsupported-version error
TTN017 contradictory-declaration error
TTN018 missing-launch-value error
TTN101 produce-without-acquire error
TTN102 double-produce error
TTN103 read-before-wait error
TTN104 release-before-drain error
TTN105 missing-release error
TTN106 lapping error
TTN107 unmatched-wait error
TTN108 unequal-bounds error
TTN109 missing-finalize error
TTN110 divergent-release error
TTN111 unhandled-poison error
TTN112 release-without-wait error
TTN113 double-release error
TTN201 data-race error
TTN202 overwrite-while-in-flight error
TTN203 read-before-arrival error
TTN204 stale-read error
TTN205 deadlock error
TTN206 barrier-over-arrival error
TTN207 transaction-mismatch error
TTN208 barrier-uninitialised error
TTN209 barrier-lifecycle error
TTN210 named-barrier-misuse error
TTN211 leak-at-exit error
TTN212 lapped-wait error
TTN213 register-pool-misuse error
TTN214 index-out-of-range error
TTN215 vacuous-verdict warning
TTN216 unobserved-phase error
TTN217 register-in-flight error
TTN218 memory-out-of-bounds error
TTN219 malformed-access error
TTN220 partial-collective error
TTN221 request-after-refusal error
TTN222 unwritten-read error
TTN223 unwritten-register error
TTN301 missing-proxy-fence error
TTN302 missing-proxy-fence-war error
TTN303 unpublished-barrier-init error
TTN304 missing-tensormap-fence error
TTN305 weak-synchronisation error
TTN306 redundant-fence warning
TTN307 missing-cached-proxy-fence error
TTN401 unrepresentable-token error
TTN402 non-monotone-wait error
TTN403 counter-saturation warning
TTN404 count-out-of-range error
TTN405 named-barrier-id-out-of-range error
TTN406 register-pool-oversubscribed error
TTN407 shared-memory-budget error
TTN408 misaligned-stage error
TTN409 tensor-map-rank error
TTN410 tensor-map-global error
TTN411 tensor-map-box error
TTN412 tensor-map-mode error
TTN413 overlapping-memory error
TTN414 misaligned-barrier error
TTN415 named-barrier-threads error
TTN416 misaligned-warpgroup error
TTN417 unsupported-matrix-instruction error
TTN418 tensor-memory-budget error
TTN419 cluster-size error
TTN420 thread-budget error
TTN421 register-file-budget error
TTN422 lds-dma-form error
TTN423 non-portable warning
TTN424 accumulator-budget error
TTN425 barrier-out-of-reach error
TTN426 unavailable-fence error
TTN427 foreign-operation warning
TTN428 completes-elsewhere error
TTN429 copy-size error
TTN430 fence-added error
TTN431 unwaited-shared-access warning
TTN432 unmet-election error
TTN433 unfit-executor error
TTN434 idle-drain warning
TTN435 unknown-form error
TTN501 dependence-violated error
TTN502 unit-oversubscribed error
TTN503 register-limit-exceeded error
TTN504 memory-exceeded error
TTN505 warp-assignment error
TTN506 blocking-overlap error
TTN507 transfer-too-short error
TTN508 schedule-malformed error
TTN509 bound-not-derived error
TTN511 negative-delay error
TTN512 zero-distance-cycle error
TTN513 unknown-unit error
TTN514 impossible-reservation error
TTN515 zero-capacity error
TTN516 too-many-operations error
TTN517 unassignable-operation error
TTN601 unknown-operation error
TTN602 misplaced-operand error
TTN603 shape-mismatch error
TTN604 type-mismatch error
TTN605 value-out-of-scope error
TTN606 carried-mismatch error
TTN607 view-mismatch error
TTN608 unfit-tile error
TTN609 unused-value error
TTN610 output-written-twice error
TTN611 type-beyond-target error
TTN612 overlapping-stores error
TTN901 internal-error error
TTN902 engines-disagree error
""")

BY_NAME: dict[str, Code] = {entry.name: entry for entry in CODES.values()}


def find(code_or_name: str) -> Code | None:
    """The entry for a code in any case, its number or a rule name; None when there is none."""
    code = f"TTN{code_or_name}" if code_or_name.isdecimal() else code_or_name.upper()
    return CODES.get(code) or BY_NAME.get(code_or_name.lower())
