"""Rules that a program can check: packaging, who may touch what, how long a file may be."""

import re
import runpy
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest
from citations import sections_of, wrong_citations
from folder_rings import folder_imports, rings
from sources import ROOMS, ROOT, at, differences, fail_for, line_of, name_of, outline, sources, text_of

pytestmark = pytest.mark.xdist_group("sources")  # in one process, each file is parsed once
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
LOOKED_AT = {
    "settings/broker.py": "the table of settings: what each is and allows, one after the other",
    "storage/manager.py __init__": "it takes the settings, and hands the parts of the storage to each other",
}
"""What is longer than the alarm, each with the reason why it may stay."""
INDIRECT_OPENING = re.compile("what|who|whose|whom|whether|how|where|which|those|that|when|why|whatever|whoever")
"""A first word that keeps the subject of its sentence waiting."""
DOUBLED_CLASS_NAMES: frozenset[str] = frozenset()
"""Names that two classes of the product have. It may only shrink."""
VAGUE_VERB = re.compile(
    r"(.*_)?_?(look(s|ed|ing)?|tak(e|es|en)|took|asks?|asked|hears?|heard|tells?|told|seen|answer(s|ed)?)(_.*)?"
)
"""A word of a function's name for which there is an ordinary one: check, poll, reload, count, apply, accept, record,
report, request; and a response is no answer."""
MAX_VAGUE_VERBS = 5
"""Number of functions whose names still have such a word. It may only fall."""
PROJECT = tomllib.loads(text_of(ROOT / "pyproject.toml"))


class Reserved(NamedTuple):
    """Modules or functions that are left to a few files."""

    rule: str
    imported: str = ""
    called: str = ""
    owners: tuple[str, ...] = ()
    """The files, or how their paths begin."""


RESERVED = (
    Reserved(
        rule="only the system's disk opens files",
        called=r"(os\.|io\.|aiofiles\.)?open|os\.fdopen",
        # The program's standard files are no files of a disk: a closed one is put on the null device.
        owners=("storage/disk/system.py", "cli/common/standard_files.py"),
    ),
    Reserved(
        rule="only the clock tells the time",
        called=r"time\.(time|time_ns|monotonic|monotonic_ns|sleep)|datetime\.(now|utcnow|today)",
        # __main__ and serve measure the start itself, before there is a clock.
        owners=("runtime/clock.py", "cli/__main__.py", "cli/start_time.py"),
    ),
    Reserved(
        # The luck of torn writes is that of a seed, as the rest of a test.
        rule="only the module of chance draws random numbers",
        imported="random",
        owners=("runtime/chance.py", "lab/disk/", "lab/lab_broker.py"),
    ),
    Reserved(
        # Never from a seed (security.md 6.4).
        rule="only nonces, salts and passwords come from `secrets`",
        imported="secrets",
        owners=(
            "runtime/chance.py",
            "security/",
            "node/secured_listeners",
            "cli/cluster_console.py",
            "broker/security/",
            "observe/console/sessions",
            "cli/users",
            "client/",
        ),
    ),
    Reserved(
        rule="no room of a broker makes ids that a seed foretells",
        called=r"(.+\.)?SeededChance",
        owners=("runtime/", "pipeline/", "lab/scenarios/"),  # there it draws faults, and no ids
    ),
    Reserved(
        rule="only the server and the client touch sockets",
        imported="socket|ssl|selectors|socketserver",
        owners=(
            *("node/sockets.py", "network/acceptor.py", "network/link.py", "client/"),
            *("network/tls/layer.py", "network/tls/listeners.py", "security/tls/contexts.py", "security/tls/reload.py"),
            *("cluster/links/contexts.py", "cluster/links/link.py"),
            *("lab/crash/burial.py", "lab/crash/endpoints.py", "lab/serve/command.py"),
            # The HTTP listener, and who hands its certificates on.
            *("observe/http/host.py", "observe/http/tls.py", "observe/explain/cluster_facts.py", "cli/health.py"),
            "pipeline/common/prompt_worker.py",  # an option of the connection that Spark's worker has to Java
        ),
    ),
    Reserved(
        rule="the pipeline reaches brokers over TCP only",
        imported=rf"eosin\.({'|'.join(set(ROOMS) - {'runtime', 'protocol', 'client', 'pipeline'})})(\..+)?",
        owners=tuple(f"{room}/" for room in ROOMS if room != "pipeline"),
    ),
)


def test_the_folders_of_a_room_import_each_other_in_one_direction() -> None:
    """Inside a room as between rooms: what is below can be read, tested and changed without what is above."""
    fail_for((ring for room in ROOMS for ring in rings(folder_imports(room))), "the folders of a room form no ring")


def test_the_folders_of_a_rooms_tests_are_named_after_its_own() -> None:
    tests = ROOT / "tests"
    rooms = [f"tests/{room}" for room in ROOMS if (tests / room).exists()]
    folders = {path.parent for path in sources(*rooms) if path.name.startswith("test_")}
    assert len(folders) > 30
    strangers = sorted(folder for folder in folders if not (ROOT / folder.relative_to(tests)).is_dir())
    fail_for(map(name_of, strangers), "a folder of tests has the name of a folder of the room")


def test_every_folder_with_code_is_a_package_and_is_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, list[str]] = {}
    monkeypatch.setattr("setuptools.setup", asked.update)
    runpy.run_path(str(ROOT / "setup.py"))
    folders = {path.parent for path in sources(*ROOMS)}
    offences = [f"{name_of(folder)} has no __init__.py" for folder in folders if not (folder / "__init__.py").exists()]
    offences += [f"{name}: the root is no package" for name in ("__init__.py", "eosin") if (ROOT / name).exists()]
    offences += differences(
        asked["packages"],
        ["eosin." + name_of(folder).replace("/", ".") for folder in folders],
        missing="is not packaged by setup.py",
        surplus="is packaged by setup.py, but has no code",
    )
    fail_for(sorted(offences), "every folder with code is a package and is packaged, and nothing else")


def test_the_version_is_the_one_that_is_packaged() -> None:
    from eosin.runtime.version import VERSION

    assert PROJECT["project"]["version"] == VERSION


def test_long_files_and_functions_are_on_the_list() -> None:
    """The limits are alarms: a file is split by noun and a function by step, never to get below a number."""
    long = dict(_long())
    offences = [f"{where} {lines} lines long" for name, (where, lines) in long.items() if name not in LOOKED_AT]
    offences += [f"{name}: is on the list, but not long" for name in LOOKED_AT if name not in long]
    fail_for(
        offences, f"LOOKED_AT has files over {MAX_FILE_LINES} lines, functions over {MAX_FUNCTION_LINES}, no other"
    )


def _long() -> Iterator[tuple[str, tuple[str, int]]]:
    """What is long, with its place and its lines."""
    for path in sources(*ROOMS):
        lines = len(text_of(path).splitlines())
        if lines > MAX_FILE_LINES:
            yield name_of(path), (f"{name_of(path)}:", lines)
        for function in outline(path).functions:
            lines = function.end - function.line + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{name_of(path)} {function.name}", (f"{at(path, function.line)} {function.name}", lines)


def test_a_module_says_what_it_owns() -> None:
    silent = [at(path, 1) for path in sources(*ROOMS) if not outline(path).docstring]
    fail_for(silent, "a module begins with a docstring")


def test_a_docstring_opens_with_a_verb_or_names_its_subject() -> None:
    """The first words say what is returned or held: "True if ...", "Number of ...", "The ...", "Raises ..."."""
    found = [
        f"{at(path, opening.line)} opens with {opening.word!r}"
        for path in sources(*ROOMS, "bench")
        for opening in outline(path).openings
        if INDIRECT_OPENING.fullmatch(opening.word)
    ]
    fail_for(found, "no docstring opens with a question word or a demonstrative")


def test_functions_have_ordinary_verbs() -> None:
    found = [
        f"{at(path, function.line)} {function.name}"
        for path in sources(*ROOMS)
        for function in outline(path).functions
        if VAGUE_VERB.fullmatch(function.name)
    ]
    if len(found) > MAX_VAGUE_VERBS:
        fail_for(found, f"at most {MAX_VAGUE_VERBS} functions have a vague verb in their names")


def test_no_two_classes_have_one_name() -> None:
    """A search for a class leads to one place. Kafka names the structs of the wire, which are left out: a record and a
    request may have one name there."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sources(*ROOMS):
        if not name_of(path).startswith("protocol/schemas/"):
            for each in outline(path).classes:
                homes[each.name].append(at(path, each.line))
    doubled = {name: places for name, places in homes.items() if len(places) > 1}
    offences = [f"{' '.join(places)} {name}" for name, places in doubled.items() if name not in DOUBLED_CLASS_NAMES]
    offences += [f"{name}: is on the list, but has one home" for name in DOUBLED_CLASS_NAMES - set(doubled)]
    fail_for(offences, "a class of the product has a name of its own, or a home that both users share")


def test_what_is_reserved_for_a_few_is_touched_by_nobody_else() -> None:
    fail_for((each for reserved in RESERVED for each in _trespasses(reserved)), "everything has its owners")


def _trespasses(reserved: Reserved) -> Iterator[str]:
    for path in sources(*ROOMS):
        if name_of(path).startswith(reserved.owners):
            continue
        for each in outline(path).imports:
            if re.fullmatch(reserved.imported, each.module):
                yield f"{at(path, each.line)} imports {each.module}: {reserved.rule}"
        for call in outline(path).calls:
            if re.fullmatch(reserved.called, call.name):
                yield f"{at(path, call.line)} calls {call.name}: {reserved.rule}"


def test_only_the_edge_the_supervisor_and_what_fails_closed_catch_everything() -> None:
    allowed = {
        "network/exchange.py",
        "runtime/background.py",
        "security/authorizer.py",
        "network/sasl/gate.py",
        "lab/http/application.py",  # a request that fails is in the log, and its answer says no more than that
        "lab/clock/quiet.py",  # a timer that a jump calls, as the event loop would
        "lab/faults/armed_rules.py",  # a rule that fails harms no request, and fails its test
    }
    found = [
        f"{at(path, handler.line)} catches {handler.kind or 'everything'}"
        for path in sources(*ROOMS)
        if name_of(path) not in allowed
        for handler in outline(path).handlers
        if not handler.raises_again
        if handler.kind is None or re.search(r"\b(Exception|BaseException)\b", handler.kind)
    ]
    fail_for(found, "only the edge, the supervisor and what fails closed catch everything")


def test_imports_name_what_is_installed_and_lead_to_a_source() -> None:
    """Rooms are imported as `eosin.storage`, never as `storage`; what is imported so exists in this checkout."""
    offences = []
    for path in sources():
        for each in outline(path).imports:
            if each.module.partition(".")[0] in ROOMS:
                offences.append(f"{at(path, each.line)} imports {each.module}: say eosin.{each.module}")
            elif each.module.startswith("eosin.") and not _leads_to_a_source(each.module):
                offences.append(f"{at(path, each.line)} imports {each.module}: there is no such source")
    fail_for(offences, "rooms are imported by their installed name, and what is imported exists")


@cache
def _leads_to_a_source(module: str) -> bool:
    place = ROOT.joinpath(*module.split(".")[1:])
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def test_the_handlers_are_the_registered_ones_and_nothing_else() -> None:
    from eosin.broker.handlers.registry import APIS

    registered = {(api.handle or api.respond).__module__ for api in APIS}
    names = {path.stem for path in sources("broker/handlers")} - {"__init__", "registry"}
    files = {f"eosin.broker.handlers.{name}" for name in names}
    fail_for(
        differences(files, registered, missing="is registered, but no handler", surplus="is not registered"),
        "the handlers are the registered ones",
    )


def test_a_handler_is_a_coroutine_if_and_only_if_it_waits() -> None:
    offences = []
    for path in sources("broker/handlers"):
        for function in outline(path).functions:
            if function.is_outermost and function.name in ("handle", "respond"):
                waits = any(function.line <= line <= function.end for line in outline(path).awaits)
                if (function.is_async, function.name) != ((True, "handle") if waits else (False, "respond")):
                    offences.append(f"{at(path, function.line)} {function.name} {'waits' if waits else 'never waits'}")
    fail_for(offences, "a handler that waits is `async def handle`, one that never waits `def respond`")


def test_the_map_of_test_support_has_a_line_for_every_module() -> None:
    support = ROOT / "tests" / "support"
    readme = text_of(support / "README.md")
    lines = re.findall(r"^\| `([\w/.]+)` \|(.+)\|(.+)\|$", readme, re.MULTILINE)
    modules = {path.relative_to(support).as_posix() for path in sources("tests/support") if path.name != "__init__.py"}
    names = [name for name, _, _ in lines]
    offences = [
        *differences(names, modules | {"java/"}, missing="has no line", surplus="has a line, but is not there"),
        *(f"{name} has {names.count(name)} lines" for name in sorted(set(names)) if names.count(name) > 1),
        *(f"{name} lacks its purpose or its users" for name, *cells in lines if not all(map(str.strip, cells))),
    ]
    fail_for(offences, "tests/support/README.md has a line for every module")


def test_no_property_is_broken_by_a_slow_machine_or_by_chance() -> None:
    """Nobody draws at random but runs with `--times` (`proof/properties.py`), and codecs by the thousand."""
    ours = hypothesis.settings()
    assert ours.deadline is None
    assert ours.derandomize
    assert hypothesis.HealthCheck.too_slow in ours.suppress_health_check
    lifted = re.compile(r"derandomize=False|\bload_profile\(|use_true_random=True|^@seed\(", re.MULTILINE)
    found = {name_of(path) for path in sources("tests") if lifted.search(text_of(path))}
    assert found == {"tests/protocol/conftest.py", "tests/support/proof/properties.py", name_of(Path(__file__))}


def test_the_text_speaks_of_eosin_alone() -> None:
    """Nobody who reads the code can do anything with where or how it was written."""
    # Put together here, so that this file does not hold them.
    banned = re.compile(
        "|".join(("/wo" + "rk/", r"\.\./sha" + "red", "contra" + r"cts\.md", "chat" + "gpt", "cla" + "ude"))
    )
    found = [
        f"{at(path, line_of(text, match.start()))} {match[0]}"
        for path in _texts()
        for text in (text_of(path).lower(),)
        for match in banned.finditer(text)
    ]
    fail_for(found, "the text speaks of Eosin alone")


def test_every_citation_of_the_specification_leads_to_a_section() -> None:
    pages = {path.stem: path for path in (ROOT / "docs" / "spec").glob("*.md")}
    sections = {name: sections_of(text_of(path)) for name, path in pages.items()}
    documents = {path.name for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    wrong = [
        f"{at(path, line)} {text}: {problem}"
        for path in _texts()
        for line, text, problem in wrong_citations(
            text_of(path),
            sections=sections,
            documents=documents,
            page=path.stem if path in pages.values() else "",
        )
    ]
    fail_for(wrong, "every citation of the specification leads to a section")


def _texts() -> Iterator[Path]:
    folders = (*ROOMS, "tests", "docs", "docker", "bench", ".ci")
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".txt", ".yaml", ".yml", ".toml", ".sh", "") and path.is_file():
                yield path
    yield from (path for path in sorted(ROOT.glob("*.md")))
    yield from (ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "setup.py")
