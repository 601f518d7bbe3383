"""A pytest plugin: a kernel library's own tests for a TPU or a GPU, on a laptop.

    pytest --tessera=tpu-v5e tests/                    each test runs inside tessera.simulate(device="tpu-v5e")
    pytest --tessera=tpu-v5e --tessera-devices=8 ...   with eight virtual CPU devices for meshes

    @pytest.mark.tessera(device="tpu-v6e", schedule="random:1")     one test, with its own settings
    def test_kernel(tessera_report):                                what it moved, as tessera.Report
        ...

    @pytest.mark.tessera_reference(naive)                           one kernel against a naive function in f64
    def test_right(tessera_check):
        tessera_check(kernel, x, y, inputs="cancellation")

    pytest --tessera-triton=h100 tests/                each test runs inside tessera.simulate_triton(device="h100")
    pytest --tessera-triton=h100 --tessera-cuda ...    which answers for tests that say "cuda"

A test may take five minutes (--tessera-time-limit); tests in which no kernel ran are named at the end.

`pip install` registers it; from a build folder: -p tessera.pytest.
"""
import pytest

_KERNELS = "tessera_kernels"  # a property of a test: how many ran
_WARNING = "tessera_warning"
_SHOWN = 20


def pytest_addoption(parser):
    group = parser.getgroup("tessera", "simulated TPUs")
    group.addoption("--tessera", metavar="DEVICE", help="run each test inside tessera.simulate(device=DEVICE)")
    group.addoption("--tessera-schedule", metavar="SCHEDULE", help="eager, on_wait, random:SEED or adversarial")
    group.addoption("--tessera-checks", metavar="CHECKS", help="all (the default), no-races, report, or tests: all, but what a "
                    "kernel leaves undefined of its outputs is logged, and NaN for what looks at it")
    group.addoption("--tessera-cores", metavar="N", type=int, help="TensorCores of a device (Megacore: 2)")
    group.addoption("--tessera-profile", metavar="PROFILE", help="how products are computed: exact, mxu, mxu:x3 or mxu:x6")
    group.addoption("--tessera-time-limit", metavar="SECONDS", type=float, default=300,
                    help="of each test: a kernel that runs then ends, with the line it was in (300; 0: none)")
    group.addoption("--tessera-triton", metavar="DEVICE", help="run each test inside tessera.simulate_triton(device=DEVICE)")
    group.addoption("--tessera-cuda", action="store_true", help='with --tessera-triton: answer for tests that say "cuda"')
    group.addoption("--tessera-views", action="store_true", help="with --tessera-triton: a tensor that is a view ends where the "
                    "view ends, not where its allocation does")
    group.addoption("--tessera-devices", metavar="N", type=int, help="virtual CPU devices, for meshes")


_BETWEEN = pytest.StashKey()


class _Between:
    """The simulation outside of tests: for what conftest files, modules, classes and fixtures of theirs ask and run."""

    def __init__(self, simulate, settings):
        self._simulate = simulate
        self._settings = settings
        self._running = None

    def start(self):
        import tessera

        self._running = getattr(tessera, self._simulate)(**self._settings)
        self._running.__enter__()

    def stop(self):
        if self._running is not None:
            running, self._running = self._running, None
            running.__exit__(None, None, None)

    def start_again(self):
        """With a time limit of its own."""
        self.stop()
        self.start()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    _simulate_between(early_config, early_config.known_args_namespace)


def pytest_configure(config):
    if config.getoption("--tessera") is not None and config.getoption("--tessera-triton") is not None:
        raise pytest.UsageError("--tessera and --tessera-triton: a test runs on one of them")
    config.addinivalue_line("markers", "tessera(**settings): run inside tessera.simulate(**settings)")
    config.addinivalue_line("markers", "tessera_reference(function): what the fixture tessera_check compares with")
    _simulate_between(config, config.option)


def _simulate_between(config, options):
    """Once: a conftest that names this plugin comes too late for the first of these hooks."""
    if _BETWEEN in config.stash or (options.tessera is not None and options.tessera_triton is not None):
        return
    if options.tessera_devices is not None:
        import jax

        jax.config.update("jax_num_cpu_devices", options.tessera_devices)
    between = None
    if options.tessera is not None:
        between = _Between("simulate", _of_command_line(options))
    elif options.tessera_triton is not None:
        between = _Between("simulate_triton", _triton_settings(options))
    config.stash[_BETWEEN] = between
    if between is not None:
        try:
            between.start()
        except ValueError as e:
            raise pytest.UsageError(str(e).rstrip()) from e
        except ModuleNotFoundError as e:
            said = "--tessera, for Pallas kernels," if options.tessera is not None else "--tessera-triton"
            other = "; Triton kernels run with --tessera-triton" if options.tessera is not None else ""
            raise pytest.UsageError(f"{said} needs {e.name}, which is not installed{other}") from e
        config.add_cleanup(between.stop)
    if options.tessera_triton is not None:
        from tessera import KernelError
        from triton.runtime import autotuner, jit

        # What is wrong with a kernel is shown at the user's launch, without the frames of Triton that lead to it.
        for module in (autotuner, jit):
            module.__tracebackhide__ = lambda failure: failure.errisinstance(KernelError)


def pytest_collectstart(collector):
    between = collector.config.stash.get(_BETWEEN, None)
    if between is not None and isinstance(collector, pytest.Module):
        between.start_again()


def _of_command_line(options):
    settings = {name: getattr(options, f"tessera_{name}") for name in ("schedule", "checks", "cores", "profile")}
    settings = {name: value for name, value in settings.items() if value is not None}
    return {"device": options.tessera, **settings, "time_limit": options.tessera_time_limit or None}


def _settings(request):
    """Of the mark, over those of the command line; None: no simulation."""
    config = request.config
    if config.getoption("--tessera-triton") is not None:
        return None
    settings = _of_command_line(config.option)
    if settings["device"] is None:
        del settings["device"]
    mark = request.node.get_closest_marker("tessera")
    if mark is not None:
        if mark.args:
            raise pytest.UsageError("@pytest.mark.tessera takes settings by name: device=..., schedule=...")
        return {**settings, **mark.kwargs}
    return settings if "device" in settings or "tessera_report" in request.fixturenames else None


def _triton_settings(options):
    """None: no simulation of Triton kernels."""
    if options.tessera_triton is None:
        return None
    settings = {name: getattr(options, f"tessera_{name}") for name in ("checks", "profile", "cuda", "views")}
    settings = {name: value for name, value in settings.items() if value}
    return {"device": options.tessera_triton, "time_limit": options.tessera_time_limit or None, **settings}


@pytest.fixture(autouse=True)
def _tessera_simulation(request):
    triton = _triton_settings(request.config.option)
    settings = _settings(request)
    if (settings is None and triton is None) or "tessera_check" in request.fixturenames:
        yield None
        return
    import tessera

    between = request.config.stash.get(_BETWEEN, None)
    if between is not None:
        between.stop()
    try:
        with tessera.simulate(**settings) if triton is None else tessera.simulate_triton(**triton) as report:
            yield report
    finally:
        if between is not None:
            between.start()
    request.node.user_properties.append((_KERNELS, len(report.calls)))
    for line in getattr(report, "warnings", ()):
        request.node.user_properties.append((_WARNING, line))


def pytest_terminal_summary(terminalreporter):
    triton = terminalreporter.config.getoption("--tessera-triton") is not None
    ended = [report for reports in terminalreporter.stats.values() for report in reports
             if getattr(report, "when", None) == "teardown"]
    counts = {report.nodeid: dict(report.user_properties)[_KERNELS] for report in ended
              if _KERNELS in dict(report.user_properties)}
    idle = [test for test, kernels in counts.items() if kernels == 0]
    warnings = {}
    for report in ended:
        for name, line in report.user_properties:
            if name == _WARNING:
                warnings.setdefault(line, []).append(report.nodeid)
    if idle or warnings:
        terminalreporter.section("tessera")
    for line, tests in list(warnings.items())[:_SHOWN]:
        terminalreporter.write_line(f"warning: {line}")
        terminalreporter.write_line(f"  {tests[0]}" + (f" and {len(tests) - 1} more" if len(tests) > 1 else ""))
    if len(warnings) > _SHOWN:
        terminalreporter.write_line(f"  and {len(warnings) - _SHOWN} more")
    if not idle:
        return
    terminalreporter.write_line(f"no {'Triton' if triton else 'TPU'} kernel ran in {len(idle)} of {len(counts)} simulated tests:")
    for test in idle[:_SHOWN]:
        terminalreporter.write_line(f"  {test}")
    if len(idle) > _SHOWN:
        terminalreporter.write_line(f"  and {len(idle) - _SHOWN} more")


@pytest.fixture
def tessera_report(_tessera_simulation):
    """The tessera.Report of the running test."""
    return _tessera_simulation


@pytest.fixture
def tessera_check(request):
    """tessera.check with the reference of @pytest.mark.tessera_reference(function), in the test's simulation."""
    mark = request.node.get_closest_marker("tessera_reference")
    if mark is None or len(mark.args) != 1 or mark.kwargs:
        raise pytest.UsageError("tessera_check needs @pytest.mark.tessera_reference(function)")
    import tessera

    settings = {name: value for name, value in (_settings(request) or {}).items() if name != "checks"}
    between = request.config.stash.get(_BETWEEN, None)
    kernels = []

    def check(kernel, *args, **more):
        found = tessera.check(kernel, mark.args[0], *args, **{**settings, **more})
        kernels.append(found)
        return found

    if between is not None:
        between.stop()
    try:
        yield check
    finally:
        if between is not None:
            between.start()
    request.node.user_properties.append((_KERNELS, len(kernels)))
