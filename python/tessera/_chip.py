"""Queries answer for the simulated device: JAX's devices are a CPU's, whoever asks what they are hears of a TPU."""
import contextlib
import sys

from tessera import _xla


def _asked_by_jax():
    """JAX itself must know that it runs on a CPU; the kernels that it ships and its tests are programs like any other."""
    name = _asker()
    return (name.split(".")[0] in ("jax", "jaxlib")
            and not name.startswith("jax.experimental.pallas") and "test_util" not in name)


def _asker():
    frame = sys._getframe()
    while frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return frame.f_globals.get("__name__", "")


@contextlib.contextmanager
def pretend(device, cores):
    """Starts no backend: until a program asks, it may still say how many devices a CPU shall have."""
    import jax
    from jax._src import mesh, xla_bridge
    from jax._src.export import _export
    from jax._src.lax.control_flow import conditionals
    from jaxlib import _jax

    kind = _xla.device_kind(device)
    with contextlib.ExitStack() as stack:

        def replace(owner, name, value):
            old = owner.__dict__.get(name)
            setattr(owner, name, value)
            stack.callback(lambda: delattr(owner, name) if old is None else setattr(owner, name, old))

        def answer(owner, name, value, keep):
            """`value`, unless `keep` says that the truth is wanted."""
            truth = getattr(owner, name)
            replace(owner, name, property(lambda self: truth.__get__(self) if keep() else value))

        answer(jax.Device, "platform", "tpu", keep=_asked_by_jax)
        answer(_jax.Client, "platform", "tpu", keep=_asked_by_jax)
        # A mesh keeps the kind of its devices for good: what it says is answered below, anew each time.
        answer(jax.Device, "device_kind", kind, keep=lambda: _asker() == mesh.__name__)
        replace(jax.Device, "num_cores", property(lambda self: cores))
        _answer_for_meshes(replace, mesh.AbstractDevice, kind, cores)
        _find_tpus(replace, stack, xla_bridge)
        _take_branches_of_tpus(replace, conditionals.platform_index_p)
        default_backend = xla_bridge.default_backend
        for owner in (jax, xla_bridge):
            replace(owner, "default_backend", lambda: default_backend() if _asked_by_jax() else "tpu")
        replace(_export, "default_export_platform", lambda: "tpu")
        yield


def _answer_for_meshes(replace, abstract_device, kind, cores):
    """get_abstract_mesh().abstract_device, inside shard_map; one that a program made itself says what it was given."""

    def field(name):
        slot = abstract_device.__dict__.get(name)
        if slot is None:
            return lambda self: self.__dict__[name], lambda self, value: self.__dict__.__setitem__(name, value)
        return slot.__get__, slot.__set__

    get_kind, set_kind = field("device_kind")
    get_cores, set_cores = field("num_cores")

    def ours(self):
        return get_kind(self) in ("cpu", kind)

    replace(abstract_device, "device_kind", property(lambda self: kind if ours(self) else get_kind(self), set_kind))
    replace(abstract_device, "num_cores", property(lambda self: cores if ours(self) else get_cores(self), set_cores))


def _take_branches_of_tpus(replace, platform_index):
    """lax.platform_dependent: what a program has for TPUs, else for platforms that it does not name."""
    bind = platform_index.bind

    def chosen(*, platforms):
        named = {name: i for i, names in enumerate(platforms) for name in names or ()}
        if "tpu" in named:
            return named["tpu"]
        if "cpu" in named and None in platforms:
            return platforms.index(None)
        return bind(platforms=platforms)

    replace(platform_index, "bind", chosen)


def _cpu_instead_of_tpus():
    """Where JAX_PLATFORMS says "tpu", as programs for them do: what starts the backends finds the CPU there."""
    from jax._src import config

    platforms = config.jax_platforms.value
    names = (platforms or "").split(",")
    if "tpu" not in names:
        return contextlib.nullcontext()
    return config.jax_platforms(",".join(dict.fromkeys("cpu" if name == "tpu" else name for name in names)))


def _find_tpus(replace, stack, xla_bridge):
    """jax.devices("tpu") and whatever else names the backend."""
    import jax.extend.backend

    find = xla_bridge._get_backend_uncached

    def forget():
        xla_bridge.get_backend.cache_clear()
        xla_bridge.local_devices.cache_clear()

    def backend(platform=None):
        if platform != "tpu":
            return find(platform)
        stack.callback(forget)
        return find("cpu")

    replace(xla_bridge, "_get_backend_uncached", backend)
    backends = xla_bridge.backends

    def started():
        with _cpu_instead_of_tpus():
            return backends()

    def all_backends():
        """A machine with TPUs has a CPU too."""
        return started() if _asked_by_jax() else {"tpu": find("cpu"), **started()}

    for owner in (jax.extend.backend, xla_bridge):
        replace(owner, "backends", all_backends)
