"""Streams a generated text. Stops reading after a number of characters, which also ends the call on the server.

usage: stream.py [CHARACTERS]
"""

import sys

from beamline_client import Client


def main() -> None:
    enough = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with Client(timeout=60) as client:
        num_characters = 0
        with client.generate_stream("write-en", "Package: hello\nSynopsis:", greedy=True, max_new_tokens=48) as stream:
            for delta in stream:
                print(delta.text, end="", flush=True)
                num_characters += len(delta.text)
                if num_characters >= enough:
                    print("\nenough")
                    return
            answer = stream.result()
        print(f"\n{answer.usage.generated_tokens} tokens, the first after {(answer.timing.first_token or 0) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
