# SPDX-License-Identifier: Apache-2.0
"""Rules about the source tree that no compiler checks.

Every rule is a function from text to a list of complaints, one line each. Two tests go with it: one
runs it over the tree, the other, named *_can_fail, feeds it something bad.
"""

import ast
import os
import re
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__"}
NOT_OURS |= {".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis"}
LONGEST_SOURCE = 900  # lines
MOST_METHODS = 40  # of a class
SPDX = "SPDX-License-Identifier: Apache-2.0"


def files_of_the_tree() -> list[Path]:
    found = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = sorted(set(subfolders) - NOT_OURS)
        found += [Path(folder, name).relative_to(ROOT) for name in sorted(names)]
    return found


def is_cpp(path: Path) -> bool:
    return path.suffix in {".h", ".cc", ".cu"}


def is_python(path: Path) -> bool:
    return path.suffix in {".py", ".pyi"}


def is_code(path: Path) -> bool:
    return (
        is_cpp(path)
        or is_python(path)
        or path.suffix in {".cmake", ".sh"}
        or path.name in {"CMakeLists.txt", "Makefile"}
        or path == Path(".ci/run")
    )


def is_text(path: Path) -> bool:
    return is_code(path) or path.suffix in {".md", ".toml", ".json", ".txt", ".in", ".yml", ".yaml"}


FILES = files_of_the_tree()


def check(rule, wanted) -> None:
    """Fails with what `rule(path, text)` says about the files for which `wanted(path)` holds."""
    paths = [path for path in FILES if wanted(path)]
    assert paths, "the rule applies to no file at all: is the tree where the test thinks it is?"
    accept([line for path in paths for line in rule(path, (ROOT / path).read_bytes().decode())])


def accept(complaints: list[str]) -> None:
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


def without_comments(cpp: str) -> str:
    """The code with comments blanked out, so that line numbers stay; strings are kept."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        return text if text.startswith('"') else "\n" * text.count("\n")

    return token.sub(blank, cpp)


# The table of parts in src/foreload/README.md, and who includes and links whom.


@dataclass(frozen=True)
class Part:
    may_use: frozenset[str]


def parts_table(readme: str) -> dict[str, Part]:
    rows = re.findall(r"^\| *([a-z_]+) *\|.*\|([^|]*)\|$", readme, re.MULTILINE)
    return {
        name: Part(frozenset(re.findall(r"[a-z_]+", uses))) for name, uses in rows if name != "part"
    }


def wrong_table(parts: dict[str, Part]) -> list[str]:
    """Names that are no part, and parts that use each other in a circle."""
    wrong = [
        f"table: {name} may include {other}, which is no part"
        for name, part in parts.items()
        for other in sorted(part.may_use - parts.keys())
    ]
    settled: set[str] = set()
    while ready := {
        n for n in parts.keys() - settled if parts[n].may_use & parts.keys() <= settled
    }:
        settled |= ready
    circle = sorted(parts.keys() - settled)
    return wrong + ([f"table: parts include each other: {', '.join(circle)}"] if circle else [])


def wrong_folders(parts: dict[str, Part], folders: set[str]) -> list[str]:
    return [
        f"src/foreload/{name}: in the table but no folder"
        for name in sorted(parts.keys() - folders)
    ] + [f"src/foreload/{name}: not in the table" for name in sorted(folders - parts.keys())]


def wrong_includes(path: Path, text: str, parts: dict[str, Part]) -> list[str]:
    own = path.parts[2]
    allowed = parts[own].may_use | {own} if own in parts else {own}
    return [
        f"{path}: {own} may not include foreload/{other}"
        for other in re.findall(r'^\s*#\s*include\s*["<]foreload/([^/">]+)', text, re.MULTILINE)
        if other not in allowed
    ]


def dead_permissions(texts: dict[str, list[str]], parts: dict[str, Part]) -> list[str]:
    """Parts that one may include and does not; `texts` are the C++ files of each part."""
    return [
        f"README.md: {name} may include {other}, and does not"
        for name, part in parts.items()
        for other in sorted(part.may_use)
        if not any(f'"foreload/{other}/' in text for text in texts[name])
    ]


def wrong_needs(path: Path, text: str, parts: dict[str, Part]) -> list[str]:
    """Parts linked through NEEDS or by target name that the table does not allow."""
    own = path.parts[2]
    code = re.sub(r"#[^\n]*", "", text)
    linked = set(re.findall(r"\bforeload(?:_|::)([a-z]+)\b", code)) & parts.keys()
    for needs in re.findall(r"\bNEEDS\s+([^)]*?)(?=\)|\b[A-Z]{2,})", code):
        linked |= set(needs.split())
    allowed = parts[own].may_use | {own} if own in parts else {own}
    return [f"{path}: {own} may not link {other}" for other in sorted(linked - allowed)]


def the_parts() -> dict[str, Part]:
    return parts_table((ROOT / "src/foreload/README.md").read_text("utf-8"))


def in_a_part(path: Path) -> bool:
    return path.parts[:2] == ("src", "foreload") and len(path.parts) > 3


SAMPLE_TABLE = """
| part | owns | may include |
|---|---|---|
| base | hashing | – |
| plan | orders | base |
| sim | a clock | base, plan |
"""


def test_table_is_read():
    parts = parts_table(SAMPLE_TABLE)
    assert parts == {
        "base": Part(frozenset()),
        "plan": Part(frozenset({"base"})),
        "sim": Part(frozenset({"base", "plan"})),
    }
    assert {"base", "plan", "cli"} <= the_parts().keys()


def test_table():
    accept(wrong_table(the_parts()))


def test_table_can_fail():
    assert wrong_table(parts_table("| base | x | nothing |\n")) == [
        "table: base may include nothing, which is no part"
    ]
    circle = parts_table("| base | x | plan |\n| plan | x | base |\n| cli | x | – |\n")
    assert wrong_table(circle) == ["table: parts include each other: base, plan"]


def test_folders():
    folders = {path.parts[2] for path in FILES if in_a_part(path)}
    accept(wrong_folders(the_parts(), folders))


def test_folders_can_fail():
    parts = parts_table(SAMPLE_TABLE)
    assert wrong_folders(parts, {"base", "plan", "sim"}) == []
    assert wrong_folders(parts, {"base", "sim", "util"}) == [
        "src/foreload/plan: in the table but no folder",
        "src/foreload/util: not in the table",
    ]


def test_includes():
    parts = the_parts()
    check(
        lambda path, text: wrong_includes(path, text, parts),
        lambda path: in_a_part(path) and is_cpp(path),
    )


def test_includes_can_fail():
    parts = parts_table(SAMPLE_TABLE)
    code = '#include "foreload/base/hash.h"\n#include "foreload/plan/order.h"\n'
    assert wrong_includes(Path("src/foreload/plan/order.cc"), code, parts) == []
    assert wrong_includes(Path("src/foreload/base/hash.cc"), code, parts) == [
        "src/foreload/base/hash.cc: base may not include foreload/plan"
    ]
    assert wrong_includes(Path("src/foreload/util/x.cc"), code, parts) != []


def test_permissions():
    texts: dict[str, list[str]] = {}
    for path in FILES:
        if in_a_part(path) and is_cpp(path):
            texts.setdefault(path.parts[2], []).append((ROOT / path).read_text("utf-8"))
    accept(dead_permissions(texts, the_parts()))


def test_permissions_can_fail():
    parts = parts_table("| base | x | – |\n| plan | x | base |\n")
    assert dead_permissions({"base": [], "plan": ['#include "foreload/base/a.h"']}, parts) == []
    assert dead_permissions({"base": [], "plan": []}, parts) == [
        "README.md: plan may include base, and does not"
    ]


def test_needs():
    parts = the_parts()
    check(
        lambda path, text: wrong_needs(path, text, parts),
        lambda path: in_a_part(path) and path.name == "CMakeLists.txt",
    )


def test_needs_can_fail():
    parts = parts_table(SAMPLE_TABLE)
    path = Path("src/foreload/plan/CMakeLists.txt")
    declared = "foreload_part(plan\n  SOURCES a.cc\n  NEEDS {}\n  PRIVATE fmt::fmt-header-only)\n"
    assert wrong_needs(path, declared.format("base"), parts) == []
    assert wrong_needs(path, declared.format("base sim"), parts) == [
        f"{path}: plan may not link sim"
    ]
    by_hand = "foreload_part(plan SOURCES a.cc)\ntarget_link_libraries(foreload_plan PUBLIC {})\n"
    assert wrong_needs(path, by_hand.format("foreload_base"), parts) == []
    assert wrong_needs(path, by_hand.format("foreload::sim"), parts) != []


# How a file begins.


def wrong_start(path: Path, text: str) -> list[str]:
    if any(SPDX in line for line in text.splitlines()[:2]):
        return []
    return [f"{path}: the first two lines do not say {SPDX}"]


def wrong_header(path: Path, text: str) -> list[str]:
    """A header is guarded and says, in words, what it is for."""
    wrong = []
    if not re.search(r"^#pragma once$", text, re.MULTILINE):
        wrong.append(f"{path}: no #pragma once")
    prose = [
        line
        for line in re.findall(r"//(.*)", text)
        if SPDX not in line and not line.startswith(" namespace") and len(line.split()) >= 3
    ]
    return wrong if prose else [*wrong, f"{path}: no comment that says what this is for"]


def test_start():
    check(wrong_start, is_code)


def test_start_can_fail():
    assert wrong_start(Path("a.sh"), f"#!/bin/sh\n# {SPDX}\n") == []
    assert wrong_start(Path("a.sh"), f"#!/bin/sh\n#\n# {SPDX}\n") != []
    assert wrong_start(Path("a.h"), "#pragma once\n") != []
    assert wrong_start(Path("a.h"), "") != []


def test_headers():
    check(wrong_header, lambda path: path.parts[0] == "src" and path.suffix == ".h")


def test_headers_can_fail():
    start, end = f"// {SPDX}\n", "}  // namespace foreload::plan::inner\n"
    prose = "// Sizes as people write them.\n"
    assert wrong_header(Path("a.h"), start + prose + "#pragma once\n" + end) == []
    assert wrong_header(Path("a.h"), start + prose + end) == ["a.h: no #pragma once"]
    assert wrong_header(Path("a.h"), start + "#pragma once\n" + end) == [
        "a.h: no comment that says what this is for"
    ]


# Nothing left over.

CPP_OUTPUT = re.compile(
    r"std::(?:cout|cerr|clog)\b|std::print(?:ln)?\b|fmt::print(?:ln)?\b"
    r"|\b(?:v|f|vf)?printf\s*\(|\bf?puts\s*\("
)
# Split, so that this file does not complain about itself.
UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b")


def cpp_output(path: Path, text: str) -> list[str]:
    return [
        f"{path}:{number}: prints: {line.strip()}"
        for number, line in enumerate(without_comments(text).splitlines(), 1)
        if CPP_OUTPUT.search(line)
    ]


def python_calls(path: Path, text: str, names: set[str]) -> list[str]:
    return [
        f"{path}:{node.lineno}: calls {node.func.id}()"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def python_debugger(path: Path, text: str) -> list[str]:
    debuggers = {"pdb", "ipdb"}
    found = python_calls(path, text, {"breakpoint"})
    for node in ast.walk(ast.parse(text)):
        modules: list[str | None] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module]
        found += [f"{path}:{node.lineno}: imports {name}" for name in modules if name in debuggers]
    return found


def bare_threads(path: Path, text: str) -> list[str]:
    """Threads that are not started by start_own_thread(): signals would reach them."""
    started = re.compile(r'\bjthread\b|\bstd::thread \w+[({]|\bthreads?_?\.emplace_back\((?!")')
    return [
        f"{path}:{number}: starts a thread by itself: {line.strip()}"
        for number, line in enumerate(without_comments(text).splitlines(), 1)
        if started.search(line)
    ]


def unfinished(path: Path, text: str) -> list[str]:
    return [
        f"{path}:{number}: unfinished: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]


def may_not_print(path: Path) -> bool:
    allowed = path.parts[2] == "cli" or path == Path("src/foreload/base/progress.cc")
    return is_cpp(path) and not allowed


def test_cpp_output():
    check(cpp_output, lambda path: in_a_part(path) and may_not_print(path))


@pytest.mark.parametrize(
    "line",
    [
        'std::cout << "here";',
        'std::cerr << "here";',
        'printf("here");',
        'std::fprintf(stderr, "here");',
        'puts("here");',
        'std::println("here");',
        'fmt::print("here");',
    ],
)
def test_cpp_output_can_fail(line):
    assert cpp_output(Path("a.cc"), f"int x;\n  {line}\n") == [f"a.cc:2: prints: {line}"]


def test_cpp_output_spares_what_does_not_print():
    code = (
        '// not std::cout\nsnprintf(buffer, n, "x");\n/* puts(\n */ outputs(x); fmt::format("x");\n'
    )
    assert cpp_output(Path("a.cc"), code) == []
    assert not may_not_print(Path("src/foreload/cli/main.cc"))
    assert not may_not_print(Path("src/foreload/base/progress.cc"))
    assert may_not_print(Path("src/foreload/base/bytes.cc"))


def test_python_output():
    check(
        lambda path, text: python_calls(path, text, {"print"}),
        lambda path: (
            path.parts[:2] == ("python", "foreload") and is_python(path) and path.name != "plot.py"
        ),
    )


def test_python_output_can_fail():
    assert python_calls(Path("a.py"), "x = 1\nprint(x)\n", {"print"}) == ["a.py:2: calls print()"]
    assert python_calls(Path("a.py"), '"""print(x) shows x"""\nf.print(x)\n', {"print"}) == []


def test_python_debugger():
    check(python_debugger, is_python)


def test_threads():
    check(
        bare_threads,
        lambda path: (
            path.parts[0] in {"src", "bindings"} and is_cpp(path) and path.name != "own_thread.h"
        ),
    )


@pytest.mark.parametrize(
    "line",
    [
        "std::thread t(run);",
        "std::thread t{run};",
        "std::jthread t;",
        "threads_.emplace_back(run);",
    ],
)
def test_threads_can_fail(line):
    assert len(bare_threads(Path("a.cc"), f"int x;\n  {line}\n")) == 1
    spared = "std::thread thread_;\nthreads.push_back(start_own_thread(name, run));\n"
    assert bare_threads(Path("a.cc"), spared) == []


@pytest.mark.parametrize(
    "line", ["breakpoint()", "import pdb", "from pdb import set_trace", "import os, pdb"]
)
def test_python_debugger_can_fail(line):
    assert len(python_debugger(Path("a.py"), f"x = 1\n{line}\n")) == 1


def test_nothing_unfinished():
    check(unfinished, is_text)


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"])
def test_nothing_unfinished_can_fail(word):
    assert unfinished(Path("a.cc"), f"int x;\n// {word}: later\n") == [
        f"a.cc:2: unfinished: // {word}: later"
    ]
    assert unfinished(Path("a.cc"), 'mkstemp("XXXXXX");\n') == []


# Shape of a file.


def too_long(path: Path, text: str) -> list[str]:
    lines = text.count("\n")
    return [f"{path}: {lines} lines, at most {LONGEST_SOURCE}"] if lines > LONGEST_SOURCE else []


def wrong_whitespace(path: Path, text: str) -> list[str]:
    wrong = []
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            wrong.append(f"{path}:{number}: space at the end of the line")
        if "\t" in line and path.name != "Makefile":
            wrong.append(f"{path}:{number}: tab")
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        wrong.append(f"{path}: must end with exactly one newline")
    return wrong


def test_length():
    check(too_long, lambda path: path.parts[0] == "src")


def test_length_can_fail():
    assert too_long(Path("a.cc"), "\n" * LONGEST_SOURCE) == []
    assert too_long(Path("a.cc"), "\n" * (LONGEST_SOURCE + 1)) != []


def test_whitespace():
    check(wrong_whitespace, is_text)


@pytest.mark.parametrize("text", ["a \n", "a\r\n", "\ta\n", "a", "a\n\n"])
def test_whitespace_can_fail(text):
    assert len(wrong_whitespace(Path("a.cc"), text)) == 1
    assert wrong_whitespace(Path("Makefile"), "a:\n\tb\n") == []


# Shape of a class.


def enclosed(cpp: str, start: int) -> int:
    """Where the brace that opens at `start` is closed, or the end of the text."""
    depth = 0
    for brace in re.compile("[{}]").finditer(cpp, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return len(cpp)


def members(body: str) -> list[str]:
    """Declarations in the body of a C++ class, each up to its own body or initial value."""
    found, begin, at = [], 0, 0
    head = ""
    while mark := re.compile("[;{]").search(body, at):
        at = mark.end()
        head = head or body[begin : mark.start()]
        if mark.group() == "{":
            at = enclosed(body, mark.start()) + 1
            # In front of these it was an initial value, not the body of a function.
            if re.match(r"\s*[;,{]", body[at:]):
                continue
        found.append(head.strip())
        begin, head = at, ""
    return found


def is_method(member: str) -> bool:
    text = re.sub(
        r"\[\[.*?\]\]|\b(?:public|protected|private)\s*:(?!:)", " ", member, flags=re.DOTALL
    )
    text = re.sub(r"\boperator\s*(?:\(\)|[^\s\w(]+)", "operator_", text)
    while (fewer := re.sub(r"<[^<>]*>|\balignas\([^()]*\)", " ", text)) != text:
        text = fewer
    text = re.sub(r"^\s*template\s*", "", text).strip()
    if re.match(r"(?:using|typedef|friend|static_assert|enum|class|struct|union)\b", text):
        return False
    return re.search(r"\w\s*\((?!\s*\*)", text.partition("=")[0]) is not None


def cpp_methods(text: str) -> list[tuple[str, int]]:
    """Classes of a C++ file with the member functions that each declares, inherited ones apart."""
    code = re.sub(r"^\s*#(?:\\\n|[^\n])*", "", without_comments(text), flags=re.MULTILINE)
    code = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', "0", code)
    head = re.compile(
        r"(?<!enum )\b(?:class|struct)\s+(?:\w+\([^()]*\)\s*|\[\[.*?\]\]\s*)*"
        r"(\w+(?:::\w+)*)\s*(?:<[^{};]*>\s*)?(?:final\s*)?(?::[^;{}()]*)?\{"
    )
    return [
        (
            found[1],
            sum(map(is_method, members(code[found.end() : enclosed(code, found.end() - 1)]))),
        )
        for found in head.finditer(code)
    ]


def python_methods(text: str) -> list[tuple[str, int]]:
    function = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.name, sum(isinstance(member, function) for member in node.body))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]


def large_classes(path: Path, text: str) -> list[str]:
    count = python_methods if is_python(path) else cpp_methods
    return [
        f"{path}: class {name} has {methods} methods, at most {MOST_METHODS}"
        for name, methods in count(text)
        if methods > MOST_METHODS
    ]


def test_classes():
    check(
        large_classes,
        lambda path: (
            path.parts[0] in {"src", "bindings", "python"} and (is_cpp(path) or is_python(path))
        ),
    )


def test_classes_can_fail():
    cpp = "class A final : public B {\n public:\n%s  int x_ = f(1);\n};\n"
    python = "class A:\n    x = 1\n%s"
    for name, text, method in [
        ("a.h", cpp, '  // f();\n  template <class T>\n  void f(T& t) override { g(";{"); }\n'),
        ("a.py", python, "    @overload\n    def f(self): ...\n"),
    ]:
        assert large_classes(Path(name), text % (method * MOST_METHODS)) == []
        assert large_classes(Path(name), text % (method * (MOST_METHODS + 1))) == [
            f"{name}: class A has {MOST_METHODS + 1} methods, at most {MOST_METHODS}"
        ]


def test_methods_are_counted():
    code = """
    enum class Kind : uint8_t { a, b };
    template <class T> struct Outer : Base<T> {
      explicit Outer(int a) : a_{a}, b_(a) { if (a) { run(); } }
      Outer(const Outer&) = delete;
      ~Outer() override;
      bool operator()(int a) const { return a < 1; }
      friend bool operator==(const Outer&, const Outer&) = default;
      static constexpr auto made() -> std::function<void()> { return {}; }
      class Inner;
      struct Inner { void one(); int x{f()}; } inner;
      std::function<void(int)> called_;
      Life life_{[this] { stop(); }};
      void (*pointer_)(int) = nullptr;
      std::vector<int> many_ = make(1);
     private:
      Result<void>
      run();
    };"""
    assert cpp_methods(code) == [("Outer", 6), ("Inner", 1)]
    assert python_methods("class A:\n  class B:\n    def f(self): ...\n") == [("A", 0), ("B", 1)]


# The table of the Python package in CONTRIBUTING.md, and who imports whom.


def python_parts() -> dict[str, Part]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return parts_table(text.partition("### The Python package")[2])


def module_name(path: Path) -> str:
    """foreload.data.rows for python/foreload/data/rows.py, foreload.data for its __init__.py."""
    return ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")


def imported(text: str, modules: set[str]) -> set[str]:
    """Modules of the package that a file imports at some time, also within functions. What stands
    under `if TYPE_CHECKING:` is never imported."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & modules or {node.module or ""}
    return found & modules


@cache
def package_imports() -> dict[str, set[str]]:
    """Of each module of the package, the others that it imports."""
    files = {
        module_name(path): (ROOT / path).read_text("utf-8")
        for path in FILES
        if path.parts[:2] == ("python", "foreload") and is_python(path)
    }
    assert len(files) > 10
    return {module: imported(text, set(files)) - {module} for module, text in files.items()}


def wrong_imports(imports: dict[str, set[str]], parts: dict[str, Part]) -> list[str]:
    """What the table does not allow. The package itself imports what it offers."""

    def part(module: str) -> str:
        return module.partition(".")[2].partition(".")[0]

    wrong = []
    for module, others in sorted(imports.items()):
        own = part(module)
        allowed = parts[own].may_use | {own} if own in parts else {own}
        wrong += [
            f"{module}: {own} may not import {other}"
            for other in sorted(others)
            if own and not part(other).startswith("_") and part(other) not in allowed
        ]
    return wrong


def circle_of(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return ["modules import each other: " + ", ".join(error.args[1])]
    return []


def test_python_table():
    parts = python_parts()
    accept(wrong_table(parts))
    modules = {module.split(".")[1] for module in package_imports() if "." in module}
    assert parts.keys() == {name for name in modules if not name.startswith("_")}


def test_python_imports():
    accept(wrong_imports(package_imports(), python_parts()))


def test_python_imports_can_fail():
    parts = parts_table(SAMPLE_TABLE)
    modules = {"foreload.base.hash", "foreload.plan.order", "foreload._arguments"}
    text = "def f():\n    from foreload.plan import order\nimport foreload._arguments\n"
    found = imported(text, modules)
    assert found == {"foreload.plan.order", "foreload._arguments"}
    assert wrong_imports({"foreload.plan.x": found, "foreload": found}, parts) == []
    for module, own in (("foreload.base.hash", "base"), ("foreload._keywords", "_keywords")):
        assert wrong_imports({module: found}, parts) == [
            f"{module}: {own} may not import foreload.plan.order"
        ]
    assert imported("if TYPE_CHECKING:\n    from foreload.plan import order\n", modules) == set()


def test_python_modules_form_no_circle():
    accept(circle_of(package_imports()))


def test_python_modules_form_no_circle_can_fail():
    assert circle_of({"a": {"b"}, "b": set()}) == []
    assert len(circle_of({"a": {"b"}, "b": {"a"}})) == 1


# What the documents say.


def dead_links(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """Relative links, in line or as a reference, whose target does not exist."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"`[^`\n]*`", "code", prose)
    targets = re.findall(r"\]\(\s*<?([^)\s>]+)", prose)
    targets += re.findall(r"^\[[^\]]+\]:\s*<?([^\s>]+)", prose, re.MULTILINE)
    return [
        f"{path}: link to {target}, which is not there"
        for target in targets
        if not re.match(r"[a-z]+:|#", target)
        and not (root / path.parent / target.partition("#")[0]).exists()
    ]


def anchors(text: str) -> set[str]:
    """What a link to a heading of a document is called."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_headings(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """Links to a heading that its document does not have; of documents that exist."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    wrong = []
    for name, heading in re.findall(r"\]\(([^)\s:#]*)#([^)\s]+)\)", prose):
        document = root / path.parent / name
        if name and not (document.exists() and document.suffix == ".md"):
            continue
        if heading not in anchors(document.read_text("utf-8") if name else text):
            wrong.append(f"{path}: link to {name}#{heading}, and there is no such heading")
    return wrong


def wrong_changelog(cmake: str, changelog: str) -> list[str]:
    version = re.search(r"project\(foreload VERSION ([0-9.]+)", cmake)
    if not version:
        return ["CMakeLists.txt: no project(foreload VERSION ...)"]
    if not re.search(rf"^## \[?{re.escape(version[1])}(?![0-9.])", changelog, re.MULTILINE):
        return [f"CHANGELOG.md: no section for version {version[1]}"]
    return []


def test_links():
    check(dead_links, lambda path: path.suffix == ".md")


def test_links_can_fail(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/impl.md").touch()
    fine = (
        "[a](impl.md#files) [b](../docs) [c](https://x.org/y) [d](#here) `[e](f)`\n\n[g]: impl.md\n"
    )
    assert dead_links(Path("docs/a.md"), fine, tmp_path) == []
    for bad in ["[a](gone.md)", "![a](<gone.png>)", "[a](../impl.md#x)", "text\n\n[a]: gone.md"]:
        assert len(dead_links(Path("docs/a.md"), bad, tmp_path)) == 1


def test_headings():
    check(dead_headings, lambda path: path.suffix == ".md")


def test_headings_can_fail(tmp_path):
    (tmp_path / "a.md").write_text("# What it is\n\n## torch's DataLoader\n")
    fine = "# Here\n[a](#here) [b](a.md#torchs-dataloader) [c](a.cc#x) [d](https://x.org#z)"
    assert dead_headings(Path("b.md"), fine, tmp_path) == []
    for bad in ["[a](#gone)", "[a](a.md#gone)", "```\n# gone\n```\n[a](#gone)"]:
        assert len(dead_headings(Path("b.md"), bad, tmp_path)) == 1


def test_changelog():
    cmake, changelog = (
        (ROOT / name).read_text("utf-8") for name in ("CMakeLists.txt", "CHANGELOG.md")
    )
    accept(wrong_changelog(cmake, changelog))


def test_changelog_can_fail():
    cmake = "project(foreload VERSION 0.2.0 LANGUAGES CXX)"
    assert wrong_changelog(cmake, "# Changes\n\n## [0.2.0] - unreleased\n") == []
    assert wrong_changelog(cmake, "## 0.2.0\n") == []
    assert wrong_changelog(cmake, "## 0.2.01\n") != []
    assert wrong_changelog(cmake, "## 0.1.0\nas in 0.2.0\n") != []
    assert wrong_changelog("", "## 0.2.0\n") != []


def missing_steps(text: str, read) -> list[str]:
    """Functions that a table of docs/walk.md names and the file beside them does not define."""
    steps = re.findall(r"\| `([\w:.]+)`[^|]*\| (\S+) \|", text)
    complaints = [] if steps else ["there is no table of functions"]
    for name, file in steps:
        if "::" in name or file.endswith(".cc"):
            found = re.search(rf"^[\w<].*\b{re.escape(name)}\(", read(file), re.MULTILINE)
        else:
            owner, _, function = name.rpartition(".")
            found = re.search(rf"class {owner}\b.*?def {function}\(", read(file), re.DOTALL)
        if not found:
            complaints.append(f"docs/walk.md: {file} does not define {name}")
    return complaints


def test_the_walk_names_functions_that_are_there():
    text = (ROOT / "docs/walk.md").read_text("utf-8")
    assert not missing_steps(text, lambda file: (ROOT / file).read_text("utf-8"))


def test_the_walk_can_fail():
    row = "| it runs | `A::run` | a.cc |"
    assert not missing_steps(row, lambda _: "void A::run(int a) {\n")
    assert missing_steps(row, lambda _: "  a.run(1);\n")
    assert missing_steps("| it runs | `A.run` | a.py |", lambda _: "class A:\n    pass\n")
    assert missing_steps("no table", lambda _: "")
