"""An AsyncClient that is called like a Client, so that one test tries both."""

import asyncio

import beamline_client

LOOP = asyncio.new_event_loop()  # grpc 1.51 looks back at loops that are closed


class BlockingStream:
    def __init__(self, loop, stream):
        self._loop, self._stream = loop, stream

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._loop.run_until_complete(self._stream.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def result(self):
        return self._loop.run_until_complete(self._stream.result())

    def cancel(self):
        self._stream.cancel()

    def close(self):
        self._loop.run_until_complete(self._stream.aclose())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class BlockingClient:
    """Every call runs the loop until it is answered."""

    def __init__(self, address, kind=beamline_client.AsyncClient, **settings):
        self._loop = LOOP
        self._client = kind(address, **settings)

    def close(self):
        self._loop.run_until_complete(self._client.close())

    def __getattr__(self, name):
        call = getattr(self._client, name)

        def blocking(*arguments, **options):
            asyncio.set_event_loop(self._loop)  # where grpc 1.51 looks for it

            async def begin():
                result = call(*arguments, **options)
                return await result if asyncio.iscoroutine(result) else result

            result = self._loop.run_until_complete(begin())
            return BlockingStream(self._loop, result) if hasattr(result, "__anext__") else result

        return blocking
