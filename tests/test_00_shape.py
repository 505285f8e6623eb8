"""The shape of the file: chapters in order, part one pure, sizes, limits in use, tests that test.

Every message says where and what to do. A chapter that is still `# (to come)` is left out.
"""

import ast
import configparser
import functools
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import sysconfig
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

ROOT = pathlib.Path(a2a.__file__).resolve().parent
TESTS = ROOT / "tests"
SOURCE = (ROOT / "a2a.py").read_text(encoding="utf-8")
LINES = SOURCE.splitlines()
TREE = ast.parse(SOURCE)
NODES = list(ast.walk(TREE))

FUNCTION_LINES = 60  # docstrings and tables apart
TABLE_LINES = 5  # a literal of at least so many lines is a table and counts as one line
CLASS_LINES = 250
CLASS_METHODS = 20
CLASS_ATTRIBUTES = 12
PART_TWO = 14  # the first chapter that may touch the world

LIMIT = re.compile(r"[A-Z_]+_(BYTES|COUNT|S|CHARS|MINUTE) = [\d.]")
BANNER = re.compile(r"^# ={70,}\n# (\d+)  (.+)\n# ={70,}\n(.*)\n", re.M)

# What the file may import at its start, and so what every command pays for.
AT_START = "__future__ collections functools gc json os re sys time"

# What part one may take from the modules it can name: everything here is a pure function of its
# arguments. "module" allows all of it, "module.name" only that name.
PURE = {
    "base64", "binascii", "bisect", "calendar", "collections", "datetime.date", "datetime.datetime",
    "datetime.timedelta", "datetime.timezone", "functools", "hashlib", "heapq", "hmac", "itertools",
    "json", "math", "operator", "re", "struct", "sys.intern", "sys.maxsize", "typing",
    "unicodedata", "urllib.parse", "zlib", "collections.abc", "html",
}  # fmt: skip
WORLD_BUILTINS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
CLOCK = {"now", "utcnow", "today", "fromtimestamp"}  # of datetime

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.Lambda)


def read_chapters():
    """Give [(number, title, line of the banner, first line after it)] in the order of the file."""
    found = []
    for match in BANNER.finditer(SOURCE):
        line = SOURCE.count("\n", 0, match.start()) + 1
        found.append((int(match[1]), match[2], line, match[3]))
    return found


CHAPTERS = read_chapters()
TO_COME = {number for number, _, _, first in CHAPTERS if first.strip() == "# (to come)"}


def chapter_of(line):
    """Give the chapter that a line stands in; 0 above the first."""
    number = 0
    for candidate, _, start, _ in CHAPTERS:
        if start <= line:
            number = candidate
    return number


def local_names(scope):
    """Give the names that a function or lambda binds for itself."""
    arguments = scope.args
    names = {a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
    foreign = set()
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)) or (
            isinstance(node, ast.ExceptHandler) and node.name
        ):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Global):
            foreign |= set(node.names)
    return names - foreign


def own_nodes(scope):
    """Walk a scope without the insides of functions defined in it."""
    body = scope.body if isinstance(scope.body, list) else [scope.body]
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def global_uses(node=TREE, hidden=frozenset()):
    """Give every ast.Name that reads a name of the module, wherever it stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            if child.id not in hidden:
                yield child
        elif isinstance(child, SCOPES):
            yield from global_uses(child, hidden | local_names(child))
        else:
            yield from global_uses(child, hidden)


@functools.cache
def module_level_definitions():
    """Give {module-level name: line of its first definition}, imports left out."""
    inside = set()
    for node in NODES:
        if isinstance(node, ast.ClassDef):
            inside |= {id(child) for child in ast.walk(node) if child is not node}
    lines = {}
    for node in own_nodes(TREE):
        if id(node) in inside:
            continue
        name = None
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            name = node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if name:
            lines[name] = min(node.lineno, lines.get(name, node.lineno))
    return lines


def imported_names():
    """Give {name in the file: what it stands for}: "json", "urllib.parse.quote", late ones too."""
    names = {}
    for node in NODES:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def docstring_lines(node):
    text = ast.get_docstring(node, clean=False)
    return 0 if text is None else node.body[0].end_lineno - node.body[0].lineno + 1


def table_lines(node):
    """Give how many lines of a function are tables: displays of constants and names, each once."""
    displays = (ast.Dict, ast.List, ast.Tuple, ast.Set)
    saved, waiting = 0, list(ast.iter_child_nodes(node))
    while waiting:
        child = waiting.pop()
        height = getattr(child, "end_lineno", 0) - getattr(child, "lineno", 0) + 1
        if isinstance(child, displays) and height >= TABLE_LINES:
            saved += height - 1
        else:
            waiting.extend(ast.iter_child_nodes(child))
    return saved


def function_size(node):
    """Give the lines of a function that are code or comments."""
    inner = [n for n in ast.walk(node) if n is not node and isinstance(n, (*FUNCTIONS,))]
    return (
        node.end_lineno
        - node.lineno
        + 1
        - docstring_lines(node)
        - table_lines(node)
        - sum(docstring_lines(n) for n in inner)
    )


def attributes(node):
    """Give the instance attributes of a class: annotated fields, slots, targets self.name."""
    names = {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and n.value is None}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and "'__slots__'" in ast.dump(statement.targets[0]):
            names |= {c.value for c in ast.walk(statement.value) if isinstance(c, ast.Constant)}
    stored = [n for n in ast.walk(node) if isinstance(n, ast.Attribute)]
    stored = [n for n in stored if isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)]
    return names | {n.attr for n in stored if n.value.id == "self"}


class ShapeCase(unittest.TestCase):
    maxDiff = None

    def assert_none(self, found, advice=""):
        """Fail with every finding on a line of its own."""
        if found:
            self.fail("\n  " + "\n  ".join([*found, *([advice] if advice else [])]))


class ChapterTest(ShapeCase):
    def test_the_banners_are_the_contents_of_the_docstring(self):
        contents = re.findall(r"^ {4,5}(\d+)  (.+)$", a2a.__doc__, re.M)
        banners = [(str(n), re.sub(r" \([^)]*\)$", "", title)) for n, title, _, _ in CHAPTERS]
        self.assertEqual(contents, banners, "the docstring's contents and the banners differ")
        self.assertEqual([n for n, *_ in CHAPTERS], sorted({n for n, *_ in CHAPTERS}))

    def test_every_chapter_opens_with_a_paragraph(self):
        for number, title, line, first in CHAPTERS:
            with self.subTest(chapter=f"{number} {title}"):
                self.assertRegex(first, r"^# \S", f"a2a.py:{line}: say what the chapter is for")

    def test_no_name_is_used_before_its_chapter(self):
        lines = module_level_definitions()
        early = []
        for node in global_uses():
            defined = chapter_of(lines.get(node.id, 0))
            if chapter_of(node.lineno) < defined:
                early.append(
                    f"a2a.py:{node.lineno}: {node.id} of chapter {defined} is used in chapter "
                    f"{chapter_of(node.lineno)}: move it down or pass it in"
                )
        self.assert_none(early)

    def test_all_names_exist(self):
        missing = [name for name in a2a.__all__ if not hasattr(a2a, name)]
        self.assert_none(missing, "__all__ promises names that are not there")
        self.assertEqual(sorted(set(a2a.__all__)), sorted(a2a.__all__))

    def test_every_public_function_and_class_says_what_it_is(self):
        silent = [
            f"a2a.py:{node.lineno}: {node.name} has no docstring"
            for node in TREE.body
            if isinstance(node, (*FUNCTIONS, ast.ClassDef))
            and not node.name.startswith("_")
            and ast.get_docstring(node) is None
        ]
        self.assert_none(silent)


class PurityTest(ShapeCase):
    """Part one: no await, clock, socket, file or randomness."""

    def part_one(self):
        for node in NODES:
            if 1 <= chapter_of(getattr(node, "lineno", 0)) < PART_TWO:
                yield node

    def test_part_one_has_no_async(self):
        kinds = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
        found = [
            f"a2a.py:{node.lineno}: {type(node).__name__} in chapter {chapter_of(node.lineno)}"
            for node in self.part_one()
            if isinstance(node, kinds)
        ]
        self.assert_none(found)

    def test_part_one_imports_nothing(self):
        found = [
            f"a2a.py:{node.lineno}: import inside chapter {chapter_of(node.lineno)}"
            for node in self.part_one()
            if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        self.assert_none(found)

    def test_part_one_names_only_pure_modules(self):
        parents = {id(c): p for p in NODES for c in ast.iter_child_nodes(p)}
        modules, defined, found = imported_names(), module_level_definitions(), []
        for node in global_uses():
            if not 1 <= chapter_of(node.lineno) < PART_TWO:
                continue
            origin = modules.get(node.id, "")
            parent = parents.get(id(node))
            reached = origin
            if isinstance(parent, ast.Attribute):
                reached = f"{origin}.{parent.attr}"
            allowed = {origin, origin.rpartition(".")[0], reached} & PURE
            if origin and not allowed:
                found.append(f"a2a.py:{node.lineno}: {reached} in part one")
            if node.id in WORLD_BUILTINS and node.id not in defined:
                found.append(f"a2a.py:{node.lineno}: {node.id}() in part one")
        self.assert_none(found, "pass bytes, times and random values in as arguments")

    def test_part_one_reads_no_clock(self):
        found = [
            f"a2a.py:{node.lineno}: .{node.attr} in part one: pass the time in"
            for node in self.part_one()
            if isinstance(node, ast.Attribute) and node.attr in CLOCK
        ]
        self.assert_none(found)


class SizeTest(ShapeCase):
    def test_functions_are_short(self):
        long = [
            f"a2a.py:{node.lineno}: {node.name} has {function_size(node)} lines, "
            f"{FUNCTION_LINES} at most (docstrings and tables apart): split it"
            for node in NODES
            if isinstance(node, FUNCTIONS) and function_size(node) > FUNCTION_LINES
        ]
        self.assert_none(long)

    def test_classes_are_small(self):
        large = []
        for node in NODES:
            if not isinstance(node, ast.ClassDef):
                continue
            sizes = {
                "lines": (node.end_lineno - node.lineno + 1, CLASS_LINES),
                "methods": (sum(isinstance(n, FUNCTIONS) for n in node.body), CLASS_METHODS),
                "attributes": (len(attributes(node)), CLASS_ATTRIBUTES),
            }
            large += [
                f"a2a.py:{node.lineno}: class {node.name} has {size} {what}, {most} at most"
                for what, (size, most) in sizes.items()
                if size > most
            ]
        self.assert_none(large)

    def test_ruff_holds_the_complexity(self):
        config = configparser.ConfigParser()
        text = (ROOT / ".ruff.toml").read_text(encoding="utf-8")
        config.read_string("[top]\n" + text)
        self.assertEqual("10", config["lint.mccabe"]["max-complexity"])
        self.assertIn('"C90"', config["lint"]["select"])
        let_off = [
            f"a2a.py:{i}"
            for i, line in enumerate(LINES, 1)
            if re.search(r"noqa.*C901|noqa\s*$", line)
        ]
        self.assert_none(let_off, "lines of a2a.py let off from complexity 10")


class LimitTest(ShapeCase):
    @unittest.skipIf(TO_COME, f"chapters {sorted(TO_COME)} are to come")
    def test_every_constant_of_chapter_1_is_used(self):
        used = {node.id for node in global_uses() if chapter_of(node.lineno) != 1}
        defined = module_level_definitions()
        idle = [
            f"a2a.py:{line}: {name} is used nowhere: enforce it, test it, or take it out"
            for name, line in defined.items()
            if chapter_of(line) == 1 and name.isupper() and name not in used
        ]
        self.assert_none(idle)

    def test_limits_carry_their_reason(self):
        """A number of chapter 1 has a comment on its line or directly above its block."""
        bare, covered = [], False
        start, end = (CHAPTERS[0][2], CHAPTERS[1][2])
        for number in range(start + 3, end - 1):
            line = LINES[number - 1]
            if line.startswith("#"):
                covered = True
            elif not line.strip():
                covered = False
            elif (
                re.match(r"[A-Z_]+_(BYTES|COUNT|S|CHARS|MINUTE) = [\d.]", line)
                and "#" not in line
                and not covered
            ):
                bare.append(f"a2a.py:{number}: {line}: say why this number")
        self.assert_none(bare)


class ImportTest(ShapeCase):
    def test_the_start_imports_no_more_than_it_must(self):
        program = (
            f"import {AT_START.replace(' ', ', ')}\n"
            "before = set(sys.modules)\n"
            f"sys.path.insert(0, {str(ROOT)!r}); sys.dont_write_bytecode = True\n"
            "import a2a\n"
            "print(*sorted(set(sys.modules) - before - {'a2a'}))\n"
        )
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(
            "", done.stdout.strip(), "import these late: add them to the Late block of a2a.py"
        )

    def test_the_garbage_collector_may_run_at_any_moment_of_the_start(self):
        program = (
            f"import gc, sys; gc.set_threshold(50, 1, 1); sys.path.insert(0, {str(ROOT)!r})\n"
            "sys.dont_write_bytecode = True\n"
            "import a2a; print(a2a.Client.__name__)"
        )
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(("Client\n", ""), (done.stdout, done.stderr))

    def test_only_the_standard_library_is_imported(self):
        roots = {origin.split(".")[0] for origin in imported_names().values()} - {"__future__"}
        roots |= set(re.findall(r"import_module\(\"(\w+)", SOURCE))
        foreign = sorted(name for name in roots - {"cryptography"} if not is_standard(name))
        self.assert_none(foreign)
        self.assertIn("json", roots)


def is_standard(name):
    """Say whether a top-level module belongs to Python itself, on any system."""
    known = getattr(sys, "stdlib_module_names", None)
    if known is not None:
        return name in known
    if name in sys.builtin_module_names or name in ("msvcrt", "winreg", "fcntl", "pwd", "resource"):
        return True
    spec = importlib.util.find_spec(name)
    folder = sysconfig.get_paths()["stdlib"]
    return bool(spec and spec.origin and spec.origin.startswith(folder))


class SuiteTest(ShapeCase):
    """The tests that stand around the file."""

    def files(self):
        return sorted(TESTS.glob("test_*.py")) + sorted(TESTS.glob("interop/test_*.py"))

    def test_every_chapter_has_its_tests(self):
        for number, title, _, _ in CHAPTERS:
            if number in TO_COME:
                continue
            with self.subTest(chapter=title):
                files = list(TESTS.glob(f"test_{number:02}_*.py"))
                self.assertTrue(files, f"chapter {number} has no tests/test_{number:02}_*.py")

    def test_every_test_asserts_something(self):
        helpers = asserting_functions(parsed(TESTS / "support.py"), set())
        silent = []
        for path in self.files():
            tree = parsed(path)
            good = asserting_functions(tree, helpers)
            silent += [
                f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} asserts nothing"
                for node in ast.walk(tree)
                if isinstance(node, FUNCTIONS)
                and node.name.startswith("test_")
                and node.name not in good
            ]
        self.assert_none(silent)

    def test_no_two_tests_of_a_class_share_a_name(self):
        """The second would silently take the place of the first."""
        doubled = []
        for path in self.files():
            for node in ast.walk(parsed(path)):
                if isinstance(node, (ast.ClassDef, ast.Module)):
                    names = [n.name for n in node.body if isinstance(n, (*FUNCTIONS, ast.ClassDef))]
                    doubled += [f"{path.name}: {n}" for n in set(names) if names.count(n) > 1]
        self.assert_none(doubled)

    def test_vectors_are_there_and_used(self):
        folder = TESTS / "vectors"
        if not folder.exists() and TO_COME:
            self.skipTest("no vectors yet")
        entries = sorted(folder.iterdir())
        self.assertTrue(entries, "tests/vectors is empty")
        sources = "".join(path.read_text(encoding="utf-8") for path in self.files())
        for entry in entries:
            with self.subTest(entry=entry.name):
                if entry.is_dir():
                    self.assertTrue(list(entry.iterdir()), f"{entry} is empty")
                self.assertIn(entry.name.split(".")[0], sources, "no test names it")

    def test_every_case_has_a_test(self):
        named = {}
        for path in self.files():
            for node in ast.walk(parsed(path)):
                if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    head = (ast.get_docstring(node) or "").partition(":")[0]
                    for case in re.findall(r"\b[A-Z0-9]+-\d+\b", head):
                        named.setdefault(case, path.name)
        missing, listed = [], set()
        for line in (TESTS / "cases.txt").read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            case, chapter = line.split()
            self.assertNotIn(case, listed, "it is listed twice")
            listed.add(case)
            if int(chapter) not in TO_COME and case not in named:
                missing.append(f"{case}: no test's docstring starts with it (chapter {chapter})")
        self.assert_none(missing)


def asserting_functions(tree, helpers):
    """Give the names of functions that assert, themselves or by a function of that kind."""
    calls = {}
    good = set(helpers)
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            asserts, names = what_it_calls(node)
            calls.setdefault(node.name, set()).update(names)
            good |= {node.name} if asserts else set()
    while True:
        more = {name for name, names in calls.items() if names & good} - good
        if not more:
            return good
        good |= more


def what_it_calls(function):
    """Give (whether it asserts by itself, the names of what it calls)."""
    asserts, names = False, set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            asserts = True
        elif isinstance(node, ast.Raise):
            asserts = asserts or "AssertionError" in ast.dump(node)
        elif isinstance(node, ast.Call):
            names.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
    return asserts or any(n.startswith("assert") or n == "fail" for n in names), names


@functools.cache
def parsed(path):
    """Parse a test file, once."""
    return ast.parse(path.read_text(encoding="utf-8"))


class VersionTest(ShapeCase):
    def test_the_version_is_the_same_everywhere(self):
        self.assertRegex(a2a.VERSION, r"^\d+\.\d+\.\d+$")
        found = {}
        for name in ("plugin.json", "marketplace.json"):
            path = ROOT / ".claude-plugin" / name
            if path.exists():
                found.update(
                    {
                        f"{name} {at}": v
                        for at, v in versions_in(json.loads(path.read_text("utf-8")))
                    }
                )
        changelog = ROOT / ".github" / "CHANGELOG.md"
        if changelog.exists():
            first = re.search(r"^## (\S+)", changelog.read_text(encoding="utf-8"), re.M)
            found["CHANGELOG.md"] = first and first[1]
        for where, version in found.items():
            with self.subTest(where=where):
                self.assertEqual(a2a.VERSION, version)

    def test_the_constants_are_the_specifications(self):
        self.assertEqual("1.0", a2a.PROTOCOL_VERSION)
        self.assertEqual("/.well-known/agent-card.json", a2a.CARD_PATH)


def versions_in(value, at=""):
    """Give (place, version) for every "version" in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "version":
                yield at or "top", inner
            else:
                yield from versions_in(inner, f"{at}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from versions_in(inner, f"{at}[{index}]")


class FolderTest(ShapeCase):
    """What stands in the repository."""

    def tracked(self):
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, timeout=60
            )
        except OSError:
            self.skipTest("no git")
        if done.returncode:
            self.skipTest("not a git checkout")
        return [name for name in done.stdout.decode("utf-8").split("\0") if name]

    def test_the_top_level_is_short(self):
        allowed = {"a2a.py", "skills", ".claude-plugin", "tests", "README.md", "LICENSE"}
        tops = {name.split("/")[0] for name in self.tracked()}
        stray = sorted(name for name in tops - allowed if not name.startswith("."))
        self.assert_none(stray, "move these into tests/, skills/ or a hidden folder")

    def test_the_lock_file_names_no_registry(self):
        locks = [name for name in self.tracked() if name.endswith("package-lock.json")]
        for name in locks:
            with self.subTest(lock=name):
                self.assertNotIn(
                    "://", (ROOT / name).read_text(encoding="utf-8").split("funding")[0]
                )

    def test_no_text_names_the_folder_it_was_written_in(self):
        marks = ["/" + folder + "/" for folder in ("work", "root", "home")]
        for name in self.tracked():
            path = ROOT / name
            if path.suffix not in (".py", ".md", ".yml", ".json", ".mjs", ".sh", ".toml", ".txt"):
                continue
            text = path.read_text(encoding="utf-8")
            for mark in marks:
                with self.subTest(file=name, mark=mark):
                    self.assertNotRegex(text, rf"(?<![\w.]){mark}(wt|main|shared|\.)")


if __name__ == "__main__":
    unittest.main()
