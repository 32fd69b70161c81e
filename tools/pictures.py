"""Pictures that tools look at or make: where they are kept, and services that make them."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tools.content import Media
from tools.errors import ToolFailed
from tools.url_guard import ApiRequest, FetchLimits, UrlGuard, fetch

Shape = Literal["square", "landscape", "portrait"]
MAX_PICTURE_BYTES = 20_000_000
_LIMITS = FetchLimits(max_bytes=2 * MAX_PICTURE_BYTES, timeout_seconds=180.0)
_OPENAI = "https://api.openai.com/v1"
_FAL = "https://fal.run"
_SIZES: Mapping[Shape, str] = {"square": "1024x1024", "landscape": "1536x1024", "portrait": "1024x1536"}
_FAL_SIZES: Mapping[Shape, str] = {"square": "square_hd", "landscape": "landscape_16_9", "portrait": "portrait_16_9"}


class PictureStore(Protocol):
    async def save(self, content: bytes, name: str) -> Media:
        """Store a picture after checking its bytes; raises ToolFailed when it is none that a model can see."""

    async def find(self, task_id: str, name: str) -> Media | None:
        """Return the newest picture of this name in the conversation."""

    def path(self, picture: Media) -> str:
        """Return where its bytes are."""


class NoPictures:
    """For tasks outside of a gateway."""

    async def save(self, content: bytes, name: str) -> Media:
        raise ToolFailed("Pictures cannot be stored here.")

    async def find(self, task_id: str, name: str) -> Media | None:
        return None

    def path(self, picture: Media) -> str:
        return ""


class PictureMaker(Protocol):
    async def make(self, prompt: str, shape: Shape) -> bytes:
        """Return the bytes of a new picture; raises ToolFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIPictures:
    """Any server with the images endpoint of OpenAI."""

    base_url: str
    model: str
    key: str
    guard: UrlGuard

    async def make(self, prompt: str, shape: Shape) -> bytes:
        guard = self.guard.allowing(self.base_url)
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        wanted = {"model": self.model, "prompt": prompt, "size": _SIZES[shape], "n": 1}
        url = f"{self.base_url.rstrip('/')}/images/generations"
        return await _make(url, guard, ApiRequest(headers=headers, json=wanted), "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class FalPictures:
    key: str
    model: str
    guard: UrlGuard
    base_url: str = _FAL

    async def make(self, prompt: str, shape: Shape) -> bytes:
        wanted = {"prompt": prompt, "image_size": _FAL_SIZES[shape], "num_images": 1}
        request = ApiRequest(headers={"Authorization": f"Key {self.key}"}, json=wanted)
        return await _make(f"{self.base_url}/{self.model}", self.guard, request, "images")


def find_maker(
    keys: Mapping[str, str], base_url: str, model: str, guard: UrlGuard, *, is_openai: bool
) -> PictureMaker | None:
    """Return the service that the settings choose: a server by its address, else FAL, else OpenAI if the key is its."""
    key = keys.get("OPENAI_API_KEY", "")
    if base_url:
        return OpenAIPictures(base_url=base_url, model=model or "gpt-image-1", key=key, guard=guard)
    if fal := keys.get("FAL_KEY"):
        return FalPictures(key=fal, model=model or "fal-ai/flux/schnell", guard=guard)
    return OpenAIPictures(base_url=_OPENAI, model=model or "gpt-image-1", key=key, guard=guard) if is_openai else None


async def _make(url: str, guard: UrlGuard, request: ApiRequest, field: str) -> bytes:
    answer = await fetch(url, guard, _LIMITS, request)
    try:
        found: Any = json.loads(answer.content)[field][0]
        if packed := found.get("b64_json"):
            return base64.b64decode(packed, validate=True)
        address = found["url"]
        if address.startswith("data:"):
            return base64.b64decode(address.partition(",")[2], validate=True)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise ToolFailed("The service answered without a picture. Try another description.") from error
    return (await fetch(address, guard, _LIMITS)).content
