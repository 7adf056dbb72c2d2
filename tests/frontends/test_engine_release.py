"""What a completion by an engine publishes: its own work, or what its issuer knew, by policy."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

# Warp 0 writes and arrives; warp 1 issues a copy behind it; warp 2 waits for the copy and reads.
HANDED_ON = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source)
.reqntid 96
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .b64 %d<4>;
	.shared .align 16 .b8 data[16];
	.shared .align 16 .b8 copied[16];
	.shared .align 8 .b8 written[8];
	.shared .align 8 .b8 full[8];
	ld.param.u64 %d1, [source];
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra INITIALISED;
	mbarrier.init.shared.b64 [written], 1;
	mbarrier.init.shared.b64 [full], 1;
	fence.mbarrier_init.release.cluster;
	fence.proxy.async.shared::cta;
INITIALISED:
	bar.sync 0;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 bra WRITER;
	setp.eq.u32 %p1, %r0, 32;
	@%p1 bra COPIER;
	setp.eq.u32 %p1, %r0, 64;
	@%p1 bra READER;
	ret;
WRITER:
	st.shared.u32 [data], %r0;
	mbarrier.arrive.{release}.shared.b64 _, [written];
	ret;
COPIER:
	mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;
	{before}
WRITTEN:	mbarrier.try_wait.parity.shared.b64 %p2, [written], 0;
	@!%p2 bra WRITTEN;
	{behind}
	ret;
READER:
FULL:	mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;
	@!%p2 bra FULL;
	ld.shared.u32 %r1, [data];
	ret;
}
"""
COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [copied], [%d1], 16, [full];"


def text_of(release: str = "release.cta", before: str = "", behind: str = COPY) -> str:
    text = HANDED_ON.replace("{release}", release)
    return text.replace("{before}", before).replace("{behind}", behind)


@pytest.mark.parametrize(
    ("text", "policy", "verdict", "code"),
    [
        (text_of(), "own", Verdict.REFUTED, "TTN305"),
        (text_of(), "issuer", Verdict.VERIFIED, ""),
        (text_of("relaxed.cluster"), "issuer", Verdict.REFUTED, "TTN305"),
        (text_of(before=COPY, behind=""), "issuer", Verdict.REFUTED, ""),
    ],
    ids=["own", "issuer", "the issuer did not know", "it learnt after the issue"],
)
def test_what_a_copy_publishes(text, policy, verdict, code):
    finding = verified(
        text, "grid: [1]\nparameters: [pointer]", policies=CodePolicies(engine_release=policy)
    )
    assert finding.verdict is verdict, (codes(finding), finding.notes)
    assert not code or codes(finding) == [code]
    noted = any("publishes what its issuer knew" in note for note in finding.notes)
    assert noted is (verdict is Verdict.VERIFIED)
    if code:
        helps = " ".join(finding.diagnostics[0].helps)
        assert ("engine_release=issuer" in helps) is (policy == "own")


COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];"


@pytest.mark.parametrize(("policy", "verdict"), [("own", "refuted"), ("issuer", "verified")])
def test_what_a_commit_publishes(policy, verdict):
    text = text_of(behind=COMMIT).replace("mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;", "")
    finding = verified(
        text, "grid: [1]\nparameters: [pointer]", policies=CodePolicies(engine_release=policy)
    )
    assert finding.verdict.value == verdict, (codes(finding), finding.notes)
    assert codes(finding) == (["TTN305"] if policy == "own" else [])
