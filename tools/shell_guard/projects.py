"""Programs that load a project's own files, such as its tests: what was written there meanwhile is run by them.

Which of the files they load is not known here, so all that fit count.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, ask
from tools.shell_guard.names import names
from tools.shell_guard.wrappers import ScriptFile

_ENDINGS = {
    "python": (".py", ".pyi", ".pth"),
    "node": (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"),
    "ruby": (".rb", "/Rakefile", "/Gemfile", ".gemspec"),
    "rust": (".rs",),
    "go": (".go",),
    "java": (".java", ".kt", ".kts", ".groovy", ".gradle", ".scala"),
    "c": (".c", ".h", ".cc", ".cpp", ".hpp", ".s"),
    "php": (".php",),
    "npm": ("/package.json",),
    "make": (".mk",),
}
_LOADERS = {
    "python": names(
        "pytest py.test tox nox unittest nose2 mypy pylint sphinx-build coverage hatch flask gunicorn uvicorn celery "
        "alembic django-admin ipython jupyter build"
    ),
    "node": names(
        "npm npx pnpm yarn bun deno jest vitest mocha ava eslint prettier webpack vite rollup next tsx ts-node"
    ),
    "npm": names("npm pnpm yarn bun"),
    "ruby": names("rspec rake bundle rails"),
    "rust": names("cargo"),
    "go": names("go"),
    "java": names("mvn mvnw gradle gradlew ant sbt"),
    "php": names("phpunit composer"),
}
_INSTALLERS = names("pip pip3 uv poetry pdm pipx")
_EVERYTHING = names("make gmake just ninja cmake ctest meson bazel pre-commit act invoke task")
# Files with commands in a form that is not read here.
_UNREAD = {
    "tox": names("tox.ini setup.cfg pyproject.toml"),
    "nox": names("noxfile.py"),
    "invoke": names("tasks.py"),
    "pre-commit": names(".pre-commit-config.yaml"),
    "composer": names("composer.json"),
    **dict.fromkeys(("mvn", "mvnw", "ant"), names("pom.xml build.xml")),
    **dict.fromkeys(("just", "task"), names("justfile Justfile .justfile Taskfile.yml Taskfile.yaml")),
    **dict.fromkeys(("cmake", "ctest", "ninja", "meson"), names("CMakeLists.txt build.ninja meson.build")),
    **dict.fromkeys(
        ("docker", "podman", "docker-compose"),
        names("Dockerfile Containerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml"),
    ),
}


def loaded(argv: Sequence[str], written: Iterable[str]) -> Iterator[ScriptFile | CommandRisk]:
    """Yield the files written before that a command may run."""
    program = _program(argv)
    languages, unread = _languages(program), _UNREAD.get(program, frozenset())
    for path in written if languages or unread else ():
        name = posixpath.basename(path)
        if name in unread:
            yield ask("unread-code", f"it goes by {name}, which was written meanwhile")
        yield from (ScriptFile(one, path, is_project=True) for one in languages if f"/{path}".endswith(_ENDINGS[one]))


def endings_loaded(argv: Sequence[str]) -> Iterator[str]:
    """Of the files that it may run; none for a program that loads no project."""
    program = _program(argv)
    for language in _languages(program):
        yield from _ENDINGS[language]
    yield from (f"/{name}" for name in _UNREAD.get(program, ()))


def scripts_of(package: str) -> str:
    """The commands of a package.json, all of them: which one is wanted does not matter here."""
    try:
        scripts = json.loads(package).get("scripts") or {}
        return "\n".join(str(command) for command in scripts.values())
    except (ValueError, AttributeError, RecursionError):
        return UNKNOWN


def _program(argv: Sequence[str]) -> str:
    """`python -m pytest` is pytest, and any other module but an installer may load what lies beside it like that."""
    name, rest = posixpath.basename(argv[0]), list(argv[1:])
    if re.fullmatch(r"(?:python|pypy)[\d.]*w?", name) and "-m" in rest[:-1]:
        at = rest.index("-m") + 1
        name, rest = rest[at], rest[at + 1 :]
        name = name if name in _LOADERS["python"] | _INSTALLERS else "pytest"
    if name in _INSTALLERS:  # of the project itself they run what builds it
        return "build" if any(word.startswith((".", "-e", "--editable")) for word in rest) else ""
    return name


def _languages(program: str) -> list[str]:
    return [one for one in _ENDINGS if program in _EVERYTHING or program in _LOADERS.get(one, ())]
