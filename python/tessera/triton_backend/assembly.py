"""kernel.asm["ttir" | "ttgir" | "llir" | "ptx" | "cubin"] of a kernel that is simulated: what Triton's own compiler makes of it
for the GPU, in a process of its own, when a program asks. No GPU is needed, and no launch waits for it.
"""
import dataclasses
import functools
import json
import os
import pickle
import subprocess
import sys

_MADE = ("ttir", "ttgir", "llir", "ptx", "cubin")
_COMPILE = """
import json, pathlib, pickle, sys, tempfile, triton
from triton.backends.compiler import GPUTarget
asked = json.load(sys.stdin)
with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder) / "kernel.ttir"
    source.write_text(asked["ttir"])
    kernel = triton.compile(str(source), target=GPUTarget("cuda", asked["arch"], 32), options=asked["options"])
sys.stdout.buffer.write(pickle.dumps({name: kernel.asm[name] for name in asked["names"]}))
"""


def settings(options, arch):
    """What a later compilation needs to know besides the module."""
    simple = {key: value for key, value in dataclasses.asdict(options).items() if isinstance(value, (bool, int, float, str))}
    return {"fusion": options.enable_fp_fusion, "arch": arch, "options": simple}


@functools.cache
def made_when_asked(triton_s):
    """In place of Triton's class of `asm` in a simulation. Triton imports this module before it has that."""
    class Assembly(triton_s):
        def __getitem__(self, key):
            if key in _MADE and "tessera" in self and not self.get("_made"):
                self._make()
            return super().__getitem__(key)

        def _make(self):
            first, module = self["tessera"].decode().split("\n", 1)
            asked = {**json.loads(first), "ttir": module, "names": _MADE}
            env = {key: value for key, value in os.environ.items() if key not in ("TRITON_DEFAULT_BACKEND", "TRITON_INTERPRET")}
            done = subprocess.run([sys.executable, "-c", _COMPILE], input=json.dumps(asked).encode(), env=env,
                                  capture_output=True)
            if done.returncode != 0:
                raise RuntimeError("Triton's compiler makes nothing of this kernel for a GPU:\n" + done.stderr.decode()[-2000:])
            self.update(pickle.loads(done.stdout), _made=True)

    return Assembly
