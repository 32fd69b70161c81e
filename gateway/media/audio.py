"""The child process that converts or recognises one sound file: standard input to standard output.

`opus` writes OGG/Opus, which chat apps show as a voice note. `samples` writes 16-bit samples at 16 kHz. `words` writes
the words that pocketsphinx hears, with a JSGF grammar if one is named. Like `child`, it limits itself before it reads
the first byte. `whisper` writes the words that faster-whisper hears, with the model in a folder. That has no limits: it
needs threads and as much memory as the model, and it reads our samples instead of a stranger's file.
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
    way, seconds, memory_bytes, named = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if way != "whisper":
        limit_self(seconds, memory_bytes)
    with os.fdopen(0, "rb") as file:
        match way:
            case "opus":
                answer = _convert(file)
            case "samples":
                answer = _read_samples(file)
            case "words":
                answer = _recognise(file, named)
            case _:
                answer = _transcribe(file, named)
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


def _read_samples(file: BinaryIO) -> bytes:
    return b"".join(bytes(frame.planes[0])[: frame.samples * 2] for frame in _frames(file, _HEARD_HZ))


def _transcribe(file: BinaryIO, folder: str) -> bytes:
    import numpy as np
    from faster_whisper import WhisperModel

    sound = np.frombuffer(file.read(), np.int16).astype(np.float32) / 32_768
    segments, _ = WhisperModel(folder, device="cpu", compute_type="int8", local_files_only=True).transcribe(sound)
    words = " ".join(segment.text.strip() for segment in segments)
    return f"{words}\n".encode()  # without the end of the line, it failed


def _recognise(file: BinaryIO, grammar: str) -> bytes:
    from pocketsphinx import Decoder  # type: ignore[import-untyped]

    decoder = Decoder(samprate=_HEARD_HZ, loglevel="FATAL", **({"jsgf": grammar} if grammar else {}))
    decoder.start_utt()
    decoder.process_raw(_read_samples(file), full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return found.hypstr.encode() if found is not None else b""


if __name__ == "__main__":
    main()
