"""The table of escapes from a sandbox: commands that print CANARY, or change something outside, where they succeed."""

import shlex
from collections.abc import Iterator
from pathlib import Path

CANARY = "canary-5f2a"

HIDDEN = """
.ssh/id_ed25519 .ssh/config .aws/credentials .netrc .gnupg/secring .config/gh/hosts.yml .docker/config.json .kube/config
.npmrc .pypirc .git-credentials .gitconfig .bash_history .env .mozilla/logins.json .password-store/mail
.cargo/credentials .m2/settings.xml
.local/share/keyrings/login .config/gcloud/key.json taxes/2025.txt .hermes/.env .hermes/state.db
.hermes/config.yaml .hermes/private/other/secret
""".split()  # noqa: SIM905  # a table reads better

READS = {
    "cat": "cat {path}",
    "python": "python3 -c 'print(open(\"{path}\").read())'",
    "redirect": "while read -r line; do echo $line; done < {path}",
    "copy": "cp -r {path} stolen; cat stolen",
    "link": "ln -sfn {path} way; cat way",
    "hard link": "ln {path} hard; cat hard",
    "other root": "cat /proc/1/root{path} /proc/self/root{path}",
    "archive": "tar cf - {path} | tar xOf -",
    "walk up": "cd / && cat ./{path} ../..{path}",
}

TARGETS = """
{home}/new.txt {home}/notes.txt {home}/.bashrc {home}/.profile {home}/.ssh/authorized_keys {home}/.hermes/state.db
{home}/bin/tool {home}/other/Makefile /usr/bin/new /usr/local/bin/new /etc/new /etc/passwd /etc/cron.d/new /opt/new
/var/spool/cron/new /run/new /root/new /lib/new /new {work}/.git/hooks/pre-commit {work}/.git/config {work}/.envrc
""".split()  # noqa: SIM905

WRITES = {
    "echo": "echo evil > {path}",
    "append": "echo evil >> {path}",
    "move": "echo evil > mine; mv -f mine {path}",
    "replace": "rm -f {path}; echo evil > {path}",
}

NETWORK = {
    f"{way} {host}": command.format(host=host)
    for way, command in {
        "direct": "exec 3<>/dev/tcp/{host}/PORT && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3",
        "proxy": "curl -s --noproxy '' http://{host}:PORT/",
        "tunnel": "curl -s --noproxy '' -p http://{host}:PORT/",
        "socks": "curl -s --noproxy '' --socks5-hostname 127.0.0.1:19080 http://{host}:PORT/",
    }.items()
    for host in ("127.0.0.1", "localhost", "[::1]", "127.1", "2130706433", "0x7f000001")
}

OTHER = {
    "environment of the first process": "cat /proc/1/environ",
    "files of the first process": "ls -l /proc/1/fd && cat /proc/1/fd/* && echo CANARY",
    "memory of the first process": "head -c 1 /proc/1/mem && echo CANARY",
    "its root": "ls /proc/1/root/home && echo CANARY",
    "kill the first process": "kill -9 1; kill -STOP 1; kill -0 1 || echo CANARY",
    "kill by pid outside": "kill -9 GATEWAY && echo CANARY",
    "processes outside": "ls -d /proc/GATEWAY && grep -q pytest /proc/GATEWAY/cmdline && echo CANARY",
    "unshare": "unshare -Ur true && echo CANARY",
    "unshare mount": "unshare -m true && echo CANARY",
    "unshare net": "unshare -n true && echo CANARY",
    "mount": "mount -t tmpfs none /mnt && echo CANARY",
    "remount": "mount -o remount,rw / && echo CANARY",
    "remount usr": "mount -o remount,rw,bind /usr && echo CANARY",
    "umount": "umount -l HOME && echo CANARY",
    "chroot": "chroot / true && echo CANARY",
    "setuid": "cp /bin/bash b; chmod u+s b; ./b -p -c 'id -u' | grep -qx 0 && echo CANARY",
    "su": "su -c id && echo CANARY",
    "sudo": "sudo -n id && echo CANARY",
    "newgrp": "newgrp root <<< 'id -g' | grep -qx 0 && echo CANARY",
    "chown": "touch f; chown 0:0 f && echo CANARY",
    "device": "mknod d b 8 0 && echo CANARY",
    "kernel log": "dmesg | head -1 | grep . && echo CANARY",
    "kernel switch": "echo 1 > /proc/sys/kernel/sysrq && echo CANARY",
    "core pattern": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern && echo CANARY",
    "sysrq": "echo s > /proc/sysrq-trigger && echo CANARY",
    "control groups": "ls /sys/fs/cgroup && echo CANARY",
    "memory device": "head -c 1 /dev/mem && echo CANARY",
    "disks": "ls /dev/sd* /dev/vd* /dev/nvme* && echo CANARY",
    "docker": "docker ps && echo CANARY",
    "docker socket": "ls /run/docker.sock /var/run/docker.sock && echo CANARY",
    "system bus": "ls /run/dbus /run/systemd && echo CANARY",
    "login session": "ls /run/user && echo CANARY",
    "X server": "ls /tmp/.X11-unix && echo CANARY",
    "keys of servers": "ls -d /etc/ssl/private || ls -d /etc/pki/tls/private && echo CANARY",
    "ssh agent": 'test -S "$SSH_AUTH_SOCK" && echo CANARY',
    "cron": "crontab -l; echo '* * * * * x' | crontab - && echo CANARY",
    "at": "echo x | at now && echo CANARY",
    "systemd": "systemctl --user list-units && echo CANARY",
    "secrets in the environment": "env | grep -i canary",
    "control socket": "ls HOME/.hermes/private/me/boxes && echo CANARY",
    "its own code": "echo x >> /run/hermes/tools/backends/box_child.py && echo CANARY",
    "rename .git": "mv .git other && echo CANARY",
    "remove hooks": "rm -rf .git/hooks && echo CANARY",
    "hook by link": "ln -sf ../x .git/hooks/post-commit && echo CANARY",
    "hooks elsewhere": "git config core.hooksPath evil && echo CANARY",
    "raise limits": "ulimit -c unlimited && echo CANARY",
    "larger file": "ulimit -f unlimited && echo CANARY",
    "higher priority": "renice -n -5 $$ && echo CANARY",
    "shared memory": "head -c 200000000 /dev/zero > /dev/shm/x && echo CANARY",
    "host name": "hostname evil && echo CANARY",
    "clock": "date -s 2001-01-01 && echo CANARY",
    "debugger": "gdb -p 1 -batch 2>&1 | grep -q '^#0' && echo CANARY",
    "abstract sockets": "grep -q '@' /proc/net/unix && echo CANARY",
    "interfaces": "ls /sys/class/net || tail -n +3 /proc/net/dev | grep -v lo: && echo CANARY",
    "write to the output of others": "touch OUTPUTS/evil && echo CANARY",
}

# Each call that returns no error is an escape.
SYSTEM_CALLS = r"""
import ctypes, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
block = ctypes.create_string_buffer
calls = {
    "keyctl": (219 if arm else 250, 0, -3, 1),
    "add_key": (217 if arm else 248, b"user", b"x", b"y", 1, -3),
    "bpf": (280 if arm else 321, 0, block(128), 128),
    "io_uring": (425, 8, block(256)),
    "perf": (241 if arm else 298, block(b"\1\0\0\0\200\0\0\0", 128), 0, -1, -1, 0),
    "userfaultfd": (282 if arm else 323, 1),
    "unshare": (97 if arm else 272, 0x10000000),
    "setns": (268 if arm else 308, 0, 0),
    "mount": (40 if arm else 165, b"none", b"/tmp", b"tmpfs", 0, None),
    "pivot_root": (41 if arm else 155, b"/tmp", b"/tmp"),
    "fsopen": (430, b"tmpfs", 0),
    "open_tree": (428, -100, b"/", 1),
    "clone3": (435, block(b"\0\0\0\x10", 88), 88),
    "clone": (220 if arm else 56, 0x10000011, 0, 0, 0, 0),
    "reboot": (142 if arm else 169, 0xfee1dead, 672274793, 0),
    "ptrace the first": (117 if arm else 101, 16, 1, 0, 0),
    "open_by_handle": (265 if arm else 304, 0, block(64), 0),
    "acct": (89 if arm else 163, b"/tmp/x"),
    "swapon": (224 if arm else 167, b"/tmp/x", 0),
    "module": (273 if arm else 313, 0, b"", 0),
    "setuid": (146 if arm else 105, 0),
    "kexec": (104 if arm else 246, 0, 0, None, 0),
    "syslog": (116 if arm else 103, 3, block(10), 10),
    "sethostname": (161 if arm else 170, b"evil", 4),
    "quotactl": (60 if arm else 179, 0x800001, None, 0, None),
    "move_mount": (429, -100, b"/tmp", -100, b"/usr", 0),
    "mount_setattr": (442, -100, b"/", 0, block(32), 32),
}
for name, (number, *arguments) in calls.items():
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if (got := libc.syscall(ctypes.c_long(number), *given)) >= 0:
        if name.startswith("clone") and got == 0:
            os._exit(0)
        print("ESCAPED system call", name, got)
families = {"vsock": 40, "packet": 17, "alg": 38, "key": 15, "bluetooth": 31, "tipc": 30, "can": 29, "xdp": 44}
for name, family in families.items():
    try:
        socket.socket(family, socket.SOCK_RAW if family in (17, 15) else socket.SOCK_STREAM)
        print("ESCAPED socket", name)
    except OSError:
        pass
for kind in (socket.IPPROTO_ICMP, socket.IPPROTO_RAW):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, kind)
        print("ESCAPED raw socket", kind)
    except OSError:
        pass
print("TRIED", len(calls) + len(families) + 2)
"""

_TRY = r"""
tried=0
attempt() {
  out=$(timeout 20 bash -c "$2" 2>&1 </dev/null)
  case $out in *CANARY*) echo "ESCAPED $1: ${out:0:200}";; esac
  tried=$((tried + 1))
}
"""


def commands(home: Path, work: Path, *, port: int, gateway: int, outputs: Path) -> Iterator[tuple[str, str]]:
    """Yield every escape with its name."""
    for name, text in READS.items():
        for path in HIDDEN:
            yield f"read {path} by {name}", text.format(path=home / path)
    for name, text in WRITES.items():
        for path in TARGETS:
            yield f"write {path} by {name}", text.format(path=path.format(home=home, work=work))
    for name, text in NETWORK.items():
        yield name, text.replace("PORT", str(port))
    for name, text in OTHER.items():
        told = text.replace("GATEWAY", str(gateway)).replace("HOME", str(home)).replace("OUTPUTS", str(outputs))
        yield name, told


def script(escapes: list[tuple[str, str]]) -> str:
    """Return one command that tries them all, and says which succeeded."""
    lines = [f"attempt {shlex.quote(name)} {shlex.quote(text.replace('CANARY', CANARY))}" for name, text in escapes]
    return "\n".join([_TRY.replace("CANARY", CANARY), *lines, "echo TRIED $tried"])
