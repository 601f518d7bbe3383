"""Files in and out, as numpy and ml_dtypes see them; products against numpy."""
import json
import statistics

import ml_dtypes
import numpy as np
import pytest


def test_outputs_of_given_inputs(tessera, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 260), dtype=np.float32)
    y = rng.standard_normal((260, 300), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    tessera("run", "matmul", "--case", "1", "--input", "x=x.npy", "--input", "y=y.npy", "--output", "out")
    o = np.load(tmp_path / "out/o.npy")
    assert o.dtype == np.float32
    chain = np.zeros((200, 300), dtype=np.float64)
    for k in range(260):  # one fma per k: exact product, one rounding to f32
        chain = (x[:, k : k + 1].astype(np.float64) * y[k : k + 1, :].astype(np.float64) + chain).astype(np.float32).astype(np.float64)
    # f64 holds the product exactly; its sum with an f32 is rounded twice, which can differ by one ulp.
    assert np.mean(o == chain.astype(np.float32)) > 0.99
    np.testing.assert_allclose(o, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)


def test_bf16_files_are_those_of_ml_dtypes(tessera, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(10_000).astype(ml_dtypes.bfloat16)
    y = rng.standard_normal(10_000).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    tessera("run", "add_vectors", "--case", "1", "--dtype", "bf16", "--input", "x=x.npy", "--input", "y=y.npy", "--output", "out")
    o = np.load(tmp_path / "out/o.npy").view(ml_dtypes.bfloat16)
    want = (x.astype(np.float32) + y.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(o.view(np.uint16), want.view(np.uint16))


def packed(codes):
    """Eight rows of a column in a word, the lowest bits first, as GPTQ packs them."""
    rows = codes.astype(np.uint32).reshape(-1, 8, codes.shape[1])
    return np.bitwise_or.reduce(rows << (4 * np.arange(8, dtype=np.uint32))[None, :, None], axis=1)


def nf4_levels():
    """Quantiles of a normal distribution, one more of them positive than negative, as bitsandbytes makes them."""
    quantile, tail = statistics.NormalDist().inv_cdf, 0.9677083
    some = [[quantile(p) for p in np.linspace(tail, 0.5, n)[:-1]] for n in (9, 8)]
    levels = np.sort(np.array(some[0] + [0.0] + [-v for v in some[1]]))
    return (levels / levels.max()).astype(np.float32)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("nf4", [0, 1])
def test_quantised_weights_come_back(tessera, tmp_path, dtype, nf4):
    k, n, group = 128, 128, 64
    w = np.random.default_rng(2).standard_normal((k // group, group, n), dtype=np.float32)
    if nf4:  # of bitsandbytes: the nearest level of each number over the largest of its group
        levels = nf4_levels()
        scale = np.abs(w).max(axis=1, keepdims=True)
        codes = np.abs(levels[:, None, None, None] - w / scale).argmin(axis=0).astype(ml_dtypes.uint4)
        restored = levels[codes.astype(int)] * scale
        largest = scale * np.diff(levels).max() / 2
    else:  # HQQ, GPTQ: the least to the largest number of a group in 15 steps
        low = w.min(axis=1, keepdims=True)
        scale = (w.max(axis=1, keepdims=True) - low) / 15
        zero = np.round(-low / scale)
        codes = np.clip(np.round(w / scale) + zero, 0, 15).astype(ml_dtypes.uint4)
        restored = (codes.astype(np.float32) - zero) * scale
        largest = scale
        np.save(tmp_path / "zero.npy", zero)
    np.save(tmp_path / "words.npy", packed(codes.reshape(k, n)))
    np.save(tmp_path / "scale.npy", scale)
    element = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    np.save(tmp_path / "x.npy", np.eye(k, dtype=np.float32).astype(element))
    names = ["x", "words", "scale"] + ([] if nf4 else ["zero"])
    files = [word for name in names for word in ("--input", f"{name}={name}.npy")]
    sizes = [f"m={k}", f"n={n}", f"k={k}", f"group={group}", f"format={nf4}", "bg=2"]
    tessera("run", "quantised_matmul", *sizes, "--dtype", dtype, *files, "--output", "out")
    o = np.load(tmp_path / "out/o.npy").view(element).astype(np.float32)
    slack = 1e-5 if dtype == "f32" else 2**-7
    if nf4:
        np.testing.assert_allclose(o, restored.reshape(k, n), rtol=slack)
    else:
        np.testing.assert_array_equal(o, restored.reshape(k, n).astype(element).astype(np.float32))
    assert (np.abs(o.reshape(w.shape) - w) <= largest + slack * np.abs(w).max()).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("bits", [4, 8])
def test_microscaled_and_int8_weights_come_back(tessera, tmp_path, dtype, bits):
    k, n, group = 128, 128, 32
    w = np.random.default_rng(3).standard_normal((k // group, group, n), dtype=np.float32)
    largest = np.abs(w).max(axis=1, keepdims=True)
    if bits == 4:  # OCP MX 1.0, 6.3: the largest power of two that keeps the largest within e2m1's
        power = np.exp2(np.floor(np.log2(largest)) - 2)
        codes = (w / power).astype(ml_dtypes.float4_e2m1fn)
        arrays = {"words": packed(codes.reshape(k, n).view(np.uint8)), "exponent": power.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)}
        restored = codes.astype(np.float32) * power
    else:
        scale = largest / 127
        codes = np.round(w / scale).astype(np.int8)
        arrays = {"bytes": codes.reshape(k, n), "scale": scale}
        restored = codes.astype(np.float32) * scale
    element = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    arrays["x"] = np.eye(k, dtype=np.float32).astype(element)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [word for name in arrays for word in ("--input", f"{name}={name}.npy")]
    sizes = [f"m={k}", f"n={n}", f"k={k}", f"group={group}", f"format={2 if bits == 4 else 0}", "bg=4"]
    tessera("run", "quantised_matmul" if bits == 4 else "quantised_matmul_int8", *sizes, "--dtype", dtype, *files, "--output", "out")
    o = np.load(tmp_path / "out/o.npy").view(element).astype(np.float32)
    np.testing.assert_array_equal(o, restored.reshape(k, n).astype(element).astype(np.float32))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", ["MXFP8", "NVFP8", "NVFP4"])
def test_weights_of_two_scales_come_back(tessera, tmp_path, dtype, name):
    k, n, group = 128, 128, 32 if name == "MXFP8" else 16
    w = np.random.default_rng(4).standard_normal((k // group, group, n), dtype=np.float32)
    largest = np.abs(w).max(axis=1, keepdims=True)
    stored = ml_dtypes.float4_e2m1fn if name == "NVFP4" else ml_dtypes.float8_e4m3fn
    most = float(ml_dtypes.finfo(stored).max)
    if name == "MXFP8":  # OCP MX 1.0, 6.3: e4m3's largest exponent is 8
        power = np.exp2(np.floor(np.log2(largest)) - 8)
        factor = power
        arrays = {"exponent": power.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)}
    else:  # the whole tensor's scale gives the largest of a group's e4m3 ones 448
        total = np.float32(largest.max() / most / 448)
        scale8 = (largest / most / total).astype(ml_dtypes.float8_e4m3fn)
        factor = scale8.astype(np.float32) * total
        arrays = {"scale8": scale8.view(np.uint8), "tensor_scale": np.full((1, 1), total, np.float32)}
    codes = np.clip(w / factor, -most, most).astype(stored)
    flat = codes.reshape(k, n)
    arrays |= {"words": packed(flat.view(np.uint8))} if name == "NVFP4" else {"bytes": flat}
    restored = codes.astype(np.float32) * factor
    element = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    arrays["x"] = np.eye(k, dtype=np.float32).astype(element)
    for key, array in arrays.items():
        np.save(tmp_path / f"{key}.npy", array)
    files = [word for key in arrays for word in ("--input", f"{key}={key}.npy")]
    sizes = [f"m={k}", f"n={n}", f"k={k}", f"group={group}", f"format={3 if name == 'NVFP4' else int(name == 'NVFP8')}", f"bg={128 // group}"]
    tessera("run", "quantised_matmul" if name == "NVFP4" else "quantised_matmul_fp8", *sizes, "--dtype", dtype, *files, "--output", "out")
    o = np.load(tmp_path / "out/o.npy").view(element).astype(np.float32)
    np.testing.assert_array_equal(o, restored.reshape(k, n).astype(element).astype(np.float32))
    assert (np.abs(o.reshape(w.shape) - w) <= largest / (4 if name == "NVFP4" else 8)).all()


def test_pages_may_lie_anywhere(tessera, tmp_path):
    batch, heads, page, pages, dim = 3, 2, 16, 4, 64
    rng = np.random.default_rng(3)
    lengths = np.array([50, 0, 17], np.int32)  # 4, 1 and 2 pages: an empty sequence has one to name
    cache = rng.standard_normal((2, batch * pages, heads, page, dim), dtype=np.float32)
    np.save(tmp_path / "q.npy", rng.standard_normal((batch, heads, 4, dim), dtype=np.float32))
    np.save(tmp_path / "lengths.npy", lengths)
    results = []
    for places in (np.arange(batch * pages), rng.permutation(batch * pages)):
        table = places.astype(np.int32).reshape(batch, pages)
        for array, name in zip(cache, ("k", "v")):
            moved = np.empty_like(array)
            moved[places] = array
            np.save(tmp_path / f"{name}.npy", moved)
        table[1, 1:] = table[2, 2:] = -1
        np.save(tmp_path / "table.npy", table.reshape(-1))
        sizes = [f"batch={batch}", f"kv_heads={heads}", "group=4", f"head_dim={dim}", f"page={page}", f"pages={pages}"]
        files = [word for name in ("q", "k", "v", "lengths", "table") for word in ("--input", f"{name}={name}.npy")]
        tessera("run", "paged_attention", *sizes, *files, "--output", "out")
        results.append(np.load(tmp_path / "out/o.npy"))
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0][1] == 0).all() and (results[0][0] != 0).all()
    table[2, 1] = -1
    np.save(tmp_path / "table.npy", table.reshape(-1))
    assert "table names pages of the cache" in tessera("run", "paged_attention", *sizes, *files, status=2)


def test_parts_of_attention_merge_to_the_whole(tessera, tmp_path):
    batch, heads, group, dim = 3, 2, 4, 64
    sizes = [f"batch={batch}", f"kv_heads={heads}", f"group={group}", f"head_dim={dim}", "page=16", "pages=5", "sinks=1"]
    tessera("run", "paged_attention", *sizes, "--output", "whole")
    tessera("run", "paged_attention", *sizes, "splits=4", "--output", "parts")
    for name, cols in (("part", dim), ("lse", 1)):
        np.save(tmp_path / f"{name}.npy", np.load(tmp_path / f"parts/{name}.npy").reshape(batch, 4, heads * group, cols))
    assert np.isinf(np.load(tmp_path / "lse.npy")).any()  # the empty sequence's parts but the one with the sink
    tessera("run", "attention_merge", f"batch={batch}", "parts=4", f"rows={heads * group}", f"d={dim}",
            "--input", "part=part.npy", "--input", "lse=lse.npy", "--output", "merged")  # fmt: skip
    whole, merged = np.load(tmp_path / "whole/o.npy"), np.load(tmp_path / "merged/o.npy")
    np.testing.assert_allclose(merged.reshape(whole.shape), whole, rtol=2e-6, atol=1e-7)
    assert (whole[0] != 0).all() and (whole[2] == 0).all()


def test_group_sizes_from_a_file(tessera, tmp_path):
    np.save(tmp_path / "sizes.npy", np.array([0, 100, 7, 193, 0], dtype=np.int32))
    tessera("run", "grouped_matmul", "--case", "1", "--input", "group_sizes=sizes.npy")
    np.save(tmp_path / "sizes.npy", np.array([0, 100, 7, 193, 1], dtype=np.int32))
    assert "group_sizes add up to m" in tessera("run", "grouped_matmul", "--case", "1", "--input", "group_sizes=sizes.npy", status=2)


def test_the_json_report(tessera, tmp_path):
    tessera("run", "matmul", "m=512", "n=256", "k=384", "--json", "run.json")
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["schema"] == "tessera.run/1"
    assert run["kernel"]["name"] == "matmul" and run["kernel"]["params"]["m"] == 512
    assert run["device"] == "tpu-v5e" and run["backend"]["ran"] == "interpret"
    assert run["grid"] == [4, 2, 3] and run["steps"] == 24
    refs = {r["name"]: r for r in run["traffic"]["refs"]}
    assert refs["x"]["transfers"] == 24 and refs["x"]["bytes"] == 24 * 128 * 128 * 4
    assert refs["o"]["transfers"] == 8 and refs["o"]["elided"] == 16
    assert run["traffic"]["hbm_read_bytes"] == refs["x"]["bytes"] + refs["y"]["bytes"]
    assert run["traffic"]["hbm_write_bytes"] == 512 * 256 * 4
    assert run["ops"]["flops"] == 2 * 512 * 256 * 384
    assert run["validation"]["passed"] is True and run["diagnostics"] == []
    assert run["memory"]["vmem_peak_bytes"] < run["memory"]["vmem_capacity_bytes"]


def test_the_json_of_a_failed_run(tessera, tmp_path):
    tessera("run", "matmul", "bn=512", "--device", "h100", "--json", "run.json", status=1)
    run = json.loads((tmp_path / "run.json").read_text())
    assert [d["slug"] for d in run["diagnostics"]] == ["vmem-capacity"]
    assert run["diagnostics"][0]["kind"] == "kernel"
    assert run["validation"] is None


def test_same_bits_for_every_thread_count(tessera, tmp_path):
    outputs = []
    for threads in ("1", "2", "5"):
        tessera("run", "flash_attention", "--case", "3", "--threads", threads, "--output", threads, "--json", threads + ".json")
        run = json.loads((tmp_path / f"{threads}.json").read_text())
        del run["seconds"]
        outputs.append(((tmp_path / threads / "o.npy").read_bytes(), run))
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_pipe_sees_no_progress(tessera):
    out = tessera("run", "matmul", "m=1024", "n=1024", "k=1024")
    assert "\r" not in out and "\x1b" not in out
