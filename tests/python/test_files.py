"""Files in and out, as numpy and ml_dtypes see them; products against numpy."""
import json

import ml_dtypes
import numpy as np


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
