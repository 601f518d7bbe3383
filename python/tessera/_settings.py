"""What simulations are told, checked."""
import numbers
import operator
import os

_LONGEST = 1e8  # seconds, what a clock can add
_MOST_THREADS = 1024


def device_named(device):
    if not isinstance(device, (str, os.PathLike)):
        raise ValueError(f"device={device!r}: a name of tessera.devices(), or the path of a file")
    return os.fspath(device)


def whole(name, value, least, most):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number <= most:
        raise ValueError(f"{name}={value!r}: a whole number from {least} to {most:,}")
    return number


def host_threads(value):
    return whole("threads", value, 0, _MOST_THREADS)


def seconds(name, value):
    """Infinity is longer than anybody waits."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not value > 0:
        raise ValueError(f"{name}={value!r}: seconds, more than 0" + ("" if name == "patience" else ", or None"))
    return float(min(value, _LONGEST))
