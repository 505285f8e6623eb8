"""Run the tests of a2a.py.

    python3 tests                everything: each file on the oldest and the newest Python found
                                 here, then tests/interop/ against real peers, which are installed
                                 into .peers/ (hidden, ignored by git) on the first run
    python3 tests NAME...        only the files whose name contains one of the NAMEs
    python3 tests --offline      what needs Python alone
    python3 tests --check        shape, ruff, mypy --strict, vermin
    python3 tests --cover        how much of each chapter its own test files run, 95 % asked for
    python3 tests -v             name every test

Ends with `N passed, N failed, N skipped` alone on a line; exit status 1 when anything failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
TOP = TESTS.parent
INTEROP = TESTS / "interop"
PEERS = TOP / ".peers"
OLDEST = (3, 9)  # what a2a.py promises to run on
PEER_OLDEST = (3, 10)  # what the Python SDK needs
FILE_TIMEOUT_S = 300
INSTALL_TIMEOUT_S = 600
COVER_PERCENT = 95
WINDOWS = os.name == "nt"


def main() -> int:
    """Read the command line and run what it asks for."""
    arguments = read_arguments()
    if arguments.one:
        return run_one(*map(pathlib.Path, arguments.one))
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)
    tally = Tally(arguments.verbose)
    if arguments.check:
        check(tally, arguments)
    elif arguments.cover:
        cover(tally, arguments)
    else:
        test(tally, arguments)
    return tally.close()


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 tests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a test file's name")
    parser.add_argument("--offline", action="store_true", help="only what needs Python alone")
    parser.add_argument("--check", action="store_true", help="shape, ruff, mypy, vermin")
    parser.add_argument("--cover", action="store_true", help="lines run, chapter by chapter")
    parser.add_argument("-v", "--verbose", action="store_true", help="name every test")
    parser.add_argument("--one", nargs=2, metavar=("FILE", "RESULT"), help=argparse.SUPPRESS)
    return parser.parse_args()


class Tally:
    """The counts of a run, and its printing."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.passed = self.failed = self.skipped = 0
        self.reasons: dict[str, int] = {}
        self.started = time.monotonic()

    def add(self, label: str, result: dict, seconds: float) -> None:
        """Count one file's result and print its line, its failures in full."""
        self.passed += result["passed"]
        self.failed += result["failed"]
        self.skipped += len(result["skipped"])
        for reason in result["skipped"]:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        word = "FAILED" if result["failed"] else "ok" if result["passed"] else "skip"
        counts = [f"{result['passed']} passed"]
        counts += [f"{result['failed']} failed"] if result["failed"] else []
        counts += [f"{len(result['skipped'])} skipped"] if result["skipped"] else []
        print(f"{word:6} {label:44} {', '.join(counts)}  ({seconds:.1f} s)")
        if self.verbose:
            print("".join(f"         {line}\n" for line in result["names"]), end="")
        if result["failed"]:
            print(indent(result["output"]))

    def skip(self, label: str, reason: str) -> None:
        self.add(label, outcome(skipped=[f"{label}: {reason}"]), 0)

    def close(self) -> int:
        """Print what was skipped and the closing line; give the exit status."""
        for reason, count in sorted(self.reasons.items()):
            print(f"skipped {count}: {reason}")
        if not self.passed and not self.failed:
            print("FAILED no test ran")
            self.failed = 1
        print(f"in {time.monotonic() - self.started:.0f} s")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


def outcome(passed=0, failed=0, skipped=(), names=(), output="") -> dict:
    """Give the result of one file or tool; skipped holds a reason for each."""
    return {
        "passed": passed,
        "failed": failed,
        "skipped": list(skipped),
        "names": list(names),
        "output": output,
    }


def indent(text: str) -> str:
    lines = text.rstrip().split("\n")
    if len(lines) > 400:
        lines = [*lines[:200], f"... {len(lines) - 400} lines left out ...", *lines[-200:]]
    return "\n".join("    " + line for line in lines)


# --- what runs where -----------------------------------------------------------------------------


def test(tally: Tally, arguments: argparse.Namespace) -> None:
    """Run the plain files on the oldest and the newest Python, then the interop files."""
    plain = chosen(TESTS.glob("test_*.py"), arguments.names)
    interop = chosen(INTEROP.glob("test_*.py"), arguments.names)
    if arguments.names and not plain + interop:
        print(f"no test file is named like {' or '.join(arguments.names)}")
        tally.failed += 1
    pythons = find_pythons()
    ends = [pythons[0]] if len(pythons) == 1 else [pythons[0], pythons[-1]]
    for version, path in ends:
        print(f"Python {dotted(version)}: {path}")
    if ends[0][0][:2] != OLDEST and plain:
        tally.skip("Python 3.9", f"not found here, the oldest is {dotted(ends[0][0])}")
    jobs = [(f"{dotted(v)} {file.name}", path, file) for v, path in ends for file in plain]
    if interop and arguments.offline:
        for file in interop:
            tally.skip(f"interop/{file.name}", "--offline")
    elif interop:
        jobs += interop_jobs(tally, interop, pythons)
    run_jobs(tally, jobs)


def chosen(files, names: list[str]) -> list[pathlib.Path]:
    files = {str(file.relative_to(TESTS)).replace(os.sep, "/"): file for file in files}
    return [files[at] for at in sorted(files) if not names or any(name in at for name in names)]


def interop_jobs(tally: Tally, files: list[pathlib.Path], pythons: list) -> list:
    """Install the peers; give the jobs for the interop files, or skip them with the reason."""
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        node = pool.submit(make_node_folder)
        python, reason = make_peer_venv(pythons)
        missing = [text for text in (reason, node.result()) if text]
    if time.monotonic() - started > 1:
        print(f"peers installed in .peers ({time.monotonic() - started:.0f} s)")
    for text in missing:
        tally.skip("peers", text)
    if python is None:
        for file in files:
            tally.skip(f"interop/{file.name}", reason)
        return []
    return [(f"interop/{file.name}", python, file) for file in files]


def run_jobs(tally: Tally, jobs: list) -> None:
    """Run every job in a process of its own, as many at a time as there are cores."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(run_file, path, file): label for label, path, file in jobs}
        for future in concurrent.futures.as_completed(running):
            tally.add(running[future], *future.result())


def run_file(python: str, file: pathlib.Path) -> tuple[dict, float]:
    """Run one test file by one Python; give (result, seconds)."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="a2a-tests-") as folder:
        report = pathlib.Path(folder) / "result.json"
        command = [python, str(TESTS / "__main__.py"), "--one", str(file), str(report)]
        status, output = run_bounded(command, FILE_TIMEOUT_S)
        try:
            result = json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            result = outcome(failed=1)
    if status == "timeout":
        output += f"\nended after {FILE_TIMEOUT_S} s"
    if status != 0 and not result["failed"]:
        result["failed"] = 1  # it ended badly after its tests: a crash or threads left over
        output += f"\nexit status {status}"
    result["output"] = output
    return result, time.monotonic() - started


def run_bounded(command: list[str], timeout_s: float, cwd=TOP) -> tuple[object, str]:
    """Run a command without stdin; give (exit status or "timeout", all its output)."""
    group = (
        {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        if WINDOWS
        else {"start_new_session": True}
    )
    with tempfile.TemporaryFile() as sink:  # a file: grandchildren may keep a pipe open
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, **group
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = "timeout"
        end_group(process)
        sink.seek(0)
        return status, sink.read().decode("utf-8", "replace")


def end_group(process: subprocess.Popen) -> None:
    """End a process and what it left running."""
    if WINDOWS:
        if process.poll() is None:
            kill = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(kill, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)


# --- in the child: one file ----------------------------------------------------------------------


class Recorder(unittest.TextTestResult):
    """Counts tests, not findings: a test with three failing subtests has failed once."""

    def __init__(self, *rest, **named) -> None:
        super().__init__(*rest, **named)
        self.good = 0
        self.bad: set[str] = set()
        self.names: list[str] = []

    def note(self, word: str, test) -> None:
        self.names.append(f"{word:6} {getattr(test, 'test_case', test).id()}")

    def addSuccess(self, test) -> None:
        super().addSuccess(test)
        self.good += 1
        self.note("ok", test)

    def addExpectedFailure(self, test, error) -> None:
        super().addExpectedFailure(test, error)
        self.good += 1

    def addUnexpectedSuccess(self, test) -> None:
        super().addUnexpectedSuccess(test)
        self.bad.add(test.id())

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self.note("skip", test)

    def addFailure(self, test, error) -> None:
        super().addFailure(test, error)
        self.bad.add(test.id())
        self.note("FAILED", test)

    def addError(self, test, error) -> None:
        super().addError(test, error)
        self.bad.add(test.id())
        self.note("FAILED", test)

    def addSubTest(self, test, subtest, error) -> None:
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.bad.add(test.id())
            self.note("FAILED", subtest)


def run_one(file: pathlib.Path, report: pathlib.Path) -> int:
    """Run one test file here and write its result as JSON."""
    sys.path[:0] = [str(TESTS), str(file.parent)]
    recorder = unittest.TextTestRunner(resultclass=Recorder, verbosity=0).run(load(file))
    if not recorder.testsRun and not recorder.skipped:
        recorder.bad.add("no test in the file")
        print(f"no test in {file.name}")
    result = outcome(
        recorder.good,
        len(recorder.bad),
        [f"{file.stem}: {reason}" for _, reason in recorder.skipped],
        recorder.names,
    )
    report.write_text(json.dumps(result), encoding="utf-8")
    return 1 if recorder.bad else 0


def load(file: pathlib.Path) -> unittest.TestSuite:
    """Import a test file under its own name; one that will not import is a failing test."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module

    def test_import():
        spec.loader.exec_module(module)

    probe = unittest.FunctionTestCase(test_import)
    quiet = unittest.TestResult()
    probe.run(quiet)
    if quiet.failures or quiet.errors or quiet.skipped:
        return unittest.TestSuite([unittest.FunctionTestCase(Again(quiet))])
    return unittest.defaultTestLoader.loadTestsFromModule(module)


class Again:
    """Says once more what an import said."""

    __name__ = "test_import"

    def __init__(self, result: unittest.TestResult) -> None:
        self.result = result

    def __call__(self) -> None:
        for _, reason in self.result.skipped:
            raise unittest.SkipTest(reason)
        for _, text in self.result.errors + self.result.failures:
            raise AssertionError("the file does not import\n" + text)


# --- Pythons and peers ---------------------------------------------------------------------------


def find_pythons() -> list[tuple[tuple[int, ...], str]]:
    """Give (version, path) of the CPythons here that a2a.py promises to run on, oldest first."""
    found: dict[tuple[int, ...], str] = {}
    paths = list(dict.fromkeys([sys.executable, *candidates()]))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        versions = list(pool.map(ask_version, paths))
    for path, version in zip(paths, versions):
        if version and version[:2] >= OLDEST:
            found.setdefault(version, path)
    return sorted(found.items())


def candidates():
    home = pathlib.Path.home()
    names = ["python3", *(f"python3.{minor}" for minor in range(9, 30))]
    yield from filter(None, map(shutil.which, names))
    yield "/usr/bin/python3"
    for folder in (home / ".pyenv" / "versions", home / ".local" / "share" / "uv" / "python"):
        yield from map(str, sorted(folder.glob("*/bin/python")))
    yield from map(str, (home / ".pyenv" / "pyenv-win" / "versions").glob("*/python.exe"))
    if WINDOWS and shutil.which("py"):
        listing = subprocess.run(["py", "-0p"], capture_output=True, text=True).stdout
        yield from re.findall(r"\S:\\.*python\.exe", listing)


def ask_version(path: str) -> tuple[int, ...] | None:
    """Give a Python's version, or None for what is no released CPython that works."""
    program = (
        "import sys, ssl, ctypes, sqlite3; v = sys.version_info\n"
        "print(*v[:3]) if v[3] == 'final' and sys.implementation.name == 'cpython' else exit(1)"
    )
    if not os.path.isfile(path):
        return None
    try:
        done = subprocess.run([path, "-c", program], capture_output=True, text=True, timeout=30)
        return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version[:2]))


def make_peer_venv(pythons: list) -> tuple[str | None, str]:
    """Give (the Python of .peers/venv, "") or (None, why not)."""
    fit = [path for version, path in pythons if version[:2] >= PEER_OLDEST]
    if not fit:
        return None, "the Python SDK needs Python 3.10 or newer, and there is none here"
    reasons = []
    for path in dict.fromkeys([fit[-1], fit[0]]):  # wheels may lag behind the newest Python
        python, reason = make_venv(PEERS / "venv", INTEROP / "requirements.txt", path)
        if python:
            return python, ""
        reasons.append(reason)
    return None, reasons[0]


def make_venv(folder: pathlib.Path, pins: pathlib.Path, python: str) -> tuple[str | None, str]:
    """Make a virtual environment with the pins unless it stands; give (its Python, why not)."""
    inside = folder / ("Scripts/python.exe" if WINDOWS else "bin/python")
    mark = digest(pins.read_bytes() + python.encode())
    if marked(folder, mark):
        return str(inside), ""
    shutil.rmtree(folder, ignore_errors=True)
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
    for command in ([python, "-m", "venv", str(folder)], [str(inside), *pip, "-r", str(pins)]):
        try:
            status, output = run_bounded(command, INSTALL_TIMEOUT_S)
        except OSError as error:
            status, output = 1, str(error)
        if status != 0:
            lines = [line for line in output.strip().split("\n") if "WARNING" not in line]
            return None, f"no {folder.name}: {(lines or ['?'])[-1][:200]}"
    (folder / "made-from").write_text(mark)
    return str(inside), ""


def make_node_folder() -> str:
    """Install the JavaScript peers into .peers/node unless they stand; give why not, or ""."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        return "the JavaScript peers need node and npm, which are not here"
    folder = PEERS / "node"
    pins = [INTEROP / "package.json", INTEROP / "package-lock.json"]
    mark = digest(b"".join(path.read_bytes() for path in pins))
    if marked(folder, mark):
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    for path in pins:
        shutil.copy(path, folder)
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    status, output = run_bounded(command, INSTALL_TIMEOUT_S, cwd=folder)
    if status != 0:
        return "no node peers: " + output.strip()[-200:]
    (folder / "made-from").write_text(mark)
    return ""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def marked(folder: pathlib.Path, mark: str) -> bool:
    try:
        return (folder / "made-from").read_text() == mark
    except OSError:
        return False


# --- checks --------------------------------------------------------------------------------------


def check(tally: Tally, arguments: argparse.Namespace) -> None:
    """Run shape and the tools; what is missing is skipped, never passed."""
    tally.add("shape", *run_file(sys.executable, TESTS / "test_00_shape.py"))
    tools = tool_folder(arguments)
    plain = [str(path) for path in sorted(TESTS.glob("*.py"))]
    mypy = ["mypy", "--config-file", str(TESTS / "mypy.ini"), "a2a.py"]
    for label, command in (
        ("ruff check", ["ruff", "check", "."]),
        ("ruff format", ["ruff", "format", "--check", "."]),
        ("mypy --strict", mypy),
        ("vermin -t=3.9-", ["vermin", "-t=3.9-", "--no-tips", "--violations", "a2a.py", *plain]),
    ):
        run_tool(tally, label, command, tools)


def tool_folder(arguments: argparse.Namespace) -> pathlib.Path | None:
    """Give where the pinned tools are installed, installing them first when that is allowed."""
    if not arguments.offline:
        make_venv(PEERS / "tools", TESTS / "tools.txt", find_pythons()[-1][1])
    folder = PEERS / "tools" / ("Scripts" if WINDOWS else "bin")
    return folder if (PEERS / "tools" / "made-from").exists() else None


def find_tool(name: str, folder: pathlib.Path | None) -> str | None:
    """Give the pinned tool, else the one on PATH; mypy only from the last line that targets 3.9."""
    pinned = shutil.which(name, path=str(folder)) if folder else None
    path = pinned or shutil.which(name)
    if path and not pinned and name == "mypy":
        text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"(\d+)\.(\d+)", text)
        if not version or (int(version[1]), int(version[2])) >= (1, 20):
            return None
    return path


def run_tool(tally: Tally, label: str, command: list[str], folder: pathlib.Path | None) -> None:
    path = find_tool(command[0], folder)
    if path is None:
        tally.skip(label, f"no {command[0]} here (see tests/tools.txt)")
        return
    started = time.monotonic()
    status, output = run_bounded([path, *command[1:]], FILE_TIMEOUT_S)
    good = status == 0
    tally.add(label, outcome(int(good), int(not good), output=output), time.monotonic() - started)


# --- coverage ------------------------------------------------------------------------------------


def cover(tally: Tally, arguments: argparse.Namespace) -> None:
    """Measure each chapter under its own test files alone; less than 95 % is a failure."""
    coverage = find_tool("coverage", tool_folder(arguments))
    if coverage is None:
        tally.skip("coverage", "no coverage here (see tests/tools.txt)")
        return
    jobs = []
    for number, span in chapter_starts().items():
        files = chosen(TESTS.glob(f"test_{number:02}_*.py"), arguments.names)
        jobs += [(number, files, span)] if files else []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        measured = pool.map(lambda job: cover_chapter(coverage, *job[1:]), jobs)
        for (number, *_), (result, text, seconds) in zip(jobs, measured):
            tally.add(f"chapter {number:2}  {text}", result, seconds)


def chapter_starts() -> dict[int, tuple[int, int]]:
    """Give {chapter: (first line, last line)}."""
    lines = (TOP / "a2a.py").read_text(encoding="utf-8").split("\n")
    banners = [(i, re.match(r"# (\d+)  ", line)) for i, line in enumerate(lines, 1)]
    starts = [(int(match[1]), at) for at, match in banners if match]
    ends = [at - 1 for _, at in starts[1:]] + [len(lines)]
    return {number: (at, end) for (number, at), end in zip(starts, ends)}


def cover_chapter(
    coverage: str, files: list[pathlib.Path], span: tuple[int, int]
) -> tuple[dict, str, float]:
    """Run a chapter's test files under coverage; give (result, percentage, seconds)."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="a2a-cover-") as folder:
        data = f"--data-file={folder}/data"
        for file in files:
            command = [coverage, "run", "-a", data, f"--include={TOP / 'a2a.py'}", str(file)]
            status, output = run_bounded(command, FILE_TIMEOUT_S)
            if status != 0:
                return outcome(failed=1, output=output), "", time.monotonic() - started
        report = pathlib.Path(folder, "report.json")
        run_bounded([coverage, "json", data, "-q", "-o", str(report)], FILE_TIMEOUT_S)
        lines = next(iter(json.loads(report.read_text(encoding="utf-8"))["files"].values()))
    run = [line for line in lines["executed_lines"] if span[0] <= line <= span[1]]
    left = [line for line in lines["missing_lines"] if span[0] <= line <= span[1]]
    percent = 100 * len(run) / max(1, len(run) + len(left))
    good = percent >= COVER_PERCENT
    result = outcome(int(good), int(not good), output=f"not run: {ranges(left)}")
    result["names"] = [f"not run: {ranges(left)}"]
    text = f"{percent:5.1f} % of {len(run) + len(left)} lines"
    return result, text, time.monotonic() - started


def ranges(numbers: list[int]) -> str:
    """Write line numbers as 3-5, 9."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in parts) or "none"


if __name__ == "__main__":
    sys.exit(main())
