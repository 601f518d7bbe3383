"""simulate(clock="device"): what times kernels by time.perf_counter() sees what the device is predicted to take."""
import contextlib
import time
import timeit


class DeviceClock:
    """Stands while the host works, and goes on by the predicted time of each call of a kernel."""

    def __init__(self):
        self.seconds = time.perf_counter()

    def advance(self, calls):
        for call in calls:
            if call.json is None:
                raise RuntimeError("a call of which no report was kept has no predicted time: time fewer calls in a simulation")
            self.seconds += call.json["rank_seconds"]

    def perf_counter(self):
        return self.seconds

    def perf_counter_ns(self):
        return round(self.seconds * 1e9)

    @contextlib.contextmanager
    def shown(self):
        """To the whole process, as what kernels run on is."""
        real = time.perf_counter, time.perf_counter_ns, timeit.default_timer
        time.perf_counter, time.perf_counter_ns, timeit.default_timer = self.perf_counter, self.perf_counter_ns, self.perf_counter
        try:
            yield
        finally:
            time.perf_counter, time.perf_counter_ns, timeit.default_timer = real
