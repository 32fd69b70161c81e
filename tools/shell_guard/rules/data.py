"""Databases, containers and clouds: what drops, deletes or publishes."""

import re
from collections.abc import Iterator

from tools.shell_guard.expansion import UNKNOWN, shown
from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.names import names
from tools.shell_guard.options import read
from tools.shell_guard.paths import is_everything, is_system, located, scoped, secret_in
from tools.shell_guard.rules.plain import Rule, all_of, always, when

_DROPS = re.compile(
    r"""(?ix) \b(?:drop\s+[a-z]+|truncate(?!\s*\()|alter\s+table\s[^;]{0,400}\bdrop|alter\s+(?:user|role)\s|
    delete\s+from|dropDatabase|flushall|flushdb|grant\s+all|attach\s+database|reset\s+master|purge\s+binary|
    copy\s[^;]{0,400}\bprogram|into\s+(?:outfile|dumpfile)|lo_export|pg_read_\w*file)\b|
    \b(?:drop\w*|shutdownServer)["'\]]*\s*\(|(?:deleteMany|remove)\s*\(\s*\{\s*\}"""
)
_WITH_CONDITION = re.compile(r"(?i)\bdelete\s+from\s+\S+\s+where\b(?!\s+(?:1|true)\b)")
_UPDATE = re.compile(r"(?i)\bupdate\s+\S+\s+set\s(?![^;]{0,2000}\bwhere\b)")
# Strings, names, remarks: each runs to its end or to that of the text, so that reading it takes one pass.
_QUOTED = re.compile(r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL)
# With one of these a string may be run, or ends elsewhere for one database than for another.
_STRINGS_MATTER = re.compile(r"(?i)\b(?:execute|prepare|do|call|dblink\w*|query\w*|eval)\b|\\'|#|\$")
_ESCAPES = re.compile(
    r"(?im)(?:^|\s)(?:\\!|\\[a-z]+\s*\|)|(?:^|;)[ \t]*system\s|load_extension|writefile\(|"
    r"\bedit\s*\(|child_process|--init\b|^-init\b"
)
_DOT_RUNS = names(".shell .system .load .once .output .excel .save .restore")  # of sqlite, which takes them in short
_DOT_READS = names(".import .read .open")  # from a command, if its name begins with a bar
_REDIS = re.compile(
    r"(?i)\b(?:shutdown|config\s+(?:set|rewrite)|replicaof|slaveof|module\s+load|debug|swapdb|script\s+flush|eval)\b"
)
_CODE_OPTIONS = {
    **dict.fromkeys(("psql", "pgcli", "usql"), "-c --command"),
    **dict.fromkeys(("mysql", "mariadb", "mycli", "cqlsh", "cockroach"), "-e --execute"),
    **dict.fromkeys(("mongo", "mongosh"), "--eval"),
    "sqlcmd": "-Q -q --query",
    "clickhouse-client": "-q --query",
}
_DELETES_CONTAINERS = re.compile(
    r"\bprune\b|\b(?:volume|network|image|container|stack|secret|service|node|plugin) (?:rm|remove)\b|"
    r"^(?:rmi?|kill|swarm leave|system reset|machine rm)\b|"
    r"^compose\b.*\s(?:rm|kill)\b|^compose\b(?=.*\sdown\b).*(?:-v|--volumes|--rmi)|"
    r"^(?:stop|restart|compose (?:stop|restart)).*\bhermes"
)
_OPENS_CONTAINER = re.compile(
    r"--privileged|docker\.sock|--(?:pid|ipc|userns|uts)[ =]host|--cap-add|--device|--security-opt|--volumes-from"
)
_MOUNTS = "-v --volume --mount --secret"


def _sql(run: Run) -> Iterator[CommandRisk]:
    given = (*run.words, run.stdin or "")
    text = _WITH_CONDITION.sub("", "\n".join(map(_without_strings, given)))
    if (
        _DROPS.search(text)
        or _UPDATE.search(text)
        or (run.name in ("redis-cli", "valkey-cli") and _REDIS.search(" ".join(given)))
    ):
        yield ask("drop-data", "it deletes or overwrites tables, rows or rights of a database")
    if _ESCAPES.search("\n".join(given)) or any(_is_dot_command(line) for one in given for line in one.splitlines()):
        yield ask("option-runs", "its database client runs or writes something else")
    if any(UNKNOWN in one for one in _statements(run)):
        yield ask("run-time-sql", "what it does to the database is decided only when it runs")


def _without_strings(text: str) -> str:
    """Without what is only compared or looked for, where that is certain, and without remarks."""
    keeps = bool(_STRINGS_MATTER.search(text))

    def plain(found: re.Match[str]) -> str:
        one = found[0]
        if one.startswith("/*") and not one.startswith("/*!"):  # which MySQL runs
            return " "
        return "''" if one.startswith("'") and not keeps else one

    return _QUOTED.sub(plain, text)


def _is_dot_command(line: str) -> bool:
    name, _, rest = line.strip().partition(" ")
    if not name.startswith(".") or (len(name) < 3 and name != ".o"):
        return False
    is_run = any(whole.startswith(name) for whole in _DOT_RUNS)
    return is_run or ("|" in rest and any(whole.startswith(name) for whole in _DOT_READS))


def _statements(run: Run) -> Iterator[str]:
    """Where to look for what only the run decides: in what is given as code, not in the name of a database."""
    yield run.stdin or ""
    if options := _CODE_OPTIONS.get(run.name):
        yield from read(run.words, options).values(*options.split())
    else:
        words = [word for word in run.words if not word.startswith("-")]
        named = words[1:] if run.name in ("sqlite3", "sqlite", "duckdb", "litecli") else words  # the file comes first
        yield from (word for word in named if word == UNKNOWN or " " in word)


def _docker(run: Run) -> Iterator[CommandRisk]:
    text = " ".join(run.words)
    if _DELETES_CONTAINERS.search(text):
        yield ask("delete-containers", "it deletes containers, images or their data")
    if _OPENS_CONTAINER.search(text):
        yield ask("open-container", "its container can reach the machine around it")
    if re.match(r"(?:push|image push|compose push|context rm)\b", text):
        yield ask("publish", "it publishes an image")
    for place in _handed_in(run):
        path = located(place, run.folder, run.home)
        if is_everything(path, run.home) or is_system(path) or re.match(r"/var(?:/|$)", path):
            yield ask("open-container", "its container can reach the machine around it")
        if secret_in(path):
            yield ask(
                "read-secret", f"it gives {shown(path)}, which holds secrets", scoped(place, run.folder, run.home)
            )


def _handed_in(run: Run) -> Iterator[str]:
    """The files and folders of this machine that a container is given."""
    options = read(run.words, f"{_MOUNTS} -H --host -c --context")
    match options.rest:
        case ["cp", source, *_] | ["container", "cp", source, *_]:
            yield source
        case ["run" | "create" | "build" | "container" | "compose" | "buildx", *_]:
            for value in options.values(*_MOUNTS.split()):
                sources = re.findall(r"(?:^|,)(?:source|src)=([^,]*)", value)
                yield from sources or [value.partition(":")[0]] * (":" in value)


_REPLACES = "it deletes a database before it fills it"
_RESETS = when(
    "drop-data",
    "it deletes a project's database",
    r"\bdb:(?:drop|reset|purge|wipe)|\bmigrate:(?:fresh|reset)|\bmigrate reset\b|--force-reset|\bschema:drop|"
    r"\becto\.(?:drop|reset)|^db reset|^database (?:drop|reset)|^downgrade base|"
    r"(?:^|manage\.py )(?:flush|reset_db)\b",
)
_CLOUD = "it deletes or changes something that others may use"

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        names(
            "psql mysql mariadb sqlite3 sqlite mongo mongosh redis-cli cqlsh sqlcmd clickhouse-client duckdb cockroach "
            "usql pgcli mycli litecli influx bq valkey-cli snowsql sqlplus osql isql tsql"
        ),
        _sql,
    ),
    **always("drop-data", "it deletes a database", "dropdb dropuser mysqladmin pg_resetwal pg_dropcluster"),
    **dict.fromkeys(("mongorestore", "mongoimport"), when("drop-data", _REPLACES, r"--drop\b")),
    "pg_restore": when("drop-data", _REPLACES, r"(?:^|\s)(?:-\w*c|--clean)"),
    **dict.fromkeys(("flyway", "liquibase", "dbmate"), when("drop-data", _REPLACES, r"\b(?:clean|drop(?:-all)?)\b")),
    "pg_ctl": when("stop-service", "it stops a database", r"\b(?:stop|kill|restart)\b"),
    **dict.fromkeys(
        names(
            "rails rake bundle prisma sequelize typeorm knex mix php supabase diesel sqlx "
            "python python3 django-admin alembic npx bunx"
        ),
        _RESETS,
    ),
    "docker": _docker,
    "podman": _docker,
    "nerdctl": _docker,
    "docker-compose": when(
        "delete-containers",
        "it deletes containers or their data",
        r"\A(?=.*\bdown\b).*(?:-v|--volumes|--rmi)",
        r"\brm\b",
    ),
    "kubectl": when(
        "cloud-change",
        _CLOUD,
        r"(?:^|\s)(?:delete|drain|cordon|replace|patch|scale|taint|edit)\b",
        r"\A(?=.*\bget\b).*\bsecrets?\b",
        r"\bcreate token\b",
        r"\A(?=.*\bconfig view\b).*--raw",
        r"\bapply\b",
        r"\bcp\b",
    ),
    "oc": when("cloud-change", _CLOUD, r"\b(?:delete|drain|replace|patch)\b"),
    "helm": when("cloud-change", _CLOUD, r"\b(?:uninstall|delete|rollback|upgrade)\b"),
    **dict.fromkeys(
        ("terraform", "tofu", "pulumi", "cdk"),
        when(
            "cloud-change",
            _CLOUD,
            r"\b(?:destroy|apply|deploy|up|import|taint|force-unlock|(?:workspace|stack|state) (?:rm|delete|push))\b",
        ),
    ),
    **dict.fromkeys(
        names(
            "vagrant doctl hcloud linode-cli vultr-cli oci ibmcloud scw openstack nova virsh VBoxManage qm pct "
            "multipass lxc incus terragrunt sam serverless sls copilot eksctl kops argocd flux istioctl velero "
            "nomad minikube kind k3d colima limactl restic borg etcdctl rabbitmqctl rabbitmqadmin consul buildah "
            "crictl ctr glab"
        ),
        when(
            "cloud-change", _CLOUD, r"\b(?:delete|destroy|del|rm|remove|purge|undefine|uninstall|unregistervm|forget)\b"
        ),
    ),
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
        all_of(
            when(
                "publish",
                "it publishes or withdraws a package",
                r"^(?:-\S+ )*(?:npm )?(?:unpublish|publish|deprecate|owner|access|token|config set|set )\b",
            ),
            _RESETS,
        ),
    ),
    "cargo": when("publish", "it publishes or withdraws a package", r"^(?:publish|yank|owner|login)\b"),
    "twine": when("publish", "it publishes a package", r"\bupload\b"),
    "gem": when("publish", "it publishes or withdraws a package", r"^(?:push|yank|owner)\b"),
    "poetry": when("publish", "it publishes a package", r"^publish\b"),
    "uv": all_of(
        when("publish", "it publishes a package", r"^publish\b"),
        when("remove-packages", "it removes programs", r"^pip uninstall\b"),
    ),
    **dict.fromkeys(
        ("heroku", "fly", "flyctl", "vercel", "netlify"),
        when("cloud-change", _CLOUD, r"\b(?:destroy|delete|remove|reset)\b", r"pg:reset"),
    ),
}
