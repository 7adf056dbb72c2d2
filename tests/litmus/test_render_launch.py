"""What a launch of a rendered test needs: set-up, descriptor drafts, tensor memory, warpgroups."""

from __future__ import annotations

import re

import pytest

from tests.litmus.test_render import SUITE, parse, refusal, rendered
from titan.litmus.language.printing import format_instruction
from titan.litmus.language.suite import read_test
from titan.litmus.render import tensors
from titan.litmus.render.kernel import render

DRAFT = (
    "PTX t\n{{\nshared s = 1 @ cta 0,gpu 0;\nm = 0;\n}}\n P0@cta 0,gpu 0 ;\n"
    " tensormap.cp_fenceproxy.tensormap::generic.release.gpu {pair} ;\n{rows}exists ({asked})"
)


def test_a_descriptor_copy_is_one_of_a_whole_warp_that_did_not_give_up() -> None:
    for path, rendering in rendered().items():
        source = rendering.source
        lines = [line.strip() for line in source.split("\n")]
        for number, line in enumerate(lines):
            if "cp_fenceproxy" in line:
                assert lines[number - 1] == lines[number + 1] == "whole_warp();", path
                assert "leading_warp && __shfl_sync(0xFFFFFFFFu, live, 0)" in lines[number - 2]
                options = rendering.manifest["options"]
                assert options["TITAN_LANES"]["max"] == 1 and options["TITAN_TOGETHER"]["max"] == 0


def test_a_draft_points_at_its_own_tile_before_the_test_begins() -> None:
    rendering = render(parse(DRAFT.format(pair="m, s", rows=" st.weak s, 2 ;\n", asked="m=1")))
    before, after = rendering.source.split("whole_cluster();", 1)
    assert before.count("tensormap.replace.tile.global_address.shared::cta") == 1
    assert after.count("tensormap.replace.tile.global_address.shared::cta") == 1
    assert len(rendering.manifest["setup"]) == 2


def test_the_final_value_of_a_map_is_found_by_its_bytes() -> None:
    path = SUITE / "tensormap" / "cp-fenceproxy+source.litmus"
    rendering = rendered()[path]
    found = re.findall(
        r"if \(same\(mine0 \+ (\d+), mine0 \+ (\d+)\)\) seen\[1\] = \(int\)(\d)ll;",
        rendering.source,
    )
    made = dict(re.findall(r"point\(mine0 \+ (\d+), .*, mine0 \+ (\d+)\);", rendering.source))
    tiles = dict(re.findall(r"case (\d+): value = \(int\)(\d)ll; break;", rendering.source))
    places = {p["name"]: p for p in rendering.manifest["locations"]}
    assert {value for _, _, value in found} == {"0", "1", "2"}
    for seen, image, value in found:
        assert int(seen) == places["m"]["offset_bytes"]
        assert tiles[str(int(made[image]) // 128)] == value
        assert f"case {int(image) // 128}:\n" in rendering.source
    (word,) = rendering.manifest["outcomes"]["words"][1:]
    other = re.search(r"    seen\[1\] = (\d+);", rendering.source)
    assert other is not None and int(other[1]) not in word["values"]


@pytest.mark.parametrize(
    ("pair", "rows", "asked", "kind"),
    [
        ("s, m", "", "m=1", "reach"),
        ("m, m", "", "m=1", "reach"),
        ("m, s", " ld.weak r0, s ;\n", "P0:r0=1", "tensor map"),
        ("m, s", " ld.weak r0, m ;\n", "P0:r0=1", "tensor map"),
        ("m, s", " atom.relaxed.gpu.add r0, s, 1 ;\n", "m=1", "tensor map"),
        ("m, s", "", "s=1", "not observable"),
    ],
)
def test_a_draft_is_only_edited_and_copied(pair: str, rows: str, asked: str, kind: str) -> None:
    assert refusal(DRAFT.format(pair=pair, rows=rows, asked=asked)).kind == kind


def test_the_target_is_the_one_that_has_the_instructions() -> None:
    for path, rendering in rendered().items():
        steps = [s for thread in read_test(path).threads for s in thread.instructions]
        tensor = any(format_instruction(step).startswith("tcgen05") for step in steps)
        assert rendering.manifest["target"] == ("sm_100a" if tensor else "sm_90a"), path
        assert f"as kernels for {rendering.manifest['target']};" in rendering.source
        assert ("tcgen05" in rendering.source) == tensor


MATRIX = (
    "PTX t\n{{\nshared a = 1 @ cta 0,cluster 0,gpu 0;\nx = 0;\n{more}}}\n"
    " P0@cta 0,cluster 0,gpu 0 ;\n tcgen05.mma r0, a ;\n{rows}exists (P0:r0=1)"
)


def test_a_result_is_fetched_from_its_own_columns_and_memory_is_given_back() -> None:
    rows = " tcgen05.mma r1, a ;\n tcgen05.mma r0, a ;\n"
    text = MATRIX.format(more="", rows=rows).replace("(P0:r0=1)", "(P0:r0=1 /\\ P0:r1=0)")
    rendering = render(parse(text))
    source = rendering.source
    offsets = re.findall(r'"r"\(results \+ (\d+)u\)', source)
    assert offsets == ["0", "8", "0"]
    run = source.split("titan_litmus_run(PARAMETERS)")[1]
    fetched = re.findall(
        r"tcgen05\.ld.*?n \* 16u \+ (\d+)u\).*?WORDS \+ (\d+)\] = value", run, re.DOTALL
    )
    assert fetched == [("0", "1"), ("8", "2")]
    places = [run.index(f"tcgen05.{name}.") for name in ("alloc", "mma", "ld", "dealloc")]
    assert places == sorted(places)
    assert run.count("tcgen05.alloc.") == run.count("tcgen05.dealloc.") == 1
    assert run.index("multiplied(") < run.index("add((unsigned*)seen, 1u)") < places[2]
    assert rendering.manifest["options"]["TITAN_LANES"]["max"] == 1


def test_the_instruction_descriptor_has_the_fields_of_ptx() -> None:
    fields = {"d": (4, 2), "a": (7, 3), "b": (10, 3), "n": (17, 6), "m": (24, 5)}
    found = {
        name: tensors.INSTRUCTION >> at & ((1 << size) - 1) for name, (at, size) in fields.items()
    }
    assert found == {"d": 2, "a": 1, "b": 1, "n": 8 // 8, "m": 64 // 16}
    assert sum(value << fields[name][0] for name, value in found.items()) == tensors.INSTRUCTION


@pytest.mark.parametrize(
    ("more", "rows", "kind"),
    [
        ("", " st.weak x, r0 ;\n", "tensor memory"),
        ("", " ld.weak r0, x ;\n", "tensor memory"),
        ("", " add r1, r0, 1 ;\n", "tensor memory"),
        ("", " wgmma.fence ;\n", "target"),
        ("", " wgmma.mma_async r1, a ;\n", "target"),
        ("", " L0: ;\n bne r1, 0, L0 ;\n", "loop"),
        ("shared c = 0 @ cta 1,cluster 0,gpu 0;\n", " st.weak c, 1 ;\n", "tensor memory"),
        ("y = 200;\n", " st.weak y, 1 ;\n", "size"),
    ],
)
def test_what_tensor_memory_is_not_rendered_for(more: str, rows: str, kind: str) -> None:
    assert refusal(MATRIX.format(more=more, rows=rows)).kind == kind


def test_a_warpgroup_starts_at_a_multiple_of_four_warps() -> None:
    for path, rendering in rendered().items():
        launch = rendering.manifest["launch"]
        for thread in rendering.manifest["threads"]:
            if thread["warps"] > 1:
                groups = range(rendering.manifest["options"]["TITAN_GROUPS"]["max"])
                firsts = {g * launch["warps_per_group"] + thread["first_warp"] for g in groups}
                assert all(first % 4 == 0 for first in firsts), path


def test_the_manifest_and_the_source_say_the_same_of_a_launch() -> None:
    for path, rendering in rendered().items():
        manifest, source = rendering.manifest, rendering.source
        numbers = dict(re.findall(r"#define (STRIDE|WORDS|BUCKETS|CTAS) (\d+)", source))
        buffers = {b["parameter"]: b for b in manifest["buffers"]}
        assert int(numbers["STRIDE"]) == buffers["memory0"]["bytes_per_instance"]
        assert 4 * int(numbers["WORDS"]) == buffers["outcomes"]["bytes_per_instance"]
        assert 8 * (int(numbers["BUCKETS"]) + 1) == buffers["histogram"]["bytes"]
        assert int(numbers["CTAS"]) == manifest["launch"]["ctas_per_instance"]
        macro = source.split("#define PARAMETERS")[1].split("\n\n")[0]
        listed = [line.strip(" ,\\") for line in macro.split("\n")[1:] if line.strip(" \\")]
        assert listed == [f"{p['type']} {p['name']}" for p in manifest["parameters"]], path
        names = {p["name"] for p in manifest["parameters"]}
        assert buffers.keys() <= names
        for step in manifest["setup"]:
            used = {step.get(key) for key in ("parameter", "surface", "texture", "offsets")}
            assert used - {None} <= names
        for kernel_name in (*manifest["kernels"], *manifest["setup_kernels"]):
            assert f"{kernel_name}(PARAMETERS)" in source


def test_what_the_host_has_to_set_up_is_listed() -> None:
    def steps(name: str) -> list[str]:
        return [s["step"] for s in rendered()[SUITE / f"{name}.litmus"].manifest["setup"]]

    assert steps("classic/MP+bar") == []
    assert steps("tensormap/map-load+minimal") == ["encode tensor map"]
    assert steps("tensormap/map-load+wrong-map") == ["encode tensor map"] * 2
    assert steps("ptx/Proxy-Alias-AliasFence") == ["map again"]
    assert steps("proxy/gen-con+none") == ["constant symbol"]
    assert steps("proxy/gen-tex+alias-fence") == ["linear texture"]
    surface = ["array over mapped memory", "find texels"]
    assert steps("ptx/Proxy-SingleThread-rf-genW-surR") == surface
    aliased = steps("ptx/Proxy-MP-Alias+diffProxy-noFence1")
    assert aliased == [surface[0], "map again", surface[1]]
