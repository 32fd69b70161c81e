"""Send posts to Slack, as messages, edits or files."""

import asyncio

from gateway.platforms.outgoing import DOCUMENT_NAME, Attachment, Document, OutgoingPost
from gateway.platforms.slack.formatting import build_form
from gateway.platforms.slack.web_api import SlackMaybeSent, SlackNotSent, SlackProblem, SlackWebApi

_FILE_LOOKS = 5
_FILE_LOOK_SECONDS = 0.5


async def send_post(api: SlackWebApi, post: OutgoingPost, content: bytes = b"") -> str:
    """Return the ts of the message. `content` is that of an attached file."""
    if isinstance(post.page, Document):
        return await _upload(api, post, DOCUMENT_NAME, post.page.content)
    if isinstance(post.page, Attachment):
        return await _upload(api, post, post.page.name, content)
    answer = await api.call("chat.update" if post.edits else "chat.postMessage", **build_form(post))
    ts = answer.get("ts")
    if not isinstance(ts, str):
        raise SlackMaybeSent("the answer is not from Slack")
    return ts


async def _upload(api: SlackWebApi, post: OutgoingPost, name: str, content: bytes) -> str:
    try:
        ticket = await api.call("files.getUploadURLExternal", filename=name, length=len(content))
        file_id = str(ticket["file_id"])
        await api.upload(str(ticket["upload_url"]), content)
    except SlackMaybeSent as error:
        raise SlackNotSent(str(error)) from None  # nobody sees it before the upload is completed
    except KeyError:
        raise SlackNotSent("the answer is not from Slack") from None
    await api.call(
        "files.completeUploadExternal",
        files=[{"id": file_id, "title": name}],
        channel_id=post.chat,
        thread_ts=post.thread or None,
    )
    return await _find_shared(api, file_id, post.chat)


async def _find_shared(api: SlackWebApi, file_id: str, channel: str) -> str:
    """Return the ts of the message with the file, which appears a moment after the upload; else the file's id."""
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
