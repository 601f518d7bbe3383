"""python -m tessera triton run SCRIPT: a program with Triton kernels, on a simulated GPU. `tessera triton run` is the same."""
import argparse
import contextlib
import pathlib
import runpy
import sys


def main(words=None):
    parser = argparse.ArgumentParser(prog="tessera", description="Runs a program's Triton kernels on a simulated GPU.")
    commands = parser.add_subparsers(metavar="triton", required=True)
    triton = commands.add_parser("triton").add_subparsers(metavar="run", required=True)
    run = triton.add_parser("run", description="Runs a Python program whose Triton kernels run on a simulated GPU, and "
                            "prints what they moved. Exit codes: 1 a kernel is wrong, 3 it is unsupported or unmodelled; "
                            "else the program's own.")
    run.add_argument("--device", default="h100", help="a GPU of `tessera devices`, or a file (h100)")
    run.add_argument("--checks", choices=("all", "report"), default="all", help="report: go on after what is wrong, name it at the end")
    run.add_argument("--profile", default="exact", help="exact, tensorcore:hopper or gpu:hopper")
    run.add_argument("--threads", type=int, default=0, help="of this machine (0: all)")
    run.add_argument("--time-limit", type=float, metavar="SECONDS")
    run.add_argument("--cuda", action="store_true", help='answer for programs that say "cuda"')
    run.add_argument("--views", action="store_true", help="what is outside of a tensor that is a view is an error, though inside its allocation")
    run.add_argument("--dry", action="store_true", help="count and check what is accessed, and compute nothing")
    run.add_argument("--resources", action="store_true", help="kernels that take more of an SM than it has fail, by what Triton's compiler makes of them")
    run.add_argument("--sectors", action="store_true", help="count what warps ask of the L1, for the layouts that Triton's compiler chooses")
    run.add_argument("--json", metavar="FILE", help="tessera.run/1 of each launch")
    run.add_argument("--html", metavar="FILE", help="a page with every launch")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    asked = parser.parse_args(words)
    return _run(asked)


def _run(asked):
    from tessera import KernelError, simulate_triton

    if not pathlib.Path(asked.script).exists():
        sys.stderr.write(f"tessera: {asked.script}: no such file\n")
        return 2
    sys.argv = [asked.script, *asked.arguments]
    error = None
    with contextlib.ExitStack() as stack:
        try:
            report = stack.enter_context(simulate_triton(
                asked.device, asked.checks, threads=asked.threads, profile=asked.profile, time_limit=asked.time_limit,
                cuda=asked.cuda, sectors=asked.sectors, views=asked.views, dry=asked.dry, resources=asked.resources))
        except ValueError as e:
            sys.stderr.write(f"tessera: {str(e).strip()}\n")
            return 2
        try:
            runpy.run_path(asked.script, run_name="__main__")
        except KernelError as e:
            error = e
        except ValueError as e:
            if "a simulation is on already" not in str(e):
                raise
            package = pathlib.Path(__file__).absolute().parents[1]
            sys.stderr.write(f"tessera: {asked.script} simulates by itself (simulate_triton); run it with Python:\n"
                             f"  PYTHONPATH={package} {sys.executable} {asked.script}\n")
            return 2
    sys.stdout.flush()
    sys.stderr.write(f"{report}\n")
    wrong = [error] if error is not None else report.errors
    for each in wrong:
        sys.stderr.write(str(each))
    if asked.json:
        report.to_json(asked.json)
    if asked.html:
        report.save_html(asked.html)
    if not wrong:
        return 0
    return 3 if all(each.kind in ("unsupported", "unmodelled") for each in wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
