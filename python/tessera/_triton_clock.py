"""Triton's clock in a simulation: what the device is predicted to take for the launches between two events."""
import statistics

from tessera import _triton
from tessera._report import KernelError

_NO_TIME = """error[unmodelled]: {why}
  help    what is timed is the device's predicted time, not this machine's: choose a configuration by hand, or another device
"""


class Event:
    """As torch.cuda.Event."""

    def __init__(self, enable_timing=False, **_):
        self._at = None

    def record(self, stream=None):
        self._at = _triton.clock()

    def synchronize(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, end):
        """Milliseconds."""
        if end._at[1] > self._at[1]:
            raise KernelError(_NO_TIME.format(why="a kernel that was timed has no predicted time"), "unmodelled", "unmodelled")
        return 1e3 * (end._at[0] - self._at[0])


def synchronize(device=None):
    pass


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean", **_):
    """triton.testing.do_bench: the device's clock does not vary, so that one run tells."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError(f"return_mode={return_mode!r}")
    for x in grad_to_none or ():
        x.grad = None
    start, end = Event(), Event()
    start.record()
    fn()
    end.record()
    times = [start.elapsed_time(end)]
    if times[0] == 0:
        raise KernelError(_NO_TIME.format(why="what was timed launched no kernel here"), "unmodelled", "unmodelled")
    if quantiles is not None:
        return [times[0] for _ in quantiles] if len(quantiles) > 1 else times[0]
    return times if return_mode == "all" else statistics.mean(times)
