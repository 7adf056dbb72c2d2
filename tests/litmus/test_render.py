"""Litmus tests as CUDA kernels: what the source says, and that it compiles. Nothing is launched."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jinja2 import UndefinedError

from tests.sampling import sampled
from titan.cli.litmus import litmus
from titan.foundation.resources import root
from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.printing import format_instruction
from titan.litmus.language.suite import find_tests, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.render import kernel
from titan.litmus.render.cells import tensor_maps
from titan.litmus.render.files import write_all
from titan.litmus.render.kernel import Rendering, render
from titan.litmus.render.outcomes import outcomes_of, verdict_of
from titan.litmus.render.refusal import NotRenderable

SUITE, AMD = root("litmus"), ("amdgpu", "cdna")
MARK = re.compile(r"^(.*?) *// titan (\d+) (\d+)$")
SAMPLE = (
    "classic/MP+fence.acq_rel",
    "async/gr-bulkload+issuer-fence",
    "async/gw-wgmma+under-fenced",
    "async/bulkload-gr+test-wait-false",
    "cluster/multicast+minimal",
    "cluster/remote-arrive+fence+relaxed",
    "ptx/Ticketlock-same-gpu",
    "tensormap/map-load+gpu+minimal",
    "ptx/Proxy-SingleThread-rf-genW-surR",
    "proxy/gen-tex+alias-fence",
    "proxy/gen-con+none",
    "ptx/SB+named-bar-reg-const-equal",
    "cluster/st-async+minimal",
    "cluster/red-async+two",
    "cluster/bulk-reduce-remote+minimal",
    "cluster/restricted-fence+minimal",
    "tensormap/cp-fenceproxy+minimal",
    "tensormap/cp-fenceproxy+source",
    "async/gw-tcgen05+under-fenced",
    "async/tcgen05-bulkload+minimal",
)
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")


@cache
def suite() -> dict[Path, Rendering | NotRenderable]:
    found: dict[Path, Rendering | NotRenderable] = {}
    for entry in find_tests(sorted(p for p in SUITE.glob("*/") if p.name not in AMD)):
        try:
            found[entry.path] = render(read_test(entry.path))
        except NotRenderable as error:
            found[entry.path] = error
    return found


def rendered() -> dict[Path, Rendering]:
    return {path: r for path, r in suite().items() if isinstance(r, Rendering)}


def parse(text: str) -> LitmusTest:
    return read_litmus("test.litmus", text)


def refusal(text: str) -> NotRenderable:
    with pytest.raises(NotRenderable) as caught:
        render(parse(text))
    return caught.value


def marked(source: str) -> list[tuple[int, int, str]]:
    """Thread, index and PTX of each marked instruction of the source, in its order."""
    strings = re.findall(r'"((?:[^"\\]|\\.)*)"', source)
    found = [MARK.match(text.removesuffix("\\n")) for text in strings]
    return [(int(m[2]), int(m[3]), m[1]) for m in found if m is not None]


# qualifiers that PTX writes and the test leaves out
HIDDEN: dict[type, set[str]] = {ast.MbarrierExpect: {"relaxed"}, ast.AsyncStore: {"weak"}}


def check_instructions(test: LitmusTest, found: list[tuple[int, int, str]]) -> None:
    """Every thread has exactly its instructions, in order, with all qualifiers and numbers."""
    assert {thread for thread, _, _ in found} == {
        number for number, thread in enumerate(test.threads) if thread.instructions
    }
    for number, thread in enumerate(test.threads):
        mine = [(index, ptx) for owner, index, ptx in found if owner == number]
        assert [index for index, _ in mine] == list(range(len(thread.instructions)))
        maps = tensor_maps(test)
        for (_, ptx), step in zip(mine, thread.instructions, strict=True):
            if special(test, step, ptx, maps):
                continue
            head, _, operands = format_instruction(step).partition(" ")
            words = re.split(r"[. ,;]+", ptx.replace("mbarrier::complete_tx::bytes", "mbarrier"))
            missing = [q for q in head.split(".") if q not in words]
            assert not missing, (ptx, head)
            orders = set(words) & {"relaxed", "acquire", "release", "acq_rel", "sc", "weak"}
            allowed = HIDDEN.get(type(step), set())
            assert orders <= set(head.split(".")) | allowed, (ptx, head)
            if isinstance(step, ast.Store) and isinstance(step.value, int):
                assert ptx.endswith(f", {step.value};"), (ptx, operands)
            if isinstance(step, ast.MbarrierWait):
                assert f"], {step.parity};" in ptx


def special(
    test: LitmusTest, step: ast.LitmusInstruction, ptx: str, maps: dict[str, list[int]]
) -> bool:
    """Instructions that PTX spells in another way than the test; whether this is one."""
    match step:
        case ast.Label():
            assert re.fullmatch(r"L\d+:", ptx)
        case ast.Branch(_, relation):
            assert re.search(r"bra [LN]\d+;$", ptx)
            assert (relation is None) == ("setp" not in ptx)
        case ast.Store(location, value) if location in maps:
            space = "global" if test.location(location).home is None else "shared::cta"
            assert ptx.startswith(f"tensormap.replace.tile.global_address.{space}.b1024.b64 ")
            assert value in maps[location]
        case ast.DescriptorCopy(scope=scope):
            assert re.fullmatch(
                r"tensormap\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release"
                rf"\.{scope}\.sync\.aligned \[%\w+\], \[%\w+\], 128;",
                ptx,
            )
        case ast.Load(proxy=ast.Proxy.TEXTURE):
            assert "tex.1d.v4.s32.s32" in ptx
        case ast.Load(proxy=ast.Proxy.CONSTANT):
            assert ptx.startswith("ld.const.s32 ")
        case ast.Load(proxy=ast.Proxy.SURFACE):
            assert ptx.startswith("suld.b.1d.b32.trap ")
        case ast.Store(_, value, proxy=ast.Proxy.SURFACE):
            assert "sust.b.1d.b32.trap" in ptx
            assert not isinstance(value, int) or f"mov.b32 v, {value};" in ptx
        case _:
            return False
    return True


def test_most_of_what_a_launch_can_do_is_rendered() -> None:
    kinds = Counter(r.kind for r in suite().values() if isinstance(r, NotRenderable))
    assert len(suite()) >= 452
    assert len(rendered()) >= 354
    assert set(kinds) == {
        "surface proxy",
        "texture proxy",
        "constant proxy",
        "several gpus",
        "not observable",
        "barrier",
        "views",
        "no such form",
    }


def test_every_refusal_says_why_and_where() -> None:
    for error in suite().values():
        if isinstance(error, NotRenderable):
            assert error.message and error.span is not None


def test_the_source_holds_exactly_the_instructions_of_the_test() -> None:
    for path, rendering in rendered().items():
        check_instructions(read_test(path), marked(rendering.source))


HARNESS = {
    "red.relaxed.gpu.global.add.u32",
    "ld.relaxed.gpu.global.u32",
    "mapa.shared::cluster.u32",
    "mbarrier.init.shared::cta.b64",
    "barrier.cluster.arrive.release.aligned",
    "barrier.cluster.arrive.relaxed.aligned",
    "barrier.cluster.wait.acquire.aligned",
    "fence.mbarrier_init.release.cluster",
    "fence.proxy.async",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group",
    "cp.async.wait_all",
    "fence.proxy.tensormap::generic.acquire.gpu",
    "fence.proxy.tensormap::generic.release.gpu",
    "tensormap.replace.tile.global_address.global.b1024.b64",
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64",
    "sust.b.1d.b32.trap",
    "wgmma.commit_group.sync.aligned",
    "wgmma.wait_group.sync.aligned",
}
TENSOR_HARNESS = {
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "tcgen05.fence::before_thread_sync",
    "tcgen05.fence::after_thread_sync",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.wait::ld.sync.aligned",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
}


CONTROL = re.compile(
    r"({ \.reg \.pred p, q; \.reg \.u32 left;|mov\.u32 left, |sub\.u32 left, "
    r"|setp\.eq\.u32 p, left, 0;"
    r"|setp\.ne\.s32 p, %\d+, 0;|@p bra |bra |[WDN]\d+:)"
)


def test_the_harness_adds_nothing_between_the_instructions() -> None:
    for path, rendering in rendered().items():
        threads = rendering.source.split("if (live) {\n      meet(")[1:]
        assert len(threads) == len(read_test(path).threads)
        unmarked = [
            text
            for text in re.findall(r'asm volatile\("((?:[^"\\]|\\.)*)"', rendering.source)
            if "// titan" not in text
        ]
        plain = [text.removeprefix("{ .reg .pred p; ") for text in unmarked]
        known = HARNESS | (TENSOR_HARNESS if rendering.manifest["target"] == "sm_100a" else set())
        assert {re.split(r"[ ;]", text)[0] for text in plain} <= known
        for thread in threads:
            body = thread[: thread.rindex("// titan")] if "// titan" in thread else ""
            strings = re.findall(r'asm volatile\("((?:[^"\\]|\\.)*)', body)
            assert all("// titan" in text for text in strings[:-1]), path
            lines = re.findall(r'^ +"((?:[^"\\]|\\.)*)\\n"$', body, re.MULTILINE)
            assert all("// titan" in line or CONTROL.match(line) for line in lines), path


def test_an_operation_that_is_in_no_table_is_refused() -> None:
    test = parse(
        "PTX t\n{\nx = 0;\n}\n P0@cta 0,gpu 0 ;\n red.relaxed.gpu.add x, 1 ;\nexists (x=1)"
    )
    (thread,) = test.threads
    for step in (
        dataclasses.replace(thread.instructions[0], operation=HOSTILE),  # type: ignore[call-arg]
        ast.Assign("r0", HOSTILE, (1,)),
    ):
        changed = dataclasses.replace(thread, instructions=(step,))
        with pytest.raises(NotRenderable):
            render(dataclasses.replace(test, threads=(changed,)))


def test_the_check_of_instructions_sees_a_change() -> None:
    path = SUITE / "classic" / "MP+fence.acq_rel.litmus"
    test, found = read_test(path), marked(rendered()[path].source)
    check_instructions(test, found)
    weaker = [(t, i, ptx.replace("acq_rel", "relaxed")) for t, i, ptx in found]
    for wrong in (found[:-1], [found[1], found[0], *found[2:]], weaker):
        with pytest.raises(AssertionError):
            check_instructions(test, wrong)


HOSTILE = '"); asm("trap;"); /* \\ %0 {{ 7 * 7 }} */\n#error // ${x}'


def renamed(test: LitmusTest) -> LitmusTest:
    """The test with a hostile text in the place of every name that the AST carries."""

    def rename(value: object) -> object:
        if isinstance(value, ast.FinalRegister):
            return ast.FinalRegister(HOSTILE + value.thread, HOSTILE + value.register)
        if isinstance(value, ast.Register | ast.FinalMemory):
            (name,) = dataclasses.astuple(value)
            return type(value)(HOSTILE + name)
        if isinstance(value, tuple):
            return tuple(rename(part) for part in value)
        if not dataclasses.is_dataclass(value) or isinstance(value, ast.ThreadPlacement):
            return value
        names = {"name", "location", "destination", "source", "alias_of", "comment", "target"}
        names |= {"tensormap", "barrier"}
        changes: dict[str, object] = {}
        for field in dataclasses.fields(value):
            old = getattr(value, field.name)
            if field.name in names and isinstance(old, str):
                changes[field.name] = HOSTILE + old
            elif field.name in ("destinations", "barriers"):
                changes[field.name] = tuple(HOSTILE + name for name in old)
            elif field.name == "registers":
                changes[field.name] = tuple((HOSTILE + name, number) for name, number in old)
            elif field.name != "span":
                changes[field.name] = rename(old)
        return dataclasses.replace(value, **changes)  # type: ignore[type-var]

    result = rename(test)
    assert isinstance(result, LitmusTest)
    return result


def test_no_name_reaches_the_source() -> None:
    for path, rendering in rendered().items():
        hostile = render(renamed(read_test(path)))
        assert hostile.source == rendering.source, path
        manifest = json.loads(json.dumps(hostile.manifest))
        assert HOSTILE in manifest["test"]


def test_threads_stand_where_the_scope_tree_says() -> None:
    for path, rendering in rendered().items():
        test = read_test(path)
        launch = rendering.manifest["launch"]
        width = launch["cluster_ctas"]
        seats = [(t["cta"], t["first_warp"]) for t in rendering.manifest["threads"]]
        assert len(set(seats)) == len(seats)
        assert max(cta for cta, _ in seats) < launch["ctas_per_instance"]
        for i, first in enumerate(test.threads):
            for j, second in enumerate(test.threads):
                one, other = first.placement, second.placement
                assert (seats[i][0] == seats[j][0]) == one.shares(ast.Scope.CTA, other)
                same = seats[i][0] // width == seats[j][0] // width
                assert same == one.shares(ast.Scope.CLUSTER, other)


SIZES = {"array": 4}  # a texel


def test_locations_do_not_overlap_and_multicast_shares_offsets() -> None:
    for path, rendering in rendered().items():
        places = {p["name"]: p for p in rendering.manifest["locations"]}
        spans = sorted(
            (p["region"], p["cta"] or 0, p["offset_bytes"], SIZES.get(p["region"], p["size_bytes"]))
            for p in places.values()
            if p["alias_of"] is None
        )
        for (*place, offset, size), (*next_place, next_offset, _) in pairwise(spans):
            assert place != next_place or offset + size <= next_offset, path
        for thread in read_test(path).threads:
            for step in thread.instructions:
                if isinstance(step, ast.BulkCopy):
                    for names in (step.destinations, step.barriers):
                        assert len({places[name]["offset_bytes"] for name in names}) <= 1


def test_the_manifest_says_the_condition_over_words() -> None:
    test = parse(
        "PTX t\n{\nx = 3;\n}\n P0@cta 0,gpu 0 ;\n ld.weak r0, x ;\nexists (P0:r0=3 /\\ x=3)"
    )
    manifest = render(test).manifest
    words = {o["means"]: o["word"] for o in manifest["outcomes"]["words"]}
    assert words == {"threads at their end": 0, "P0:r0": 1, "x": 2}
    assert manifest["condition"] == {
        "connective": "and",
        "parts": [
            {"relation": "==", "left": {"word": 1}, "right": 3},
            {"relation": "==", "left": {"word": 2}, "right": 3},
        ],
    }


TWO = "PTX t\n{{\nx = 0;\n}}\n P0@cta 0,gpu 0 | P1@cta {cta},gpu 0 ;\n{rows}\nexists (x=1)"


@pytest.mark.parametrize(
    ("cta", "rows"),
    [
        (0, " bar.sync 1, 2 | st.weak x, 1 ;"),
        (1, " bar.sync 1, 2 | bar.sync 1, 2 ;"),
        (0, " bar.sync 1, 2 | bar.sync 2, 2 ;\n bar.sync 2, 2 | bar.sync 1, 2 ;"),
        (0, " bar.sync 1 | bar.sync 1 ;\n bar.sync 1 | st.weak x, 1 ;"),
        (0, " barrier.cluster.arrive | st.weak x, 1 ;\n barrier.cluster.wait | st.weak x, 1 ;"),
        (
            0,
            " bar.sync 1, 2          | barrier.cluster.arrive ;\n"
            " barrier.cluster.arrive | barrier.cluster.wait ;\n"
            " barrier.cluster.wait   | bar.sync 1, 2 ;",
        ),
    ],
)
def test_a_barrier_that_would_hang_is_refused(cta: int, rows: str) -> None:
    assert refusal(TWO.format(cta=cta, rows=rows)).kind == "barrier"


def test_barriers_that_complete_are_counted_in_warps() -> None:
    rows = " bar.arrive 1, 2 | bar.sync 1, 2 ;\n bar.sync 2 | bar.sync 2 ;"
    texts = [ptx for _, _, ptx in marked(render(parse(TWO.format(cta=0, rows=rows))).source)]
    assert texts == ["bar.arrive 1, 64;", "bar.sync 2, 64;", "bar.sync 1, 64;", "bar.sync 2, 64;"]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("atom.relaxed.gpu.sub r0, x, 1", "no such form"),
        ("red.acquire.gpu.add x, 1", "no such form"),
        ("st.weak x, 4294967296", "size"),
    ],
)
def test_what_ptx_does_not_have_is_refused(row: str, kind: str) -> None:
    assert refusal(f"PTX t\n{{\nx = 0;\n}}\n P0@cta 0,gpu 0 ;\n {row} ;\nexists (x=1)").kind == kind


def test_a_value_that_the_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        kernel._fill({"layout": None})


def compiles(source: Path, folder: Path, target: str, *options: str) -> None:
    assert NVCC is not None
    command = [NVCC, f"-arch={target}", "-cubin", "-Werror", "all-warnings", *options]
    done = subprocess.run(
        [*command, "-o", str(folder / "out.cubin"), str(source)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{source.name}: {done.stderr[:2000]}"


def ptx_of(rendering: Rendering, folder: Path) -> list[tuple[int, int, str]]:
    """The marked instructions of nvcc's PTX, which keeps the comments of inline assembly."""
    assert NVCC is not None
    source, output = folder / "test.cu", folder / "test.ptx"
    source.write_text(rendering.source, encoding="utf-8")
    command = [
        NVCC,
        f"-arch={rendering.manifest['target']}",
        "-ptx",
        "-o",
        str(output),
        str(source),
    ]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    lines = [MARK.match(line.strip()) for line in output.read_text(encoding="utf-8").split("\n")]
    return [(int(m[2]), int(m[3]), m[1]) for m in lines if m is not None]


@needs_nvcc
@pytest.mark.parametrize("name", sampled(SAMPLE, every=3))
def test_a_kernel_compiles_and_keeps_the_instructions(name: str, tmp_path: Path) -> None:
    path = SUITE / f"{name}.litmus"
    check_instructions(read_test(path), ptx_of(rendered()[path], tmp_path))
    compiles(tmp_path / "test.cu", tmp_path, rendered()[path].manifest["target"])


@needs_nvcc
@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_every_kernel_compiles_and_keeps_the_instructions(tmp_path: Path) -> None:
    for path, rendering in rendered().items():
        check_instructions(read_test(path), ptx_of(rendering, tmp_path))
        compiles(tmp_path / "test.cu", tmp_path, rendering.manifest["target"])


def call(*arguments: str) -> Result:
    return CliRunner().invoke(litmus, ["render", *arguments], standalone_mode=False)


def test_the_command_writes_source_and_manifest(tmp_path: Path) -> None:
    result = call(str(SUITE / "cluster"), "-o", str(tmp_path / "out"))
    assert result.return_value == 0
    files = {path.name for path in (tmp_path / "out").iterdir()}
    sources = {name for name in files if name.endswith(".cu")}
    assert files == sources | {name.removesuffix(".cu") + ".json" for name in sources}
    assert f"{len(sources)} rendered" in result.output
    manifest = json.loads((tmp_path / "out" / "cluster-multicast+minimal.json").read_text())
    assert manifest["source"] == "cluster-multicast+minimal.cu"
    assert manifest["launch"]["cluster_ctas"] >= 2


def test_a_named_test_without_rendering_writes_nothing(tmp_path: Path) -> None:
    good, bad = SUITE / "classic" / "MP+bar.litmus", SUITE / "classic" / "IRIW.litmus"
    result = call(str(good), str(bad), "-o", str(tmp_path / "out"))
    assert "needs 2 gpus" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_file_names_are_made_safe_and_kept_apart(tmp_path: Path) -> None:
    text = "PTX ../../up\n{\nx = 0;\n}\n P0@cta 0,gpu 0 ;\n st.weak x, 1 ;\nexists (x=1)"
    for name in ("a b.litmus", "a;b.litmus", "..$(x).litmus"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert call(str(tmp_path), "-o", str(tmp_path / "out")).return_value == 0
    names = sorted(path.name for path in (tmp_path / "out").glob("*.cu"))
    assert len(names) == 3 and all(re.fullmatch(r"[\w+-]+\.cu", name) for name in names)


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_all(tmp_path, {"a.cu": "whole", "b.cu": "\ud800"})
    assert list(tmp_path.iterdir()) == []


def key_of(manifest: dict[str, Any], values: list[int]) -> int:
    """An outcome's number, from what the manifest says alone."""
    key = 0
    for word, value in zip(manifest["outcomes"]["words"][1:], values, strict=True):
        known = word["values"]
        key = key * (len(known) + 1) + (known.index(value) if value in known else len(known))
    return key


def test_keys_number_all_outcomes_and_the_source_counts_by_them() -> None:
    for path in (SUITE / "classic" / "MP+bar.litmus", SUITE / "ptx" / "Ticketlock-same-gpu.litmus"):
        test = read_test(path)
        outcomes = outcomes_of(test)
        manifest = json.loads(json.dumps(render(test).manifest))
        words = manifest["outcomes"]["words"][1:]
        lists = [[*word["values"], 987654321] for word in words]
        keys = [key_of(manifest, list(values)) for values in product(*lists)]
        assert sorted(keys) == list(range(manifest["outcomes"]["buckets"]))
        for values in islice(product(*lists), 50):
            named = dict(zip(outcomes.slots, values, strict=True))
            assert outcomes.key(named) == key_of(manifest, list(values))
        source = render(test).source
        for word in words:
            base = len(word["values"]) + 1
            part = source.split(f"switch (seen[{word['word']}])")[1].split("}")[0]
            for digit, value in enumerate(word["values"]):
                assert f"case (int){value}ll: key = key * {base}u + {digit}u;" in part
            assert f"default: key = key * {base}u + {base - 1}u;" in part


def test_the_verdict_lists_the_outcomes_by_reading() -> None:
    path = SUITE / "async" / "gr-bulkload+issuer-fence.litmus"
    test = read_test(path)
    verdict = verdict_of(test)
    assert verdict is not None
    strict, generous = render(test, verdict).manifest["verdict"]["readings"]
    assert (strict["asked"], generous["asked"]) == ("Allowed", "Forbidden")
    assert all(state in strict["allowed"] for state in generous["allowed"])
    assert len(generous["allowed"]) < len(strict["allowed"])


def test_the_verdict_is_not_narrowed_by_the_filter() -> None:
    text = (
        "PTX t\n{\nx = 0;\n}\n P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n"
        " st.weak x, 1 | ld.weak r0, x ;\nfilter (P1:r0=1)\nexists (x=1)"
    )
    verdict = verdict_of(parse(text))
    assert verdict is not None
    assert all(states == [[1, 0], [1, 1]] for states in verdict.states.values())


def test_a_jump_back_is_bounded_and_a_jump_ahead_is_free() -> None:
    head = "PTX t\n{\nx = 0;\n}\n P0@cta 0,gpu 0 ;\n"
    text = head + " L0: ;\n ld.weak r0, x ;\n b%s ;\n L1: ;\nexists (x=1)"
    back = render(parse(text % "eq r0, 0, L0")).source
    ahead = render(parse(text % "eq r0, 0, L1")).source
    assert back.count("@p bra GIVE_UP;") == 1 and "live = going != 0;" in back
    assert ahead.count("@p bra GIVE_UP;") == 0


def test_a_barrier_number_that_is_computed_is_refused() -> None:
    rows = " ld.weak r1, x | st.weak x, 1 ;\n bar.sync r1, 2 | bar.sync 1, 2 ;"
    assert refusal(TWO.format(cta=0, rows=rows)).kind == "barrier"
    rows = " bar.sync 1, 1 | bar.cta.sync 2, 1, 1 ;"
    assert refusal(
        TWO.format(cta=0, rows=rows).replace("bar.sync 1", "bar.cta.sync 1, 1")
    ).kind == ("barrier instance")


def test_a_memory_fence_that_ptx_lacks_is_refused_with_that_reason() -> None:
    found = [r.message for r in suite().values() if isinstance(r, NotRenderable)]
    assert sum("ptx has no fence for the" in message for message in found) == 97


@needs_nvcc
@pytest.mark.parametrize(
    "name",
    [
        "ptx/Ticketlock-same-gpu",
        "cluster/multicast+minimal",
        "tensormap/cp-fenceproxy+minimal",
        "async/tcgen05-bulkload+minimal",
    ],
)
def test_the_densest_packing_compiles(name: str, tmp_path: Path) -> None:
    path = SUITE / f"{name}.litmus"
    rendering = rendered()[path]
    manifest = rendering.manifest
    limits = {key: entry["max"] for key, entry in manifest["options"].items()}
    limits["TITAN_STRESS_WARPS"] = 4
    slots = manifest["launch"]["slots_per_cta"]
    if limits["TITAN_TOGETHER"]:
        limits["TITAN_LANES"] = 32 // slots
    shared = sum(p["size_bytes"] for p in manifest["locations"] if p["space"] == "shared")
    limits["TITAN_GROUPS"] = max(
        1, min(limits["TITAN_GROUPS"], 8, 48 * 1024 // (max(shared, 16) * limits["TITAN_LANES"]))
    )
    source = tmp_path / "test.cu"
    source.write_text(rendering.source, encoding="utf-8")
    target = manifest["target"]
    compiles(source, tmp_path, target, *(f"-D{key}={value}" for key, value in limits.items()))
    with pytest.raises(AssertionError, match="lanes"):
        compiles(source, tmp_path, target, "-DTITAN_LANES=33")
