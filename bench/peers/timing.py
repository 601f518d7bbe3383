"""How the scripts beside this one time: microseconds, medians."""
import json
import statistics
import subprocess
import tempfile


def median_us(torch, f, rounds):
    """Of f() on the GPU, by events, after three runs that do not count."""
    for _ in range(3):
        f()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        f()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def tessera_us(program, words, rounds):
    """Of `tessera run WORDS --backend cuda`, and the launch; None and why if it does not run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run([program, "run", *words.split(), "--backend", "cuda", "--no-check", "--rounds", str(rounds), "--json", report.name],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr[-300:]
        backend = json.load(open(report.name))["backend"]
        return statistics.median(backend["run_seconds"]) * 1e6, backend["launch"]
