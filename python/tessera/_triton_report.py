"""The simulation of Triton kernels that is on: what the driver launches in, and its report."""
import os
import sys

from tessera import _record, _triton
from tessera._devices import use_importer
from tessera._leaving import leave_soon
from tessera._report import Call, Report, kernel_error

use_importer(_triton)
_record.tell(_triton)

_session = None


class TritonReport(Report):
    """calls: launches of kernels, in the order in which they ran, up to 20,000 of them. Bytes are what loads and stores
    asked for. left_out: launches of which nothing is kept here."""

    def __init__(self, session):
        self._session = session
        self._calls = []
        self._left_out = 0

    @property
    def calls(self):
        if self._session is not None:
            self._session.collect()
        return self._calls

    @property
    def left_out(self):
        return _triton.left_out() if self._session is not None else self._left_out

    def _close(self):
        self._session.collect()
        self._left_out = _triton.left_out()
        self._session = None

    @property
    def note(self):
        if self.calls:
            left_out = f"{self.left_out:,} launches more ran, of which this report has no room" if self.left_out else ""
            waiting = ", ".join(dict.fromkeys(call.kernel for call in self.calls if call.left_out_of_time))
            return "\n".join(filter(None, (left_out, waiting and f"{waiting}: predicted without what programs wait for one another")))
        if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
            return "no Triton kernel ran in this simulation: TRITON_INTERPRET is set, so that Triton's own interpreter ran them"
        return "no Triton kernel ran in this simulation: the program took another path"

    @staticmethod
    def _alike(record):
        """Programs make many launches of a kernel, whose masks differ."""
        return record["kernel"], record["grid"], record["errors"]

    _CALL, _CALLS = "launch", "launches"


class TritonCall(Call):
    """A launch of a kernel."""

    @property
    def kernel(self):
        return self._finished.kernel

    @property
    def predicted_seconds(self):
        """What the device takes, from an L2 that is empty: predict/grid_time.hpp; None: not known."""
        return self._finished.predicted_seconds or None

    @property
    def left_out_of_time(self):
        """What predicted_seconds is without, in words; "": nothing that is known."""
        return "what programs wait for one another" if self._finished.waits else ""

    @property
    def predicted_dram_bytes(self):
        """(read, written) by DRAM, from an L2 that is empty (predict/grid_bytes.hpp); None: of less than 16 MiB of arrays, and
        where programs ran together, each byte once."""
        read, written = self._finished.predicted_dram_read, self._finished.predicted_dram_written
        return (read, written) if read >= 0 else None


class Session:
    """What the driver sees of a simulation that is on."""

    def __init__(self, keep_going, tensors=None):
        self.keep_going = keep_going
        self.tensors = tensors
        self.report = TritonReport(self)

    def collect(self):
        for launched in _triton.take_launched():
            self.report._calls.append(TritonCall(launched))

    def launch(self, signature, specialisation, x, y, z, arguments):
        __tracebackhide__ = True
        if self.tensors is not None:
            self.tensors.note_what_is_written(arguments)
        interrupt = None
        launched = None
        try:
            launched = signature.launch(specialisation, x, y, z, arguments)
        except KeyboardInterrupt as e:
            interrupt = e
            leave_soon()
        if launched is not None and launched.printed:
            sys.stdout.write(launched.printed)
        if interrupt is not None:
            ended = [e for call in self.report.calls[-1:] for e in call.errors if e.slug == "interrupted"]
            raise KeyboardInterrupt(str(ended[0]) if ended else "") from None
        if launched is None or not launched.findings:
            return
        errors = list(map(kernel_error, launched.findings))
        if self.keep_going:
            errors = [e for e in errors if e.slug in ("interrupted", "time-limit")]
        if errors:
            raise errors[0]


def current():
    """The simulation that is on; with TRITON_DEFAULT_BACKEND=tessera one that lasts as long as the process."""
    if _session is None:
        _triton.start(device=os.environ.get("TESSERA_TRITON_DEVICE", "h100"), threads=0, profile="exact", time_limit=0., most_launched=0)
        begin(Session(False))
    return _session


def running():
    """None: none is on."""
    return _session


def begin(session):
    global _session
    _session = session


def stop():
    begin(None)
    _triton.stop()
    _triton.take_launched()
