"""The other sides of remote backends for tests: a docker daemon, podman, sshd, and stand-ins for the rest.

Daemons and sshd are the real programs with folders of their own. The stand-ins (apptainer's command line, Daytona's
REST interface, Modal's SDK) behave as their documentation says and run commands in real containers.
"""

import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes_config.settings import DockerSettings, SshSettings, TerminalSettings

IMAGE, PLAIN_IMAGE = "hermes-test:full", "hermes-test:plain"
_START_SECONDS = 60
_PROGRAMS = ("bash", "script", "rg")


def make_image(programs: tuple[str, ...]) -> bytes:
    """Return an image of busybox, and of these programs with their libraries, as a tar archive of its root."""
    busybox = shutil.which("busybox")
    assert busybox
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as image:
        image.add(busybox, "bin/busybox")
        found = {name: os.path.realpath(path) for name in programs if (path := shutil.which(name))}
        for name, path in found.items():
            image.add(path, f"bin/{name}")
            for library in _libraries(path):
                if library.lstrip("/") not in image.getnames():
                    image.add(os.path.realpath(library), library.lstrip("/"))
        for applet in set(applets) - found.keys() - {"busybox"}:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            image.addfile(link)
        for folder in ("tmp", "usr/bin", "etc", "root"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777
            image.addfile(made)
        link = tarfile.TarInfo("usr/bin/env")
        link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
        image.addfile(link)
    return content.getvalue()


def _libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]


def import_images(*docker: str) -> None:
    for name, programs in ((IMAGE, _PROGRAMS), (PLAIN_IMAGE, ())):
        subprocess.run([*docker, "import", "-", name], input=make_image(programs), check=True, capture_output=True)


@contextmanager
def docker_daemon(folder: Path) -> Iterator[str]:
    """Run a docker daemon of our own, which DOCKER_HOST names meanwhile; yield its address."""
    before = os.environ.pop("DOCKER_HOST", None)
    address = f"unix://{folder}/d.sock"
    arguments = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-H", address]
    arguments += ["--iptables=false", "--bridge=none", "--pidfile", f"{folder}/pid"]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(["dockerd", *arguments], stdout=log, stderr=log, start_new_session=True)
    try:
        os.environ["DOCKER_HOST"] = address
        _wait_for_docker(daemon)
        import_images("docker")
        yield address
        left = subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True).stdout.split()
        subprocess.run(["docker", "rm", "-f", *left], capture_output=True, check=False)
    finally:
        del os.environ["DOCKER_HOST"]
        if before is not None:
            os.environ["DOCKER_HOST"] = before
        daemon.terminate()
        try:
            daemon.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(daemon.pid, signal.SIGKILL)


def _wait_for_docker(daemon: "subprocess.Popen[bytes]") -> None:
    for _ in range(_START_SECONDS * 5):
        if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0:
            return
        assert daemon.poll() is None, "dockerd does not run here"
        try:
            daemon.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("dockerd takes too long to start")


def podman_program(folder: Path) -> str:
    """Return a podman with folders of its own. Its usual limits may be above those of the machine of the tests."""
    config = folder / "containers.conf"
    config.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
    options = f"--root {folder}/root --runroot {folder}/run --storage-driver vfs --cgroup-manager cgroupfs"
    runtime = "--runtime runc" if shutil.which("runc") else ""
    program = folder / "podman"
    program.write_text(f'#!/bin/sh\nCONTAINERS_CONF={config} exec podman {options} {runtime} "$@"\n')
    program.chmod(0o755)
    import_images(str(program))
    return str(program)


def docker_settings(**more: Any) -> DockerSettings:
    return DockerSettings(**{"image": IMAGE, "memory_mb": 256, **more})


# ssh.


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshSettings]:
    """Run sshd on loopback with throw-away keys; yield the settings that reach it."""
    os.makedirs("/run/sshd", exist_ok=True)
    for name in ("host", "user", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile {folder}/pid\nUsePAM no\nPasswordAuthentication no\nStrictModes no\n"
        f"SetEnv HOME={folder}/home PATH=/usr/local/bin:/usr/bin:/bin\n"
    )
    (folder / "home").mkdir()
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
    server = subprocess.Popen(
        [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", folder / "config"], stderr=subprocess.PIPE
    )
    try:
        assert server.stderr is not None
        while b"listening" not in server.stderr.readline():
            assert server.poll() is None, "sshd does not run here"
        yield SshSettings(host="127.0.0.1", port=port, key=str(folder / "user"), known_hosts=str(folder / "known"))
    finally:
        server.terminate()
        server.wait()
        assert server.stderr is not None
        server.stderr.close()


def terminal_settings(kind: str, **more: Any) -> TerminalSettings:
    section = "docker" if kind == "podman" else kind
    return TerminalSettings(**{"backend": section, "idle_minutes": 5, **more})
