"""The child process that converts or recognises one sound file: standard input to standard output.

`opus` writes OGG/Opus, which chat apps show as a voice note. `words` writes the words that the offline recogniser
hears, with a JSGF grammar if one is named. Like `child`, it limits itself before it reads the first byte.
"""

import io
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

import av
from av.audio.resampler import AudioResampler

from gateway.media.child import limit_self

_MAX_SECONDS = 1_200  # of sound
_HEARD_HZ, _OPUS_HZ = 16_000, 48_000
_OPUS_BITS = 32_000


def main() -> None:
    way, seconds, memory_bytes, grammar = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    limit_self(seconds, memory_bytes)
    with os.fdopen(0, "rb") as file:
        answer = _convert(file) if way == "opus" else _recognise(file, grammar)
    while answer:
        answer = answer[os.write(1, answer) :]
    os._exit(0)


def _frames(file: BinaryIO, hertz: int) -> Iterator[av.AudioFrame]:
    resampler = AudioResampler(format="s16", layout="mono", rate=hertz)
    with av.open(file, "r") as container:
        sound = container.streams.audio[0]
        sound.codec_context.thread_count = 1
        for frame in container.decode(sound):
            if frame.time is not None and frame.time > _MAX_SECONDS:
                break
            yield from resampler.resample(frame)
        yield from resampler.resample(None)


def _convert(file: BinaryIO) -> bytes:
    written = io.BytesIO()
    with av.open(written, "w", format="ogg") as container:
        stream = container.add_stream("libopus", rate=_OPUS_HZ, layout="mono")
        stream.bit_rate = _OPUS_BITS
        stream.codec_context.thread_count = 1
        for frame in _frames(file, _OPUS_HZ):
            frame.pts = None
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return written.getvalue()


def _recognise(file: BinaryIO, grammar: str) -> bytes:
    from pocketsphinx import Decoder  # type: ignore[import-untyped]

    heard = b"".join(bytes(frame.planes[0])[: frame.samples * 2] for frame in _frames(file, _HEARD_HZ))
    decoder = Decoder(samprate=_HEARD_HZ, loglevel="FATAL", **({"jsgf": grammar} if grammar else {}))
    decoder.start_utt()
    decoder.process_raw(heard, full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return found.hypstr.encode() if found is not None else b""


if __name__ == "__main__":
    main()
