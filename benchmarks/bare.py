"""The yardstick of idle latency: one bare INSERT per request behind the same server."""

import asyncio
import os
import sys

import asyncpg
import uvicorn
from starlette.types import Receive, Scope, Send

TABLE = "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, body bytea NOT NULL)"


async def main(port: int) -> None:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=2) as pool:
        await pool.execute(TABLE)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            assert scope["type"] == "http"
            body = (await receive())["body"]
            await pool.execute("INSERT INTO bare (body) VALUES ($1)", body)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"15")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"status":"ok"}'})

        config = uvicorn.Config(
            app,
            port=port,
            http="httptools",
            lifespan="off",
            ws="none",
            access_log=False,
            server_header=False,
            log_level="warning",
        )
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
