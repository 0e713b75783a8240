"""Serve a model over HTTP, by OpenAI's API of embeddings.

    python openai_server.py [--model MODEL] [--dtype int8] [--port 8000] [--workers 1]

Needs starlette and uvicorn. Workers share the table's memory. Whoever reaches the port may use it.
"""

import dataclasses
import functools
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Literal

import msgspec
import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from tokenizers import Tokenizer, models, pre_tokenizers

from st_static import FastEncoder
from st_static.cli import run_command

MOST_BYTES, MOST_INPUTS, SHORT = 16_000_000, 2_048, 8_000  # SHORT bytes pay for no thread


class Query(msgspec.Struct):
    model: str
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None


def as_json(content, status=200):  # bytes become base64
    headers = {"connection": "close"} if status == 413 else None  # the rest is not read
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def refusal(message, param=None, status=400, code=None):
    told = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return as_json({"error": told}, status)


def create_app(name, encoder, dtype="int8"):
    n_ids = encoder.tokenize.tokenizer.get_vocab_size()
    one = CapacityLimiter(1)  # thread at a time: the encoder starts its own

    @functools.cache
    def encoder_of_ids():  # of texts such as "7 42"
        numbers = Tokenizer(models.WordLevel({str(i): i for i in range(n_ids)}, unk_token="0"))
        numbers.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return FastEncoder(dataclasses.replace(encoder.model, tokenizer=numbers, prompt=""), dtype)

    def embed(body):
        try:
            query = msgspec.json.decode(body, type=Query)
        except (ValueError, RecursionError) as error:
            return refusal(f"The request is invalid: {error}.")
        if query.model != name:
            return refusal(f"No such model, only {name!r}.", "model", 404, "model_not_found")
        if query.dimensions is not None and not 1 <= query.dimensions <= encoder.dimension:
            return refusal(f"Expected 1 to {encoder.dimension} dimensions.", "dimensions")
        given = query.input if isinstance(query.input, list) else [query.input]
        kinds = set(map(type, given))
        inputs = [given] if kinds == {int} else given
        if len(kinds) != 1 or len(inputs) > MOST_INPUTS or not all(inputs):
            return refusal(f"Expected 1 to {MOST_INPUTS} nonempty texts or lists of ids.", "input")
        if kinds != {str} and not all(min(ids) >= 0 and max(ids) < n_ids for ids in inputs):
            return refusal(f"Expected ids of the model's tokenizer, 0 to {n_ids - 1}.", "input")
        used = encoder if kinds == {str} else encoder_of_ids()
        inputs = inputs if kinds == {str} else [" ".join(map(str, ids)) for ids in inputs]
        n = len(used.tokenize(inputs).values)
        out = used.encode(inputs, truncate_dim=query.dimensions, normalize_embeddings=True)
        out = map(bytes, out.astype("<f4")) if query.encoding_format == "base64" else out.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(out)]
        usage = {"prompt_tokens": n, "total_tokens": n}
        return as_json({"object": "list", "data": data, "model": name, "usage": usage})

    async def embeddings(request):
        raw = bytearray()
        async for part in request.stream():
            raw += part
            if len(raw) > MOST_BYTES:
                return refusal(f"Expected a body of at most {MOST_BYTES} bytes.", status=413)
        return embed(raw) if len(raw) < SHORT else await to_thread.run_sync(embed, raw, limiter=one)

    about = {"id": name, "object": "model", "created": 0, "owned_by": "st_static"}
    routes = [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/models", lambda request: as_json({"object": "list", "data": [about]})),
    ]
    told = dict.fromkeys([404, 405], lambda _, e: refusal(e.detail, status=e.status_code))
    return Starlette(routes=routes, exception_handlers=told)


def app():  # of a worker
    name, dtype = os.environ["SERVED_MODEL"], os.environ["SERVED_DTYPE"]
    encoder = FastEncoder.from_pretrained(name, dtype=dtype, mmap=True)
    encoder.tokenize.prepare()
    return create_app(name, encoder, dtype)


def main(arguments):
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="st-static/english-384", help="name, folder or Hub id")
    parser.add_argument("--dtype", default="int8", help="as the table is stored: int8 or float32")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    options = vars(parser.parse_args(arguments))
    os.environ |= {"SERVED_MODEL": options.pop("model"), "SERVED_DTYPE": options.pop("dtype")}
    app()  # tells what is wrong with the model before workers start
    uvicorn.run("openai_server:app", factory=True, access_log=False, **options)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
