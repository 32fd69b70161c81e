"""Programs that reach out, and how the words of each name whom they contact."""

import re
from collections.abc import Iterator
from itertools import pairwise

from tools.shell_guard.addresses import HostAddress, address_of, copied, has_scheme, is_local, known_host
from tools.shell_guard.contacts import Contact, Reader, contact, unknown
from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import Run
from tools.shell_guard.names import names
from tools.shell_guard.options import Options, read, read_around_first
from tools.shell_guard.reaching_services import SERVICES
from tools.shell_guard.wrappers import SSH_OPTIONS

_CURL = (
    "-A -b -c -C -d -D -e -E -F -H -K -m -o -P -Q -r -t -T -u -U -w -x -X -y -Y -z --user-agent --cookie --cookie-jar "
    "--continue-at --data --data-ascii --data-binary --data-raw --data-urlencode --json --url-query --dump-header "
    "--referer --cert --form --form-string --header --proxy-header --config --max-time --output --output-dir "
    "--ftp-port --quote --range --upload-file --user --proxy-user --write-out --proxy --preproxy --request --url "
    "--speed-time --speed-limit --time-cond --connect-timeout --retry --retry-delay --retry-max-time --cacert --capath "
    "--key --cert-type --key-type --ciphers --interface --limit-rate --max-redirs --max-filesize --noproxy --resolve "
    "--connect-to --doh-url --socks4 --socks4a --socks5 --socks5-hostname --unix-socket --dns-servers --mail-from "
    "--mail-rcpt --oauth2-bearer --aws-sigv4 --local-port --keepalive-time --tls-max --proto --proto-default "
    "--pinnedpubkey --stderr --trace --trace-ascii --netrc-file --rate --variable --expand-url --hostpubmd5 --pass "
    "--engine --abstract-unix-socket"
)
_CURL_SENDS = re.compile(r"-[dFT]|--(?:data.*|json|form.*|upload-file|mail-.*)")
# What asks for a form of the answer, and tells nothing else.
_HARMLESS = re.compile(
    r"(?i)(?:accept(?:-language|-encoding)?|content-type|cache-control|range):[ \w/*+.,;=-]{0,60}|GET|HEAD|OPTIONS"
)
_CURL_ADDS = re.compile(
    r"-[AbeHQuUXE]|--(?:user-agent|cookie|referer|header|proxy-header|quote|user|proxy-user|url-query|request|oauth2-bearer|"
    r"aws-sigv4|cert|variable|expand-.*)"
)
_CURL_VIA = ("-x", "--proxy", "--preproxy", "--socks4", "--socks4a", "--socks5", "--socks5-hostname", "--doh-url")
_CURL_FLAGS = names(
    "--silent --show-error --location --fail --fail-with-body --compressed --insecure --head --verbose --include --get "
    "--ipv4 --ipv6 --http1.0 --http1.1 --http2 --http3 --progress-bar --no-progress-meter --remote-name --globoff "
    "--remote-name-all --remote-header-name --create-dirs --next --no-buffer --parallel --tlsv1.2 --tlsv1.3 --ssl-reqd "
    "--retry-connrefused --retry-all-errors --remove-on-error --path-as-is --help --version --manual --disable --netrc"
)
_CHANGING = names("POST PUT PATCH DELETE")
_WGET = (
    "-O -o -a -P -U -t -T -w -Q -e -i -B -A -R -D -I -X -l --output-document --output-file --append-output "
    "--directory-prefix --user-agent --tries --timeout --wait --execute --input-file --base --header --post-data "
    "--post-file --body-data --body-file --method --user --password --referer --limit-rate --level --accept --reject "
    "--domains --load-cookies --save-cookies --http-user --http-password --ca-certificate --certificate --private-key"
)
_GIT_BEFORE = "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix"
_GIT_VALUES = (
    "-b -o -c --depth --reference -j --filter --template --branch --origin --config --repo -u --jobs --upload-pack"
)
_LOADS = re.compile(
    r"-[Mm]['\"]?(?:LWP|HTTP|IO::Socket|Net|WWW|Mojo|Socket)|-r(?:net/|open-uri|socket|faraday|httparty|resolv)"
)
_PING = "-c -i -I -W -w -s -t -p -Q -S -l -m -M -T -F"
_ASKING = {
    **dict.fromkeys(("ping", "ping6"), _PING),
    **dict.fromkeys(("dig", "kdig", "delv"), "-b -c -f -k -p -q -t -x -y"),
    "host": "-c -N -R -t -W -m -p",
    **dict.fromkeys(("traceroute", "traceroute6"), "-f -m -p -q -w -i -s -t -g -N -z -l -M -O"),
    "mtr": "-c -i -s -m -a -f -P -L -B -Q -y -F",
    "whois": "-h -p -T -i -s -t -v -q",
    "nmap": "-p -e -S -g -D --script -T --source-port --exclude",
    "ssh-keyscan": "-p -T -t -f",
}
_DIGGING = names("dig kdig delv")
_FROM_FILES = names("dig kdig delv nmap fping mtr ssh-keyscan")
_DNS_TYPES = names("a aaaa any axfr caa cname mx naptr ns ptr soa srv txt in ch hs ds dnskey -x")


def _curl(run: Run) -> Iterator[Contact]:
    options = read(run.words, _CURL)
    changes = bool(_CHANGING & {value.upper() for value in options.values("-X", "--request")})
    sends = changes or any(_CURL_SENDS.fullmatch(option) for option, _ in options.given)
    # A long option may be cut short: what is not known may be any of them.
    known = _CURL_FLAGS | names(_CURL)
    sends = sends or any(option.startswith("--") and option not in known for option, _ in options.given)
    adds = any(_CURL_ADDS.fullmatch(option) and not _HARMLESS.fullmatch(value) for option, value in options.given)
    words = (*options.rest, *options.values("--url", "--expand-url"))
    # A name can be sent elsewhere by these, and what is sent with it.
    moved = options.has("--resolve", "--connect-to", "--unix-socket", "--abstract-unix-socket", "--dns-servers")
    for word in words:
        if not word.startswith("file:"):
            yield unknown(word, sends=sends) if moved else contact(word, adds=adds, sends=sends)
    if options.has("-K", "--config"):
        yield unknown(sends=sends)
    if words:
        yield from (contact(value, carries=True) for value in options.values(*_CURL_VIA))


def _wget(run: Run) -> Iterator[Contact]:
    options = read(run.words, _WGET)
    sends = any(re.match(r"--(?:post|body|meth)", option) for option, _ in options.given)
    adds = any(
        re.match(r"-U|--(?:head|user|pass|http-|refer|load-c|cert|priv)", option) and not _HARMLESS.fullmatch(value)
        for option, value in options.given
    )
    for word in options.rest:
        yield contact(word, adds=adds, sends=sends)
    if any(re.match(r"-[ieB]$|--(?:inp|exec|conf|base|use-askpass)", option) for option, _ in options.given):
        yield unknown(sends=sends)


def _httpie(run: Run) -> Iterator[Contact]:
    options = read(
        run.words, "-a --auth -A --auth-type -o --output --session --timeout --proxy --verify --cert --raw -b -p"
    )
    words = list(options.rest)
    method = words.pop(0) if words and re.fullmatch(r"[A-Z]+", words[0]) else ""
    if words:
        items = words[1:] or options.has("--raw") or run.stdin is not None
        sends = method in _CHANGING or any(not re.match(r"[^=:@]+(?:==|:)", item) for item in words[1:])
        address = words[0] if not words[0].startswith(":") else f"localhost{words[0]}"
        yield contact(address, adds=bool(items) or options.has("-a", "--auth", "--session"), sends=sends)
        yield from (contact(value.partition(":")[2], carries=True) for value in options.values("--proxy"))


def _fetches(with_value: str = "") -> Reader:
    """Every word that is no option is an address."""

    def found(run: Run) -> Iterator[Contact]:
        yield from (contact(word) for word in read(run.words, with_value).rest if not is_local(word))

    return found


def _opens(run: Run) -> Iterator[Contact]:
    """Browsers, and what opens anything: a file is none of our business."""
    for word in run.words:
        if has_scheme(word) and not is_local(word):
            yield contact(word)
        elif UNKNOWN in word.partition("/")[0] and not word.startswith("-"):
            yield unknown(word)


def _ssh(run: Run) -> Iterator[Contact]:
    options = read_around_first(run.words, SSH_OPTIONS)
    if not options.rest:
        return
    settings = dict(_settings(options))
    named = settings.get("hostname", options.rest[0])
    tunnels = options.has("-R", "-D", "-L", "-w", "-W")
    carries = tunnels or len(options.rest) > 1 or run.stdin is not None or options.has("-l")
    adds = any(UNKNOWN in word for word in options.rest[1:])
    yield contact(named, carries=carries, sends=run.stdin is not None, adds=adds)
    for jump in (*options.values("-J"), settings.get("proxyjump", "")):
        yield from (contact(one, carries=True) for one in jump.split(",") if one not in ("", "none"))


def _settings(options: Options) -> Iterator[tuple[str, str]]:
    for value in options.values("-o"):
        name, _, rest = value.replace(" ", "=", 1).partition("=")
        yield name.lower(), rest.strip()


def _copy(run: Run) -> Iterator[Contact]:
    taken = "-P -i -o -F -J -S -c -l -e --rsh --exclude --include --filter --log-file --files-from -f -T -B --port"
    options = read(run.words, taken)
    for place, word in enumerate(options.rest):
        is_target = place == len(options.rest) - 1
        if (found := copied(word)) is not None:
            yield _moved(found, word, sends=is_target and len(options.rest) > 1)
        elif run.name in ("sftp", "sshfs", "ssh-copy-id"):
            yield contact(word, carries=True, sends=True)
    for jump in (*options.values("-J"), dict(_settings(options)).get("proxyjump", "")):
        yield from (contact(one, carries=True) for one in jump.split(",") if one)


def _moved(found: HostAddress, word: str, *, sends: bool) -> Contact:
    return Contact(found.host, word, carries=True, sends=sends)


def _netcat(run: Run) -> Iterator[Contact]:
    options = read(
        run.words, "-p -s -w -i -q -x -X -e -c -g -G -I -O -T -V --sh-exec --exec --proxy --source-port --wait"
    )
    if options.has("-h", "--help", "--version"):
        return
    only_looks = options.has("-z") and run.stdin is None
    sends = run.stdin is not None or options.has("-e", "-c", "--exec", "--sh-exec")
    # Whether -c and -e take a word differs from one netcat to the next.
    if options.has("-l", "--listen", "-c", "-e") or not options.rest:
        yield unknown(sends=sends)
    else:
        yield contact(options.rest[0], carries=not only_looks, sends=sends)
    yield from (contact(value, carries=True) for value in options.values("-x", "--proxy"))


def _telnet(run: Run) -> Iterator[Contact]:
    for word in read(run.words, "-l -n -b -e -X").rest[:1]:
        yield contact(word, carries=True, sends=run.stdin is not None)


def _socat(run: Run) -> Iterator[Contact]:
    for word in run.words:
        if found := re.match(r"(?i)(?:tcp|udp|ssl|openssl|sctp|dtls|socks|proxy|ip)[\w-]*:([^:,]*)", word):
            is_listening = "listen" in word.partition(":")[0].lower() or re.match(r"(?i)[\w-]+-l:", word)
            host = "" if is_listening or UNKNOWN in found[1] else known_host(found[1])
            yield Contact(host, word, carries=True, sends=True)
        elif UNKNOWN in word:
            yield unknown(word, sends=True)


def _ftp(run: Run) -> Iterator[Contact]:
    for word in read(run.words, "-u -p -e -c -f -P -N -s").rest[:1] or (("",) if run.words else ()):
        yield contact(word, carries=True, sends=True)


def _asks_names(run: Run) -> Iterator[Contact]:
    words = read(run.words, _ASKING.get(run.name, "")).rest
    asked = [word for word in words if not word.startswith(("+", "@")) and word.lower() not in _DNS_TYPES]
    # A server that is named gets to know the name that is asked for.
    servers = [word[1:] for word in words if word.startswith("@")]
    if run.name in ("nslookup", "host"):
        asked, servers = asked[:1], asked[1:]
    by_option = list(pairwise(run.words))
    if run.name in _DIGGING:
        asked += [word for option, word in by_option if option in ("-x", "-q")]
    if run.name == "whois":
        servers += [word for option, word in by_option if option == "-h"]
    has_pattern = run.name.startswith("ping") and "-p" in run.words
    yield from (contact(word, carries=has_pattern) for word in asked)
    yield from (contact(word, carries=True) for word in servers)
    if any(word.startswith(("-f", "-iL")) for word in run.words) and run.name in _FROM_FILES:
        yield unknown()


def _awk(run: Run) -> Iterator[Contact]:
    yield from (unknown(sends=True) for word in run.words if "/inet" in word)


def _getent(run: Run) -> Iterator[Contact]:
    if run.words[:1] and "hosts" in run.words[0]:
        yield from (contact(word) for word in run.words[1:])


def _openssl(run: Run) -> Iterator[Contact]:
    if run.words[:1] not in (("s_client",), ("s_time",), ("ocsp",)):
        return
    pairs = list(pairwise(run.words))
    carries = run.stdin is not None
    aims = [word for option, word in pairs if option in ("-connect", "-host", "-url", "-proxy")]
    yield from (contact(word, carries=carries, sends=carries) for word in aims)
    if not aims:
        yield unknown()


def _mail(run: Run) -> Iterator[Contact]:
    options = read(run.words, "-s -a -r -c -b -S -A -i -F -f -e -q -H --to --from --server --attach --body --header -t")
    if run.name in ("mail", "mailx") and not run.words:
        return
    people = [*options.rest, *options.values("-c", "-b", "--to")] + (
        options.values("-t") if run.name == "swaks" else []
    )
    for person in people:
        _, at, domain = person.rpartition("@")
        yield Contact(known_host(domain) if at and UNKNOWN not in person else "", person, carries=True, sends=True)
    yield from (contact(server, carries=True, sends=True) for server in options.values("--server"))
    if not people or options.has("-t"):
        yield unknown(sends=True)


def _git(run: Run) -> Iterator[Contact]:
    before = read(run.words, _GIT_BEFORE, stops_at_first=True)
    action, words = (before.rest[0], before.rest[1:]) if before.rest else ("", ())
    options = read(words, _GIT_VALUES)
    # Settings can send an address elsewhere.
    is_moved = any(
        re.match(r"(?i)url\.|http\.|core\.(?:sshcommand|gitproxy)|remote\.|include", value)
        for value in before.values("-c", "--config-env")
    )
    match action:
        case "clone" | "fetch" | "pull" | "ls-remote" | "push":
            aims = options.values("--repo") or list(options.rest[:1])
            sends = action == "push"
            yield from _remotes(aims, sends=sends, is_moved=is_moved or bool(options.values("-c", "--config")))
        case "remote" if words[:1] in (("update",), ("show",), ("prune",)):
            yield unknown(" ".join(words[1:2]))
        case "submodule" if words[:1] == ("add",):
            yield from _remotes(list(options.rest[1:2]), sends=False, is_moved=is_moved)
        case "submodule" if words[:1] == ("update",):
            yield unknown()
        case "archive":
            yield from (
                _remotes(options.values("--remote"), sends=False, is_moved=is_moved) if options.has("--remote") else ()
            )
        case "lfs" | "svn" | "send-email" | "p4" | "imap-send" | "request-pull" | "bundle-uri" | "maintenance":
            yield unknown(action, sends=action in ("send-email", "imap-send") or "push" in words)
        case _ if UNKNOWN in action:
            yield unknown(sends=True)


def _remotes(words: list[str], *, sends: bool, is_moved: bool) -> Iterator[Contact]:
    for word in words:
        if is_local(word):
            continue
        found = None if is_moved or "::" in word else copied(word)
        yield Contact(found.host, word, carries=True, sends=sends) if found else unknown(word, sends=sends)
    if not words:
        yield unknown(sends=sends)


def _image(run: Run) -> Iterator[Contact]:
    """Where images come from and go to: the name before the first stroke, when it is one of a host."""
    words = read(run.words, "-c --context -H --host -l --log-level --config", stops_at_first=True).rest
    match words:
        case ["push" | "pull" | "login" | "logout" | "search" as action, *rest] | [
            "image" | "manifest" | "compose" | "buildx",
            "push" | "pull" as action,
            *rest,
        ]:
            named = read(rest, "-u --username -p --password --platform -f --file --limit").rest
            sends = action in ("push", "login")
            for word in named[:1] or ("",):
                first, stroke, _ = word.partition("/")
                is_host = bool(re.search(r"[.:]|^localhost$", first)) and (
                    bool(stroke) or action in ("login", "logout")
                )
                host = address_of(first).host if is_host else "docker.io" if word and UNKNOWN not in word else ""
                yield Contact(host, word, carries=True, sends=sends)
        case ["build" | "buildx" | "compose", *_]:  # what is fetched on the way is written elsewhere
            yield unknown()


def _database(run: Run) -> Iterator[Contact]:
    options = read(
        run.words, "-h --host -H -u --user -U -p --port -P -d --dbname -D --database -c --command -e -f -n -a --uri"
    )
    aims = [value for value in options.values("-h", "--host", "-H") if value and not is_local(value)]
    aims += [word for word in (*options.rest, *options.values("-d", "--dbname", "-u", "--uri")) if has_scheme(word)]
    for word in aims:
        yield contact(word, carries=True)


def _keys(run: Run) -> Iterator[Contact]:
    options = read(run.words, "--keyserver --recv-keys --send-keys --search-keys --homedir")
    if options.has(
        "--recv-keys", "--recv-key", "--send-keys", "--search-keys", "--refresh-keys", "--locate-keys", "--fetch-keys"
    ):
        aims = options.values("--keyserver")
        sends = options.has("--send-keys")
        yield from (contact(aim, carries=True, sends=sends) for aim in aims) if aims else (unknown(sends=sends),)


def _python(run: Run) -> Iterator[Contact]:
    """`python -m pip` is pip, and a module may listen."""
    options = read(run.words, "-c -m -W -X -Q", stops_at_first=True)
    for module in options.values("-m"):
        if module in ("http.server", "smtpd", "SimpleHTTPServer") or UNKNOWN in module:
            yield unknown(module)
        elif (inner := PROGRAMS.get(module)) and module not in ("python", "python3"):
            yield from inner(Run(name=module, words=options.rest, stdin=run.stdin, folder=run.folder, home=run.home))
    if options.rest and not options.has("-c"):
        yield from (contact(word, carries=True) for word in options.rest[1:] if has_scheme(word) and not is_local(word))


def _with_words(run: Run) -> Iterator[Contact]:
    """Code is looked at as such; an address that it is given counts too, and what it loads by an option."""
    if any(map(_LOADS.match, (*run.words, *map("".join, pairwise(run.words))))):
        yield unknown()
    yield from (contact(word, carries=True) for word in run.words if has_scheme(word) and not re.search(r"\s|\(", word))


PROGRAMS: dict[str, Reader] = {
    "curl": _curl,
    "curlie": _curl,
    "wget": _wget,
    "wget2": _wget,
    **dict.fromkeys(names("http https xh xhs httpie"), _httpie),
    **dict.fromkeys(
        names("aria2c axel lynx w3m links elinks yt-dlp youtube-dl ab wrk hey siege websocat wscat grpcurl"),
        _fetches("-o -O -d -x -s -n -c -t -H -p -T --output -P -f --format"),
    ),
    **dict.fromkeys(
        names("xdg-open open sensible-browser firefox chromium chromium-browser google-chrome google-chrome-stable"),
        _opens,
    ),
    **dict.fromkeys(names("ssh slogin autossh mosh"), _ssh),
    **dict.fromkeys(names("scp rsync sftp sshfs ssh-copy-id rcp"), _copy),
    **dict.fromkeys(names("nc ncat netcat nc.openbsd nc.traditional"), _netcat),
    "telnet": _telnet,
    "socat": _socat,
    **dict.fromkeys(names("ftp lftp tftp ncftp ncftpput ncftpget smbclient"), _ftp),
    **dict.fromkeys(
        names(
            "dig kdig drill delv nslookup host ping ping6 fping arping hping3 traceroute traceroute6 tracepath mtr "
            "whois nmap ssh-keyscan ntpdate resolvectl nping"
        ),
        _asks_names,
    ),
    "getent": _getent,
    **dict.fromkeys(names("awk gawk mawk nawk"), _awk),
    "openssl": _openssl,
    **dict.fromkeys(names("mail mailx sendmail mutt neomutt msmtp swaks s-nail ssmtp exim exim4"), _mail),
    "git": _git,
    **dict.fromkeys(names("docker podman nerdctl buildah"), _image),
    **dict.fromkeys(names("psql mysql mariadb redis-cli mongo mongosh pg_dump mysqldump"), _database),
    "gpg": _keys,
    "gpg2": _keys,
    **dict.fromkeys(names("python python3 python2 pypy pypy3"), _python),
    **dict.fromkeys(names("node perl ruby php sh bash zsh dash ksh"), _with_words),
    **SERVICES,
}
