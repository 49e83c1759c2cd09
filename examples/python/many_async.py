"""Sends many concurrent requests with asyncio: first as single calls, then over one stream.

usage: many_async.py [REQUESTS]
"""

import asyncio
import sys
import time

from beamline_client import AsyncClient

SENTENCES = ["Cannot open the file.", "Save changes before closing?", "No network connection.", "The printer is out of paper."]


async def main(num_requests: int) -> None:
    prompts = [SENTENCES[number % len(SENTENCES)] for number in range(num_requests)]
    async with AsyncClient(timeout=120) as client:
        begin = time.perf_counter()
        answers = await asyncio.gather(*(client.generate("translate-en-de", prompt, greedy=True) for prompt in prompts))
        print(f"{len(answers)} calls: {time.perf_counter() - begin:.2f} s")

        begin = time.perf_counter()
        streamed = [answer async for answer in client.generate_many("translate-en-de", prompts, greedy=True)]
        print(f"{len(streamed)} requests of one stream: {time.perf_counter() - begin:.2f} s")

        assert [one.text for one in answers] == [one.text for one in streamed]
        for prompt, answer in zip(SENTENCES, answers):
            print(f"{prompt} -> {answer.text}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
