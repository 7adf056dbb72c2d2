"""What is sent to a device compiles with NVRTC, the compiler that the runner has there.

NVRTC needs no GPU: `pip install nvidia-cuda-nvrtc-cu12` (or `-cu13`) brings it; skipped without.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.nvrtc import Nvrtc
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device import hooks, probes
from titan.device.gpu import compiler_options
from titan.device.variants import variants
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all
from titan.package.produce import produce

TILES = root("protocols") / "tiles"
DEFINES = (hooks.DISTURB, hooks.DELAY, hooks.MEASURE, hooks.PROGRESS)


def find() -> Nvrtc | None:
    """The compiler, from a wheel or the system; None without."""
    found = importlib.util.find_spec("nvidia")
    folders = list(found.submodule_search_locations or ()) if found else []
    files = [
        path
        for folder in folders
        for path in Path(folder).glob("**/libnvrtc.so*")
        if path.is_file()
    ]
    for name in [*map(str, sorted(files)), "libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"]:
        try:
            return Nvrtc(name)
        except OSError:
            continue
    return None


NVRTC = find()
pytestmark = pytest.mark.skipif(NVRTC is None, reason="NVRTC is not installed")


def compile_there(text, folder, target="sm_90a", defines=()):
    """Machine code of a source, as the runner asks for it; fails with the compiler's words."""
    assert NVRTC is not None
    return NVRTC.compiled(text, compiler_options(target, [folder], defines))[0]


@pytest.fixture(scope="module", params=["gemm_small_tiles", "attention_forward_64"])
def package(request, tmp_path_factory):
    path = TILES / f"{request.param}.yaml"
    folder = tmp_path_factory.mktemp("package")
    return produce(
        load_tile(path), path.read_text(), folder, BuildLimits(), with_toolchain=False
    ).folder


def test_packages_and_their_variants(package):
    for text in variants((package / "kernel.cu").read_text()).values():
        assert compile_there(text, package)[:4] == b"\x7fELF"


@pytest.mark.parametrize("defines", [(define,) for define in DEFINES] + [DEFINES])
def test_packages_with_hooks_have_the_symbols_that_the_runner_looks_for(package, defines):
    code = compile_there((package / "kernel.cu").read_text(), package, defines=defines)
    symbols = {
        hooks.DISTURB: [b"titan_disturbance"],
        hooks.DELAY: [b"titan_delay"],
        hooks.MEASURE: [b"titan_waited", b"titan_delayed", b"titan_span"],
        hooks.PROGRESS: [b"titan_progress", b"titan_progress_ctas", b"titan_turns"],
    }
    for define, names in symbols.items():
        assert all((b"\0" + name + b"\0" in code) == (define in defines) for name in names)


@pytest.mark.parametrize(
    "path", probes.manifests(root("litmus") / "probes"), ids=lambda path: path.stem
)
def test_probes(path):
    manifest = probes.read(path)
    code = compile_there((path.parent / manifest["source"]).read_text(), path.parent)
    assert manifest["entry"].encode() in code


def test_litmus_kernels(tmp_path):
    folders = ("classic/SB", "classic/MP+weak", "classic/CoRR")
    paths = [root("litmus") / f"{name}.litmus" for name in folders]
    paths += sorted((root("litmus") / "async").glob("*.litmus"))[:2]
    paths += [root("litmus") / "async" / "gw-tcgen05+minimal.litmus"]
    paths += [root("litmus") / "tensormap" / "cp-fenceproxy+source.litmus"]
    files, _ = render_all(paths, "cuda")
    assert files
    write_all(tmp_path, files)
    for path in tmp_path.glob("*.json"):
        manifest = json.loads(path.read_text())
        source = (tmp_path / manifest["source"]).read_text()
        assert compile_there(source, tmp_path, manifest["target"])[:4] == b"\x7fELF"
