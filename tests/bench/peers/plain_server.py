"""The usual way: a FastAPI route that awaits a GET of redis.asyncio, and passes on the JSON it finds."""

import argparse

import redis.asyncio
import uvicorn
from fastapi import FastAPI, HTTPException, Response

from tests.bench.peers.floor_server import QUICKEST

KEY_PREFIX = "plain:"


def make_app(redis_url: str) -> FastAPI:
    app, client = FastAPI(), redis.asyncio.Redis.from_url(redis_url)

    @app.get("/predictions/{entity}")
    async def prediction(entity: str) -> Response:
        found = await client.get(KEY_PREFIX + entity)
        if found is None:
            raise HTTPException(404)
        return Response(found, media_type="application/json")

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--redis-url", required=True)
    options = parser.parse_args()
    uvicorn.run(make_app(options.redis_url), host="127.0.0.1", port=options.port, **QUICKEST)
