"""Puts a letter into Slack: as a message, as an edit of one, or as a file."""

import asyncio

from gateway.platforms.outgoing import DOCUMENT_NAME, Document
from gateway.platforms.slack.formatting import SlackAttachment, SlackPost
from gateway.platforms.slack.web_api import Api, SlackMaybeSent, SlackNotSent, SlackProblem

_FILE_LOOKS = 5
_FILE_LOOK_SECONDS = 0.5


async def put(api: Api, letter: SlackPost, content: bytes = b"") -> str:
    """The ts of the message. `content` is that of an enclosed file."""
    if isinstance(letter.page, Document):
        return await _upload(api, letter, DOCUMENT_NAME, letter.page.content)
    if isinstance(letter.page, SlackAttachment):
        return await _upload(api, letter, letter.page.name, content)
    answer = await api.call("chat.update" if letter.edits else "chat.postMessage", **letter.form)
    ts = answer.get("ts")
    if not isinstance(ts, str):
        raise SlackMaybeSent("the answer is not Slack's")
    return ts


async def _upload(api: Api, letter: SlackPost, name: str, content: bytes) -> str:
    try:
        ticket = await api.call("files.getUploadURLExternal", filename=name, length=len(content))
        file_id = str(ticket["file_id"])
        await api.upload(str(ticket["upload_url"]), content)
    except SlackMaybeSent as error:
        raise SlackNotSent(str(error)) from None  # nobody sees it before the upload is completed
    except KeyError:
        raise SlackNotSent("the answer is not Slack's") from None
    await api.call(
        "files.completeUploadExternal",
        files=[{"id": file_id, "title": name}],
        channel_id=letter.channel,
        thread_ts=letter.thread or None,
    )
    return await _where_shared(api, file_id, letter.channel)


async def _where_shared(api: Api, file_id: str, channel: str) -> str:
    """The message that shows it, which comes to be a moment after the upload; else the file's own id."""
    for _ in range(_FILE_LOOKS):
        try:
            file = (await api.call("files.info", file=file_id)).get("file")
        except SlackProblem:
            break
        shares = file.get("shares") if isinstance(file, dict) else None
        for places in shares.values() if isinstance(shares, dict) else ():
            if places.get(channel):
                return str(places[channel][0]["ts"])
        await asyncio.sleep(_FILE_LOOK_SECONDS)
    return file_id
