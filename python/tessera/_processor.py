"""A wheel carries its compiled half several times, in a folder per level of x86-64 (one, on ARM): this chooses the best that the processor runs."""
import os

# What a level has over those after it, in the words of /proc/cpuinfo.
LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "armv8-a": set(),
    "native": set(),  # what was made on this machine for it alone
}


def folder(package, flags=None):
    """Of `package`, the folder to load from; None if it is compiled for one processor alone. TESSERA_LEVEL names another level.
    flags: what the processor can do; None: this machine's."""
    there = [level for level in LEVELS if os.path.isdir(os.path.join(package, level))]
    if not there:
        return None
    asked = os.environ.get("TESSERA_LEVEL")
    if asked is not None:
        if asked not in there:
            raise ImportError(f"TESSERA_LEVEL={asked}: tessera is installed for {', '.join(there)}")
        return os.path.join(package, asked)
    flags = _flags() if flags is None else flags
    levels = list(LEVELS)
    for level in there:
        if set().union(*(LEVELS[each] for each in levels[levels.index(level):])) <= flags:
            return os.path.join(package, level)
    raise ImportError(f"tessera is installed for {', '.join(there)}, and this processor is older: `pip install ./python` of its sources "
                      "builds for this one")


def _flags():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()
