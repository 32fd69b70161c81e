"""What a lasting yes grants, and what it covers."""

import copy
import json

import pytest

from tools.shell_guard.granting import Rule, covers
from tools.shell_guard.guard import judge


def test_a_rule_is_its_text() -> None:
    rule = Rule("recursive-delete", "/home/ann/my proj ")
    assert str(rule) == "recursive-delete /home/ann/my proj "
    assert (rule.name, rule.scope) == ("recursive-delete", "/home/ann/my proj ")
    assert Rule.parse(str(rule)) == rule
    assert Rule.parse("force-push") == Rule("force-push")
    assert json.loads(json.dumps([rule])) == [str(rule)]
    assert copy.deepcopy(rule).scope == rule.scope
    assert copy.deepcopy(Rule("force-push")).name == "force-push"


@pytest.mark.parametrize("text", ["", " ", " x", "Recursive x", "a\nb /x", "recursive-delete ", "rm_rf /x", "…"])
def test_what_is_no_rule_cannot_be_parsed(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        Rule.parse(text)


@pytest.mark.parametrize(
    ("text", "is_grantable"),
    [
        ("recursive-delete /home/ann/proj", True),
        ("recursive-delete /home/ann/proj/*", True),
        ("overwrite-file /srv/data/a.txt", True),
        ("read-secret /home/ann/proj/.env", True),
        ("unknown-command make", True),
        ("unknown-command /home/ann/proj/run.sh", True),
        ("interpreter-code python3", True),
        ("run-written /home/ann/proj", True),
        ("run-outside make /home/ann/proj", True),
        ("run-outside make", False),
        ("run-outside … /home/ann/proj", False),
        *((name, True) for name in ("force-push", "git-discard", "remove-packages", "stop-service", "open-rights")),
        # too wide
        *((f"recursive-delete {path}", False) for path in ("/", "//", "/.", "/*", "/home", "/home/ann", "/home/ann/")),
        *((f"recursive-delete {path}", False) for path in ("/home/ann/x/..", "/home/*")),
        *((f"recursive-delete {path}", False) for path in ("/Users/ann", "/root", "/data")),
        *((f"recursive-delete {path}", False) for path in ("/etc", "/etc/nginx")),
        *((f"recursive-delete {path}", False) for path in ("/usr/local/lib", "/var/lib", "/mnt/disk")),
        *((f"recursive-delete {path}", False) for path in ("/tmp/x/../..", "/srv/data")),
        *((f"recursive-delete {path}", False) for path in ("/media/ann/disk", "/Volumes/disk")),
        # not known
        *((f"recursive-delete {path}", False) for path in ("…", "/home/ann/…", "/home/ann/proj/…/x")),
        *((f"recursive-delete {path}", False) for path in ("~/proj", "~", "proj")),
        ("recursive-delete /home/ann/proj/.*", False),
        ("recursive-delete /home/ann/proj/a\nb", False),
        ("recursive-delete /home/ann/proj/\u202ecod", False),
        ("recursive-delete", False),
        ("overwrite-file", False),
        ("unknown-command", False),
        ("unknown-command …", False),
        ("unknown-command m*", False),
        ("force-push /home/ann/proj", False),
        # never for good
        *((name, False) for name in ("unreadable", "unread-code")),
        *((name, False) for name in ("run-time-command", "run-time-delete", "interpreter-code")),
        *((name, False) for name in ("upload", "raw-connection", "option-runs")),
        *((name, False) for name in ("drop-data", "delete-found", "write-disk")),
        *((name, False) for name in ("delete-everything", "kill-everything", "fork-bomb")),
        *((name, False) for name in ("power", "users", "a-new-rule")),
        ("loading-variable LD_PRELOAD", False),
        ("write-start-up /home/ann/proj/.git/hooks/pre-commit", False),
        ("change-system /etc/hosts", False),
    ],
)  # fmt: skip
def test_what_may_be_granted_for_good(text: str, is_grantable: bool) -> None:
    assert Rule.parse(text).is_grantable is is_grantable


@pytest.mark.parametrize(
    ("granted", "wanted", "is_covered"),
    [
        ("/a/proj", "/a/proj", True),
        ("/a/proj", "/a/proj/build", True),
        ("/a/proj", "/a/proj/build/x y/z", True),
        ("/a/proj/", "/a//proj/./build", True),
        ("/a/proj", "/a/proj/build/../dist", True),
        ("/a/proj", "/a/proj/*", True),
        ("/a/proj", "/a/proj/...", True),
        ("/a/proj", "/a/proj/.*", False),  # may be ..
        ("/a/proj", "/a/proj/.?/x", False),
        ("/a/proj", "/a/proj/*/../../x", False),
        ("/a/proj", "/a/project", False),
        ("/a/proj", "/a/proj-old/x", False),
        ("/a/proj", "/a/proj /x", False),
        ("/a/proj", "/a/Proj", False),
        ("/a/proj", "/a", False),
        ("/a/proj", "/", False),
        ("/a/proj", "/a/proj/..", False),
        ("/a/proj", "/a/proj/../other", False),
        ("/a/proj", "/a/proj/x/../../other", False),
        ("/a/proj", "/../a/other", False),
        ("/a/proj", "//a/other", False),
        ("/a/proj", "/b/a/proj", False),
        ("/a/proj", "a/proj", False),
        ("/a/proj", "./a/proj/x", False),
        ("/a/proj", "~/proj", False),
        ("/a/proj", "~", False),
        ("/a/proj", "…", False),
        ("/a/proj", "/a/proj/…", False),
        ("/a/proj", "/a/proj/x\n/b", False),
        ("/a/proj", "/a/proj\x00/b", False),
        ("/a/proj", "", False),
        ("", "/a/proj", False),
        ("", "", True),
        ("…", "…", False),
        ("~/proj", "~/proj", False),
        ("/a/…", "/a/…", False),
        ("/a/*", "/a/b", False),
        ("/a/proj/..", "/a/other", False),  # which is /a, too wide to cover what is below
        ("/", "/a/proj", False),
        ("//", "/a/proj", False),
        ("/home/ann", "/home/ann/proj", False),
        ("/etc", "/etc/hosts", False),
    ],
)  # fmt: skip
def test_a_yes_covers_the_folder_it_names_and_what_is_below(granted: str, wanted: str, is_covered: bool) -> None:
    name = "recursive-delete"
    assert covers(Rule(name, granted), Rule(name, wanted)) is is_covered


@pytest.mark.parametrize(
    ("granted", "wanted", "is_covered"),
    [
        ("force-push", "force-push", True),
        ("force-push", "git-discard", False),
        ("recursive-delete /a/proj", "overwrite-file /a/proj/x", False),
        ("recursive-delete", "recursive-delete /a/proj", False),
        ("unknown-command make", "unknown-command make", True),
        ("unknown-command make", "unknown-command /tmp/make", False),
        ("unknown-command /a/bin", "unknown-command /a/bin/x", False),
        ("unknown-command …", "unknown-command …", False),
        ("loading-variable PATH", "loading-variable PATH", True),
        ("loading-variable /a", "loading-variable /a/b", False),
    ],
)
def test_a_yes_covers_the_same_rule_alone(granted: str, wanted: str, is_covered: bool) -> None:
    assert covers(Rule.parse(granted), Rule.parse(wanted)) is is_covered


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("rm -r build", "recursive-delete /home/ann/proj/build"),
        ("rm -r ./build/../dist//x/", "recursive-delete /home/ann/proj/dist/x"),
        ("rm -r ../other", "recursive-delete /home/ann/other"),
        ("rm -r ~/x", "recursive-delete /home/ann/x"),
        ("rm -r $HOME/x", "recursive-delete /home/ann/x"),
        ("cd /srv/data && rm -r x", "recursive-delete /srv/data/x"),
        ("cd ..; rm -r x", "recursive-delete /home/ann/x"),
        ("rm -r '~/x'", "recursive-delete …/x"),  # a folder of that name
        ("rm -r ~bob/x", "recursive-delete …bob/x"),
        ("cd $x && rm -r y", "recursive-delete …/y"),
        ("rm *", "delete-all-files /home/ann/proj/*"),
        ("ls > a.txt", "overwrite-file /home/ann/proj/a.txt"),
        ("ls | tee ~/a.txt", "overwrite-file /home/ann/a.txt"),
        ("cat .env", "read-secret /home/ann/proj/.env"),
        ("cat < ~/.ssh/id_rsa", "read-secret /home/ann/.ssh/id_rsa"),
        ("echo x >> ~/.bashrc", "write-start-up /home/ann/.bashrc"),
        ("echo x >> /etc/../etc/hosts", "change-system /etc/hosts"),
    ],
)
def test_the_scope_of_a_path_is_absolute_and_normal(command: str, rule: str) -> None:
    assert judge(command, cwd="/home/ann/proj", home="/home/ann").rules == (Rule.parse(rule),)


def test_what_holds_a_home_anywhere_is_never_deleted() -> None:
    for path in ("/data", "/data/people", "/data/people/ann", "/data/people/ann/", "~"):
        assert judge(f"rm -r {path}", cwd="/w", home="/data/people/ann").verdict == "block"
    assert judge("rm -r /data/people/an", cwd="/w", home="/data/people/ann").verdict == "ask"


def test_a_program_in_a_folder_is_not_its_name() -> None:
    rules = [judge(f"{name} x", cwd="/w", home="/h", policy="unknown").rules for name in ("mk", "./mk", "/tmp/mk")]
    assert [rule.scope for [rule] in rules] == ["mk", "/w/mk", "/tmp/mk"]
