"""Translates a text, and continues one by sampling.

usage: generate.py [TEXT]
"""

import sys

from beamline_client import Client

TEXT = "Open the file, change the first line and save it."


def main() -> None:
    text = sys.argv[1] if len(sys.argv) > 1 else TEXT
    with Client(timeout=60) as client:  # $BEAMLINE_ADDRESS, else localhost:50051
        answer = client.generate("translate-en-de", text)
        print(answer.text)
        print(f"{answer.usage.generated_tokens} tokens in {answer.timing.total * 1000:.1f} ms, ended by {answer.finish_reason}")

        answer = client.generate("write-en", "This package contains", temperature=0.8, top_p=0.95, seed=7, num_sequences=2,
                                 max_new_tokens=24)
        for sequence in answer.sequences:
            print(f"{sequence.cumulative_logprob:8.2f} {sequence.text!r}")


if __name__ == "__main__":
    main()
