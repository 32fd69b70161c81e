"""Programs in other languages: Python is parsed, the others are searched for what runs, deletes or sends."""

import ast
import re
import sys
from collections.abc import Iterator

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, ask
from tools.shell_guard.names import names
from tools.shell_guard.wrappers import Argv, InlineCode, Origin, ShellText

MAX_CHARS = 20_000

# Of Python's own modules these can look up, count and print, and no more.
_HARMLESS_MODULES = names(
    "__future__ argparse array ast base64 binascii bisect calendar collections colorsys copy csv dataclasses "
    "datetime decimal difflib email enum errno fractions functools glob hashlib heapq html importlib.metadata "
    "importlib.util io ipaddress itertools json keyword locale logging math mimetypes numbers os os.path pathlib "
    "platform pprint random re secrets site sqlite3 ssl statistics string struct subprocess sys sysconfig "
    "textwrap time tokenize tomllib traceback typing unicodedata unittest urllib.parse uuid warnings zlib "
    "zoneinfo"
)
_DANGEROUS_PACKAGES = names(
    "aiofiles aiohttp boto3 cffi cloudpickle dill fabric fsspec git httpx invoke joblib paramiko pexpect pip "
    "plumbum psutil psycopg psycopg2 pymysql requests send2trash setuptools sh sqlalchemy urllib3 websockets"
)
_HARMLESS_OF_OS = names(
    "path getcwd listdir walk environ getenv sep linesep name cpu_count getpid stat scandir uname "
    "get_terminal_size getuid getloadavg access R_OK W_OK X_OK F_OK fspath pathsep curdir"
)
_DANGEROUS_NAMES = names(
    "eval exec compile __import__ globals locals vars breakpoint setattr getattr delattr __builtins__ __loader__"
)
_DANGEROUS_METHODS = names(
    "unlink rmdir rmtree rename write_text write_bytes chmod touch symlink_to hardlink_to system popen eval exec "
    "lchmod import_module modules tofile to_csv to_sql to_pickle to_json to_parquet methodcaller attrgetter "
    "FileIO FileHandler FileType "
    "load_extension executescript exec_module load_module find_spec module_from_spec spec_from_file_location"
)
_KNOWN_DUNDERS = frozenset({"__version__", "__file__", "__name__", "__doc__", "__all__", "__path__"})
_RUNNERS = frozenset({"os", "subprocess", "builtins"})
_RUNS = frozenset({"run", "call", "Popen", "check_call", "check_output", "getoutput", "getstatusoutput"})
_HARMLESS_KEYWORDS = names(
    "shell check capture_output text timeout cwd stdout stderr encoding errors universal_newlines bufsize close_fds "
    "start_new_session"
)
_ELSEWHERE = re.compile(
    r"""\b(?:system|exec\w*|spawn\w*|popen\w*|fork|unlink\w*|rmdir\w*|rmtree|rmSync|rm_rf?|rm|remove_tree|FileUtils|child_process|
    execSync|eval|instance_eval|Function|qx|syscall|shell_exec|passthru|proc_open|assert|create_function|pack|unpack|
    decode64|base64_decode|atob|fromCharCode|IO\.popen|os\.execute|os\.remove|io\.popen|doShellScript|do\s+shell\s+script|
    writeFile\w*|appendFile\w*|file_put_contents|fwrite|truncate|chmod|chown|rename|symlink|File\.(?:write|delete|open)|
    open|fopen|require|load|send|public_send|socket|TCPSocket|fetch|kill|Deno|Bun|process\.binding|mainModule|
    Invoke-Expression|iex|Remove-Item|exec)\b|`|%x|\$\{?\^|\\x[0-9a-fA-F]{2}""",
    re.VERBOSE,
)
_HARMLESS_REQUIRES = re.compile(
    r"""\brequire\s*\(?\s*['"](?:\./)?(?:node:)?(?:[\w./-]*package\.json|path|os|util|url|crypto|assert|json|set|date|time|pp|yaml|
    [\w./-]+\.json)['"]\s*\)?""",
    re.VERBOSE,
)
_WHY = "its {language} code can run, change or send something"
# Of a whole file only what is plainly harmful counts: almost any program could change something.
_HARMFUL_NAMES = names("eval exec __import__ __builtins__ __loader__")
_HARMFUL_METHODS = names("rmtree unlink rmdir removedirs system popen killpg send2trash spawnl spawnv posix_spawn")
_HARMFUL_OF_OS = re.compile(r"remove|kill|truncate|chmod|chown|fork\w*|exec\w+|spawn\w+|posix_spawn\w*")
_HARMFUL_ELSEWHERE = re.compile(
    r"""\b(?:system|exec\w*|spawn\w*|popen\w*|unlink\w*|rmdir\w*|rmtree|rmSync|rm_rf?|remove_tree|FileUtils|child_process|
    eval|instance_eval|qx|syscall|shell_exec|passthru|proc_open|os\.execute|os\.remove|File\.delete|Command::new|remove_dir_all|
    remove_file|RemoveAll|ProcessBuilder|getRuntime|Remove-Item|Invoke-Expression|iex)\b|%x""",
    re.VERBOSE,
)
_WHY_FILE = "its {language} code deletes something or runs other programs"


def inspect_code(code: InlineCode) -> Iterator[CommandRisk | Argv | ShellText]:
    """Reasons to ask, and the commands that the code would run where they are written out."""
    name = {"sh": "shell", "node": "JavaScript", "python": "Python", "perl": "Perl", "php": "PHP"}.get(
        code.language, code.language.capitalize()
    )
    if UNKNOWN in code.text:
        yield ask("run-time-code", f"part of its {name} code is decided when it runs")
    elif len(code.text) > MAX_CHARS:
        yield ask("unreadable", f"its {name} code is too long to be read")
    elif code.language == "python":
        yield from _python(code.text, code.origin)
    elif code.origin != "command":
        if code.origin == "file" and _HARMFUL_ELSEWHERE.search(code.text):
            yield ask("interpreter-code", _WHY_FILE.format(language=name))
    elif _ELSEWHERE.search(_HARMLESS_REQUIRES.sub("", code.text)):
        yield ask("interpreter-code", _WHY.format(language=name))


_IMPORTS = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+([\w., \t]+)|;[ \t]*(?:import|from)[ \t]+([\w., \t]+)", re.MULTILINE
)
_LOADS = re.compile(
    r"""\b(?:require|require_relative|import|load|include|use|source|dofile)(?:_once)?\b[^'"\n;]{0,200}['"]([^'"\n]+)['"]|
    \bfrom\s*['"]([^'"\n]+)['"]|^[ \t]*use[ \t]+([\w:]+)""",
    re.VERBOSE | re.MULTILINE,
)


def modules_of(code: InlineCode) -> Iterator[str]:
    """Yield the files beside it that a program may load, as paths without their endings."""
    text = code.text[:MAX_CHARS]
    if code.language == "python":
        for found in _IMPORTS.findall(text):
            yield from (name.strip(".") for name in re.split(r"[\s,;]+|\bimport\b|\bas\b", "".join(found)))
    else:
        for name in filter(None, (part for found in _LOADS.findall(text) for part in found)):
            yield re.sub(r"\.\w+$", "", re.sub(r"^(?:\.{0,2}/)+", "", name.replace("::", "/")))


def _python(text: str, origin: Origin) -> Iterator[CommandRisk | Argv | ShellText]:
    try:
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield ask("unreadable", "its Python code cannot be read")
        return
    understood: set[ast.AST] = {
        node.value for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and (inner := _started(node)):
            understood.add(node.func)
            yield inner
    rest = [node for node in nodes if node not in understood]
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    renamed = any(isinstance(node, ast.Name) and node.id == "open" and node not in called for node in nodes)
    if origin == "command" and (renamed or any(map(_is_risky, rest))):
        yield ask("interpreter-code", _WHY.format(language="Python"))
    elif origin == "file" and any(map(_is_harmful, rest)):
        yield ask("interpreter-code", _WHY_FILE.format(language="Python"))


def _started(call: ast.Call) -> Argv | ShellText | None:
    """The command that a call starts, when it is written out."""
    if not (isinstance(call.func, ast.Attribute) and call.args):
        return None
    if not {keyword.arg for keyword in call.keywords} <= _HARMLESS_KEYWORDS:
        return None
    match call.args[0]:
        case ast.Constant(value=str(text)) if call.func.attr in _RUNS | {"system", "popen"}:
            return ShellText(text)
        case ast.List(elts=items) | ast.Tuple(elts=items) if call.func.attr in _RUNS:
            words = [item.value if isinstance(item, ast.Constant) else None for item in items]
            known = tuple(word if isinstance(word, str) else UNKNOWN for word in words)
            return Argv(known) if known else None
    return None


def _is_risky(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(not _may_import(alias.name) or (alias.asname and alias.name in _RUNNERS) for alias in names)
        case ast.ImportFrom(module=module, names=names):
            imported = {alias.name for alias in names}
            return (
                not _may_import(module or ".")
                or "*" in imported
                or (module in _RUNNERS and bool(imported - _HARMLESS_OF_OS))
            )
        case ast.Name(id=name):  # a module by itself may be given another name
            return name in _DANGEROUS_NAMES | _RUNNERS
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name not in _HARMLESS_OF_OS
        case ast.Attribute(value=ast.Name(id="subprocess"), attr=name):
            return name not in {"PIPE", "DEVNULL", "STDOUT", "CalledProcessError"}
        case ast.Attribute(attr=name):
            is_private = name.startswith("_") and name not in _KNOWN_DUNDERS
            return is_private or name in _DANGEROUS_METHODS | _RUNNERS
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open")):
            return _opens_to_write(node)
        case _:
            return False


def _is_harmful(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.asname and alias.name in _RUNNERS for alias in names)
        case ast.ImportFrom(module=module, names=names) if module in _RUNNERS | {"shutil"}:
            return any(alias.name in _HARMFUL_METHODS | _RUNS | {"*", "remove"} for alias in names)
        case ast.Name(id=name):
            return name in _HARMFUL_NAMES
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in _HARMFUL_METHODS or _HARMFUL_OF_OS.fullmatch(name) is not None
        case ast.Attribute(value=ast.Name(id="subprocess"), attr=name):
            return name in _RUNS  # with a command that is not written out
        case ast.Attribute(attr=name):
            return name in _HARMFUL_METHODS
        case _:
            return False


def _may_import(module: str) -> bool:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or not top:
        return module in _HARMLESS_MODULES
    return top not in _DANGEROUS_PACKAGES


def _opens_to_write(call: ast.Call) -> bool:
    is_method = isinstance(call.func, ast.Attribute)
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] + call.args[0 if is_method else 1 :][
        :1
    ]
    is_hidden = any(isinstance(word, ast.Starred) for word in call.args) or any(
        one.arg is None for one in call.keywords
    )
    return is_hidden or any(
        not (isinstance(mode, ast.Constant) and str(mode.value) in ("r", "rb", "rt")) for mode in modes
    )
