"""The layers of the package: imports only point down, and nothing private is imported from elsewhere."""

import ast
from typing import NamedTuple

import pytest

from tests.helpers import ROOT

SOURCE = ROOT / "src"
# From bottom to top. Those of one row do not import each other, but for the pairs below.
ROWS = [
    ["_checks", "_naming", "_optional", "_progress", "_registry"],
    ["functional"],
    ["masking", "augmentation"],
    ["noise"],
    ["objectives", "models", "data"],
    ["training", "evaluation", "inspection"],
    ["runs"],
    ["estimator", "experiments", "report", "export", "hub", "demo"],
    ["cli"],
    ["__init__", "__main__"],
]
ROW = {part: number for number, row in enumerate(ROWS) for part in row}
SIDEWAYS = {
    ("report", "experiments"),  # their tables
    ("export", "estimator"),
    ("hub", "estimator"),
    ("hub", "export"),
    ("demo", "estimator"),
}
HARMLESS = {"__version__"}  # names that any module may read from `dcs` itself


class Import(NamedTuple):
    """One import: in which module, of which module, and of which name in it, if any."""

    inside: str
    module: str
    name: str | None
    line: int

    def __str__(self):
        return f"{self.inside}:{self.line} imports {self.module}" + (f".{self.name}" if self.name else "")


def modules():
    """All modules by their dotted names; that of a package is its own name."""
    found = {}
    for path in sorted((SOURCE / "dcs").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def directory(module):
    """The package directory that a module lies in."""
    return (
        module if module in MODULES and MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    )


def part_of(module):
    """The layer that a module belongs to: the first name below `dcs`."""
    return "__init__" if module == "dcs" else module.split(".")[1]


def imports_of(inside, path):
    """All imports of other modules of `dcs`, wherever in the file they are."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    attributes = ast.Attribute if "dcs" in plain else ()  # elsewhere, `dcs` is a variable
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "dcs" and alias.name != "dcs":
                    yield Import(inside, alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = directory(inside).split(".")
                base = ".".join([*here[: len(here) - node.level + 1], *filter(None, [node.module])])
            if base.split(".")[0] == "dcs":
                yield from (_resolved(inside, base, alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, attributes) and isinstance(node.value, ast.Name) and node.value.id == "dcs":
            yield _resolved(inside, "dcs", node.attr, node.lineno)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called == "import_module" and str(node.args[0].value).startswith("dcs."):
                yield Import(inside, node.args[0].value, None, node.lineno)


def _resolved(inside, base, name, line):
    """`from base import name`, where `name` may be a module or something in one."""
    if f"{base}.{name}" in MODULES:
        return Import(inside, f"{base}.{name}", None, line)
    return Import(inside, base, name, line)


MODULES = modules()
IMPORTS = [found for module, path in MODULES.items() for found in imports_of(module, path)]


def points_down(found):
    """Whether an import stays in its layer, goes to a lower row, or is one of the pairs that may."""
    if found.module == "dcs" and found.name in HARMLESS:
        return True
    upper, lower = part_of(found.inside), part_of(found.module)
    return upper == lower or ROW.get(lower, len(ROWS)) < ROW[upper] or (upper, lower) in SIDEWAYS


def is_private(name):
    return name is not None and name.startswith("_") and not name.endswith("__")


def is_open(found):
    """Whether what is imported is public, or lies in the directory of the module that imports it."""
    if is_private(found.name) and directory(found.module) != directory(found.inside):
        return False
    names = found.module.split(".")
    homes = [".".join(names[:depth]) for depth, name in enumerate(names) if is_private(name)]
    return all(f"{directory(found.inside)}.".startswith(f"{home}.") for home in homes)


def test_every_module_is_in_the_picture():
    assert {part_of(module) for module in MODULES} == set(ROW)


def test_the_walk_sees_imports_of_every_form():
    assert len(IMPORTS) > 300
    inside = {found.module for found in IMPORTS if found.inside == "dcs.cli.fit"}
    assert "dcs.runs" in inside  # under TYPE_CHECKING and in functions
    assert Import("dcs.evaluation._result", "dcs", "__version__", 0)[:3] in {found[:3] for found in IMPORTS}


@pytest.mark.parametrize("part", [part for row in ROWS for part in row])
def test_imports_only_point_down(part):
    wrong = [str(found) for found in IMPORTS if part_of(found.inside) == part and not points_down(found)]
    assert not wrong


@pytest.mark.parametrize("part", [part for row in ROWS for part in row])
def test_nothing_private_is_imported_from_elsewhere(part):
    wrong = [str(found) for found in IMPORTS if part_of(found.inside) == part and not is_open(found)]
    assert not wrong


@pytest.mark.parametrize(
    ("upper", "lower"), [("report", "cli"), ("experiments", "cli"), ("training", "evaluation")]
)
def test_these_never_meet(upper, lower):
    wrong = [str(f) for f in IMPORTS if part_of(f.inside) == upper and lower in (part_of(f.module), f.name)]
    assert not wrong


def test_imported_modules_exist():
    assert not [str(found) for found in IMPORTS if found.module not in MODULES]
