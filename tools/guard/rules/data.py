"""Databases, containers and clouds: what drops, deletes or publishes."""

import re
from collections.abc import Iterator

from tools.guard.expansion import UNKNOWN
from tools.guard.findings import Finding, Run, ask
from tools.guard.names import names
from tools.guard.rules.files import Rule
from tools.guard.rules.machine import always, when

_DROPS = re.compile(
    r"""(?ix) \b(?:drop\s+(?:table|database|schema|view|index|user|role|column|collection|keyspace)|truncate|
    alter\s+table\s[^;]{0,400}\bdrop|delete\s+from|dropDatabase|flushall|flushdb|grant\s+all|attach\s+database|
    copy\s[^;]{0,400}\bprogram|into\s+outfile)\b|\.drop\s*\(|(?:deleteMany|remove)\s*\(\s*\{\s*\}"""
)
_WITH_CONDITION = re.compile(r"(?i)\bdelete\s+from\s+\S+\s+where\b(?!\s+(?:1|true)\b)")
_UPDATE = re.compile(r"(?i)\bupdate\s+\S+\s+set\s(?![^;]{0,2000}\bwhere\b)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ESCAPES = re.compile(
    r"(?im)(?:^|\s)(?:\.shell|\.system|\\!|system\b|\.load|\.import \|)|load_extension|writefile\(|\.once|\.output"
)
_DELETES_CONTAINERS = re.compile(
    r"\bprune\b|\b(?:volume|network|image|container|stack|secret) (?:rm|remove)\b|^(?:rmi?|kill|swarm leave)\b|"
    r"^compose\b.*\b(?:rm\b|down\b.*(?:-v|--volumes|--rmi))"
)
_OPENS_CONTAINER = re.compile(
    r"--privileged|docker\.sock|--pid[ =]host|--cap-add|--device|--security-opt|--userns[ =]host|"
    r"(?:-v|--volume|source|src)[ =](?:/|~/?|/(?:home|Users)(?:/[^/:,]+)?/?|"
    r"/(?:etc|root|var|usr|boot|dev|proc|sys)\b[^:,]*)[:,]"
)


def _sql(run: Run) -> Iterator[Finding]:
    text = _WITH_CONDITION.sub("", _COMMENT.sub(" ", "\n".join((*run.words, run.stdin or ""))))
    if _DROPS.search(text) or _UPDATE.search(text):
        yield ask("drop-data", "it deletes or overwrites tables, rows or rights of a database")
    if _ESCAPES.search(text):
        yield ask("option-runs", "its database client runs or writes something else")
    if any(UNKNOWN in word and (" " in word or word == UNKNOWN) for word in (*run.words, run.stdin or "")):
        yield ask("run-time-sql", "what it does to the database is decided only when it runs")


def _docker(run: Run) -> Iterator[Finding]:
    text = " ".join(run.words)
    if _DELETES_CONTAINERS.search(text):
        yield ask("delete-containers", "it deletes containers, images or their data")
    if _OPENS_CONTAINER.search(text):
        yield ask("open-container", "its container can reach the machine around it")
    if re.match(r"(?:push|context rm)\b", text):
        yield ask("publish", "it publishes an image")


_CLOUD = "it deletes or changes something that others may use"

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        names(
            "psql mysql mariadb sqlite3 sqlite mongo mongosh redis-cli cqlsh sqlcmd clickhouse-client duckdb "
            "cockroach usql pgcli mycli litecli influx bq"
        ),
        _sql,
    ),
    **always("drop-data", "it deletes a database", "dropdb", "dropuser", "mysqladmin", "pg_resetwal", "pg_dropcluster"),
    "docker": _docker,
    "podman": _docker,
    "nerdctl": _docker,
    "docker-compose": when(
        "delete-containers", "it deletes containers or their data", r"\bdown\b.*(?:-v|--volumes|--rmi)", r"\brm\b"
    ),
    "kubectl": when(
        "cloud-change",
        _CLOUD,
        r"(?:^|\s)(?:delete|drain|cordon|replace|patch|scale|taint|edit)\b",
        r"\bget secrets?\b",
        r"\bapply\b",
        r"\bcp\b",
    ),
    "oc": when("cloud-change", _CLOUD, r"\b(?:delete|drain|replace|patch)\b"),
    "helm": when("cloud-change", _CLOUD, r"\b(?:uninstall|delete|rollback|upgrade)\b"),
    **dict.fromkeys(
        ("terraform", "tofu", "pulumi", "cdk"),
        when("cloud-change", _CLOUD, r"\b(?:destroy|apply|up|import|taint|state (?:rm|push))\b"),
    ),
    "vagrant": when("cloud-change", _CLOUD, r"\bdestroy\b"),
    "ansible": when("cloud-change", _CLOUD, r"-m (?:shell|command|raw|file)|-a "),
    "aws": when(
        "cloud-change",
        _CLOUD,
        r"\b(?:s3 (?:rm|rb|mv)|delete-\S+|terminate-\S+|remove-\S+|put-\S+)",
        r"--delete\b",
        r"\bget-(?:secret-value|login-password)",
        r"configure (?:set|get|export)",
    ),
    "gcloud": when("cloud-change", _CLOUD, r"\b(?:delete|remove|reset|destroy)\b", r"auth print-"),
    "az": when("cloud-change", _CLOUD, r"\b(?:delete|purge|remove)\b"),
    **dict.fromkeys(
        ("gsutil", "s3cmd", "rclone", "mc"),
        when(
            "cloud-change", _CLOUD, r"^(?:-\S+ )*(?:rm|rb|del|delete|deletefile|purge|sync|move|mv|cleanup|rmdirs?)\b"
        ),
    ),
    **dict.fromkeys(
        ("npm", "yarn", "pnpm"),
        when(
            "publish",
            "it publishes or withdraws a package",
            r"^(?:unpublish|publish|deprecate|owner|access|token|config set|set )\b",
        ),
    ),
    "cargo": when("publish", "it publishes or withdraws a package", r"^(?:publish|yank|owner|login)\b"),
    "twine": when("publish", "it publishes a package", r"\bupload\b"),
    "gem": when("publish", "it publishes or withdraws a package", r"^(?:push|yank|owner)\b"),
    "poetry": when("publish", "it publishes a package", r"^publish\b"),
    "uv": when("publish", "it publishes a package", r"^publish\b"),
    **dict.fromkeys(
        ("heroku", "fly", "flyctl", "vercel", "netlify"),
        when("cloud-change", _CLOUD, r"\b(?:destroy|delete|remove|reset)\b", r"pg:reset"),
    ),
}
