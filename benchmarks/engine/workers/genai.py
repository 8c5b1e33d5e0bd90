"""OpenVINO GenAI's continuous batching, in process, in a Python that has `openvino_genai` and nothing of ours.

`python genai.py SETTINGS` with SETTINGS a JSON object: `model` (IR folder), `tokenizer` (anything that GenAI's
Tokenizer reads), `scheduler` (attributes of SchedulerConfig), `properties` (of the CPU plugin). Speaks the protocol of
`pipe_client.py`.
"""

import json
import os
import select
import sys
import time
from typing import Any, BinaryIO

import numpy as np
import openvino
import openvino_genai


class Requests:
    """The requests that come over stdin, read between steps and never waited for while there is work."""

    def __init__(self) -> None:
        self._buffer = b""
        self.open = True

    def poll(self, *, block: bool) -> list[dict[str, Any]]:
        readable, _, _ = select.select([0], [], [], None if block else 0)
        if readable:
            data = os.read(0, 1 << 20)
            self.open = bool(data)
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]


class Worker:
    def __init__(self, settings: dict[str, Any], events: BinaryIO) -> None:
        self._events = events
        scheduler = openvino_genai.SchedulerConfig()
        for name, value in settings["scheduler"].items():
            setattr(scheduler, name, value)
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            settings["model"],
            openvino_genai.Tokenizer(settings["tokenizer"]),
            scheduler,
            "CPU",
            **settings["properties"],
        )
        self._handles: dict[int, Any] = {}
        self._counts: dict[int, int] = {}

    def serve(self) -> None:
        requests = Requests()
        self._emit({"ready": {"openvino": openvino.get_version(), "genai": openvino_genai.__version__}})
        while requests.open:
            for message in requests.poll(block=not self._handles):
                self._take(message)
            if self._handles:
                self._step()

    def _take(self, message: dict[str, Any]) -> None:
        if "cancel" in message:
            handle = self._handles.pop(message["cancel"], None)
            if handle is not None:
                handle.cancel()
            return
        number, count = message["id"], message["output_tokens"]
        config = openvino_genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        prompt = openvino.Tensor(np.array([message["prompt"]], dtype=np.int64))
        self._handles[number] = self._pipeline.add_request(number, prompt, config)
        self._counts[number] = 0

    def _step(self) -> None:
        self._pipeline.step()
        now = time.monotonic()
        progressed: list[int] = []
        done: list[list[int]] = []
        for number, handle in list(self._handles.items()):
            finished = False
            fresh = 0
            while handle.can_read():
                for output in handle.read().values():
                    fresh += len(output.generated_ids)
                    finished |= output.finish_reason != openvino_genai.GenerationFinishReason.NONE
            self._counts[number] += fresh
            if fresh:
                progressed.append(number)
            if finished:
                done.append([number, self._counts.pop(number)])
                del self._handles[number]
        if progressed:
            self._emit({"at": now, "progressed": progressed, "done": done})

    def _emit(self, message: dict[str, Any]) -> None:
        self._events.write(json.dumps(message).encode() + b"\n")


def main() -> None:
    # What a library prints goes to the log; only events go to the pipe.
    events = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    Worker(json.loads(sys.argv[1]), events).serve()


if __name__ == "__main__":
    main()
