#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/api.md from the docstrings of the Python package.

    scripts/make_api_docs.py            write it
    scripts/make_api_docs.py --check    only say whether it is up to date (exit status 1 if not)

The sources are read, not imported. Only the defaults of settings are asked of the package itself.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "foreload"
TARGET = ROOT / "docs" / "api.md"
# Modules that are documented whole, beside what the package itself offers, and where their
# definitions are.
MODULES = {
    "transforms": ("transforms.steps", "transforms.mixing", "transforms.chains"),
    "compat.nopfs": ("compat.nopfs",),
}

Definition = ast.ClassDef | ast.FunctionDef


def parsed(module: str) -> ast.Module:
    """The module of the package with that name; C++'s is known by its stub."""
    beside = PACKAGE / module.replace(".", "/")
    places = (beside.with_suffix(".py"), beside / "__init__.py", beside.with_suffix(".pyi"))
    path = next(path for path in places if path.exists())
    return ast.parse(path.read_text("utf-8"))


def definitions(tree: ast.Module) -> dict[str, Definition]:
    return {
        node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def listed(tree: ast.Module) -> list[str] | None:
    """Its __all__, if it has one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def offered() -> Iterator[tuple[str, Definition]]:
    """What `from foreload import *` gives, functions and classes, as __init__.py lists them."""
    tree = parsed("__init__")
    where = {
        alias.asname or alias.name: node.module.removeprefix("foreload.")
        for node in ast.walk(tree)  # some are imported when they are asked for
        if isinstance(node, ast.ImportFrom) and node.module != "foreload" and node.module
        for alias in node.names
    }
    for name in listed(tree) or []:
        if name in where and name in (found := definitions(parsed(where[name]))):
            yield name, found[name]


def signature(name: str, function: ast.FunctionDef, skip: int) -> str:
    """The call as one writes it, without annotations; long ones get a line per argument."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parts = [part(arg, default) for arg, default in zip(plain, defaults, strict=True)][skip:]
    settings = settings_in(given.kwarg)
    if given.vararg:
        parts.append("*" + given.vararg.arg)
    elif given.kwonlyargs or settings:
        parts.append("*")
    parts += [part(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if settings:
        parts += settings
    elif given.kwarg:
        parts.append("**" + given.kwarg.arg)
    line = f"{name}({', '.join(parts)})"
    if len(line) <= 96:
        return line
    return f"{name}(\n" + "".join(f"    {entry},\n" for entry in parts) + ")"


def settings_in(rest: ast.arg | None) -> list[str]:
    """What `**settings: Unpack[...]` stands for; nothing for other arguments."""
    annotation = ast.unparse(rest.annotation) if rest and rest.annotation else ""
    if not annotation.startswith("Unpack["):
        return []
    from foreload import _core
    from foreload import _settings as settings

    names = getattr(settings, annotation.removeprefix("Unpack[").removesuffix("]")).__annotations__
    defaults = _core.setting_defaults()
    return [f"{name}={as_code(defaults[name])}" for name in names]


def as_code(value: object) -> str:
    """As ruff formats code in Markdown."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def part(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return argument.arg
    text = isinstance(default, ast.Constant) and isinstance(default.value, str)
    return f"{argument.arg}={as_code(default.value) if text else ast.unparse(default)}"


def has(node: ast.FunctionDef, decorator: str) -> bool:
    return any(isinstance(d, ast.Name) and d.id == decorator for d in node.decorator_list)


def prose(node: Definition | ast.Module) -> str:
    """The docstring as Markdown: arguments become a list."""
    text = ast.get_docstring(node) or ""
    body, _, arguments = text.partition("\nArgs:\n")
    lines = [body.strip()] if body.strip() else []
    entries: list[str] = []
    for line in inspect.cleandoc(arguments).splitlines() if arguments else []:
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            names, _, meaning = line.partition(": ")
            entries.append(f"- `{names.strip()}`: {meaning.strip()}")
    if entries:
        lines.append("\n".join(entries))
    return "\n\n".join(lines)


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def section(name: str, node: Definition, level: int) -> list[str]:
    """One function or class with what belongs to it."""
    found = ["#" * level + f" {name}"]
    if isinstance(node, ast.FunctionDef):
        return [*found, code(signature(name, node, 0)), prose(node)]
    methods = [entry for entry in node.body if isinstance(entry, ast.FunctionDef)]
    for method in methods:
        if method.name == "__init__":
            found.append(code(signature(name, method, 1)))
    found.append(prose(node))
    rows = []
    for method in methods:
        if method.name.startswith("_"):
            continue
        text = " ".join(prose(method).split())
        if has(method, "property"):
            rows.append(f"- `.{method.name}`: {text}")
        else:
            call = signature(method.name, method, 0 if has(method, "staticmethod") else 1)
            rows.append(f"- `.{' '.join(call.split())}`: {text}")
    if rows:
        found += ["It has:", "\n".join(rows)]
    return found


def document() -> str:
    parts = [
        "# API reference",
        "Made from the docstrings by `scripts/make_api_docs.py`; do not edit it by hand.",
        "## foreload",
    ]
    for name, node in sorted(offered(), key=lambda entry: entry[0].lower()):
        parts += section(name, node, 3)
    for module, places in MODULES.items():
        tree = parsed(module)
        public = listed(tree)
        heading, _, rest = (ast.get_docstring(tree) or "").partition("\n\n")
        parts += [f"## foreload.{module}", heading]
        parts += [example(paragraph) for paragraph in rest.split("\n\n") if paragraph.strip()]
        for place in places:
            for name, node in definitions(parsed(place)).items():
                if name in public if public is not None else not name.startswith("_"):
                    parts += section(name, node, 3)
    return "\n\n".join(part for part in parts if part) + "\n"


def example(paragraph: str) -> str:
    """An indented paragraph of a docstring is code."""
    return code(inspect.cleandoc(paragraph)) if paragraph.startswith("    ") else paragraph


def main() -> int:
    text = document()
    if sys.argv[1:] == ["--check"]:
        if TARGET.exists() and TARGET.read_text("utf-8") == text:
            return 0
        print(f"{TARGET.relative_to(ROOT)} is out of date: run scripts/make_api_docs.py")
        return 1
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
