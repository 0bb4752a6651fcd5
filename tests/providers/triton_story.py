"""A real Triton server with a small model of Python that tells a story, for tests: run by the
interpreter of `.venv-triton`, with its port. The model reads parameters as backends of language
models do."""

import sys
import time

import numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

WORDS = ("Once ", "upon ", "a ", "time.")
LONG = 200


def story(requests):
    (request,) = requests
    parameters, prompt = request.parameters, request["text_input"][0].decode()
    print("asked", prompt, dict(sorted(parameters.items())), flush=True)
    words = WORDS * LONG if "long" in prompt else WORDS
    if not parameters.get("stream"):
        words = ["".join(words)]
    try:
        for number, word in enumerate(words):
            if "break" in prompt and number == 2:
                raise RuntimeError("the model broke")
            yield [{"text_output": np.array([word.encode()], dtype=object)}]
            time.sleep(0.02)
        print("told all", flush=True)
    finally:
        print("ended", flush=True)


def main() -> None:
    port, folder = int(sys.argv[1]), sys.argv[2]
    names = ("http_address", "grpc_address", "metrics_address")
    local = dict.fromkeys(names, "127.0.0.1")
    ports = {"http_port": port, "grpc_port": port + 1, "metrics_port": port + 2}
    text = {"dtype": bytes, "shape": (1,)}
    config = TritonConfig(**local, **ports, exit_timeout_secs=2)
    with Triton(config=config, workspace=folder) as triton:
        triton.bind(
            model_name="story",
            infer_func=story,
            inputs=[Tensor(name="text_input", **text)],
            outputs=[Tensor(name="text_output", **text)],
            config=ModelConfig(batching=False, decoupled=True),
        )
        triton.serve()


if __name__ == "__main__":
    main()
