"""What the driver library is called with: types, structures, numbers of cuda.h; our launches.

The library is a fake that was compiled against the real header; it computes nothing.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import struct
import sys
import types

import pytest

from tests.device import fake_gpu
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import child, driver, gpu, hooks, peers, probes
from titan.device.plan import LaunchPlan, Number, Pointer, TensorMapArguments, TensorShape
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all
from titan.package.produce import produce

pytestmark = pytest.mark.skipif(
    fake_gpu.include() is None or shutil.which("gcc") is None, reason="no cuda.h, or no gcc"
)
TILE = root("protocols") / "tiles" / "gemm_small_tiles.yaml"
SIZES = {"M": 64, "N": 64, "K": 136}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return driver.typed(
        fake_gpu.build(tmp_path_factory.mktemp("driver")), driver.FUNCTIONS, "the CUDA driver"
    )


@pytest.fixture
def device(library, monkeypatch):
    monkeypatch.setattr(driver, "driver", lambda: library)
    monkeypatch.setitem(sys.modules, "cupy", fake_gpu.cupy())
    library.fake_clear()
    library.fake_fail(0)
    library.fake_kinds(b"")
    return library


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    return produce(
        load_tile(TILE), TILE.read_text(), folder, BuildLimits(), with_toolchain=False
    ).folder


def log(library):
    return library.fake_log().decode().splitlines()


def test_structures_are_those_of_the_header(library):
    for line in library.fake_layout().decode().splitlines():
        name, size, *places = line.split()
        kind = getattr(driver, name)
        assert ctypes.sizeof(kind) == int(size), name
        for field, place in zip(places[::2], places[1::2], strict=True):
            assert getattr(kind, field).offset == int(place), (name, field)


def test_numbers_are_those_of_the_header(library):
    words = library.fake_numbers().decode().split()
    known = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    types = {name: known[name] for name in ("u8", "u32", "i32", "f16", "f32", "bf16")}
    bytes_of = ("e4m3", "e5m2", "ue8m0", "e2m1x2")
    assert {**types, **dict.fromkeys(bytes_of, known["u8"])} == driver.DATA_TYPES
    assert {name: known[name] for name in driver.SWIZZLES} == driver.SWIZZLES
    ours = (
        driver.PROMOTE_256B, driver.CLUSTER_DIMENSION, driver.HOST_REGISTER_DEVICEMAP,
        driver.STATIC_SHARED, driver.LOCAL_BYTES, driver.REGISTERS, driver.MAX_DYNAMIC_SHARED,
        driver.MAP_BYTES, driver.DEPENDENT_LAUNCH,
    )  # fmt: skip
    names = ("promote", "cluster", "devicemap", "static_shared", "local", "registers", "dynamic",
             "map", "dependent")  # fmt: skip
    assert ours == tuple(known[name] for name in names)
    assert (known["pinned"], known["device"], known["readwrite"]) == (1, 1, 3)


def test_a_launch_passes_what_was_planned(device, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("kernel")
    module = gpu.GpuModule(source, "sm_90a", ("A=1",))
    told = f"-std=c++17\n--gpu-architecture=sm_90a\n-I{tmp_path}\n-DA=1"
    assert module.cubin == b"\x7fELF" + told.encode()
    box = TensorMapArguments("A", "bf16", (72, 300, 5), (144, 43200), (64, 128, 1), "128B")
    tensors = (TensorShape("A", "bf16", (5, 300, 72), False),)
    planned = LaunchPlan("entry", 8, 384, 2, 230_000, tensors, (box, Pointer("A"), Number(-7)))
    device.fake_kinds(b"mpn")
    pointer = 0x7F12_3456_7800
    function = module.function("entry", 230_000)
    gpu.Prepared(function, planned, {"A": pointer}).run(0x5555_6666_7777)
    assert log(device) == [
        "load \x7fELF",
        "function entry of 123456789abc",
        "attribute 8 = 230000",
        "map type 9 rank 3 (72 of 64 step 1) (300 of 128 step 1) (5 of 1 step 1) stride 144 "
        "stride 43200 modes 0 3 3 0",
        "launch 8 1 1 | 384 1 1 | 230000 bytes, stream 555566667777, extra 0, function "
        "7fff12345678, attribute 4: 2 1 1, map of 7f1234567800, pointer 7f1234567800, number -7",
    ]
    assert function.resources(384) == {
        "registers": 168, "spilled_bytes": 16, "shared_bytes": 230_000,
        "ctas_per_multiprocessor": 2, "warps_per_cta": 12,
    }  # fmt: skip


def test_a_launch_without_a_cluster_has_no_attribute(device, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("")
    gpu.GpuModule(source, "sm_90a").function("k", 0).launch(1, 32, [])
    assert "attribute" not in log(device)[-1]
    assert not any("attribute 8" in line for line in log(device))


@pytest.mark.parametrize(
    ("cluster", "told"), [(1, ", attribute 6: 1"), (2, ", attribute 4: 2 1 1, attribute 6: 1")]
)
def test_a_launch_that_may_begin_early_says_so(device, tmp_path, cluster, told):
    source = tmp_path / "kernel.cu"
    source.write_text("")
    planned = LaunchPlan("k", 8, 32, cluster, 0, (), (), True)
    gpu.Prepared(gpu.GpuModule(source, "sm_90a").function("k", 0), planned, {}).run()
    assert told in log(device)[-1] and log(device)[-1].count("attribute") == cluster


def test_errors_are_told_by_their_names(device, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("#error")
    with pytest.raises(driver.DeviceError, match=r"kernel.cu does not compile.*told by the source"):
        gpu.GpuModule(source, "sm_90a")
    source.write_text("")
    module = gpu.GpuModule(source, "sm_90a")
    device.fake_fail(1)
    with pytest.raises(driver.DeviceError, match=r"launch: CUDA_ERROR_INVALID_VALUE \(1\)"):
        module.function("k", 0).launch(1, 32, [])
    device.fake_fail(999)
    with pytest.raises(driver.DeviceError, match=r"launch: an unknown error \(999\)"):
        module.function("k", 0).launch(1, 32, [])


def test_a_machine_without_nvrtc(device, tmp_path, monkeypatch):
    def missing(*given):
        raise RuntimeError("CuPy failed to load libnvrtc.so.12")

    nvrtc = sys.modules["cupy"].cuda.nvrtc
    monkeypatch.setattr(nvrtc, "createProgram", missing, raising=False)
    monkeypatch.setattr(nvrtc, "getVersion", missing, raising=False)
    (record,) = child.facts({})
    assert record["nvrtc"].startswith("none: CuPy failed")
    with pytest.raises(driver.NoDevice, match=r"NVRTC cannot be used.*CUDA toolkit"):
        gpu.compile_source("", "kernel.cu", ())


def test_a_driver_that_is_too_old(library):
    with pytest.raises(driver.NoDevice, match="too old: it has no cuGetErrorName"):
        driver.typed(ctypes.CDLL(None), driver.FUNCTIONS, "the CUDA driver")


def check_job(package, **more):
    return {
        "kind": "check", "folder": str(package), "backend": "gpu", "seed": 1, "policy": "quiet",
        "sizes": [SIZES], **more,
    }  # fmt: skip


def test_a_check_of_every_level_fills_what_the_header_asks_for(device, package, tmp_path):
    manifest = json.loads((package / "manifest.json").read_text())
    progress = hooks.new_progress()
    keep = tmp_path / "keep"
    keep.mkdir()
    seen = {}
    try:
        for level in hooks.levels(manifest):
            device.fake_clear()
            job = check_job(package, policy=level.name, progress=str(progress), keep=str(keep))
            begin, run = child.check(job)
            assert begin["kind"] == "begin"
            assert run["state"] == "wrong"  # nothing was computed
            assert run["launch"]["shared_bytes"] == (
                232_448 if level.alone else manifest["launch"]["dynamic_shared_bytes"]
            )
            seen[level.name] = {line.split()[1] for line in log(device) if "symbol" in line}
            base = device.fake_globals()
            words = struct.unpack("<4I", ctypes.string_at(base + 8192, 16))
            assert words == (level.delay(manifest) if hooks.DELAY in level.defines else (0,) * 4)
            assert ("waits" in run) == (hooks.MEASURE in level.defines)
    finally:
        progress.unlink()
    assert seen["quiet"] == set()
    measured = {"titan_waited", "titan_delayed", "titan_span"}
    reports = {"titan_progress", "titan_progress_ctas", "titan_turns"}
    assert seen["measured"] == measured | reports
    assert seen["storm"] == measured | reports | {"titan_disturbance", "titan_delay"}
    assert {path.name for path in keep.iterdir()} == {
        "kernel.cubin",
        "kernel+measure+progress.cubin",
        "kernel+disturb+delay+measure+progress.cubin",
    }
    assert b"-DTITAN_DELAY" in (keep / "kernel+disturb+delay+measure+progress.cubin").read_bytes()


def test_without_a_file_of_progress_runs_go_on(device, package, monkeypatch):
    progress = hooks.new_progress()

    def refuse(path):
        raise driver.DeviceError("registering the file of progress: CUDA_ERROR_X (801)")

    monkeypatch.setattr(gpu, "SharedFile", refuse)
    try:
        _, run = child.check(check_job(package, policy="storm", progress=str(progress)))
    finally:
        progress.unlink()
    assert "registering" in run["without_progress"]
    assert "symbol titan_progress" not in log(device)
    assert "symbol titan_delay" in log(device)


def test_the_file_of_progress_is_mapped_page_by_page(device, tmp_path):
    path = tmp_path / "progress"
    path.write_bytes(bytes(hooks.PROGRESS_BYTES))
    shared = gpu.SharedFile(path)
    assert log(device) == [f"register {hooks.PROGRESS_BYTES} bytes, aligned, flags 2"]
    ctypes.memset(shared.address, 7, 4)
    assert path.read_bytes()[:5] == b"\7\7\7\7\0"
    shared.clear()
    assert path.read_bytes() == bytes(hooks.PROGRESS_BYTES)


def test_machine_code_of_a_finding_is_loaded_as_it_is(device, package, tmp_path):
    (tmp_path / "kernel.cubin").write_bytes(b"CUBIN of a finding")
    list(child.check(check_job(package, binaries=str(tmp_path))))
    assert log(device)[0] == "load CUBI"


def test_times_and_cycles(device, package):
    sizes = [SIZES, {**SIZES, "K": 1024}]
    found = list(child.measure({"folder": str(package), "sizes": sizes, "launches": 3}))
    times = [record for record in found if record["kind"] == "time"]
    assert [record["median_seconds"] for record in times] == [0.002, 0.002]
    assert times[0]["registers"] == 168
    assert times[0]["grid"] == 1
    found = list(child.cycles({"folder": str(package), "sizes": sizes}))
    assert [record["span_cycles"] for record in found if record["kind"] == "cycles"] == [0, 0]


def test_without_pytorch_products_stand_next_to_cupy(device, package, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    manifest = json.loads((package / "manifest.json").read_text())
    job = {"program": manifest["program"], "sizes": [SIZES], "launches": 2}
    begin, time = child.peer(job)
    assert begin["kind"] == "begin"
    assert time["peer"] == "cuBLAS through CuPy, f16"
    assert (time["median_seconds"], time["launches"]) == (0.002, 2)
    job["program"]["tensors"][0]["dtype"] = "e4m3"
    with pytest.raises(peers.NoPeer, match="has no call for this"):
        list(child.peer(job))


@pytest.mark.parametrize("path", probes.manifests(root("litmus") / "probes"), ids=lambda p: p.stem)
def test_probes_are_launched(device, path):
    (record,) = child.probe({"manifest": str(path)})
    assert set(record["counters"].values()) == {0}
    assert any(line.startswith("launch") for line in log(device))


@pytest.mark.parametrize("folder", ["classic", "async", "proxy", "tensormap", "cluster"])
def test_litmus_tests_are_set_up_and_launched(device, tmp_path, folder):
    files, _ = render_all(sorted((root("litmus") / folder).glob("*.litmus"))[:12], "cuda")
    write_all(tmp_path, files)
    ran = 0
    for path in sorted(tmp_path.glob("*.json")):
        manifest = json.loads(path.read_text())
        if manifest["language"] != "cuda":
            continue
        job = {"manifest": str(path), "seconds": 0.0, "seed": 1, "scale": 0.01, "most": 1}
        try:
            (record,) = child.litmus(job)
        except Exception as error:
            assert type(error).__name__ == "NotRun", error
            continue
        assert sum(record["histogram"]) == 0
        ran += 1
    assert ran
    assert sum(line.startswith("launch") for line in log(device)) >= 3


def test_the_facts_of_the_device(device):
    (record,) = child.facts({})
    assert (record["name"], record["nvrtc"]) == ("Fake H100", "13.0")
    assert record["multiprocessors"] == 132
    assert record["warps_per_multiprocessor"] == 64


# --------------------------------------------------------------------------- compiled ahead


def test_machine_code_is_compiled_once_for_the_same_text(device, package, tmp_path):
    cache = tmp_path / "compiled"
    job = {"tasks": [[str(package), "safe"]], "cache": str(cache), "policies": ["quiet", "storm"]}
    (record,) = child.compile_ahead(job)
    assert record["count"] == 2
    before = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert len(before) == 2
    for policy in ("quiet", "jitter"):
        progress = hooks.new_progress()
        job = check_job(package, policy=policy, cache=str(cache), progress=str(progress))
        assert [record["kind"] for record in child.check(job)] == ["begin", "run"]
        progress.unlink()
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == before
    list(child.check(check_job(package, policy="quiet", cache=str(cache), variant="missing fence")))
    assert len(list(cache.iterdir())) == 3


def test_another_header_is_other_machine_code(device, tmp_path):
    source, cache = tmp_path / "kernel.cu", tmp_path / "compiled"
    source.write_text("kernel")
    header = tmp_path / "titan_device.cuh"
    for text in ("one", "two", "one"):
        header.write_text(text)
        gpu.machine_code(source, "sm_90a", (), cache)
    gpu.machine_code(source, "sm_90a", ("X",), cache)
    assert len(list(cache.iterdir())) == 3


def test_tests_are_compiled_ahead(device, tmp_path):
    files, _ = render_all([root("litmus") / "classic" / "SB.litmus"], "cuda")
    (tmp_path / "tests").mkdir()
    write_all(tmp_path / "tests", files)
    (path,) = (tmp_path / "tests").glob("*.json")
    cache = tmp_path / "compiled"
    job = {"manifests": [str(path)], "most": 1, "cache": str(cache)}
    assert [record["kind"] for record in child.compile_ahead(job)] == ["compiled"]
    (made,) = cache.iterdir()
    begun = made.stat().st_mtime_ns
    job = {"manifest": str(path), "seconds": 0.0, "seed": 1, "scale": 0.01, "most": 1}
    list(child.litmus({**job, "cache": str(cache)}))
    assert [item.stat().st_mtime_ns for item in cache.iterdir()] == [begun]


def test_code_for_another_device_is_told_before_it_is_compiled(device, tmp_path, monkeypatch):
    source = tmp_path / "kernel.cu"
    source.write_text("#error")
    for target in ("sm_100a", "gfx942"):
        with pytest.raises(gpu.OtherDevice, match=f"built for {target}; this device has.* 9.0"):
            gpu.GpuModule(source, target)


def test_a_rendered_test_for_another_device_is_not_run_and_the_rest_is(device, tmp_path):
    names = ("async/gw-tcgen05+minimal", "classic/SB")
    files, _ = render_all([root("litmus") / f"{name}.litmus" for name in names], "cuda")
    write_all(tmp_path, files)
    paths = sorted(tmp_path.glob("*.json"))
    assert [json.loads(path.read_text())["target"] for path in paths] == ["sm_100a", "sm_90a"]
    job = {"seconds": 0.0, "seed": 1, "scale": 0.01, "most": 1}
    with pytest.raises(gpu.OtherDevice, match=r"built for sm_100a; this device has.* 9.0"):
        list(child.litmus({**job, "manifest": str(paths[0])}))
    assert log(device) == []
    found = list(child.litmus_many({**job, "manifests": [str(path) for path in paths]}))
    assert [record["kind"] for record in found] == ["begin", "over", "begin", "counts", "over"]
    assert "OtherDevice: built for sm_100a" in found[1]["error"] and not found[1]["stop"]


def test_a_test_that_does_not_compile_ahead_keeps_none_from_it(device, tmp_path):
    names = ("async/gw-tcgen05+minimal", "classic/SB")
    files, _ = render_all([root("litmus") / f"{name}.litmus" for name in names], "cuda")
    write_all(tmp_path, files)
    first, second = sorted(tmp_path.glob("*.json"))
    first.with_suffix(".cu").write_text("#error")
    job = {"manifests": [str(first), str(second)], "most": 1, "cache": str(tmp_path / "cache")}
    assert [record["manifest"] for record in child.compile_ahead(job)] == [str(second)]


def test_many_tests_in_one_process(device, tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    files, _ = render_all(sorted((root("litmus") / "classic").glob("*.litmus"))[:3], "cuda")
    write_all(folder, files)
    paths = sorted(folder.glob("*.json"))
    keep = tmp_path / "keep"
    keep.mkdir()
    job = {"seconds": 0.0, "seed": 1, "scale": 0.01, "most": 1, "keep": str(keep)}
    found = list(child.litmus_many({**job, "manifests": [str(path) for path in paths]}))
    kinds = [record["kind"] for record in found]
    assert kinds == ["begin", "counts", "over"] * len(paths)
    assert {path.name for path in keep.iterdir()} == {path.stem for path in paths}
    device.fake_fail(1)
    found = list(child.litmus_many({**job, "manifests": [str(path) for path in paths]}))
    assert [record["kind"] for record in found] == ["begin", "over"]
    assert found[-1]["stop"]
    assert "CUDA_ERROR_INVALID_VALUE" in found[-1]["error"]


def test_only_a_forward_pass_stands_next_to_the_frameworks_attention():
    folder = root("protocols") / "tiles"
    sizes = {"heads": 1, "queries": 8, "keys": 8}
    made = types.SimpleNamespace(to=lambda dtype: "tensor")
    attention = types.SimpleNamespace(scaled_dot_product_attention=None)
    torch = types.SimpleNamespace(
        bfloat16="bf16", float16="f16", float32="f32", randn=lambda *shape, device: made,
        nn=types.SimpleNamespace(functional=attention),
    )  # fmt: skip
    forward = load_tile(folder / "attention_forward_training.yaml")
    assert peers._peer(torch, forward, sizes)[0] == "PyTorch attention"
    for name in ("dq", "dkv"):
        with pytest.raises(peers.NoPeer, match="backward pass"):
            peers._peer(torch, load_tile(folder / f"attention_backward_{name}.yaml"), sizes)
