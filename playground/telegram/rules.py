"""Refusals of the Bot API in its own words: keyboards, commands, reactions, chat actions, photos."""

import re
import struct

from playground.wire import ApiRefusal, Wire, to_json

MAX_TEXT_UNITS = 4096
MAX_CAPTION_UNITS = 1024
MAX_DATA_BYTES = 64
MAX_DOWNLOAD_BYTES = 20 * 1024 * 1024
MAX_UPLOAD_BYTES = 50 * 1024 * 1024
MAX_COMMANDS = 100
_ACTIONS = (
    "typing upload_photo record_video upload_video record_voice upload_voice upload_document choose_sticker "
    "find_location record_video_note upload_video_note record_audio upload_audio cancel"
)
ACTIONS = frozenset(_ACTIONS.split())
_REACTIONS = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 "
    "🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 "
    "🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡 "
)
REACTIONS = frozenset(_REACTIONS.split())
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_MAX_PHOTO_BYTES = 10 * 1024 * 1024
_MAX_SIDES = 10_000
_MAX_RATIO = 20
_PNG = b"\x89PNG\r\n\x1a\n"
_PICTURES = (_PNG, b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")


class TelegramRefusal(ApiRefusal):
    """An answer with `ok: false`; `parameters` go beside the description."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    @property
    def wire(self) -> bytes:
        body: Wire = {"ok": False, "error_code": self.code, "description": self.description}
        return to_json(body | ({"parameters": self.parameters} if self.parameters else {}))


def bad_request(words: str) -> TelegramRefusal:
    """Write the reason with a lower-case letter, except where it is a CODE, as the server does."""
    if words[1:2].isupper() or words[1:2] == "_":
        return TelegramRefusal(400, f"Bad Request: {words}")
    return TelegramRefusal(400, f"Bad Request: {words[:1].lower()}{words[1:]}")


def forbidden(words: str) -> TelegramRefusal:
    return TelegramRefusal(403, f"Forbidden: {words}")


def too_many_requests(seconds: int) -> TelegramRefusal:
    return TelegramRefusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def utf16_length(text: str) -> int:
    """Count UTF-16 units, as Telegram does: most emoji are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_keyboard(markup: Wire | None) -> Wire | None:
    """Return the inline keyboard as it is kept, or None; no other keyboard stays with a message."""
    rows = [row for row in (markup or {}).get("inline_keyboard", ()) if row]
    for button in (button for row in rows for button in row):
        if not button["text"]:
            raise bad_request('can\'t parse inline keyboard button: Field "text" must be non-empty')
        data = button.get("callback_data", "no data")
        if not 1 <= len(data.encode("utf-8", "surrogatepass")) <= MAX_DATA_BYTES:
            raise bad_request("BUTTON_DATA_INVALID")
    return {"inline_keyboard": rows} if rows else None


def check_commands(commands: list[Wire]) -> list[Wire]:
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    return [
        _check_command(command["command"].removeprefix("/"), command["description"].strip()) for command in commands
    ]


def _check_command(name: str, words: str) -> Wire:
    if not _COMMAND.fullmatch(name):
        raise bad_request("BOT_COMMAND_INVALID")
    if not words:
        raise bad_request("command description must be non-empty")
    if len(words) > 256:
        raise bad_request("command description length must not exceed 256")
    return {"command": name, "description": words}


def check_reactions(reactions: list[Wire] | None) -> list[Wire]:
    if len(reactions or ()) > 1:
        raise bad_request("REACTIONS_TOO_MANY")  # one per bot and message
    if any(one["type"] != "emoji" or one["emoji"] not in REACTIONS for one in reactions or ()):
        raise bad_request("REACTION_INVALID")
    return reactions or []


def check_photo(content: bytes) -> None:
    """Raises the refusal of a file that is no picture, or has bad dimensions, which are only read from a PNG."""
    if len(content) > _MAX_PHOTO_BYTES:
        raise bad_request("too big for a photo")
    if not content.startswith(_PICTURES):
        raise bad_request("IMAGE_PROCESS_FAILED")
    if content.startswith(_PNG):
        try:
            width, height = struct.unpack_from(">II", content, 16)
        except struct.error:
            raise bad_request("IMAGE_PROCESS_FAILED") from None
        if not 0 < width + height <= _MAX_SIDES or max(width, height) > _MAX_RATIO * min(width, height):
            raise bad_request("PHOTO_INVALID_DIMENSIONS")
