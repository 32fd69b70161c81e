"""Which addresses a program in another language would contact: known only where the whole of it is plain."""

import ast
import re
from collections.abc import Iterator

from tools.shell_guard.code import MAX_CHARS
from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.names import names
from tools.shell_guard.wrappers import InlineCode

_REACHING_MODULES = names(
    "urllib urllib2 urllib3 requests httpx http aiohttp socket socketserver ssl smtplib ftplib telnetlib poplib "
    "imaplib nntplib xmlrpc websockets websocket paramiko fabric boto3 botocore webbrowser pycurl httplib httplib2 "
    "dns scapy twisted tornado trio anyio grpc zmq pika redis pymongo psycopg psycopg2 pymysql sqlalchemy openai "
    "anthropic slack_sdk telegram discord tweepy github git wget pip huggingface_hub datasets google azure"
)
_HARMLESS_MODULES = names("urllib.parse urllib.error http.HTTPStatus")
# With these, code can do what its text does not say.
_HIDING_MODULES = names("importlib runpy ctypes cffi pickle marshal code codeop builtins pty imp multiprocessing")
_HIDING_NAMES = names("eval exec compile __import__ getattr globals locals vars __builtins__ __loader__ breakpoint")
_FETCHING = names("get post put patch delete head options request urlopen urlretrieve")
_SENDING = names("post put patch delete request")
_STARTING = names("system popen run call Popen check_call check_output getoutput getstatusoutput")
_STARTERS = frozenset({"os", "subprocess"})
_STARTS = re.compile(r"(?:exec|spawn|posix_spawn|fork)\w*|startfile")
_CONNECTING = names("open_connection create_connection create_datagram_endpoint start_server create_server getaddrinfo")

_NETWORK = re.compile(
    r"""\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|axios|got|superagent|undici|dgram|sendBeacon|
    https?\.(?:get|request)|TcpStream|UdpSocket|reqwest|hyper|ureq|std::net|net/\w+|net\.Dial\w*|http\.(?:Get|Post)\w*|
    \w*URLConnection|openStream|net\.(?:connect|createConnection|Socket)|
    Net::\w+|open-uri|OpenURI|URI\.open|TCPSocket|UDPSocket|Socket|Faraday|HTTParty|RestClient|Mechanize|Excon|
    LWP|HTTP::\w+|WWW::\w+|IO::Socket\w*|Mojo::UserAgent|socket|connect|sockaddr_in|
    curl_\w+|fsockopen|pfsockopen|stream_socket_client|stream_context_create|SoapClient|GuzzleHttp|mail|ftp_\w+|
    download\.file|httr|url|readLines|Downloads|HTTP|Invoke-WebRequest|Invoke-RestMethod|iwr|irm|WebClient|HttpClient|
    Start-BitsTransfer|Send-MailMessage|Test-NetConnection|Deno\.connect|Bun\.connect|gethostbyname|getaddrinfo|
    resolve4?|lookup)\b|\b(?:https?|http2|net|tls|dns)['"]|(?:https?|ftp|wss?):/""",
    re.VERBOSE,
)
_HIDING = re.compile(
    r"""\b(?:eval|Function|atob|fromCharCode|unpack|pack|decode64|base64_decode|instance_eval|class_eval|public_send|
    __send__|const_get|create_function|assert|iex|Invoke-Expression|loadstring|child_process|process\.binding|mainModule|
    system|exec\w*|spawn\w*|popen\w*|shell_exec|passthru|proc_open|qx|doShellScript|do\s+shell\s+script)\b|`[^`$]*`\s*$|
    %x|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}""",
    re.VERBOSE,
)
_PLAIN_FETCH = re.compile(
    r"""\b(?:fetch|file_get_contents|URI\.open|Net::HTTP\.get\s*\(\s*URI|(?:LWP::Simple::)?get|https?\.get|axios\.get|
    HTTP::Tiny->new->get|Invoke-WebRequest|Invoke-RestMethod|iwr|irm)\s*\(?\s*(['"])((?:https?|ftp)://[^'"$#{}\\\s]+)\1\s*\)""",
    re.VERBOSE,
)


def addresses_in(code: InlineCode) -> Iterator[tuple[str, bool]]:
    """Each address that it contacts, empty when that cannot be known, and whether it sends something there."""
    if UNKNOWN in code.text or len(code.text) > MAX_CHARS:
        yield "", False
    elif code.language == "python":
        yield from _in_python(code.text)
    else:
        plain = [(url, False) for _, url in _PLAIN_FETCH.findall(code.text)]
        rest = _PLAIN_FETCH.sub(" ", code.text)
        yield from plain
        if _NETWORK.search(rest) or _HIDING.search(rest):
            yield "", bool(re.search(r"(?i)\b(?:post|put|mail|send\w*)\b", rest))


def _in_python(text: str) -> Iterator[tuple[str, bool]]:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield "", False
        return
    fetching = frozenset(_bound_names(nodes))
    understood: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and (url := _fetched(node, fetching)):
            understood |= set(ast.walk(node.func))
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            yield url, name in _SENDING or bool(node.keywords or node.args[1:])
    # A module that is not followed by a dot may be given another name.
    understood |= {
        node.value
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _STARTERS
    }
    if any(_reaches(node, fetching) for node in nodes if node not in understood):
        yield "", False


def _bound_names(nodes: list[ast.AST]) -> Iterator[str]:
    """The names under which what reaches out is known in the program."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_reaching(alias.name):
                    yield (alias.asname or alias.name).partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and _is_reaching(node.module or ""):
            module = node.module or ""
            yield from (alias.asname or alias.name for alias in node.names if _is_reaching(f"{module}.{alias.name}"))


def _is_reaching(module: str) -> bool:
    is_harmless = any(module == known or module.startswith(f"{known}.") for known in _HARMLESS_MODULES)
    return module.partition(".")[0] in _REACHING_MODULES and not is_harmless


def _fetched(call: ast.Call, fetching: frozenset[str]) -> str:
    """The address of a call that is given it as it stands."""
    match call.func:
        case ast.Attribute(attr=name) if name in _FETCHING and _root(call.func) in fetching:
            pass
        case ast.Name(id="urlopen" | "urlretrieve" as name) if name in fetching:
            pass
        case _:
            return ""
    words = call.args[1:] if name == "request" else call.args
    match words[:1]:
        case [ast.Constant(value=str(url))] if re.match(r"[a-z]+://", url):
            return url
    return ""


def _root(node: ast.expr) -> str:
    """Of `a.b.c` the first name, if there is nothing but names in it."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _reaches(node: ast.AST, fetching: frozenset[str]) -> bool:
    match node:
        case ast.Import(names=imported):
            tops = {alias.name.partition(".")[0] for alias in imported}
            return bool(tops & _HIDING_MODULES) or any(alias.asname and alias.name in _STARTERS for alias in imported)
        case ast.ImportFrom(module=module, names=imported):
            top, taken = (module or "").partition(".")[0], {alias.name for alias in imported}
            starts = top in _STARTERS and any(name in _STARTING or _STARTS.fullmatch(name) for name in taken)
            return top in _HIDING_MODULES or "*" in taken or starts
        case ast.Name(id=name):
            return name in fetching or name in _HIDING_NAMES or name in _STARTERS
        case ast.Attribute(attr=name) if name in _CONNECTING or (_root(node) == "os" and _STARTS.fullmatch(name)):
            return True
        case ast.Attribute(attr=name) if name.startswith("__"):
            return name not in ("__name__", "__file__", "__doc__", "__version__")
        case ast.Attribute(attr="modules" | "_os" | "os" | "subprocess" | "import_module"):
            return True
        case ast.Call(func=ast.Attribute(attr=name) as called, args=words) if name in _STARTING:
            return _root(called) in _STARTERS and not _is_written_out(words)
        case _:
            return False


def _is_written_out(words: list[ast.expr]) -> bool:
    """A command that is followed as such, word by word."""
    match words[:1]:
        case [ast.Constant(value=str())]:
            return True
        case [ast.List(elts=items) | ast.Tuple(elts=items)]:
            return bool(items)
    return False
