"""Imports point one way, third-party frameworks stay behind their doors.

    core files <- {data, methods, models, evaluation} <- training <- search
               <- {tracking, report} <- cluster <- api <- cli

Rooms inside braces are siblings and never meet. Files directly in hsearch/ and recipes/ are core.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hsearch

PACKAGE = Path(hsearch.__file__).parent

FLOORS: list[set[str]] = [
    {"core"},
    {"data", "methods", "models", "evaluation"},
    {"training"},
    {"search"},
    {"tracking", "report"},
    {"cluster"},
    {"api"},
    {"cli"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Where each framework may be imported: files or folders inside hsearch/.
FENCES = {
    "ray": ("cluster/",),
    "mlflow": ("tracking/",),
    "matplotlib": ("report/",),
    "optuna": ("search/",),
    "timm": ("models/backbone.py",),
    "peft": ("models/adapters.py",),
    "faiss": ("evaluation/neighbors.py",),
    "pyarrow": (
        "data/store.py",
        "data/store_writer.py",
        "data/objects.py",
        "data/remote.py",
        "data/tables.py",
    ),
    "PIL": ("data/",),
    "openTSNE": ("report/layout.py",),
    "torchvision": ("data/",),
}
FACES = ("__init__.py", "__main__.py")  # they point at every room, and no room at them


def violations(package: Path) -> list[str]:
    """Every broken rule in a package folder, as `file: import: rule`."""
    files = sorted(package.rglob("*.py"))
    graph: dict[str, set[str]] = {}
    found = []
    for path in files:
        name = path.relative_to(package).as_posix()
        modules = set(imported_modules(path))
        inside = {m for m in modules if m.split(".")[0] == package.name}
        graph[module_name(package, path)] = inside
        found += [f"{name}: imports {m}: {rule}" for m in inside if (rule := arrow_rule(name, m))]
        found += [f"{name}: imports {m}: {rule}" for m in modules if (rule := fence_rule(name, m))]
    return sorted(found) + [
        f"{' -> '.join(cycle)}: files must not import each other in a circle"
        for cycle in cycles(graph)
    ]


def imported_modules(path: Path) -> Iterator[str]:
    """Full names of all modules that a file imports anywhere, inside functions too.

    `from a.b import c` names `a.b`, and `a.b.c` as well, since c may be a module.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (text for arg in node.args if (text := text_of(arg)))


def text_of(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def module_name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a file or module, given its parts below the package."""
    return parts[0] if parts and parts[0] in FLOOR_OF else "core"


def arrow_rule(file: str, module: str) -> str | None:
    parts = Path(file).parts
    here, there = room_of(parts[:-1]), room_of(tuple(module.split(".")[1:]))
    if file in FACES or here == there:
        return None
    if len(parts) > 1 and parts[0] not in {*FLOOR_OF, "recipes"}:
        return f"the room {parts[0]} has no floor; give it one in tests/test_architecture.py"
    if FLOOR_OF[there] > FLOOR_OF[here]:
        return f"{there} stands above {here}"
    if FLOOR_OF[there] == FLOOR_OF[here]:
        return f"{there} and {here} are siblings and never meet"
    return None


def fence_rule(file: str, module: str) -> str | None:
    doors = FENCES.get(module.split(".")[0])
    if doors is None or any(file == door or file.startswith(door) for door in doors):
        return None
    return f"only {' and '.join(doors)} may import {module.split('.')[0]}"


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Circles of imports between files, each from its first name in the alphabet."""
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            circle = path[path.index(module) :]
            first = circle.index(min(circle))
            found.append([*circle[first:], *circle[:first], min(circle)])
        elif module in graph and module not in done:
            for other in sorted(graph[module] - {module}):
                visit(other, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


def test_hsearch_keeps_its_rules():
    assert violations(PACKAGE) == []


def make_package(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "hsearch"
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


GOOD = {
    "__init__.py": "",
    "__main__.py": "from hsearch.cli.main import main\n",
    "errors.py": "import torch\n",
    "recipes/__init__.py": "from hsearch.errors import ConfigError\n",
    "methods/hpl.py": "from hsearch.methods.proxy_nca import Loss\nfrom hsearch import recipes\n",
    "methods/proxy_nca.py": "import hsearch.errors\n",
    "models/backbone.py": "import timm.models\n",
    "data/store.py": "import pyarrow as pa\nimport PIL.Image\n",
    "training/loop.py": "from hsearch.methods import hpl\nfrom hsearch.data.store import Store\n",
    "search/store.py": "def f():\n    import optuna\n",
    "tracking/mlflow.py": "import mlflow\nfrom hsearch.search.store import f\n",
    "cluster/pool.py": "import ray\nimport hsearch.tracking.mlflow\n",
    "cli/main.py": "from hsearch.cluster.pool import x\n",
}


def test_a_good_tree_passes(tmp_path):
    assert violations(make_package(tmp_path, GOOD)) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "errors.py",
            "from hsearch.data.store import Store",
            "errors.py: imports hsearch.data.store: data stands above core",
        ),
        (
            "recipes/__init__.py",
            "def f():\n    import hsearch.training.loop",
            "recipes/__init__.py: imports hsearch.training.loop: training stands above core",
        ),
        (
            "data/store.py",
            "from hsearch import methods",
            "data/store.py: imports hsearch.methods: methods and data are siblings and never meet",
        ),
        (
            "tracking/mlflow.py",
            "if True:\n    from hsearch.report import page",
            "tracking/mlflow.py: imports hsearch.report: report and tracking are siblings and "
            "never meet",
        ),
        (
            "training/loop.py",
            "from hsearch.search.space import load_space",
            "training/loop.py: imports hsearch.search.space: search stands above training",
        ),
        (
            "search/space.py",
            "from ray import tune",
            "search/space.py: imports ray: only cluster/ may import ray",
        ),
        (
            "models/weights.py",
            "import importlib\nx = importlib.import_module('timm.models')",
            "models/weights.py: imports timm.models: only models/backbone.py may import timm",
        ),
        (
            "models/heads.py",
            "import timm",
            "models/heads.py: imports timm: only models/backbone.py may import timm",
        ),
        (
            "data/sources/folder.py",
            "import pyarrow.csv",
            "data/sources/folder.py: imports pyarrow.csv: only data/store.py and "
            "data/store_writer.py and data/objects.py and data/remote.py and data/tables.py may "
            "import pyarrow",
        ),
        (
            "cli/show.py",
            "from PIL import Image",
            "cli/show.py: imports PIL: only data/ may import PIL",
        ),
        (
            "utils/misc.py",
            "from hsearch.data import store",
            "utils/misc.py: imports hsearch.data: the room utils has no floor; give it one in "
            "tests/test_architecture.py",
        ),
        (
            "methods/proxy_nca.py",
            "import hsearch.methods.hpl",
            "hsearch.methods.hpl -> hsearch.methods.proxy_nca -> hsearch.methods.hpl: files must "
            "not import each other in a circle",
        ),
    ],
)
def test_the_checker_names_file_import_and_rule(tmp_path, file, text, message):
    assert message in violations(make_package(tmp_path, {**GOOD, file: text}))
