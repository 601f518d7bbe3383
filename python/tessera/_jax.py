"""The hooks in JAX: a CPU lowering for Pallas calls that takes the TPU's, a compiler that runs them here, and a wait
after programs that have them.

What tessera touches in JAX's internals is here (and in _chip.py, what answers queries).
"""
import contextlib
import functools
import os
import re
import warnings

import jax

from tessera import _custom_calls, _record, _xla
from tessera._leaving import leave_soon
from tessera._report import KernelError

OLDEST, NEWEST = (0, 9), (0, 12)  # of JAX's versions, those that the tests run with

# Options that XLA knows on a TPU alone: libtpu's families, and XLA's own that are for devices which work while they copy.
_OF_TPUS = ("xla_tpu_", "xla_sc_", "xla_jf_", "xla_vf_", "xla_pf_", "xla_mosaic_", "xla_msa_", "xla_enable_async_",
            "xla_latency_hiding_scheduler_", "xla_lhs_", "xla_max_concurrent_", "xla_memory_scheduler",
            "xla_should_add_loop_invariant_op_in_chain", "xla_should_allow_loop_variant_parameter_in_chain",
            *(f"xla_{name}_latency_bound_threshold_in_bytes"
              for name in ("all_gather", "all_reduce", "all_to_all", "collective_permute")))
_context = None  # a part of JAX's cache keys: what the running simulation lowers for
_session = None


class _Marker:
    """Kept alive by an executable that has calls of ours."""


_marker = _Marker()


def _has_kernels(executable):
    return any(kept is _marker for kept in executable.keepalive or ())


class Moved(ImportError):
    """This JAX is not one that tessera knows."""


@functools.cache
def install():
    """Once for a process. The hooks do nothing while no simulation is on."""
    global _context
    check_version()
    try:
        _install()
        _context = jax.make_user_context(None)
    except (ImportError, AttributeError, KeyError, TypeError) as e:
        raise Moved(f"{_known()}; in this one ({jax.__version__}) something moved: {e}. "
                    f"pip install '{requirement()}'") from e


def check_version():
    """Names a JAX that nobody has tried: an older one is refused, a newer one may lower as before."""
    version = jax.__version_info__[:2]
    if version < OLDEST:
        raise Moved(f"{_known()}, not {jax.__version__}. pip install '{requirement()}'")
    if version > NEWEST:
        warnings.warn(f"{_known()}: this is {jax.__version__}, of which nobody has tried whether it lowers the same",
                      stacklevel=5)


def has_compiler_of_0_11():
    """Whose rules for rotates are others (pallas/compiler_limits.cpp)."""
    return jax.__version_info__ >= (0, 11)


def requirement():
    """As pip is told."""
    return f"jax>={_text(OLDEST)},<{_text((NEWEST[0], NEWEST[1] + 1))}"


def _known():
    return f"tessera knows JAX {_text(OLDEST)} to {_text(NEWEST)}"


def _text(version):
    return ".".join(map(str, version))


class JaxKernelError(KernelError, jax.errors.JaxRuntimeError):
    """A KernelError as programs of JAX expect it."""


JaxKernelError.__name__ = JaxKernelError.__qualname__ = "KernelError"
JaxKernelError.__module__ = KernelError.__module__


def kernel_error(finding):
    return _compiler_error(finding) if finding.by_compiler else JaxKernelError(finding.text, finding.slug, finding.kind)


def _compiler_error(finding):
    """What a TPU's compiler refuses, as Pallas raises it: its traceback ends in the kernel's line."""
    from jax._src.pallas.mosaic import error_handling

    class CompilerError(JaxKernelError, error_handling.MosaicError):
        """A kernel that a TPU's compiler refuses."""

    CompilerError.__qualname__ = CompilerError.__name__
    error = CompilerError(finding.text, finding.slug, "unsupported")
    line = re.search(r"^  line +(.+?):(\d+)(?:  |$)", finding.text, re.MULTILINE)
    if line:
        frame = error_handling.RawFrame("kernel", line[1], int(line[2]), 0)
        error.__traceback__ = error_handling.traceback_from_raw_frames([frame])
    return error


@contextlib.contextmanager
def active(session):
    global _session
    _session = session
    try:
        with _context((session.device, session.cores)):
            yield
    finally:
        _session = None


def simulating():
    return _session is not None


def session():
    return _session


def simulated():
    """The device and how many cores it has."""
    return _session.device, _session.cores


def in_context():
    """The running simulation's part of JAX's cache keys, for another thread."""
    return _context(simulated())


def _install():
    from jax._src import compiler, tpu_custom_call
    from jax._src.export import _export
    from jax._src.interpreters import mlir, pxla
    from jax._src.pallas import pallas_call

    primitives = [pallas_call.pallas_call_p]
    try:
        from jax._src.pallas import mpmd  # since 0.10
        primitives.append(mpmd.mpmd_map_p)
    except ImportError:
        pass
    for primitive in primitives:
        _lower_as_for_a_tpu(mlir, primitive, mlir._lowerings[primitive],
                            unless=lambda params: params.get("interpret"))
    _lower_as_for_a_tpu(mlir, _export.call_exported_p, mlir._lowerings[_export.call_exported_p],
                        unless=lambda params: "tpu" not in params["exported"].platforms)
    _lower_as_for_a_tpu(mlir, tpu_custom_call.tpu_custom_call_p,
                        mlir._platform_specific_lowerings["tpu"][tpu_custom_call.tpu_custom_call_p],
                        unless=lambda params: False)
    _compile_for_us(compiler)
    _wait_after_programs(pxla)


def _lower_as_for_a_tpu(mlir, primitive, entry, unless):
    rule = getattr(entry, "rule", entry)

    def lower(ctx, *operands, **params):
        if _session is None or unless(params):
            if _session is not None and params.get("interpret"):
                _session.report.interpreted += 1
            return rule(ctx, *operands, **params)
        ctx.module_context.add_keepalive(_marker)
        # No backend: JAX then looks for a TPU's, and finds one that is up to date.
        for_a_tpu = ctx.module_context.replace(platforms=("tpu",), backend=None)
        with _lines_in_modules():
            return rule(ctx.replace(module_context=for_a_tpu, platforms=None), *operands, **params)

    mlir.register_lowering(primitive, lower, platform="cpu")


def _lines_in_modules():
    """Since 0.12 the lines of a kernel go beside its module, unless one says otherwise."""
    from jax._src import config

    apart = getattr(config, "jax_mosaic_unzip_debug_locations", None)
    return contextlib.nullcontext() if apart is None else apart(False)


def _scoped_vmem(options):
    """Bytes that kernels may take, if the program or the environment says so."""
    arguments = os.environ.get("LIBTPU_INIT_ARGS", "").split()
    said = [*(argument.lstrip("-").split("=", 1) for argument in arguments if "=" in argument), *options]
    kib = [value for name, value in said if name == "xla_tpu_scoped_vmem_limit_kib"]
    return int(kib[-1]) << 10 if kib else None


def _compile_for_us(compiler):
    compile_or_get_cached = compiler.compile_or_get_cached

    @functools.wraps(compile_or_get_cached)
    def compile_ours(backend, computation, devices, compile_options, *args, **kwargs):
        options = compile_options.env_option_overrides
        computation = _custom_calls.replaced(computation, _scoped_vmem(options))
        if _session is not None:
            compile_options.env_option_overrides = [
                (name, value) for name, value in options if not name.startswith(_OF_TPUS)]
        return compile_or_get_cached(backend, computation, devices, compile_options, *args, **kwargs)

    compiler.compile_or_get_cached = compile_ours


def _wait_after_programs(pxla):
    """Programs with kernels end before their call returns: what is wrong is raised there."""
    from jax._src import dispatch

    executable = pxla.ExecuteReplicated
    init, call = executable.__init__, executable.__call__

    @functools.wraps(init)
    def init_marked(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if _has_kernels(self):
            self.has_unordered_effects = True  # never called past our __call__

    @functools.wraps(call)
    def call_and_wait(self, *args, **kwargs):
        __tracebackhide__ = True  # of pytest, which then ends at the user's call
        if not _has_kernels(self):
            return call(self, *args, **kwargs)
        session = _session
        failure = None
        interrupted = None
        within = _xla.Within(*_record.caller()) if _record.on() else None
        try:
            _xla.heed_interrupts()
            if within is not None:
                _xla.program_begins(within)
            try:
                results = call(self, *args, **kwargs)
                jax.block_until_ready(results)
                dispatch.runtime_tokens.block_until_ready()
            except jax.errors.JaxRuntimeError as e:
                failure = e
                dispatch.runtime_tokens.clear()  # they would raise it again
            finally:
                if within is not None:
                    _xla.program_ends(within)
                _xla.ignore_interrupts()
        except KeyboardInterrupt as e:
            interrupted = e
            leave_soon()
            dispatch.runtime_tokens.clear()
        if session is not None:
            session.collect(interrupted)
        if interrupted is not None or failure is not None:
            raise interrupted or failure
        return results

    executable.__init__ = init_marked
    executable.__call__ = call_and_wait
