"""Chip queries answer for the simulated device."""
import contextlib
import sys

from tessera import _xla


def _asked_by_jax():
    """JAX itself must know that it runs on a CPU; the kernels that it ships are programs like any other."""
    frame = sys._getframe()
    while frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "")
    return name.split(".")[0] in ("jax", "jaxlib") and not name.startswith("jax.experimental.pallas")


@contextlib.contextmanager
def pretend(device, cores):
    import jax

    kind = _xla.device_kind(device)
    on_cpu = type(jax.devices("cpu")[0])
    with contextlib.ExitStack() as stack:

        def replace(owner, name, value):
            old = owner.__dict__.get(name)
            setattr(owner, name, value)
            stack.callback(lambda: delattr(owner, name) if old is None else setattr(owner, name, old))

        platform = on_cpu.platform
        replace(on_cpu, "platform", property(lambda self: platform.__get__(self) if _asked_by_jax() else "tpu"))
        replace(on_cpu, "device_kind", property(lambda self: kind))
        replace(on_cpu, "num_cores", property(lambda self: cores))
        replace(jax, "default_backend", lambda: "tpu")
        test_util = sys.modules.get("jax._src.test_util")
        if test_util is not None:  # what tests in the manner of JAX's own ask
            replace(test_util, "device_under_test", lambda: "tpu")
        yield
