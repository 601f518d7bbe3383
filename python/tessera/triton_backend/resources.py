"""What a kernel takes of an SM: what Triton's own compiler and ptxas make of it for the GPU. No GPU is needed.

Run as a process of its own: {"ttir": a module's text, "arch": 90, "options": {...}} on standard input, on standard output
{"shared": bytes, "registers": of a thread, "spills": 4-byte registers of a thread that do not fit, as Triton counts them}.
"""
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

REGISTERS = 65536  # of an SM


def asked(ttir, arch, options):
    """None and why, where the compiler makes nothing of it."""
    asked = json.dumps({"ttir": ttir, "arch": arch, "options": options})
    env = {key: value for key, value in os.environ.items() if key not in ("TRITON_DEFAULT_BACKEND", "TRITON_INTERPRET")}
    done = subprocess.run([sys.executable, __file__], input=asked.encode(), env=env, capture_output=True)
    if done.returncode == 0:
        return json.loads(done.stdout), ""
    return None, done.stderr.decode().strip()[-500:]


def most_threads(registers):
    """Of a block, so that their registers fit: a warp's are given in units of 256."""
    of_warp = -(-registers * 32 // 256) * 256
    return min(1024, REGISTERS // of_warp * 32) if registers else 1024


def _taken(asked):
    import triton
    from triton.backends.compiler import GPUTarget

    triton.knobs.compilation.always_compile = True
    triton.knobs.nvidia.dump_ptxas_log = True
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        source = pathlib.Path(folder) / "kernel.ttir"
        source.write_text(asked["ttir"])
        kernel = triton.compile(str(source), target=GPUTarget("cuda", asked["arch"], 32), options=asked["options"])

    def number(pattern):
        return int(re.search(pattern, said.getvalue())[1])

    return {"shared": kernel.metadata.shared, "registers": number(r"Used (\d+) registers"),
            "spills": number(r"(\d+) bytes spill stores") // 4}


if __name__ == "__main__":
    json.dump(_taken(json.load(sys.stdin)), sys.stdout)
