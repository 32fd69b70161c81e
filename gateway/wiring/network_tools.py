"""Build from settings the tools that reach services beyond this machine."""

from pathlib import Path

from agent_core.models.providers import sees_images
from gateway.media.reader import DocumentReader, WebPages
from gateway.media.speech import Speech, find_readers, find_recognisers
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from hermes_config.settings import Settings
from tools.base import Tool
from tools.browser.browsers import Browsers
from tools.browser.chromium import Browserbase
from tools.builtin.browser import browser_tools
from tools.builtin.pictures import image_tool, vision_tool
from tools.builtin.speech import SpeechEngines, speech_tool, transcription_tool
from tools.builtin.web import web_extract_tool, web_search_tool
from tools.pictures import NoPictures, PictureStore, find_maker
from tools.search_engines import find_engines
from tools.url_guard import FetchLimits, UrlGuard

_MAX_PAGE_CHARS = 1_000_000


def build_network_tools(
    settings: Settings,
    pictures: PictureStore | None = None,
    speech: SpeechEngines | None = None,
    *,
    browsers: Browsers | None = None,
    in_chat: bool = False,
) -> dict[str, Tool]:
    """Return the tools by name; each knows by itself whether its key or package is there.

    `in_chat` says whether files can be sent to whoever asks. Whoever uses the tools closes the `browsers`.
    """
    store = pictures or NoPictures()
    guard = UrlGuard.of(settings.network.allowed_addresses)
    keys = settings.secrets.by_variable()
    limits = FetchLimits(max_bytes=settings.web.max_page_bytes, timeout_seconds=settings.web.timeout_seconds)
    reader = DocumentReader(
        max_text_chars=_MAX_PAGE_CHARS,
        timeout_seconds=settings.media.read_timeout_seconds,
        memory_mb=settings.media.read_memory_mb,
    )
    chosen = settings.images
    maker = find_maker(keys, chosen.base_url, chosen.model, guard, is_openai=has_openai(settings))
    engines = speech or build_speech(settings)
    tools = (
        web_search_tool(find_engines(keys, settings.web.searxng_url, guard)),
        web_extract_tool(WebPages(reader=reader), guard, limits),
        vision_tool(store, guard, is_seen=bool(settings.model.vision) or sees_images(settings.model.name)),
        image_tool(maker, store, in_chat=in_chat),
        speech_tool(engines, in_chat=in_chat),
        transcription_tool(engines),
        *browser_tools(browsers or build_browsers(settings), store, in_chat=in_chat),
    )
    return {tool.name: tool for tool in tools}


def build_browsers(settings: Settings) -> Browsers:
    """Build the browsers, of which none is open yet."""
    keys = settings.secrets.by_variable()
    guard = UrlGuard.of(settings.network.allowed_addresses)
    key, project = keys.get("BROWSERBASE_API_KEY", ""), keys.get("BROWSERBASE_PROJECT_ID", "")
    return Browsers(
        options=settings.browser,
        guard=guard,
        service=Browserbase(key=key, project=project, guard=guard) if key and project else None,
    )


def build_speech(settings: Settings, db: Database | None = None, files: MediaFiles | None = None) -> Speech:
    """Build the engines that listen and speak. Without a store nothing is spoken."""
    guard = UrlGuard.of(settings.network.allowed_addresses)
    keys = settings.secrets.by_variable()
    key, is_openai = keys.get("OPENAI_API_KEY", ""), has_openai(settings)
    grammar = str(Path(settings.voice.grammar).expanduser()) if settings.voice.grammar else ""
    chosen = settings.voice.model_copy(update={"grammar": grammar})
    return Speech(
        recognisers=find_recognisers(key, chosen, guard, is_openai=is_openai),
        readers=find_readers(key, chosen, guard, is_openai=is_openai),
        voice=chosen.voice,
        db=db,
        files=files,
    )


def has_openai(settings: Settings) -> bool:
    """Return whether OPENAI_API_KEY is a key of OpenAI: with another address for models it is one of that server."""
    return settings.secrets.openai_api_key is not None and not settings.model.base_url
