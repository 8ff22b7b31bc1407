"""Rules that a program can check: packaging, who may touch what, how long a file may be."""

import ast
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from citations import sections_of, wrong_citations

ROOT = Path(__file__).parent.parent
ROOMS = ("runtime", "protocol", "storage", "coordinator", "client", "broker", "pipeline")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
LOOKED_AT = {
    "broker/config/broker.py": "the table of settings: what each is and allows, one after the other",
    "protocol/schemas/records/metadata.py": "a declaration of 26 records: one field a line",
    "protocol/schemas/streams_group_describe.py streams_group_describe_response": "a declaration: one field a line",
    "protocol/schemas/streams_group_heartbeat.py streams_group_heartbeat_request": "a declaration: one field a line",
    "storage/manager.py __init__": "it takes the settings, and hands the parts of the storage to each other",
}
"""What is longer than the alarm, each with the reason why it may stay."""
HOLD_SECRETS = ("broker/security/", "broker/console/sessions", "broker/cli/users", "client/")
"""Nonces, salts and passwords come from `secrets` and never from a seed (security.md 6.4)."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def calls(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every call in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def test_the_folders_of_a_rooms_tests_are_named_after_its_own() -> None:
    tests = ROOT / "tests"
    folders = {path.parent for path in (tests / "broker").rglob("test_*.py")}
    assert len(folders) > 15
    assert not [name_of(folder) for folder in folders if not (ROOT / folder.relative_to(tests)).is_dir()]


def test_every_folder_with_code_is_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, list[str]] = {}
    monkeypatch.setattr("setuptools.setup", asked.update)
    runpy.run_path(str(ROOT / "setup.py"))
    folders = {path.parent.relative_to(ROOT).as_posix() for path in sources(*ROOMS)}
    assert {"eosin." + folder.replace("/", ".") for folder in folders} == set(asked["packages"])


def test_every_folder_with_code_is_a_package() -> None:
    for path in sources(*ROOMS):
        assert (path.parent / "__init__.py").exists(), f"{name_of(path.parent)} has no __init__.py"


def test_the_root_is_not_a_package() -> None:
    assert not (ROOT / "__init__.py").exists()
    assert not (ROOT / "eosin").exists()


def test_the_version_is_the_one_that_is_packaged() -> None:
    from eosin.broker.version import VERSION

    assert PROJECT["project"]["version"] == VERSION


def test_long_files_and_functions_are_on_the_list() -> None:
    """The limits are alarms: a file is split by noun and a function by step, never to get below a number."""
    assert set(_long()) == set(LOOKED_AT)


def _long() -> Iterator[str]:
    for path in sources(*ROOMS):
        text = path.read_text()
        if len(text.splitlines()) > MAX_FILE_LINES:
            yield name_of(path)
        for node in ast.walk(ast.parse(text)):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and (node.end_lineno or node.lineno) - node.lineno >= MAX_FUNCTION_LINES:
                yield f"{name_of(path)} {node.name}"


@pytest.mark.parametrize("path", list(sources(*ROOMS)), ids=name_of)
def test_a_module_says_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no docstring"


def test_only_the_system_disk_opens_files() -> None:
    banned = {"open", "os.open", "io.open", "aiofiles.open", "os.fdopen"}
    # The program's standard files are no files of a disk: a closed one is put on the null device.
    allowed = {"storage/disk/system.py", "broker/cli/standard_files.py"}
    found = [
        f"{name_of(path)}:{line} {call}"
        for path in sources(*ROOMS)
        if name_of(path) not in allowed
        for line, call in calls(path)
        if call in banned
    ]
    assert not found


def test_only_the_clock_tells_the_time() -> None:
    banned = re.compile(r"(time\.(time|time_ns|monotonic|monotonic_ns|sleep)|datetime\.(now|utcnow|today))")
    # __main__ and serve measure the start itself, before there is a clock.
    allowed = {"runtime/clock.py", "broker/__main__.py", "broker/cli/serve.py"}
    found = [
        f"{name_of(path)}:{line} {call}"
        for path in sources(*ROOMS)
        if name_of(path) not in allowed
        for line, call in calls(path)
        if banned.fullmatch(call)
    ]
    assert not found


def test_only_the_module_of_chance_imports_random_numbers() -> None:
    found = [
        f"{name_of(path)}:{line} {module}"
        for path in sources(*ROOMS)
        if name_of(path) != "runtime/chance.py"
        for line, module in imports(path)
        if module == "random" or (module == "secrets" and not name_of(path).startswith(HOLD_SECRETS))
    ]
    assert not found


def test_only_the_edge_the_supervisor_and_what_fails_closed_catch_everything() -> None:
    allowed = {"broker/exchange.py", "runtime/background.py", "broker/security/authorizer.py"}
    found = []
    for path in sources(*ROOMS):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = "everything" if node.type is None else ast.unparse(node.type)
            # A handler that always raises again only tidies up.
            passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            everything = re.search(r"\b(everything|Exception|BaseException)\b", caught)
            if everything and not passes_on and name_of(path) not in allowed:
                found.append(f"{name_of(path)}:{node.lineno} {caught}")
    assert not found


def test_only_the_server_and_the_client_touch_sockets() -> None:
    allowed = re.compile(
        r"(broker/(server|connections/acceptor)\.py|broker/security/tls/(layer|contexts|listeners|reload)\.py"
        r"|broker/security/links/(contexts|link)\.py|client/.*"
        # The HTTP listener, and who hands its certificates on.
        r"|broker/http/(host|tls)\.py|broker/cli/health\.py|broker/explain/cluster_facts\.py)"
    )
    found = [
        f"{name_of(path)}:{line} {module}"
        for path in sources(*ROOMS)
        if not allowed.fullmatch(name_of(path))
        for line, module in imports(path)
        if module in ("socket", "ssl", "selectors", "socketserver")
    ]
    assert not found


def test_rooms_are_imported_by_their_installed_name() -> None:
    found = [
        f"{name_of(path)}:{line} {module}"
        for path in sources(*ROOMS, "tests")
        for line, module in imports(path)
        if module.partition(".")[0] in ROOMS
    ]
    assert not found


def test_the_pipeline_reaches_brokers_over_tcp_only() -> None:
    found = [
        f"{name_of(path)}:{line} {module}"
        for path in sources("pipeline")
        for line, module in imports(path)
        if re.match(r"eosin\.(storage|coordinator|broker)\b", module)
    ]
    assert not found


def test_the_handlers_are_the_registered_ones_and_nothing_else() -> None:
    from eosin.broker.registry import APIS

    registered = {(api.handle or api.respond).__module__ for api in APIS}
    files = {f"eosin.broker.handlers.{path.stem}" for path in sources("broker/handlers") if path.stem != "__init__"}
    assert files == registered


def test_a_handler_is_a_coroutine_if_and_only_if_it_waits() -> None:
    for path in sources("broker/handlers"):
        for function in ast.parse(path.read_text()).body:
            name = getattr(function, "name", "")
            if name in ("handle", "respond"):
                waits = any(isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) for node in ast.walk(function))
                kind = (ast.AsyncFunctionDef, "handle") if waits else (ast.FunctionDef, "respond")
                assert (type(function), name) == kind, (
                    f"{path.name}: a handler that waits is `async def handle`, one that never waits `def respond`"
                )


def test_the_map_of_test_support_has_a_line_for_every_module() -> None:
    support = ROOT / "tests" / "support"
    lines = re.findall(r"^\| `([\w/.]+)` \|(.+)\|(.+)\|$", (support / "README.md").read_text(), re.MULTILINE)
    modules = {path.relative_to(support).as_posix() for path in support.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(name for name, _, _ in lines) == sorted(modules | {"java/"})
    assert all(purpose.strip() and users.strip() for _, purpose, users in lines)


def test_no_property_is_broken_by_a_slow_machine() -> None:
    assert hypothesis.settings().deadline is None


def test_the_text_speaks_of_eosin_alone() -> None:
    """Nobody who reads the code can do anything with where or how it was written."""
    # Put together here, so that this file does not hold them.
    banned = re.compile(
        "|".join(("/wo" + "rk/", r"\.\./sha" + "red", "contra" + r"cts\.md", r"\bchat" + "gpt", r"\bcla" + "ude\\b")),
        re.I,
    )
    found = [
        f"{name_of(path)}:{number}"
        for path in _texts()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if banned.search(line)
    ]
    assert not found


def test_every_citation_of_the_specification_leads_to_a_section() -> None:
    pages = {path.stem: path for path in (ROOT / "docs" / "spec").glob("*.md")}
    sections = {name: sections_of(path.read_text()) for name, path in pages.items()}
    documents = {path.name for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    wrong = [
        f"{name_of(path)}:{line} {text}: {problem}"
        for path in _texts()
        for line, text, problem in wrong_citations(
            path.read_text(errors="replace"),
            sections=sections,
            documents=documents,
            page=path.stem if path in pages.values() else "",
        )
    ]
    assert not wrong


def _texts() -> Iterator[Path]:
    folders = (*ROOMS, "tests", "docs", "docker", "bench", ".ci")
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".txt", ".yaml", ".yml", ".toml", ".sh", "") and path.is_file():
                yield path
    yield from (path for path in sorted(ROOT.glob("*.md")))
    yield from (ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "setup.py")
