"""Prints the best translations of a beam search, with their scores.

usage: beam_search.py [TEXT [WIDTH]]
"""

import sys

from beamline_client import Client, InvalidArgumentError


def main() -> int:
    text = sys.argv[1] if len(sys.argv) > 1 else "A small, fast and secure web browser for the desktop."
    width = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    with Client(timeout=60) as client:
        try:
            answer = client.generate("translate-en-de", text, beam=width, num_sequences=width, length_penalty=1.0)
        except InvalidArgumentError as error:
            print(f"{error.field} cannot be {error.value}; it may be {error.accepted}", file=sys.stderr)
            return 1
    for sequence in answer.sequences:
        print(f"{sequence.score:8.4f} {sequence.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
