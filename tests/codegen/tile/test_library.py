"""Every tile program of the library against a direct NumPy formula, at ragged sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.sampling import sampled
from titan.codegen.tile.dtypes import FORMATS, rounded
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.model import Tensor, TileProgram
from titan.codegen.tile.outputs import SAMPLE_INTEGERS
from titan.codegen.tile.rates import known_targets
from titan.codegen.tile.semantics import reference64, run
from titan.foundation.resources import root
from titan.sync.expression import evaluate, names_of

LIBRARY = sorted((root("protocols") / "tiles").glob("*.yaml"))
Arrays = dict[str, np.ndarray]


def gemm(x: Arrays) -> np.ndarray:
    return np.einsum("ik,jk->ij", x["A"], x["B"])


def biased(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], np.ndarray]:
    return lambda x: function(gemm(x) + x["bias"][None, :])


def relu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0)


def parts_of_gemm(layout: str = "nt") -> Callable[[Arrays, int], np.ndarray]:
    """Each part over its share of K, in steps of 64, zeros where none are left."""

    def direct(x: Arrays, parts: int) -> np.ndarray:
        a = x["A"].T if layout[0] == "t" else x["A"]
        b = x["B"].T if layout[1] == "t" else x["B"]
        steps = (a.shape[1] + 63) // 64
        share = 64 * ((steps + parts - 1) // parts)
        shares = [slice(part * share, (part + 1) * share) for part in range(parts)]
        return np.stack([a[:, one] @ b[one] for one in shares])

    return direct


def scaled_gemm(x: Arrays) -> np.ndarray:
    """Every factor times the scale of its block: a row and 128 of K, or 128 x 128."""
    (m, k), n = x["A"].shape, x["B"].shape[0]
    a = x["A"] * np.repeat(x["A_scale"].T, 128, axis=1)[:m, :k]
    return a @ (x["B"] * np.kron(x["B_scale"], np.ones((128, 128)))[:n, :k]).T


def grouped_gemm(x: Arrays) -> np.ndarray:
    """Each 128 rows with the matrix of their group; zeros where there is no such group."""
    found = np.zeros((len(x["A"]), x["B"].shape[1]))
    for block, expert in enumerate(x["expert_of"].astype(int)):
        rows = slice(128 * block, 128 * block + 128)
        if 0 <= expert < len(x["B"]):
            found[rows] = x["A"][rows] @ x["B"][expert].T
    return found


def scaled_grouped_gemm(x: Arrays) -> np.ndarray:
    """Each group's rows with the scaled matrix of the group."""
    found = np.zeros((len(x["A"]), x["B"].shape[1]))
    for expert, (b, scale) in enumerate(zip(x["B"], x["B_scale"], strict=True)):
        rows = np.repeat(x["expert_of"] == expert, 128)[: len(x["A"])]
        found[rows] = scaled_gemm({**x, "B": b, "B_scale": scale})[rows]
    return found


def paged_attention(x: Arrays) -> np.ndarray:
    """Sequence by sequence, its pages one after the other; one that is not there holds zeros."""
    pages, kv_heads, page, head = x["K"].shape
    found = np.zeros(x["Q"].shape)
    for b, length in enumerate(x["lengths"].astype(int)):
        names = x["table"][b, : max(1, -(-length // page))].astype(int)
        for h in range(kv_heads):
            k, v = (
                np.concatenate([
                    x[which][name, h] if 0 <= name < pages else np.zeros((page, head))
                    for name in names
                ])
                for which in "KV"
            )  # fmt: skip
            scores = x["Q"][b, h] @ k.T / np.sqrt(head)
            scores[:, max(0, length) :] = -1e30
            found[b, h] = softmax(scores) @ v
    return found


def parts_of_attention(x: Arrays, parts: int) -> Arrays:
    """Of each sequence every `parts`-th page, from the part's own on; its last page without its
    keys where there are no more of them."""
    pages, kv_heads, page, head = x["K"].shape
    batch, pages_most = x["table"].shape
    ratio = x["Q"].shape[2]
    found = {
        "P": np.zeros((parts, batch, ratio, kv_heads, head)),
        **{name: np.zeros((parts, batch, kv_heads, ratio)) for name in ("top", "total")},
    }
    for s, b, h in np.ndindex(parts, batch, kv_heads):
        length = int(x["lengths"][b])
        count = min(pages_most, -(-length // page))
        places = s + parts * np.arange(max(1, -(-count // parts)))
        names = x["table"][b, np.minimum(places, max(1, count) - 1)].astype(int)
        k, v = (
            np.concatenate([
                x[which][name, h] if 0 <= name < pages else np.zeros((page, head))
                for name in names
            ])
            for which in "KV"
        )  # fmt: skip
        keys = (places[:, None] * page + np.arange(page)).ravel()
        scores = np.where(keys < length, x["Q"][b, h] @ k.T, -1e30) * 0.0883883476 / np.log(2)
        top = scores.max(axis=1)
        weights = np.exp2(scores - top[:, None])
        found["P"][s, b, :, h] = weights @ v
        found["top"][s, b, h], found["total"][s, b, h] = top, weights.sum(axis=1)
    return {**found, "P": found["P"].reshape(parts, batch, ratio, kv_heads * head)}


def combined_attention(x: Arrays) -> np.ndarray:
    """The sums of values over the sums of weights, each part's by its largest score."""
    weights = np.exp2(x["top"] - x["top"].max(axis=0))
    values = x["P"].reshape(*x["P"].shape[:3], -1, 128).swapaxes(2, 3)
    summed = np.einsum("sbhr,sbhrd->bhrd", weights, values)
    return summed / (weights * x["total"]).sum(axis=0)[..., None]


def packed_attention(causal: bool) -> Callable[[Arrays, int], np.ndarray]:
    """Sequence by sequence; rows of no sequence are not written."""

    def direct(x: Arrays, longest: int) -> np.ndarray:
        q, k, v = x["Q"], x["K"], x["V"]
        queries = x.get("query_offsets", x.get("offsets")).astype(int)
        keys = x.get("key_offsets", x.get("offsets")).astype(int)
        found = np.full(q.shape, np.nan)
        for b in range(len(queries) - 1):
            columns = max(128, -(-(keys[b + 1] - keys[b]) // 128) * 128)
            for row in range(min(queries[b + 1] - queries[b], -(-longest // 128) * 128)):
                if not 0 <= queries[b] + row < q.shape[1]:
                    continue
                places = keys[b] + np.arange(columns)
                there = (places >= 0) & (places < k.shape[1])
                seen = np.arange(columns) < keys[b + 1] - keys[b]
                seen &= np.arange(columns) <= row if causal else True
                for h in range(len(q)):
                    of = h * len(k) // len(q)
                    kk, vv = (
                        t[of, places.clip(0, k.shape[1] - 1)] * there[:, None] for t in (k, v)
                    )
                    scores = np.where(seen, kk @ q[h, queries[b] + row] / np.sqrt(128), -np.inf)
                    found[h, queries[b] + row] = softmax(scores) @ vv if seen.any() else 0
        return found

    return direct


def rotary(x: Arrays) -> np.ndarray:
    """Each half with the other one of its head; positions outside of the tables turn to zero."""
    data, found = x["X"], np.zeros(x["X"].shape)
    positions = len(x["cosine"])
    for b, start in enumerate(x["starts"].astype(int)):
        places = start + np.arange(data.shape[2])
        there = ((places >= 0) & (places < positions))[:, None]
        c, s = (x[name][places.clip(0, positions - 1)] * there for name in ("cosine", "sine"))
        for h in range(data.shape[1]):
            own, partner = data[b, h], h + 1 - 2 * (h % 2)
            other = data[b, partner] if partner < data.shape[1] else np.zeros(own.shape)
            root_ = np.sqrt(((own**2).sum(1) + (other**2).sum(1)) / 128 + 1e-5)[:, None]
            across = other * x["weight"][1 - h % 2] * s
            found[b, h] = (own * x["weight"][h % 2] * c + (2 * (h % 2) - 1) * across) / root_
    return found


def silu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.tanh(x / 2))


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(causal: bool) -> Callable[[Arrays], np.ndarray]:
    def direct(x: Arrays) -> np.ndarray:
        q, k, v = x["Q"], x["K"], x["V"]
        scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[2])
        if causal:
            later = np.arange(k.shape[1])[None, :] > np.arange(q.shape[1])[:, None]
            scores = np.where(later, -np.inf, scores)
        return np.einsum("hij,hjd->hid", softmax(scores), v)

    return direct


def group_of_rows(x: Arrays, ratio: int, queries: int) -> np.ndarray:
    """All heads of a group one behind the other; the last query sees all keys."""
    keys = x["K"].shape[2]
    seen = np.arange(keys) <= keys - queries + np.arange(queries)[:, None]
    scores = np.einsum("bhid,bhjd->bhij", x["Q"], x["K"]) / np.sqrt(x["Q"].shape[3])
    scores = np.where(np.tile(seen, (ratio, 1)), scores, -np.inf)
    with np.errstate(invalid="ignore"):  # more queries than keys: some see none
        return np.einsum("bhij,bhjd->bhid", softmax(scores), x["V"])


def grouped_attention(causal: bool) -> Callable[[Arrays], np.ndarray]:
    """Each query head with the keys and values of its group; the usual scale."""

    def direct(x: Arrays) -> np.ndarray:
        ratio = x["Q"].shape[1] // x["K"].shape[1]
        heads = {"Q": x["Q"]} | {name: np.repeat(x[name], ratio, axis=1) for name in "KV"}
        return np.stack(
            [
                attention(causal)({name: array[one] for name, array in heads.items()})
                for one in range(len(x["Q"]))
            ]
        )

    return direct


def scores_of(x: Arrays, causal: bool) -> np.ndarray:
    """In units of log 2."""
    scores = np.einsum("hid,hjd->hij", x["Q"], x["K"]) / np.sqrt(x["Q"].shape[2]) / np.log(2)
    later = np.arange(scores.shape[2])[None, :] > np.arange(scores.shape[1])[:, None]
    return np.where(later, -np.inf, scores) if causal else scores


def attention_with_statistics(causal: bool) -> Callable[[Arrays], Arrays]:
    def direct(x: Arrays) -> Arrays:
        sums = np.exp2(scores_of(x, causal)).sum(axis=2)
        return {"O": attention(causal)(x), "L": np.log2(sums)}

    return direct


def backward(causal: bool) -> Callable[[Arrays], Arrays]:
    """The gradients, given each query's logarithm of the sum (L) and sum of dO * O (D)."""

    def direct(x: Arrays) -> Arrays:
        root_ = np.sqrt(x["Q"].shape[2])
        p = np.exp2(scores_of(x, causal) - x["L"][:, :, None])
        ds = p * (np.einsum("hid,hjd->hij", x["dO"], x["V"]) - x["D"][:, :, None])
        return {
            "dQ": np.einsum("hij,hjd->hid", ds, x["K"]) / root_,
            "dK": np.einsum("hij,hid->hjd", ds, x["Q"]) / root_,
            "dV": np.einsum("hij,hid->hjd", p, x["dO"]),
            "dQT": np.einsum("hij,hjd->hdi", ds, x["K"]),
        }

    return direct


def layer_norm(x: Arrays) -> np.ndarray:
    data = x["X"]
    spread = np.sqrt(data.var(axis=1, keepdims=True) + 1e-5)
    return (data - data.mean(axis=1, keepdims=True)) / spread * x["weight"] + x["bias"]


def linear_attention(x: Arrays) -> np.ndarray:
    return np.einsum("hij,hjd->hid", np.tril(np.einsum("hid,hjd->hij", x["Q"], x["K"])), x["V"])


def state_space_scan(x: Arrays) -> np.ndarray:
    """The recurrence itself, time after time: a state of state x head numbers for each head."""
    heads, times, head = x["X"].shape
    found = np.zeros((heads, times, head))
    for h in range(heads):
        state = np.zeros((x["B"].shape[2], head))
        before = 0.0
        for t in range(times):
            state = state * 2.0 ** (x["L"][h, t] - before) + np.outer(x["B"][h, t], x["X"][h, t])
            before = x["L"][h, t]
            found[h, t] = x["C"][h, t] @ state
    return found


def convolution(x: Arrays) -> np.ndarray:
    batch, times, _ = x["X"].shape
    found = np.zeros((batch, times, x["W"].shape[1]))
    for k, taps in enumerate(x["W"]):
        later = x["X"][:, k:]
        found[:, : later.shape[1]] += np.einsum("btc,nc->btn", later, taps)
    return found


def block_scaled(block: int, pairs: bool = False) -> Callable[..., np.ndarray]:
    """Element (r, k) of an operand times the scale at r % 32, 4 (r // 32) + k // block of its
    atom."""
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])

    def spread(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
        if pairs:
            code = np.repeat(x.astype(int), 2, axis=1)
            code[:, 1::2] >>= 4
            x = e2m1[code & 7] * np.where(code & 8, -1, 1)
        row, k = np.indices(x.shape)
        atom, j = np.divmod(k // block, 4)
        return x * np.abs(scales)[row // 128, 32 * atom + row % 32, 4 * (row % 128 // 32) + j]

    return lambda x: spread(x["A"], x["A_scale"]) @ spread(x["B"], x["B_scale"]).T


FORMULAS: dict[str, Callable[..., np.ndarray | Arrays]] = {
    **dict.fromkeys(
        ("gemm", "gemm_f16", "gemm_fp8", "gemm_low_k", "gemm_small_tiles", "gemm_persistent",
         "gemm_cluster2", "gemm_large", "gemm_ping_pong", "gemm_launch_control"), gemm,
    ),
    **dict.fromkeys(("gemm_split_k", "gemm_split_k_small_tiles"), parts_of_gemm()),
    **{f"gemm_split_k_{layout}": parts_of_gemm(layout) for layout in ("nn", "tn", "tt")},
    "sum_parts": lambda x: x["P"].sum(axis=0),
    "gemm_batched": lambda x: np.einsum("pik,pjk->pij", x["A"], x["B"]),
    "attention_forward_packed": packed_attention(False),
    "attention_forward_causal_packed": packed_attention(True),
    "rms_norm_rotary": rotary,
    "gemm_fp8_scaled": scaled_gemm,
    "gemm_fp8_scaled_grouped": scaled_grouped_gemm,
    "gemm_batched_nn": lambda x: x["A"] @ x["B"],
    "gemm_batched_tn": lambda x: np.einsum("pki,pkj->pij", x["A"], x["B"]),
    "gemm_batched_tt": lambda x: np.einsum("pki,pjk->pij", x["A"], x["B"]),
    "gemm_tn": lambda x: x["A"].T @ x["B"],
    "gemm_tt": lambda x: x["A"].T @ x["B"].T,
    "gemm_grouped": grouped_gemm,
    "attention_decode_paged": paged_attention,
    "attention_decode_paged_parts": parts_of_attention,
    "attention_combine_parts": combined_attention,
    "gemm_nn": lambda x: x["A"] @ x["B"],
    "gemm_large_nn": lambda x: x["A"] @ x["B"],
    "gemm_bias_gelu": biased(gelu),
    "gemm_bias_gelu_residual": lambda x: biased(gelu)(x) + x["R"],
    "gemm_bias_relu": biased(relu),
    "gemm_bias_silu": biased(silu),
    **{f"attention_forward{more}": attention(False)
       for more in ("", "_64", "_256", "_pair", "_pair_64", "_persistent")},
    **{f"attention_forward_causal{more}": attention(True)
       for more in ("", "_64", "_256", "_pair", "_pair_64", "_persistent")},
    "attention_forward_grouped": grouped_attention(False),
    "attention_forward_causal_grouped": grouped_attention(True),
    "attention_forward_group_rows": group_of_rows,
    "attention_forward_training": attention_with_statistics(False),
    "attention_forward_causal_training": attention_with_statistics(True),
    "attention_backward_delta": lambda x: (x["dO"] * x["O"]).sum(axis=2),
    "attention_backward": backward(False),
    "attention_backward_query_sums": lambda x: (
        np.swapaxes(x["dQT"], 1, 2) * np.float64(np.float32(0.088388346))
    ),
    "attention_backward_causal": backward(True),
    **{f"attention_backward_{name}": backward(False) for name in ("dq", "dkv")},
    **{f"attention_backward_causal_{name}": backward(True) for name in ("dq", "dkv")},
    "scale_bias_silu": lambda x: silu(x["X"] * x["scale"] + x["bias"]),
    "row_sum": lambda x: x["X"].sum(axis=1),
    "copy": lambda x: x["X"],
    "transform": lambda x: x["X"] / 8,
    "softmax_rows": lambda x: softmax(x["X"]),
    "rms_norm": lambda x: (
        x["X"] / np.sqrt((x["X"] ** 2).mean(axis=1, keepdims=True) + 1e-5) * x["weight"]
    ),
    "layer_norm": layer_norm,
    **dict.fromkeys(("gemm_mxf8", "gemm_mxf8_wide", "gemm_mxf8_pair"), block_scaled(32)),
    **dict.fromkeys(
        ("gemm_mxf4", "gemm_mxf4_wide", "gemm_mxf4_pair"), block_scaled(32, pairs=True)
    ),
    **dict.fromkeys(
        ("gemm_nvf4", "gemm_nvf4_wide", "gemm_nvf4_pair"), block_scaled(16, pairs=True)
    ),
    "linear_attention_causal": linear_attention,
    "state_space_scan": state_space_scan,
    "convolution": convolution,
}  # fmt: skip
ONLY_IN_A_PRODUCT = {"attention_forward_group_rows": {"ratio", "queries"}}  # sizes of extents
SIZES = [
    {"M": 1, "N": 1, "K": 1, "heads": 1, "queries": 1, "keys": 1, "taps": 1},
    {"M": 128, "N": 256, "K": 128, "heads": 1, "queries": 128, "keys": 128, "taps": 4},
    {"M": 300, "N": 70, "K": 130, "heads": 2, "queries": 70, "keys": 150, "taps": 3},
    {"M": 150, "N": 200, "K": 300, "heads": 1, "queries": 300, "keys": 90, "taps": 5},
]
SAME = {
    "times": "queries", "batch": "heads", "outs": "N", "kv_heads": "heads", "ratio": "taps",
    "experts": "taps", "pages": "taps", "pages_most": "taps", "longest": "queries",
    "tokens": "keys", "parts": "taps",
    "halves": "N", "positions": "keys", "pairs": "K",
}  # fmt: skip


def names_in(tensor: Tensor) -> set[str]:
    return {name for extent in tensor.shape for name in names_of(extent)}


def stem(path: Path) -> str:
    name = path.stem
    for target in known_targets():
        name = name.removesuffix(f"_{target}")
    return name


def launch(tile: TileProgram, sizes: dict[str, int]) -> tuple[Arrays, dict[str, int]]:
    parameters = {item.name: sizes[SAME.get(item.name, item.name)] for item in tile.parameters}
    generator = np.random.default_rng(7)
    inputs = {}
    for tensor in tile.tensors:
        if not tensor.output:
            shape = [evaluate(extent, parameters) for extent in tensor.shape]
            inputs[tensor.name] = generator.standard_normal(shape)
            if tensor.dtype == "i32":
                inputs[tensor.name] = np.sort(generator.choice(SAMPLE_INTEGERS, shape))
            if tensor.dtype == "ue8m0":
                inputs[tensor.name] = np.exp2(generator.integers(-4, 5, shape))
            if tensor.dtype == "e2m1x2":
                inputs[tensor.name] = generator.integers(0, 256, shape).astype(float)
    return inputs, parameters


@pytest.mark.parametrize(
    "sizes", sampled(((sizes,) for sizes in SIZES), every=2), ids=lambda sizes: f"M{sizes['M']}"
)
@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_a_program_means_its_formula(path: Path, sizes: dict[str, int]) -> None:
    tile = load_tile(path)
    inputs, parameters = launch(tile, sizes)
    types = {tensor.name: tensor.dtype for tensor in tile.tensors}
    stored = {name: rounded(x, types[name]).astype(float) for name, x in inputs.items()}
    shown = {name for item in tile.tensors if not item.output for name in names_in(item)}
    shown -= ONLY_IN_A_PRODUCT.get(stem(path), set())
    more = [value for name, value in parameters.items() if name not in shown]
    formula = FORMULAS[stem(path)](stored, *more)
    exact, found = reference64(tile, inputs, parameters), run(tile, inputs, parameters)
    for output in (tensor for tensor in tile.tensors if tensor.output):
        direct = formula[output.name] if isinstance(formula, dict) else formula
        assert exact[output.name].shape == direct.shape
        scale = np.nanmax(np.abs(direct), initial=0.0)
        np.testing.assert_allclose(exact[output.name], direct, rtol=1e-6, atol=1e-6 * max(scale, 1))
        made = found[output.name]
        assert np.array_equal(made, rounded(made, output.dtype), equal_nan=True)
        unit = 2.0 ** -min(FORMATS[output.dtype].mantissa, 16)
        between = any(word in path.stem for word in ("attention", "state_space"))  # 16 bits
        inner = 2.0**-7 * scale if between else 1e-5 * scale
        np.testing.assert_allclose(made, direct, rtol=unit, atol=inner + 1e-12)


def test_the_library_is_complete() -> None:
    stems = {stem(path) for path in LIBRARY}
    assert stems == set(FORMULAS)
    targets: dict[str, set[str]] = {}
    for path in LIBRARY:
        targets.setdefault(stem(path), set()).update(targets_of(path))
    without = {name for name, found in targets.items() if "sm_90a" not in found}
    # clusterlaunchcontrol and block scales begin with sm_100, as does attention over several items,
    # that with the heads of a group in one tile, and pairs that multiply together
    several = {"attention_forward_persistent", "attention_forward_causal_persistent"}
    several |= {"attention_forward_group_rows", "gemm_large_nn"}
    several |= {f"attention_forward{more}_pair{head}" for more in ("", "_causal")
                for head in ("", "_64")}  # fmt: skip
    scaled = {f"gemm_{kind}{more}" for kind in ("mxf8", "mxf4", "nvf4")
              for more in ("", "_wide", "_pair")}  # fmt: skip
    assert without == several | scaled | {"gemm_launch_control"}
    for name in ("gemm", "copy", "scale_bias_silu", "row_sum"):
        assert targets[name] == {"sm_90a", "sm_100a", "gfx942", "gfx950"}
    dtypes = {t.dtype for path in LIBRARY for t in load_tile(path).tensors}
    assert dtypes == {"bf16", "f16", "e4m3", "ue8m0", "e2m1x2", "f32", "i32"}
    assert any(load_tile(path).persistent for path in LIBRARY)
    assert any(load_tile(path).cluster == 2 for path in LIBRARY)
