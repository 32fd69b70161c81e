"""What the Bot API refuses, in its own words: lengths, keyboards, commands, reactions, chat actions."""

import re
from collections.abc import Mapping, Sequence

from playground import wire
from playground.wire import Wire as Wire
from playground.wire import to_json as to_json

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
# One of these makes a button of an inline keyboard; without one it is a button of the other kind of keyboard.
_BUTTON_KINDS = (
    "url",
    "callback_data",
    "web_app",
    "login_url",
    "switch_inline_query",
    "switch_inline_query_current_chat",
    "switch_inline_query_chosen_chat",
    "copy_text",
    "callback_game",
    "pay",
)


class Refused(wire.Refused):
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


def bad_request(words: str) -> Refused:
    """The server writes its reason with a small letter, except where it is a CODE."""
    if words[1:2].isupper() or words[1:2] == "_":
        return Refused(400, f"Bad Request: {words}")
    return Refused(400, f"Bad Request: {words[:1].lower()}{words[1:]}")


def forbidden(words: str) -> Refused:
    return Refused(403, f"Forbidden: {words}")


def too_many_requests(seconds: int) -> Refused:
    return Refused(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def utf16_length(text: str) -> int:
    """Telegram counts in UTF-16 units: most emoji are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_reply_markup(markup: object, *, inline_only: bool = False) -> Wire | None:
    """The keyboard as it is kept, or None for none. Only inline keyboards stay with a message."""
    if markup is None or markup == "":
        return None
    if not isinstance(markup, dict):
        raise bad_request("object expected as reply markup")
    if "inline_keyboard" in markup:
        return _inline_keyboard(markup["inline_keyboard"])
    if inline_only and markup:
        raise bad_request("inline keyboard expected")
    if "keyboard" in markup and not _is_rows(markup["keyboard"]):
        raise bad_request('field "keyboard" of the ReplyKeyboardMarkup must be an Array of Arrays')
    return None


def _inline_keyboard(rows: object) -> Wire | None:
    if not _is_rows(rows):
        raise bad_request('field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays')
    assert isinstance(rows, list)
    kept = [[_button(button) for button in row] for row in rows if row]
    return {"inline_keyboard": kept} if kept else None


def _is_rows(rows: object) -> bool:
    return isinstance(rows, list) and all(isinstance(row, list) for row in rows)


def _button(button: object) -> Wire:
    if not isinstance(button, dict):
        raise bad_request("can't parse inline keyboard button: InlineKeyboardButton must be an Object")
    text = button.get("text")
    if not isinstance(text, str):
        raise bad_request("can't parse inline keyboard button: Can't find field \"text\"")
    if not text:
        raise bad_request('can\'t parse inline keyboard button: Field "text" must be non-empty')
    if not any(kind in button for kind in _BUTTON_KINDS):
        raise bad_request("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
    if "callback_data" in button:
        data = button["callback_data"]
        if not isinstance(data, str) or not 1 <= len(data.encode("utf-8", "surrogatepass")) <= MAX_DATA_BYTES:
            raise bad_request("BUTTON_DATA_INVALID")
    if "url" in button and not _is_link(button["url"]):
        raise bad_request(f"inline keyboard button URL '{button['url']}' is invalid: Wrong HTTP URL")
    return dict(button)


def _is_link(url: object) -> bool:
    return isinstance(url, str) and re.fullmatch(r"(?:(?:https?|tg|ton)://)?[^\s/]+\S*", url) is not None


def check_commands(commands: object) -> list[Wire]:
    if not isinstance(commands, list):
        raise bad_request("expected an Array of BotCommand")
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    return [_command(command) for command in commands]


def _command(command: object) -> Wire:
    if not isinstance(command, dict) or not isinstance(command.get("command"), str):
        raise bad_request("can't parse BotCommand: Can't find field \"command\"")
    name, words = command["command"].strip().removeprefix("/"), str(command.get("description") or "").strip()
    if not name:
        raise bad_request("command must be non-empty")
    if len(name) > 32:
        raise bad_request("command length must not exceed 32")
    if not _COMMAND.fullmatch(name):
        raise bad_request("BOT_COMMAND_INVALID")
    if not words:
        raise bad_request("command description must be non-empty")
    if len(words) > 256:
        raise bad_request("command description length must not exceed 256")
    return {"command": name, "description": words}


def check_reactions(reactions: object) -> list[Wire]:
    if reactions is None or reactions == "":
        return []
    if not isinstance(reactions, Sequence) or not all(isinstance(one, Mapping) for one in reactions):
        raise bad_request("can't parse reaction types JSON object")
    if len(reactions) > 1:
        raise bad_request("REACTIONS_TOO_MANY")  # one per bot and message
    for one in reactions:
        if one.get("type") != "emoji" or str(one.get("emoji")) not in REACTIONS:
            raise bad_request("REACTION_INVALID")
    return [dict(one) for one in reactions]
