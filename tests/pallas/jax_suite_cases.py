"""A pytest plugin for scripts/jax_suite: JAX's test helpers that its wheels lack, and a few cases of each parametrised test."""
import importlib
import inspect
import os
import random

_SETTINGS = "_hypothesis_internal_use_settings"  # where hypothesis keeps a test's


def pytest_addoption(parser):
    group = parser.getgroup("jax_suite", "JAX's own tests")
    group.addoption("--jax-checkout", metavar="FOLDER", help="where JAX's sources lie")
    group.addoption("--jax-cases", metavar="N", type=int, help="at most N cases of each parametrised test")


def pytest_configure(config):
    checkout = config.getoption("--jax-checkout")
    for name in ("jax._src", "jax._src.pallas"):  # jax._src.pallas.pallas_test_util and others are in no wheel
        importlib.import_module(name).__path__.append(os.path.join(checkout, *name.split(".")))
    if config.getoption("capture") == "no":  # what tests of printing wait for
        importlib.import_module("jax._src.test_util").skip_under_pytest = lambda reason: lambda test: test


def _test_of(item):
    """The function that all cases of a parametrised test share: absl makes a method of each."""
    code = inspect.unwrap(getattr(item, "function", item.obj)).__code__
    owner = item.cls.__qualname__ if item.cls else ""
    return owner, code.co_filename, code.co_firstlineno


def _draw_fewer(test, limit):
    """Cases that hypothesis draws: it does so alike each time, as JAX sets it up. What wraps its test has a copy of the settings."""
    test = getattr(test, "__func__", test)
    while test is not None:
        settings = getattr(test, _SETTINGS, None)
        if settings is not None and settings.max_examples > limit:
            setattr(test, _SETTINGS, type(settings)(settings, max_examples=limit))
        test = getattr(test, "__wrapped__", None)


def pytest_collection_modifyitems(config, items):
    limit = config.getoption("--jax-cases")
    if limit is None:
        return
    tests = {}
    for item in items:
        tests.setdefault(_test_of(item), []).append(item)
    drawn = set()
    for (owner, _, _), cases in tests.items():
        names = sorted(case.nodeid for case in cases)
        draw = random.Random(f"{owner} {names[0]}")
        drawn.update(names if len(names) <= limit else draw.sample(names, limit))
    for item in items:
        _draw_fewer(item.obj, limit)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in drawn])
    items[:] = [item for item in items if item.nodeid in drawn]
