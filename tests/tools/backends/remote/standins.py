"""Stand-ins for what cannot run here. They behave as its documentation says, and run commands in real containers."""

import asyncio
import json
import sys
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiohttp import web

from tests.tools.backends.remote.sides import IMAGE

_APPTAINER = '''#!{python}
"""Behaves as apptainer's documentation says of instances, and makes containers."""
import json, os, subprocess, sys

def docker(*arguments, **more):
    return subprocess.run(["docker", *arguments], **more)

def running(name):
    listed = docker("ps", "-q", "--filter", f"name=^sif-{{name}}$", capture_output=True)
    return bool(listed.stdout.strip())

arguments = sys.argv[1:]
flags = {{"--pwd", "--env", "--bind", "--network"}}
def split(words):
    options, rest = [], list(words)
    while rest and rest[0].startswith("--"):
        options.append(rest.pop(0))
        if options[-1] in flags:
            options.append(rest.pop(0))
    return options, rest

if arguments[:2] == ["instance", "start"]:
    options, (image, name) = split(arguments[2:])
    assert "--containall" in options and "--cleanenv" in options
    if image != "docker://{image}":
        sys.exit("FATAL:   could not open image " + image + ": no such file or directory")
    if running(name):
        sys.exit(f"FATAL:   instance {{name}} already exists")
    bind, env = options[options.index("--bind") + 1], options[options.index("--env") + 1]
    assert options[options.index("--network") + 1] == "none"
    made = docker("run", "-d", "--rm", "--network=none", "--name", "sif-" + name, "-v", bind, "-e", env,
                  "{image}", "sh", "-c", "while :; do sleep 1 & wait; done", capture_output=True)
    if made.returncode:
        while not running(name):
            pass
        sys.exit(f"FATAL:   instance {{name}} already exists")
elif arguments[:2] == ["instance", "stop"]:
    if not running(arguments[2]):
        sys.exit("FATAL:   no instance found")
    docker("rm", "-f", "sif-" + arguments[2], stdout=subprocess.DEVNULL)
elif arguments[:2] == ["instance", "list"]:
    listed = docker("ps", "--format", "{{{{.Names}}}}", capture_output=True, text=True).stdout.split()
    print(json.dumps({{"instances": [{{"instance": name[4:]}} for name in listed if name.startswith("sif-")]}}))
elif arguments[0] == "exec":
    options, (target, *command) = split(arguments[1:])
    name = target.removeprefix("instance://")
    if not running(name):
        sys.exit("FATAL:   no instance found with name " + name)
    os.execvp("docker", ["docker", "exec", "-i", "sif-" + name, *command])
else:
    sys.exit("FATAL:   unknown command")
'''


def apptainer_program(folder: Path) -> str:
    program = folder / "apptainer"
    program.write_text(_APPTAINER.format(python=sys.executable, image=IMAGE))
    program.chmod(0o755)
    return str(program)


async def docker(*arguments: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("docker", *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = await process.communicate(stdin)
    return process.returncode or 0, out, err


class DaytonaServer:
    """The parts of Daytona's REST interface that are used: sandboxes, and commands in them."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, dict[str, Any]] = {}

    def find(self, request: web.Request) -> dict[str, Any]:
        wanted = request.match_info["id"]
        found = next((one for one in self.sandboxes.values() if wanted in (one["id"], one["name"])), None)
        if found is None:
            raise web.HTTPNotFound(text=json.dumps({"message": "Sandbox not found", "statusCode": 404}))
        return found

    async def create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["networkBlockAll"] in (True, False)
        if asked.get("snapshot") == "nosuch":
            return web.json_response({"message": "Snapshot nosuch not found", "statusCode": 400}, status=400)
        if any(one["name"] == asked["name"] for one in self.sandboxes.values()):
            return web.json_response({"message": "Sandbox already exists", "statusCode": 409}, status=409)
        waits = ("sh", "-c", "while :; do sleep 1 & wait; done")
        made = {"id": uuid4().hex, "name": asked["name"], "labels": asked["labels"], "state": "creating"}
        self.sandboxes[made["id"]] = made | {"toolboxProxyUrl": str(request.url.origin()) + "/toolbox"}
        await docker("run", "-d", "--network=none", "--name", made["id"], IMAGE, *waits)
        self.sandboxes[made["id"]]["state"] = "started"
        return web.json_response(self.sandboxes[made["id"]])

    async def show_all(self, request: web.Request) -> web.Response:
        labels = json.loads(request.query.get("labels", "{}"))
        return web.json_response([one for one in self.sandboxes.values() if labels.items() <= one["labels"].items()])

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response(self.find(request))

    async def switch(self, request: web.Request) -> web.Response:
        one, stops = self.find(request), request.match_info["action"] == "stop"
        await docker("kill" if stops else "start", one["id"])
        one["state"] = "stopped" if stops else "started"
        return web.json_response(one)

    async def delete(self, request: web.Request) -> web.Response:
        one = self.find(request)
        await docker("rm", "-f", one["id"])
        return web.json_response(self.sandboxes.pop(one["id"]))

    async def execute(self, request: web.Request) -> web.Response:
        one, asked = self.find(request), await request.json()
        if one["state"] != "started":
            return web.json_response({"message": "bad request: no IP address found"}, status=400)
        code, out, err = await docker("exec", one["id"], "sh", "-c", asked["command"])
        return web.json_response({"exitCode": code, "result": (out + err).decode()})


@asynccontextmanager
async def daytona_server(key: str) -> AsyncIterator[str]:
    @web.middleware
    async def check_key(request: web.Request, handler: Any) -> Any:
        if request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"message": "Unauthorized", "statusCode": 401}, status=401)
        return await handler(request)

    server = DaytonaServer()
    app = web.Application(middlewares=[check_key], client_max_size=1 << 30)
    app.add_routes(
        [
            web.post("/api/sandbox", server.create),
            web.get("/api/sandbox", server.show_all),
            web.get("/api/sandbox/{id}", server.show),
            web.delete("/api/sandbox/{id}", server.delete),
            web.post("/api/sandbox/{id}/{action:start|stop}", server.switch),
            web.post("/toolbox/{id}/process/execute", server.execute),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/api"
    finally:
        await runner.cleanup()


# Modal. Its functions are called as `function.aio(…)` where there is a loop.

errors = types.SimpleNamespace(Error=type("Error", (Exception,), {}))
for _name in ("AuthError", "NotFoundError", "AlreadyExistsError", "ConnectionError", "ImageBuildError"):
    setattr(errors, _name, type(_name, (errors.Error,), {}))


def aio(function: Any) -> Any:
    return types.SimpleNamespace(aio=function)


class ModalProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.buffer = process, b""
        self.stdin = types.SimpleNamespace(write=self._write, drain=aio(self._drain))
        self.stdout = types.SimpleNamespace(read=aio(self._read))

    def _write(self, data: bytes) -> None:
        if len(self.buffer) + len(data) > 2 << 20:
            raise BufferError("Buffer size exceed limit. Call drain to clear the buffer.")
        self.buffer += data

    async def _drain(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(self.buffer)
        self.buffer = b""
        await self.process.stdin.drain()

    async def _read(self) -> bytes:
        assert self.process.stdout
        output = await self.process.stdout.read()  # the input stays open
        await self.process.communicate()
        return output


class ModalSandbox:
    def __init__(self, name: str) -> None:
        self.name = name
        self.exec, self.terminate = aio(self._exec), aio(self._terminate)

    async def _exec(self, *argv: str, text: bool, timeout: int) -> ModalProcess:
        assert not text
        assert sum(map(len, argv)) < 1 << 16, "the SDK takes no longer arguments"
        if (await docker("exec", self.name, "true"))[0]:
            raise errors.NotFoundError("Sandbox has already shut down")
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        command = ["docker", "exec", "-i", self.name, *argv]
        return ModalProcess(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=null))

    async def _terminate(self) -> None:
        await docker("rm", "-f", self.name)


async def _from_name(app: str, name: str, client: str) -> ModalSandbox:
    if (await docker("exec", f"{app}-{name}", "true"))[0]:
        raise errors.NotFoundError(f"Sandbox {name} not found")
    return ModalSandbox(f"{app}-{name}")


async def _create(*argv: str, app: str, name: str, tags: dict[str, str], image: str, **more: Any) -> ModalSandbox:
    if image == "nosuch":
        raise errors.ImageBuildError("Image build failed")
    [(folder, volume)] = more["volumes"].items()
    options = ["-d", "--rm", "--network=none", "--name", f"{app}-{name}", "-v", f"{volume}:{folder}"]
    options += [f"--env={key}={value}" for key, value in more["env"].items()] + ["-w", more["workdir"]]
    code, _, complaint = await docker("run", *options, "--label", f"tags={json.dumps(tags)}", image, *argv)
    if code:
        while (await docker("exec", f"{app}-{name}", "true"))[0]:  # the first commands wait until it has started
            pass
        raise errors.AlreadyExistsError(complaint.decode())
    return ModalSandbox(f"{app}-{name}")


async def _list(tags: dict[str, str], client: str) -> AsyncIterator[ModalSandbox]:
    _, out, _ = await docker("ps", "--format", "{{.Names}}", "--filter", f"label=tags={json.dumps(tags)}")
    for name in out.decode().split():
        yield ModalSandbox(name)


async def _look_up(name: str, create_if_missing: bool, client: str) -> str:
    return name


async def _delete_volume(name: str, allow_missing: bool, client: str) -> None:
    await docker("volume", "rm", "-f", name)


async def _list_volumes(client: str) -> list[Any]:
    _, out, _ = await docker("volume", "ls", "-q")
    return [types.SimpleNamespace(name=name) for name in out.decode().split()]


def modal_sdk(token: tuple[str, str]) -> Any:
    """Return a stand-in for the parts of Modal's SDK that are used."""

    async def from_credentials(token_id: str, token_secret: str) -> str:
        if (token_id, token_secret) != token:
            raise errors.AuthError("Token validation failed")
        return "client"

    volumes = types.SimpleNamespace(delete=aio(_delete_volume), list=aio(_list_volumes))
    return types.SimpleNamespace(
        exception=errors,
        Client=types.SimpleNamespace(from_credentials=aio(from_credentials)),
        App=types.SimpleNamespace(lookup=aio(_look_up)),
        Image=types.SimpleNamespace(debian_slim=lambda: IMAGE, from_registry=lambda name: name),
        Volume=types.SimpleNamespace(from_name=lambda name, create_if_missing, client: name, objects=volumes),
        Sandbox=types.SimpleNamespace(from_name=aio(_from_name), create=aio(_create), list=aio(_list)),
    )
