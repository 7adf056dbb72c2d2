"""The header's parts for a runner: they cost nothing when not asked for, and mean what is read."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import struct
import subprocess
import sys
import time

import pytest

from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import hooks
from titan.device.sizes import sizes_for
from titan.device.stress import StressSettings, document, stress
from titan.device.watchdog import run_job
from titan.foundation.resources import root
from titan.package.produce import produce

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
TILE = root("protocols") / "tiles" / "gemm_small_tiles.yaml"
DEFINES = (hooks.DISTURB, hooks.DELAY, hooks.MEASURE, hooks.PROGRESS)
CALLS = re.compile(
    r"^ *(disturb(_warp)?\(\d+\);|delay_pair\(\);|wait_ends\(.*|"
    r"const u64 begun = wait_begins\(.*)( *\\)?\n",
    re.M,
)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    return produce(
        load_tile(TILE), TILE.read_text(), folder, BuildLimits(), with_toolchain=False
    ).folder


@pytest.fixture(scope="module")
def manifest(package):
    return json.loads((package / "manifest.json").read_text())


def ptx(folder, defines=(), assembled=False):
    kind = ["-cubin", "-Xptxas", "-v"] if assembled else ["-ptx"]
    out = folder / "out"
    command = ["nvcc", "-arch=sm_90a", "-std=c++17", *kind, *(f"-D{name}" for name in defines)]
    ran = subprocess.run(
        [*command, "kernel.cu", "-o", str(out)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr if assembled else out.read_text()


@needs_nvcc
def test_without_definitions_the_kernel_is_that_without_hooks(package, tmp_path):
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    plain = ptx(tmp_path)
    header = tmp_path / "titan_device.cuh"
    text = header.read_text()
    bare = CALLS.sub("", text)
    assert len(re.findall(r"disturb\(\d", text)) > 20
    assert not re.findall(r"^ *disturb\(\d", bare, re.M)
    header.write_text(bare)
    assert ptx(tmp_path) == plain
    assert not re.search(r"nanosleep|clock|titan_(disturb|delay|waited|span|progress|turns)", plain)


@needs_nvcc
@pytest.mark.parametrize(
    ("define", "traces"),
    [
        (hooks.DISTURB, ("nanosleep", "titan_disturbance", "%clock")),
        (hooks.DELAY, ("titan_delay", "%dynamic_smem_size", "ld.volatile.shared", "lg2.approx")),
        (hooks.MEASURE, ("%clock64", "titan_waited", "titan_span", "atom")),
        (hooks.PROGRESS, ("st.volatile", "titan_progress", "titan_turns", "membar.sys|fence.*sys")),
    ],
)
def test_each_definition_compiles_and_does_its_part(package, tmp_path, define, traces):
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    text = ptx(tmp_path, [define])
    assert [trace for trace in traces if not re.search(trace, text)] == []
    others = {name for name in DEFINES if name != define}
    symbols = {
        hooks.DISTURB: "titan_disturbance", hooks.MEASURE: "titan_waited",
        hooks.DELAY: "titan_delay",
    }  # fmt: skip
    assert not any(re.search(rf"{symbols.get(name, 'titan_turns')}\b", text) for name in others)


@needs_nvcc
def test_all_definitions_assemble_together(package, tmp_path):
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    told = ptx(tmp_path, DEFINES, assembled=True)
    assert "C7519" not in told  # a fence that ptxas adds because of what stands between
    assert "C7510" not in told  # multiplications one after the other
    assert "Used" in told


@needs_nvcc
def test_symbols_have_the_sizes_that_the_runner_fills(package, tmp_path):
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    text = ptx(tmp_path, DEFINES)
    units = {"b8": 1, "u32": 4, "b32": 4, "u64": 8, "b64": 8}
    found = {
        name: units[unit] * int(count or 1)
        for unit, name, count in re.findall(
            r"\.global[^;]*\.(\w+) (titan_\w+)(?:\[(\d+)\])?;", text
        )
    }
    assert found == {
        "titan_disturbance": 16,
        "titan_delay": 16,
        "titan_waited": hooks.WAITED.size,
        "titan_delayed": hooks.WAITED.size,
        "titan_span": hooks.SPAN.size,
        "titan_progress": 8,
        "titan_progress_ctas": 4,
        "titan_turns": hooks.TURNS_BYTES,
    }


def test_levels_disturb_the_roles_that_they_name(manifest):
    found = {level.name: level for level in hooks.levels(manifest)}
    assert found["quiet"].defines == ()
    assert hooks.DISTURB not in found["measured"].defines
    roles = {role["name"]: role for role in manifest["roles"]}
    assert len(roles) == 2
    for name, role in roles.items():
        bits = {bit for bit in range(32) if found[f"slow:{name}@1024"].warps >> bit & 1}
        first = role["first_thread"] // 32
        assert bits == set(range(first, first + role["threads"] // 32))
    slow = [level for name, level in found.items() if name.startswith("slow:")]
    assert {level.nanoseconds for level in slow} == set(hooks.STRENGTHS)
    assert all(level.disturbance(-1)[0] == 2**32 - 1 for level in slow)


def test_one_group_of_several_is_slow_alone():
    roles = [
        {"name": "p", "first_thread": 0, "threads": 32},
        {"name": "c", "first_thread": 128, "threads": 256},
    ]
    found = {level.name: level.warps for level in hooks.levels({"roles": roles})}
    assert found["slow:c[0]"] == 0b1111_0000
    assert found["slow:c@1024"] == 0b1111_1111_0000
    assert "slow:p[0]" not in found


def test_delays_are_put_on_the_warps_that_consume(manifest):
    found = {level.name: level for level in hooks.levels(manifest)}
    (first,) = [role for role in manifest["roles"] if role["name"] != "producer"]
    everyone = hooks.mask(hooks.warps_of(first))
    for number, knob in enumerate(hooks.KNOBS):
        for amount in hooks.AMOUNTS[knob]:
            level = found.pop(f"{knob}@{amount}")
            assert {hooks.DELAY, hooks.MEASURE} <= set(level.defines)
            words = level.delay(manifest)
            assert words[0] == everyone
            assert words[1:] == tuple(amount if n == number else 0 for n in range(3))
            assert level.disturbance(7)[1] == 0
    assert {level.delay(manifest) for level in found.values()} == {(0, 0, 0, 0)}


def test_delays_that_would_change_nothing_are_left_out(package, manifest):
    source = (package / "kernel.cu").read_text()
    everything = {level.name for level in hooks.levels(manifest)}
    assert {level.name for level in hooks.levels(manifest, source)} == everything - {hooks.ALONE}
    bare = source.replace("titan::store_", "")
    left = {level.name for level in hooks.levels(manifest, bare)}
    assert everything - left == {hooks.ALONE, *(f"heavy-epilogue@{n}" for n in (16, 128, 1024))}


@pytest.mark.parametrize(
    ("shared", "threads", "registers", "several"),
    [
        (100_000, 256, 128, True),
        (116_000, 256, 128, False),
        (10_000, 1056, 16, False),
        (10_000, 256, 168, False),
    ],
)
def test_whether_a_second_cta_fits(shared, threads, registers, several):
    roles = [{"name": "c", "first_thread": 0, "threads": threads, "registers": registers}]
    launch = {"dynamic_shared_bytes": shared, "block": threads}
    manifest = {"roles": roles, "launch": launch}
    assert hooks.several_fit(manifest) == several
    assert (hooks.ALONE in {x.name for x in hooks.levels(manifest, "")}) == several


def test_the_longest_span_is_that_of_one_cta():
    words = [0] * (2 * hooks.CTAS * hooks.WARPS)
    words[0:2] = 1000, 1500
    words[2:4] = 900, 1400
    words[2 * 32 * 3 : 2 * 32 * 3 + 2] = 50, 400  # another multiprocessor, another clock
    assert hooks.longest_span(struct.pack(f"<{len(words)}Q", *words)) == 600
    assert hooks.longest_span(bytes(hooks.SPAN.size)) == 0


def test_waits_by_role(manifest):
    words = [0] * 64
    producer, consumer = (hooks.warps_of(role) for role in manifest["roles"])
    words[2 * producer[0]], words[2 * producer[0] + 1] = 1000, 4
    for warp in consumer:
        words[2 * warp], words[2 * warp + 1] = 30, 3
    rows = hooks.waits(manifest, struct.pack("<64Q", *words))
    assert [(row["cycles"], row["waits"], row["cycles_each"]) for row in rows] == [
        (1000, 4, 250.0),
        (120, 12, 10.0),
    ]
    assert not any("delay_cycles" in row for row in rows)
    data = struct.pack("<64Q", *words)
    rows = hooks.waits(manifest, data, data)
    assert [(row["delay_cycles"], row["delays"]) for row in rows] == [(1000, 4), (120, 12)]


# -------------------------------------------------------------------------- what a hang leaves

HANGS = """
import json, mmap, struct, sys, time
job = json.loads(sys.stdin.readline())
print(json.dumps({"kind": "begin", "sizes": job["cases"][0]["sizes"]}), flush=True)
if len(job["cases"]) % 2:
    print(json.dumps({"kind": "run", "state": "correct", "message": ""}), flush=True)
with open(job["progress"], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
    struct.pack_into("<4I", memory, 0, 1, 1024 + OFFSET, 1, 3)
    struct.pack_into("<I", memory, 16 * 8 * 32, 1024)
    time.sleep(60)
"""


def test_progress_is_read_after_the_child_was_killed(package, manifest):
    source = (package / "kernel.cu").read_text()
    places = {place: offset for offset, place in hooks.barriers(source).items()}
    assert len(places) == 2 * manifest["rings"][0]["depth"]
    path = hooks.new_progress()
    try:
        code = HANGS.replace("OFFSET", str(places["ring_a_empty", 2]))
        records = run_job(
            {"cases": [{"sizes": {}}] * 2, "progress": str(path)}, 60.0,
            (sys.executable, "-c", code), idle=1.0,
            progress=lambda: hooks.read_progress(path, manifest, source),
        )  # fmt: skip
        last = list(records)[-1]
    finally:
        path.unlink()
    assert last["state"] == "hung"
    (row,) = last["progress"]["warps"]
    told = {"cta": 0, "warp": 0, "role": "producer", "state": "waiting"}
    assert row == {**told, "barrier": "ring_a_empty", "stage": 2, "parity": 1, "turn": 3}
    assert "waits at ring_a_empty[2], parity 1, after 3 waits there" in hooks.describe(
        last["progress"]
    )


def test_a_hang_on_a_device_tells_where_the_roles_were(package, manifest):
    source = (package / "kernel.cu").read_text()
    places = {place: offset for offset, place in hooks.barriers(source).items()}
    code = HANGS.replace("OFFSET", str(places["ring_a_full", 0]))
    begun = time.monotonic()
    runs = itertools.islice(
        stress(
            [package],
            StressSettings("gpu", unsafe=False, seconds=0.6),
            command=(sys.executable, "-c", code),
        ),
        4,
    )
    found = list(runs)
    assert time.monotonic() - begun < 20
    assert {run.state for run in found} <= {"hung", "correct"}
    hung = [run for run in found if run.state == "hung"]
    assert hung
    assert all("waits at ring_a_full[0]" in run.message for run in hung)


def test_without_records_there_is_no_progress(tmp_path, manifest):
    path = hooks.new_progress()
    try:
        assert hooks.read_progress(path, manifest, "") == {}
    finally:
        path.unlink()
    assert hooks.read_progress(path, manifest, "") == {}


MEASURES = """
import json, sys
job = json.loads(sys.stdin.readline())
for case in job["cases"]:
    slow = case["policy"].startswith("slow:consumer")
    waits = [{"role": "producer", "cycles": 900 if slow else 100, "waits": 10}]
    waits = [] if case["policy"] == "quiet" else waits
    print(json.dumps({"kind": "run", "state": "correct", "message": "", "waits": waits}))
"""


def test_stalls_by_level_are_part_of_the_document(package, manifest):
    settings = StressSettings("gpu", [0, 1], unsafe=False)
    command = (sys.executable, "-c", MEASURES)
    data = document({}, list(stress([package], settings, command=command)))
    (row,) = data["rows"]
    names = [level.name for level in hooks.levels(manifest, (package / "kernel.cu").read_text())]
    launches = 2 * len(sizes_for(manifest, manifest["rings"][0]["depth"]))
    assert row["policies"] == {name: {"runs": launches, "seen_to_fail": 0} for name in names}
    each = {item["policy"]: item["cycles_each"] for item in row["stalls"]}
    assert set(each) == set(names) - {"quiet"}
    assert {name for name, value in each.items() if value == 90.0} == {
        "slow:consumer@1024",
        "slow:consumer@16384",
    }
