"""Tools of services and package managers: that they reach out and whether they send; whom they ask is set elsewhere."""

import re
from collections.abc import Iterator

from tools.shell_guard.contacts import Contact, Reader, contact, unknown
from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import Run
from tools.shell_guard.names import names
from tools.shell_guard.options import read

_WEB = re.compile(r"(?:https?|wss?|ssh|git(?:\+\w+)?)://")  # and not s3://, which is a name inside of a service


def _service(reaching: str = ".", sending: str = r"(?!)", index: str = "") -> Reader:
    """A tool of a service: whom it asks is set elsewhere, but for an option that names it."""
    reaches, sends = re.compile(reaching), re.compile(sending)

    def found(run: Run) -> Iterator[Contact]:
        text = " ".join(run.words)
        if not run.words or re.match(r"(?:--version|-V|--help|-h|help|version|completion)(?:\s|$)", text):
            return
        if reaches.search(text) or UNKNOWN in run.words[0]:
            is_sent = bool(sends.search(text))
            yield unknown(sends=is_sent)
            for value in read(run.words, index).values(*index.split()):
                yield contact(value, carries=True, sends=is_sent)
            yield from (contact(word, carries=True, sends=is_sent) for word in run.words if _WEB.match(word))

    return found


def _always(*, sends: bool) -> Reader:
    return lambda run: iter(() if {"--help", "--version"} & set(run.words) else (unknown(sends=sends),))


_GETS = (
    r"^(?:-\S+ )*(?:install|i|ci|add|update|up|upgrade|get|fetch|download|sync|lock|restore|search|outdated|audit|view|"
    r"info|show|login|publish|push)\b"
)
_PACKAGES = _service(
    _GETS, r"\b(?:publish|push|login)\b", "--registry --index-url -i --extra-index-url --source --repository-url"
)
_PIP = _service(
    r"\b(?:install|download|wheel|search|index)\b", index="-i --index-url --extra-index-url --find-links -f --proxy"
)

SERVICES: dict[str, Reader] = {
    "skopeo": _service(r"\b(?:copy|inspect|sync|delete|login)\b", r"\b(?:copy|sync|login)\b"),
    "aws": _service(
        r"^(?!configure\b)",
        r"\b(?:s3 (?:cp|sync|mv)|put-\S+|publish|send-\S+|upload\S*|create-\S+|invoke)",
        "--endpoint-url",
    ),
    "gcloud": _service(r"^(?!config\b)", r"\b(?:cp|rsync|scp|deploy|publish|submit|upload)\b"),
    "gsutil": _service(sending=r"\b(?:cp|rsync|mv)\b"),
    "az": _service(r"^(?!config\b)", r"\b(?:upload\S*|copy|push|deploy\S*|send)\b"),
    "rclone": _service(r"^(?!config\b|version\b)", r"\b(?:copy|copyto|sync|move|moveto|rcat|bisync)\b"),
    **dict.fromkeys(names("s3cmd azcopy mc b2"), _service(sending=r"\b(?:put|cp|copy|sync|mirror|upload\S*|mv)\b")),
    "gh": _service(
        r"^(?!config\b|alias\b|auth status\b)",
        r"\b(?:create|comment|edit|upload|api|push|review|merge|close|set|fork|sync)\b",
    ),
    "glab": _service(sending=r"\b(?:create|comment|edit|upload|api|push|note|merge|close|set)\b"),
    **dict.fromkeys(names("npm yarn pnpm bun"), _PACKAGES),
    **dict.fromkeys(names("npx bunx uvx pipx dlx"), _service(index="--registry --index-url")),
    "pip": _PIP,
    "pip3": _PIP,
    "twine": _service(r"\bupload\b", r"\bupload\b", "--repository-url"),
    "uv": _service(
        r"\b(?:install|add|sync|lock|publish|download|run|tool|compile|upgrade)\b",
        r"\bpublish\b",
        "--index-url --publish-url --index",
    ),
    **dict.fromkeys(
        names("poetry pdm hatch flit"),
        _service(r"\b(?:install|add|update|lock|publish|search|self)\b", r"\bpublish\b", "-r --repository"),
    ),
    **dict.fromkeys(
        names("conda mamba micromamba"), _service(r"\b(?:install|create|update|search|upgrade)\b", index="-c --channel")
    ),
    **dict.fromkeys(
        names("apt apt-get aptitude dnf yum zypper apk snap flatpak brew port"),
        _service(
            r"\b(?:install|add|update|upgrade|dist-upgrade|full-upgrade|download|source|refresh|search|fetch|tap|makecache|reinstall)\b"
        ),
    ),
    "pacman": _service(r"(?:^|\s)-(?:S|F|U)|--sync"),
    **dict.fromkeys(
        names("gem bundle bundler"),
        _service(r"\b(?:install|update|push|fetch|outdated|add)\b", r"\bpush\b", "--source --host"),
    ),
    "cargo": _service(
        r"^(?:\+\S+ )?(?:install|add|update|fetch|publish|search|login|owner|yank)\b",
        r"\bpublish\b",
        "--registry --index --git",
    ),
    "go": _service(r"^(?:get|install|mod (?:download|tidy)|run \S+@)"),
    **dict.fromkeys(names("composer"), _service(r"\b(?:install|require|update|create-project|search)\b")),
    **dict.fromkeys(names("cpan cpanm luarocks opam cabal nuget helm"), _service(sending=r"\b(?:push|upload)\b")),
    "dotnet": _service(r"^(?:add|restore|nuget|tool install)\b", r"\bpush\b", "-s --source"),
    **dict.fromkeys(
        names("kubectl oc"),
        _service(r"^(?!config\b|explain\b)", r"\b(?:apply|create|cp|exec|patch|replace|edit)\b", "-s --server"),
    ),
    **dict.fromkeys(
        names("terraform tofu pulumi heroku fly flyctl vercel netlify wrangler firebase"),
        _service(sending=r"\b(?:apply|up|deploy|push|publish)\b"),
    ),
    **dict.fromkeys(
        names("croc wormhole magic-wormhole transfer ngrok cloudflared chisel bore localtunnel lt"), _always(sends=True)
    ),
    **dict.fromkeys(
        names("svn hg bzr"),
        _service(
            r"^(?:co|checkout|clone|update|up|pull|push|commit|ci|export|ls|log|import)\b",
            r"\b(?:push|commit|ci|import)\b",
        ),
    ),
    **dict.fromkeys(
        names("ollama huggingface-cli hf"),
        _service(r"\b(?:pull|push|download|upload|login|run)\b", r"\b(?:push|upload)\b"),
    ),
}
