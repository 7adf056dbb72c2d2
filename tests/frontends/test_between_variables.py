"""Accesses that leave one variable and would come into the next one, wherever that one stands."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict
from titan.isa.ptx.parse import parse
from titan.isa.simt.layout import RESERVED_BYTES, SHARED_ROOM, lay_out

KERNEL = """.version 8.7
.target {target}
.address_size 64
.const .align 4 .b32 first_table[32] = {{1, 2, 3, 4}};
.const .align 4 .b32 second_table[32] = {{5, 6, 7, 8}};
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry k(.param .u64 p)
.reqntid 32
{{
	.reg .pred %p<4>;
	.reg .b32 %r<32>;
	.reg .b64 %d<16>;
	.shared .align 128 .b8 first[512];
	.shared .align 128 .b8 second[512];
	.shared .align 8 .b64 barrier;
	.local .align 16 .b8 own[64];
	.local .align 16 .b8 others[64];
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p1, %r0, 0;
	shl.b32 %r1, %r0, 2;
	shl.b32 %r2, %r0, 4;
	cvt.u64.u32 %d8, %r1;
	ld.param.u64 %d1, [p];
	mov.u32 %r3, first;
	mov.u32 %r4, second;
	mov.u32 %r5, dynamic;
	mov.u64 %d2, first;
	cvta.shared.u64 %d2, %d2;
	mov.u64 %d3, first_table;
	mov.u64 %d4, own;
	cvta.local.u64 %d5, %d4;
	add.u32 %r6, %r3, %r2;
	add.u32 %r7, %r3, %r1;
	add.u64 %d6, %d3, %d8;
	@%p1 mbarrier.init.shared.b64 [barrier], 1;
	st.shared.v4.b32 [%r6], {{%r0, %r0, %r0, %r0}};
	add.u32 %r8, %r4, %r2;
	st.shared.v4.b32 [%r8], {{%r0, %r0, %r0, %r0}};
	st.local.u32 [own], %r0;
	st.local.u32 [others], %r0;
	fence.proxy.async;
	bar.warp.sync -1;
	{body}
	ret;
}}
"""
LAUNCH = "{grid: 1, dynamic_shared: 1024, parameters: [pointer]}"
# The last bytes of a variable, and those behind them; a store, a load, a copy, ... of each.
FORMS = {
    "store": "@%p1 st.shared.u32 [first+{at}], %r0;",
    "load": "@%p1 ld.shared.u32 %r9, [%r3+{at}]; @%p1 st.global.u32 [%d1], %r9;",
    "generic": "@%p1 st.u32 [%d2+{at}], %r0;",
    "atomic": "@%p1 red.shared.add.u32 [%r3+{at}], 1;",
    "index": "add.u32 %r9, %r7, {at}; add.u32 %r9, %r9, -124; st.shared.u32 [%r9], %r0;",
    "cp.async": "@%p1 cp.async.ca.shared.global [%r3+{at}], [%d1], 4; cp.async.wait_all;",
}
COPY = (
    "@!%p1 bra DONE; mbarrier.arrive.expect_tx.shared.b64 _, [barrier], {bytes};"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [first], [%d1], {bytes},"
    " [barrier]; AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [barrier], 0; @!%p2 bra AGAIN;"
    " DONE:"
)
OTHERS = {
    "copy": (COPY.format(bytes=512), COPY.format(bytes=528)),
    "matrix": (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9, %r10, %r11, %r12}, [%r6];",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9, %r10, %r11, %r12}, [%r6+16];",
    ),
    "object": (
        "@%p1 mbarrier.init.shared.b64 [first+504], 1;",
        "@%p1 mbarrier.init.shared.b64 [first+512], 1;",
    ),
    "constants": (
        "ld.const.u32 %r9, [%d6]; @%p1 st.global.u32 [%d1], %r9;",
        "ld.const.u32 %r9, [%d6+4]; @%p1 st.global.u32 [%d1], %r9;",
    ),
    "local": ("st.local.u32 [own+60], %r0;", "st.local.u32 [own+64], %r0;"),
    "generic of local": ("st.u32 [%d5+60], %r0;", "st.u32 [%d5+64], %r0;"),
    "in front": ("st.shared.u32 [%r5], %r0;", "st.shared.u32 [%r5-4], %r0;"),
    "alignment of the next": ("@%p1 st.shared.u32 [barrier], %r0;", "st.shared.u32 [%r5-512], 1;"),
}
PAIRS = {
    **{name: (form.format(at=508), form.format(at=512)) for name, form in FORMS.items()},
    **{f"{name}, far": (form.format(at=124), form.format(at=6000)) for name, form in FORMS.items()},
    **OTHERS,
}
PRODUCT = """wgmma.fence.sync.aligned;
	{{ .reg .f32 %f<4>; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0;
	mov.f32 %f3, %f0; wgmma.fence.sync.aligned;
	mov.u32 %r9, {where}; shr.u32 %r9, %r9, 4; cvt.u64.u32 %d9, %r9;
	or.b64 %d9, %d9, 0x0000000800080000;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
	{{%f0, %f1, %f2, %f3}}, %d9, %d9, 0, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }}"""


def kernel(body: str, target: str = "sm_90a") -> str:
    return KERNEL.format(body=body, target=target)


@pytest.mark.parametrize("name", PAIRS)
def test_last_bytes_of_a_variable(name: str) -> None:
    inside, beyond = PAIRS[name]
    assert "TTN218" not in codes(verified(kernel(inside), LAUNCH))
    found = verified(kernel(beyond), LAUNCH)
    assert found.verdict is Verdict.REFUTED
    assert "TTN218" in codes(found)


@pytest.mark.parametrize("where, fits", [("first", True), ("first+1024", False)])
def test_operands_of_products(where: str, fits: bool) -> None:
    """A tile of 64 rows of 32 bytes is all of a variable of 2048 bytes."""
    text = kernel(PRODUCT.format(where=where)).replace(".reqntid 32", ".reqntid 128")
    text = text.replace("first[512]", "first[2048]").replace("second[512]", "second[2048]")
    assert ("TTN218" not in codes(verified(text, LAUNCH))) == fits


@pytest.mark.parametrize("sizes", [(64,), (64, 200), (64, 24, 4096), (80_000, 80_000, 100_000)])
@pytest.mark.parametrize("dynamic", [0, 2048, 30_000])
def test_where_variables_stand(sizes: tuple[int, ...], dynamic: int) -> None:
    """As aligned as without gaps, apart where there is room, in the reach of descriptors."""
    variables = "".join(f".shared .align 16 .b8 v{n}[{size}];\n" for n, size in enumerate(sizes))
    extern = ".extern .shared .align 128 .b8 dynamic[];\n"
    text = f".version 8.3\n.target sm_90a\n.address_size 64\n{extern}.visible .entry k() {{\n"
    module, findings = parse(f"{text}{variables}ret; }}\n", "k.ptx")
    assert module is not None and not findings
    layout = lay_out(module, module.functions[0], dynamic)
    dense = RESERVED_BYTES
    before = 0
    for n, size in enumerate(sizes):
        place = layout.find("k", f"v{n}")
        assert place is not None
        dense = -(-dense // 16) * 16
        assert (place[1] - dense) % 1024 == 0
        assert place[1] >= before
        before, dense = place[1] + size, dense + size
        at_end = layout.in_hole(place[0], before, 1)
        assert at_end == (sum(sizes) < 100_000)  # else there is no room
        assert not layout.in_hole(place[0], place[1], size)
    assert layout.static_shared_bytes == dense - RESERVED_BYTES
    assert not layout.in_hole(place[0], layout.dynamic_start, dynamic + 1)
    assert layout.dynamic_start % 128 == 0
    assert layout.shared_bytes == layout.dynamic_start + dynamic
    assert layout.shared_bytes <= SHARED_ROOM or sum(sizes) > 100_000


PARAMETERS = """.version 8.7
.target sm_90a
.address_size 64
.func (.param .b32 sum) add(.param .align 4 .b8 first[8], .param .b32 second)
{{
	.reg .b32 %q<4>;
	ld.param.u32 %q1, [{argument}];
	ld.param.u32 %q2, [second];
	add.u32 %q1, %q1, %q2;
	st.param.b32 [{result}], %q1;
	ret;
}}
.visible .entry k(.param .u64 p, .param .u32 count, .param .align 64 .b8 pair[64], .param .u32 end)
.reqntid 32
{{
	.reg .b32 %r<8>;
	.reg .b64 %d<8>;
	ld.param.u64 %d1, [p];
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %d2, %r0, 4;
	add.u64 %d1, %d1, %d2;
	mov.b64 %d3, pair;
	add.u64 %d4, %d3, {index};
	cvta.param.u64 %d5, %d4;
	ld.{width} {registers}, [{named}];
	ld.param.u32 %r3, [%d4];
	ld.u32 %r4, [%d5];
	{{ .param .align 4 .b8 x[8]; .param .b32 y; .param .b32 z;
	st.param.b32 [x], %r1; st.param.b32 [x+4], %r3; st.param.b32 [y], %r4;
	call.uni (z), add, (x, y);
	ld.param.b32 %r5, [{taken}]; }}
	st.global.u32 [%d1], %r5;
	ret;
}}
"""
FITS = {
    "argument": "first+4", "result": "sum", "index": "60", "width": "param.u32",
    "registers": "%r1", "named": "pair", "taken": "z",
}  # fmt: skip
INTO_THE_NEXT: dict[str, dict[str, str]] = {
    "pointer": {"named": "p+8"},
    "in front": {"named": "count+-4"},
    "padding": {"named": "count+4"},
    "vector": {"width": "param.v2.u32", "registers": "{%r1, %r2}", "named": "count"},
    "index": {"index": "64"},
    "far": {"index": "128"},
    "argument": {"argument": "first+8"},
    "result": {"result": "sum+4"},
    "result taken": {"taken": "z+4"},
}
INSIDE: dict[str, dict[str, str]] = {
    "all": {},
    "last": {"named": "end", "index": "0"},
    "vector": {"width": "param.v2.u32", "registers": "{%r1, %r2}", "named": "pair+56"},
}


@pytest.mark.parametrize("name", INSIDE)
def test_within_a_parameter(name: str) -> None:
    text = PARAMETERS.format(**{**FITS, **INSIDE[name]})
    assert verified(text, "{grid: 1, parameters: [pointer]}").verdict is Verdict.VERIFIED


@pytest.mark.parametrize("name", INTO_THE_NEXT)
def test_beyond_a_parameter(name: str) -> None:
    """Of the entry and of functions, by name, by index, and by a generic address."""
    found = verified(
        PARAMETERS.format(**{**FITS, **INTO_THE_NEXT[name]}), "{grid: 1, parameters: [pointer]}"
    )
    assert found.verdict is Verdict.REFUTED
    assert set(codes(found)) == {"TTN218"}
