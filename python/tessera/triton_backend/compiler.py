"""Triton's front end for a simulated GPU: a kernel as the TTIR that a CUDA build would get."""
import ctypes
import functools
import json
import warnings

import triton
from triton._C import libtriton
from triton._C.libtriton import ir, passes
from triton.backends.nvidia import compiler as _cuda  # ours up to TTIR

from tessera.triton_backend import assembly, descriptors, resources, warp_layouts

OLDEST = (3, 7)  # of Triton's versions, those that export what prints generic form

class Moved(ImportError):
    """This Triton is not one that tessera knows."""


@functools.cache
def printer():
    """Two functions: MLIR's modules are printed in generic form, which is all that the importer knows; as they were before."""
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < OLDEST:
        raise Moved(f"tessera knows Triton {'.'.join(map(str, OLDEST))} and newer, not {triton.__version__}. "
                    "pip install --no-deps 'triton>=3.7'")
    library = ctypes.CDLL(libtriton.__file__)
    try:
        register, parse = library._ZN4mlir27registerAsmPrinterCLOptionsEv, library.LLVMParseCommandLineOptions
        reset = library._ZN4llvm2cl25ResetAllOptionOccurrencesEv
    except AttributeError as e:
        raise Moved(f"Triton {triton.__version__} does not export what prints modules in generic form: {e}") from e
    register()
    words = (ctypes.c_char_p * 2)(b"tessera", b"--mlir-print-op-generic")
    return lambda: parse(2, words, None), reset


def generic(module):
    """The option is the whole process's: what else prints a module, or tests what is printed, has Triton's form."""
    on, off = printer()
    on()
    try:
        return str(module)
    finally:
        off()


def without_descriptors(module):
    """Tensor descriptors as pointers and masks, as Triton has them on GPUs without TMA: the same elements. What TMA asks of their
    alignment is asserted (descriptors.py)."""
    manager = ir.pass_manager(module.context)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    passes.common.add_canonicalizer(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "tessera")
    return module


class TesseraBackend(_cuda.CUDABackend):
    """Stages: ttir, as for a GPU, then what tessera reads: a line of settings, the module after it."""

    targets = {"tessera"}  # that are ours; a simulation that answers for "cuda" adds it
    sectors = False  # a simulation that counts them sets it
    resources = False  # one that asks what of an SM a kernel takes

    @staticmethod
    def supports_target(target):
        return target.backend in TesseraBackend.targets

    def __init__(self, target):
        super().__init__(target)
        self.binary_ext = "tessera"

    def hash(self):
        return f"tessera-3-{self.target.backend}-{self.target.arch}{'-sectors2' if self.sectors else ''}{'-resources' if self.resources else ''}"

    def add_stages(self, stages, options, language=None):
        if language is not None and language.name != "TRITON":
            raise NotImplementedError("tessera simulates kernels of Triton's language, not Gluon's")
        capability = self._parse_arch(options.arch)
        of_gpu = []  # the module with its descriptors

        def ttir(module, metadata):
            metadata.update(name=module.get_entry_func_name(), shared=0, tmem_size=None, tensordesc_meta=[],
                            global_scratch_size=0, global_scratch_align=1, profile_scratch_size=0, profile_scratch_align=1)
            made = self.make_ttir(module, metadata, options, capability)
            if self.resources:
                of_gpu.append(str(made))
            return without_descriptors(descriptors.asserted(made, generic(made)))

        stages["ttir"] = ttir

        def tessera(module, metadata):
            settings = assembly.settings(options, capability)
            text = generic(module)
            if self.sectors:
                settings["layouts"], why = warp_layouts.asked(text, capability, settings["options"])
                if settings["layouts"] is None:
                    warnings.warn(f"the sectors of {metadata['name']} are not counted: Triton's compiler makes nothing of it for a GPU: {why}")
            if self.resources and of_gpu:
                settings["resources"], why = resources.asked(of_gpu[-1], capability, settings["options"])
                if settings["resources"] is None:
                    warnings.warn(f"what {metadata['name']} takes of an SM is not known: Triton's compiler makes nothing of it for a GPU: {why}")
                else:
                    metadata["shared"] = settings["resources"]["shared"]
            return f"{json.dumps(settings)}\n{text}".encode()

        stages["tessera"] = tessera
