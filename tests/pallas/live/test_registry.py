"""tessera.registry: implementations of an operation, which of them serves, and why the others do not."""
import inspect
import itertools
import json
import sys
import threading

import jax
import numpy as np
import pytest
import tessera
from jax.experimental import pallas as pl

registry = tessera.registry
X = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)


def naive(x, scale, *, shift=0):
    return np.asarray(x) * scale + shift


def pallas(x, scale, *, shift=0):
    def scale_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale + shift

    return pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def whole_tiles(x, scale, *, shift=0):
    return x.shape[-1] % 128 == 0 or "rows of whole tiles"


@pytest.fixture
def name():
    """Of an operation that goes with the test."""
    number = next(_numbers)
    yield f"scaled{number}"
    for operation in registry.operations():
        for each in registry.operation(operation).implementations:
            registry.unregister(operation, each.function)


_numbers = itertools.count()


def test_the_highest_priority_that_may_serve_does(name):
    registry.register(name, "reference", naive, priority=1)
    registry.register(name, "tpu", pallas, when=whole_tiles)
    scaled = registry.operation(name)
    with registry.receipts() as said:
        assert np.array_equal(scaled(X, 2), 2 * X)  # no TPU: said so
        with tessera.simulate() as report:
            assert np.array_equal(scaled(X, 2, shift=1), 2 * X + 1)
            assert np.array_equal(scaled(X[:, :100], 2), 2 * X[:, :100])
    assert len(report) == 1
    assert [receipt.served.platform for receipt in said] == ["reference", "tpu", "reference"]
    assert "JAX has no TPU, and no simulate() is on" in str(said[0])
    assert said[1].said == [(said[1].served, "")]
    assert said[2].why == "tpu: rows of whole tiles"
    assert [receipt.requested for receipt in said] == ["auto"] * 3
    assert json.loads(json.dumps(said[2].to_dict()))["said"] == [
        {"platform": "tpu", "name": "pallas", "why_not": "rows of whole tiles"}, {"platform": "reference", "name": "naive", "why_not": ""}]


def test_why_calls_nothing(name):
    calls = []
    registry.register(name, "reference", lambda x: calls.append(x), priority=1)
    receipt = registry.operation(name).why(X)
    assert receipt.served.platform == "reference" and calls == []


def test_nothing_falls_back_unasked(name):
    registry.register(name, "reference", naive)  # of priority 0: only if it is named
    registry.register(name, "tpu", pallas)
    scaled = registry.operation(name)
    with pytest.raises(registry.NotServed, match="no simulate") as refused:
        scaled(X, 2)
    assert refused.value.receipt.served is None
    with pytest.raises(registry.NotServed, match="asked for tpu; nothing serves"):
        scaled.on("tpu")(X, 2)
    with pytest.raises(registry.NotServed, match="it is not registered for interpret"):
        scaled.on("interpret")(X, 2)
    assert np.array_equal(scaled.on("reference")(X, 2), 2 * X)
    with registry.receipts() as said:
        scaled.on("tpu", fallback="reference")(X, 2)
    assert str(said[0]).startswith(f"{name}: asked for tpu, else reference; naive on reference\n")
    assert said[0].why == "tpu: JAX has no TPU, and no simulate() is on"
    with pytest.raises(ValueError, match="no platform 'gpu'"):
        scaled.on("gpu")


def test_one_that_serves_and_fails_fails(name):
    def broken(x, scale, *, shift=0):
        raise ZeroDivisionError("mine")

    registry.register(name, "reference", naive, priority=1)
    registry.register(name, "interpret", broken, priority=5)
    with pytest.raises(ZeroDivisionError, match="mine"):
        registry.operation(name).on("interpret", fallback="reference")(X, 2)


def test_a_condition_that_fails_is_not_taken_for_no(name):
    registry.register(name, "reference", naive, priority=1, when=lambda x, scale, *, shift=0: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        registry.operation(name)(X, 2)


def test_interpret_runs_in_a_simulation_of_its_own(name):
    registry.register(name, "interpret", pallas)
    scaled = registry.operation(name)
    assert np.array_equal(scaled(X, 3), 3 * X)
    with tessera.simulate() as report:
        scaled(X, 3)
    assert len(report) == 1


@pytest.mark.parametrize("wrong, fault", [
    (lambda x, *, shift=0: x, "scale is missing"),
    (lambda x, scale, shift=0: x, None),  # takes it by name too
    (lambda x, scale, shift=0, /: x, "shift is no keyword argument"),
    (lambda x, scale, *, shift=1: x, "shift is by default 1, not 0"),
    (lambda x, scale, *, shift: x, "shift is by default required, not 0"),
    (lambda scale, x, *, shift=0: x, "the order is scale, x"),
    (lambda x, scale, bias, *, shift=0: x, "bias is required, and no call gives it"),
    (lambda x, bias=0, scale=1, *, shift=0: x, "bias stands before what calls give by position"),
    (lambda x, scale, *, shift=0, bm=128: x, None),
    (lambda x, scale, **rest: x, None),
    (lambda *x, **rest: x, None),
    (lambda x, *, scale, shift=0: x, "scale is keyword-only, not positional or keyword"),
])
def test_signatures_are_checked_when_registered(name, wrong, fault):
    registry.register(name, "reference", naive)
    if fault is None:
        registry.register(name, "tpu", wrong)
        return
    with pytest.raises(registry.SignatureError) as refused:
        registry.register(name, "tpu", wrong)
    said = str(refused.value)
    assert fault in said and "\n" not in said
    assert said.startswith(f"<lambda>{inspect.signature(wrong)} on tpu is not called as {name}(x, scale, *, shift=0) is: ")
    assert len(registry.operation(name).implementations) == 1


def test_all_faults_are_in_one_error_and_conditions_are_checked_too(name):
    registry.register(name, "reference", naive)
    with pytest.raises(registry.SignatureError, match="scale is missing; shift is by default 2, not 0; when: shift is missing"):
        registry.register(name, "tpu", lambda x, *, shift=2: x, when=lambda x, scale: True)


def test_the_first_that_is_refused_leaves_nothing(name):
    with pytest.raises(registry.SignatureError, match="when: x is missing"):
        registry.register(name, "tpu", lambda x: x, when=lambda: True)
    assert name not in registry.operations()


def test_calls_that_do_not_fit_the_operation_are_the_callers_error(name):
    registry.register(name, "reference", naive, priority=1)
    with pytest.raises(TypeError, match="missing a required argument: 'scale'"):
        registry.operation(name)(X)


@pytest.mark.parametrize("platform, settings, error", [
    ("tpv", {}, "did you mean 'tpu'"), ("metal", {}, "one of 'tpu', 'cuda', 'interpret', 'reference'"),
    ("tpu", {"priority": -1}, "priority=-1"), ("tpu", {"priority": True}, "priority=True")])
def test_what_no_implementation_can_have_is_refused(name, platform, settings, error):
    with pytest.raises(ValueError, match=error):
        registry.register(name, platform, naive, **settings)


def test_two_of_one_platform_and_priority_are_refused(name):
    registry.register(name, "reference", naive)
    with pytest.raises(ValueError, match=f"{name} has naive on reference with priority 0"):
        registry.register(name, "reference", pallas)
    registry.register(name, "reference", pallas, priority=2)
    registry.unregister(name, naive)
    with pytest.raises(ValueError, match="has no implementation 'naive'"):
        registry.unregister(name, naive)
    with pytest.raises(ValueError, match=f"did you mean '{name}'"):
        registry.operation(name + "x")


def test_a_decorator_registers_and_a_listing_shows(name):
    @registry.register(name, "reference")
    def plain(x):
        return x

    assert plain(3) == 3
    registry.register(name, "tpu", lambda x: x)
    head, tpu, reference = str(registry.operation(name)).splitlines()
    assert head == f"{name}(x)"
    assert tpu.split()[:3] == ["tpu", "3", "<lambda>"] and "no: JAX has no TPU" in tpu
    assert reference.split() == ["reference", "0", "plain"]


def test_functions_of_autotune_are_implementations(name, tmp_path):
    def tiled(x, scale, *, shift=0, rows):
        def scale_kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * scale + shift

        block = pl.BlockSpec((rows, 128), lambda i: (i, 0))
        return pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // rows,),
                              in_specs=[block], out_specs=block)(x)

    registry.register(name, "reference", naive)
    with pytest.raises(registry.SignatureError, match="rows is required"):
        registry.register(name, "tpu", tiled)
    registry.register(name, "tpu", tessera.autotune(tiled, rows=[8, 16], cache=tmp_path / "cache.sqlite"))
    with tessera.simulate():
        assert np.array_equal(registry.operation(name)(X, 2), 2 * X)


def test_recordings_have_what_served_and_why(name, tmp_path):
    registry.register(name, "reference", naive, priority=1)
    registry.register(name, "tpu", pallas, when=whole_tiles)
    with tessera.record(tmp_path / "calls"), tessera.simulate():
        registry.operation(name)(X, 2)
        registry.operation(name).on("tpu", fallback="reference")(X[:, :100], 2)
    kernel, first, second = [json.loads(line) for line in (tmp_path / "calls/records.jsonl").read_text().splitlines()]
    assert kernel["within"] == first["operation"] == second["operation"] == name
    assert first["backend"] == {"requested": "auto", "ran": "tpu", "why": ""}
    assert second["backend"] == {"requested": "tpu", "ran": "reference", "why": "tpu: rows of whole tiles"}
    assert kernel["outputs"][0]["sha256"] == first["outputs"][0]["sha256"]


def test_threads_register_and_call_at_once(name):
    registry.register(name, "reference", lambda x: "reference", priority=1)
    operation = registry.operation(name)
    faults, done = [], threading.Event()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def call():
        while not done.is_set():
            served = operation(1)
            priorities = [each.priority for each in operation.implementations]
            if served not in ("reference", "mine") or priorities != sorted(priorities, reverse=True):
                faults.append((served, priorities))

    def add(k):
        for n in range(100):
            mine = lambda x: "mine"  # noqa: E731
            registry.register(name, "reference", mine, priority=2 + 4 * n + k)
            if n % 2:
                registry.unregister(name, mine)

    callers = [threading.Thread(target=call) for _ in range(2)]
    adders = [threading.Thread(target=add, args=(k,)) for k in range(4)]
    try:
        for thread in (*callers, *adders):
            thread.start()
        for thread in adders:
            thread.join()
    finally:
        done.set()
        for thread in callers:
            thread.join()
        sys.setswitchinterval(before)
    assert faults == [] and len(operation.implementations) == 1 + 4 * 50
