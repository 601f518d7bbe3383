"""The end of a program after Ctrl-C."""
import atexit
import functools
import gc


@functools.cache
def leave_soon():
    """When Python ends it looks for garbage, several times: a third of a second for all that JAX has made."""
    atexit.register(gc.freeze)
