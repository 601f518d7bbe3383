"""simulate() and capture()."""
import contextlib
import os
import sys

from tessera import _chip, _jax, _xla
from tessera._report import Call, Report

_importer = os.path.join(os.path.dirname(__file__), "tessera-mosaic-import")
if os.path.exists(_importer):  # installed: beside this file
    _xla.set_importer(_importer)

_CHECKS = ("all", "report", "no-races")


class _Session:
    """What the hooks in JAX see of a simulation that is on."""

    def __init__(self, device, cores, keep_going):
        self.device = device
        self.cores = cores
        self.keep_going = keep_going
        self.report = Report()

    def collect(self):
        """After a program ran: its calls go to the report; what is wrong is raised."""
        error = None
        for finished in _xla.take_finished():
            call = Call(finished)
            self.report.calls.append(call)
            if call.printed:
                sys.stdout.write(call.printed)
            error = error or call.error
        if error is not None and not self.keep_going:
            raise error


@contextlib.contextmanager
def simulate(device="tpu-v5e", schedule=None, checks="all", *, cores=1, threads=0, capture=None, patience=60):
    """Runs each Pallas TPU kernel called inside on a simulated device; gives a Report.

    device: a TPU of `tessera.devices()`, or a JSON file. Chip queries (pltpu.get_tpu_info(), device_kind,
      jax.default_backend()) answer for it.
    schedule: "eager", "on_wait", "random:SEED", "adversarial"; see `tessera run --help`. None: eager.
    checks: "all" raises KernelError at the first kernel that is wrong; "report" notes it in the report and goes
      on, with undefined results (NaN) unless it is a race; "no-races" is "all" but for races.
    cores: TensorCores of a device that share a kernel's parallel dims (Megacore: 2).
    threads: of the host, for kernels without copies of their own; 0: what OpenMP offers.
    capture: a folder; each call is written there with its operands, for `tessera run FOLDER`.
    patience: seconds that a device of a mesh may be late at a kernel that others have reached.
    """
    if checks not in _CHECKS:
        raise ValueError(f"checks={checks!r}: one of {', '.join(map(repr, _CHECKS))}")
    _jax.install()
    if capture is not None:
        capture = os.path.abspath(capture)
    _xla.start(device, schedule or "", checks != "no-races", checks == "report", cores, threads, capture or "",
               float(patience))
    session = _Session(device, cores, checks == "report")
    try:
        with _chip.pretend(device, cores), _jax.active(session):
            yield session.report
    finally:
        _xla.stop()
        _xla.take_finished()


def capture(function, *args, folder="captured", **settings):
    """Calls function(*args), and writes each kernel that it calls with its operands to folder/NNN_name.

    `tessera run folder/NNN_name` runs it again without Python. What is wrong with a kernel is noted in the
    report that is returned, and does not keep it from being written. `settings` are those of simulate().
    """
    import jax

    settings.setdefault("checks", "report")
    with simulate(capture=folder, **settings) as report:
        jax.block_until_ready(function(*args))
    return report
