"""Measure a2a.py side by side with the official SDKs.

    python3 tests/bench                     everything, some minutes
    python3 tests/bench http stream         some of: cold http stream growth idle grpc files
    python3 tests/bench --only ours http    one server alone

Needs Linux, wrk, h2load (Debian: wrk, nghttp2-client) and the peers that `python3 tests` installs.
It is no test: it prints medians and ratios and fails nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import resource
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import benches
import common


def main():
    options = read_arguments()
    for tool in ("wrk", "h2load"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is not here (Debian: apt-get install wrk nghttp2-client)")
    if not common.PYTHON.exists() or not common.NODE.exists():
        raise SystemExit("the peers are not here: run `python3 tests` once")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    report = common.Report()
    names = options.what or list(benches.BENCHES)
    if "files" in names:
        benches.files([], options, report)
        report.show()
        names.remove("files")
    steady = [name for name in names if name not in benches.FRESH]
    if steady:
        run(steady, options, report)
    for name in names:
        if name in benches.FRESH:
            run([name], options, report)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report.as_json(), indent=1))


def run(names, options, report):
    """Start the servers, do the benches, print what each found."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(common.Server(name)) for name in options.only]
        for name in names:
            known = set(report.rows)
            benches.BENCHES[name](servers, options, report)
            for title in report.rows:
                if title not in known:
                    report.show(title)


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="python3 tests/bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", choices=[[], *benches.BENCHES], metavar="WHAT")
    parser.add_argument("--only", default="ours,python,js", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secs", type=float, default=2, help="of each measurement")
    parser.add_argument("--tasks", type=int, default=10_000, help="how far growth goes")
    parser.add_argument("--patient", action="store_true", help="let the peers grow as far too")
    parser.add_argument("--streams", type=int, default=1000, help="how many idle ones")
    parser.add_argument("--json", metavar="FILE", help="write the medians there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
