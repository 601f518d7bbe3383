"""simulate() and capture()."""
import contextlib
import logging
import os
import sys

from tessera import _chip, _jax, _record, _xla
from tessera._device_clock import DeviceClock
from tessera._devices import use_importer
from tessera._report import Call, Report
from tessera._settings import device_named, host_threads, seconds, whole

use_importer(_xla)
_record.tell(_xla)

_log = logging.getLogger("tessera")
_MOST_CORES = 4096  # of one device
_MOST_REPORT_BYTES = 1 << 27
_CHECKS = ("all", "report", "no-races", "tests")


class _Session:
    """What the hooks in JAX see of a simulation that is on."""

    def __init__(self, device, cores, keep_going, clock=None):
        self.device = device
        self.cores = cores
        self.keep_going = keep_going
        self.clock = clock
        self.told = set()
        self.report = Report()

    def collect(self, interrupted=None):
        """After a program ran: its calls go to the report; what is wrong is raised. `interrupted`: by Ctrl-C."""
        __tracebackhide__ = True
        errors = []
        before = len(self.report.calls)
        for finished in _xla.take_finished():
            call = Call(finished, _jax.kernel_error)
            self.report.calls.append(call)
            if call.printed:
                sys.stderr.write(call.printed)  # where a TPU's log goes
            if call.note:
                _log.warning(call.note)
            for line in call.warnings:
                if line not in self.told:  # once, however often the kernel is called
                    self.told.add(line)
                    _log.warning(f"{call.kernel}: {line}")
            for folder in finished.replaced:
                sys.stderr.write(f"tessera: {folder}: what was there from an earlier call is replaced\n")
            errors += call.errors
        self.report.left_out = _xla.left_out()
        if self.clock is not None:
            self.clock.advance(call for call in self.report.calls[before:] if not call.errors)
        ended = [e for e in errors if getattr(e, "slug", None) in ("interrupted", "time-limit")]
        if interrupted is not None:
            raise KeyboardInterrupt(str(ended[0]) if ended else "") from None
        if self.keep_going:
            errors = ended
        if errors:
            raise errors[0]

    def end(self):
        """Copies that a kernel handed on to be waited for by another: none may be left."""
        count, kernel = _xla.under_way()
        if count > 0:
            self.report.not_awaited = (f"{count:,} bytes of copies that {kernel} started were never waited for by any kernel "
                                       "of this simulation")
            _log.warning(self.report.not_awaited)


@contextlib.contextmanager
def simulate(device="tpu-v5e", schedule=None, checks="all", *, cores=1, threads=0, capture=None, patience=60,
             profile="exact", golden=None, error_model=None, dry=False, time_limit=None, check_compiles=False, clock="host", timing="model"):
    """Runs each Pallas TPU kernel called inside on a simulated device; gives a Report.

    device: a TPU of `tessera.devices()`, or a file like those of memory_model/devices. Chip queries
      (pltpu.get_tpu_info(), device_kind, jax.default_backend()) answer for it.
    schedule: "eager", "on_wait", "random:SEED", "adversarial"; see `tessera run --help`. None: eager.
    checks: "all" raises KernelError at the first thing that is wrong; "report" notes all that is wrong in the report
       and goes on: after a race with the values of this schedule, after a step that had to end with undefined ones
       (NaN); "no-races" is "all" but for races; "tests" is "all", but that what a kernel leaves undefined of its outputs
       (unwritten, or made of what nothing had written) is logged, and NaN for what looks at it.
    cores: TensorCores of a device that share a kernel's parallel dims (Megacore: 2).
    threads: of the host, for kernels without copies of their own; 0: what OpenMP offers.
    capture: a folder; each call is written there with its operands and the device, for `tessera run FOLDER`.
    patience: seconds that a device of a mesh may be late at a kernel that others have reached.
    profile: how products of f32 are computed: "exact"; "mxu" as a TPU does by default, from operands rounded to
      bf16 (six passes where precision=HIGHEST); "mxu:x3" or "mxu:x6", three or six passes.
    golden: a folder; each call's golden (values, error bounds, checksums of every step) is written there, to hold a
      TPU's outputs to with tessera_golden or `tessera golden check`. Such calls take about three times as long.
    error_model: for golden: what another build may do, a dict of accumulate="f32" (the format that it adds in),
      operands="bf16" (what it rounds f32 operands of products to), ulp={"exp": 2, "reciprocal": 4096} (what its
      functions may be off by), fused=True, other_blocks=False. As the options of `tessera golden make`.
    dry: True: bytes, VMEM and predicted time alone, at any size: kernels compute nothing, and their results are
      undefined (NaN). What a kernel prefetches has to come from elsewhere than a kernel.
    time_limit: seconds for the whole simulation; a kernel that runs then ends with KernelError[time-limit] and the
      line it was in, as it ends with KeyboardInterrupt after Ctrl-C. None: as long as it takes.
    check_compiles: True: the TPU's own compiler is asked about each kernel before it runs; one that it refuses raises
      KernelError (does-not-compile), and report.calls[i].compiler has the verdict. It is Google's libtpu, under Google's
      terms: `pip install 'tessera-sim[tpu-compiler]'`, into this interpreter or the one that TESSERA_TPU_PYTHON names.
    timing: what predicted times are from: "model"; or "compiler": the schedule that libtpu makes of each kernel, bundle by
      bundle, as `tessera run --timing compiler` has it. The compiler is asked as with check_compiles.
    """
    if clock not in ("host", "device"):
        raise ValueError(f"clock={clock!r}: 'host' or 'device'")
    by_schedule = compiles(timing)
    device = device_named(device)
    if checks not in _CHECKS:
        raise ValueError(f"checks={checks!r}: one of {', '.join(map(repr, _CHECKS))}")
    if schedule is not None and not (isinstance(schedule, str) and schedule):
        raise ValueError(f"schedule={schedule!r}: a text as in 'random:1', or None")
    cores = whole("cores", cores, 1, _MOST_CORES)
    threads = host_threads(threads)
    patience = seconds("patience", patience)
    if dry and (golden is not None or capture is not None):
        raise ValueError("dry=True computes nothing to capture or to make a golden of")
    if time_limit is not None:
        time_limit = seconds("time_limit", time_limit)
    _jax.install()
    if capture is not None:
        capture = os.path.abspath(capture)
    if error_model is not None and golden is None:
        raise ValueError("error_model is what a golden's bounds are made for: say golden=FOLDER")
    model = None
    if golden is not None:
        golden = os.path.abspath(golden)
        os.makedirs(golden, exist_ok=True)
        model = _model_of(**(error_model or {}))
    _xla.start(device, schedule or "", checks != "no-races", checks == "report", checks == "tests", cores, threads, capture or "",
               patience, profile, golden or "", model, bool(dry), time_limit or 0., _MOST_REPORT_BYTES, bool(check_compiles),
               by_schedule, _jax.has_compiler_of_0_11(), python_that_compiles())
    session = _Session(device, cores, checks == "report", DeviceClock() if clock == "device" else None)
    try:
        with session.clock.shown() if session.clock else contextlib.nullcontext(), _chip.pretend(device, cores), _jax.active(session):
            yield session.report
        session.end()
    finally:
        _xla.stop()
        _xla.take_finished()


def compiles(timing):
    if timing not in ("model", "compiler"):
        raise ValueError(f"timing={timing!r}: 'model' or 'compiler'")
    return timing == "compiler"


def python_that_compiles():
    return os.environ.get("TESSERA_TPU_PYTHON") or sys.executable


@contextlib.contextmanager
def counting(device, cores, timing="model"):
    """A dry simulation; within one that is on, a part of it whose calls are counted alone, with a report of its own."""
    compiler = python_that_compiles() if compiles(timing) else None
    session = _jax.session()
    if session is None:
        with _record.paused(), simulate(device, cores=cores, dry=True) as report:
            _xla.count_alone(True, compiler)
            yield report
        return
    _xla.count_alone(True, compiler)
    report, clock = session.report, session.clock
    session.report, session.clock = Report(), None
    try:
        with _record.paused(), _jax.in_context():
            yield session.report
    finally:
        session.report, session.clock = report, clock
        _xla.count_alone(False)


def _model_of(*, accumulate="f32", operands=None, ulp=None, fused=True, other_blocks=False):
    return _xla.error_model(accumulate, operands or "", dict(ulp or {}), fused, other_blocks)


def make_goldens(function, *args, folder="goldens", error_model=None, **settings):
    """Calls function(*args), and writes a golden of each kernel that it calls to folder/NNN_name.

    In the pytest of a TPU: `assert_golden(load("goldens/000_name"), {"out0": ...})` of tessera_golden. `error_model`
    and `settings` are those of simulate(); the report that is returned names each call's golden.
    """
    import jax

    with simulate(golden=folder, error_model=error_model, **settings) as report:
        jax.block_until_ready(function(*args))
    return report


def capture(function, *args, folder="captured", **settings):
    """Calls function(*args), and writes each kernel that it calls, its operands and the device to folder/NNN_name.

    `tessera run folder/NNN_name` runs it again without Python. What is wrong with a kernel is noted in the
    report that is returned, and does not keep it from being written. `settings` are those of simulate().
    """
    import jax

    settings.setdefault("checks", "report")
    with simulate(capture=folder, **settings) as report:
        jax.block_until_ready(function(*args))
    return report
