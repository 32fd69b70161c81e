"""Containers of docker or podman, and instances of apptainer or singularity: one for each person and workspace.

They end when nothing was run in them for a while and nothing runs, whether the gateway is there or not. A container's
first process sees to that; its workspace is a volume that stays. An instance's workspace is a folder of this machine,
and a small process outside waits for its end.
"""

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_config.places import make_private
from hermes_config.settings import DockerSettings, SingularitySettings
from tools.backends.remote.calls import Place
from tools.backends.remote.programs import KnownErrors, ProgramPlace

WORKSPACE = "/workspace"
_LABEL = "hermes.home"
_MAKE_SECONDS = 900.0  # an image may have to be downloaded
# What installing packages needs; all of it only matters inside.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
_SET_IMAGE = "hermes config set terminal.{kind}.image …"
_NO_IMAGE = "no such image|unable to find image|initializing source|could not open image|manifest unknown|making image"
_KNOWN_ERRORS: KnownErrors = (
    ("permission denied while trying to connect", "this user may not use {program}", "usermod -aG docker $USER"),
    ("cannot connect to the docker|during connect", "its daemon is not running", "systemctl start docker"),
    ("unable to connect to podman", "its service is not running", "systemctl start podman.socket"),
    (_NO_IMAGE, "there is no image {image}, or it cannot be downloaded", "{program} pull {image}, or " + _SET_IMAGE),
    ("invalid reference format", "{image} is not the name of an image", _SET_IMAGE),
    ("short-name", "{image} is not the full name of an image", _SET_IMAGE),
    ("no space left on device", "the disk of its images is full", "delete images that are not needed"),
    ("user namespace", "this user may not make user namespaces", "see {program}'s guide for administrators"),
    ('exec: "sh"', "the image {image} has no shell (sh)", _SET_IMAGE),
)


def idle_script(place: Place) -> str:
    """Return the first process of a place: it ends when nothing has run there for so long, and the place with it."""
    pause_seconds = min(place.idle_seconds, 5)
    return (
        f"trap 'exit 0' TERM INT; n=0; while [ $n -lt {place.idle_seconds} ]; do sleep {pause_seconds} & wait $!; "
        f"n=$((n + {pause_seconds})); if [ -e {place.state}/used ]; then rm -f {place.state}/used; n=0; fi; "
        "grep -q HERMES_PROCESS= /proc/[0-9]*/environ 2>/dev/null && n=0; done"
    )


@dataclass(slots=True, kw_only=True)
class DockerPlace(ProgramPlace):
    settings: DockerSettings
    title: str = "the container"

    programs = ("docker", "podman")
    package = "docker.io"
    error_prefix = "No container can be used ({program})"
    known_errors = _KNOWN_ERRORS
    gone_pattern = "no such container|is not running|no container with name|state improper|can only create exec"

    def error_values(self) -> Mapping[str, str]:
        return {"image": self.settings.image, "kind": "docker"}

    def exec_arguments(self, argv: Sequence[str]) -> Sequence[str]:
        return ("exec", "-i", self.name, *argv)

    async def make(self) -> None:
        made = await self.run(*self._arguments(), seconds=_MAKE_SECONDS)
        if made.exit_code and "already in use" in made.error_text:  # stopped, or made beside us just now
            if not (await self.run("start", self.name)).exit_code:
                return
            await self.run("rm", "-f", self.name)
            made = await self.run(*self._arguments(), seconds=_MAKE_SECONDS)
        if made.exit_code:
            raise self.explain(made)

    def _arguments(self) -> list[str]:
        chosen = self.settings
        volumes = (f"{self.name}:{WORKSPACE}", *(chosen.volumes if self.is_owners else ()))
        arguments = ["run", "--detach", "--rm", "--name", self.name, "--hostname", "sandbox"]
        arguments += ["--label", f"{_LABEL}={self.label}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        arguments += [f"--cap-add={capability}" for capability in _CAPABILITIES]
        arguments += ["--pids-limit", str(chosen.max_processes), "--memory", f"{chosen.memory_mb}m"]
        arguments += ["--cpus", f"{chosen.cpus:g}"]
        arguments += [] if self.network else ["--network", "none"]
        arguments += ["--read-only", "--tmpfs", "/tmp:exec,mode=1777"] if chosen.read_only else []  # noqa: S108
        arguments += [f"--volume={volume}" for volume in volumes]
        arguments += ["--env", f"HOME={WORKSPACE}", "--workdir", WORKSPACE, "--entrypoint", "sh", *chosen.options]
        return [*arguments, chosen.image, "-c", idle_script(self)]

    async def remove(self, *, with_files: bool = False) -> None:
        await self._remove("rm", self.name)
        if with_files:
            await self._remove("volume rm", self.name)

    async def remove_all(self, *, with_files: bool) -> int:
        found = await self._list("ps --all", f"label={_LABEL}={self.label}")
        await self._remove("rm", *found)
        if with_files:
            await self._remove("volume rm", *await self._list("volume ls", f"name=hermes-{self.label}-"))
        return len(found)

    async def _list(self, command: str, chosen: str) -> list[str]:
        listed = await self.run(*command.split(), "--quiet", "--filter", chosen)
        if listed.exit_code:
            raise self.explain(listed)
        return listed.output.decode().split()

    async def _remove(self, command: str, *names: str) -> None:
        if not names:
            return
        ran = await self.run(*command.split(), "-f", *names)
        if ran.exit_code and "no such" not in ran.error_text.lower():
            raise self.explain(ran)


@dataclass(slots=True, kw_only=True)
class SingularityPlace(ProgramPlace):
    settings: SingularitySettings
    title: str = "the instance"
    folder: Path | None = None  # the workspace on this machine

    programs = ("apptainer", "singularity")
    package = "apptainer"
    error_prefix = "No instance can be used ({program})"
    known_errors = _KNOWN_ERRORS
    gone_pattern = "no instance found"

    def error_values(self) -> Mapping[str, str]:
        return {"image": self.settings.image, "kind": "singularity"}

    def exec_arguments(self, argv: Sequence[str]) -> Sequence[str]:
        return ("exec", "--cleanenv", "--pwd", "/", f"instance://{self.name}", *argv)

    async def make(self) -> None:
        assert self.folder is not None
        make_private(self.folder)
        isolated = ["--containall", "--cleanenv", "--no-home", "--writable-tmpfs", "--env", f"HOME={WORKSPACE}"]
        isolated += ["--bind", f"{self.folder}:{WORKSPACE}"]
        isolated += [] if self.network else ["--net", "--network", "none"]
        arguments = ("instance", "start", *isolated, *self.settings.options, self._image(), self.name)
        started = await self.run(*arguments, seconds=_MAKE_SECONDS)
        if not started.exit_code:
            await self._watch()
        elif "already exists" not in started.error_text:
            raise self.explain(started)

    def _image(self) -> str:
        return os.path.expanduser(self.settings.image)  # leaves addresses such as docker://debian as they are

    async def _watch(self) -> None:
        """Start the process that stops the instance: it waits for the end of an idle command inside."""
        program, null = self.find_program(), asyncio.subprocess.DEVNULL
        inside = shlex.join([program, "exec", f"instance://{self.name}", "sh", "-c", idle_script(self)])
        stop = shlex.join([program, "instance", "stop", self.name])
        await asyncio.create_subprocess_exec(
            *("sh", "-c", f"( {inside}; {stop} ) &"), stdin=null, stdout=null, stderr=null, start_new_session=True
        )

    async def remove(self, *, with_files: bool = False) -> None:
        await self.run("instance", "stop", self.name)
        if with_files and self.folder is not None:
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    async def remove_all(self, *, with_files: bool) -> int:
        """Stop all instances of this home: their files are in it."""
        listed = await self.run("instance", "list", "--json")
        if listed.exit_code:
            raise self.explain(listed)
        names = [found["instance"] for found in json.loads(listed.output)["instances"]]
        ours = [name for name in names if name.startswith(f"hermes-{self.label}-")]
        for name in ours:
            await self.run("instance", "stop", name)
        return len(ours)
