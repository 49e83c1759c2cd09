"""Finds the two most similar texts: computes embeddings and the cosine of each pair. Needs numpy.

usage: embed.py [TEXT ...]
"""

import sys

import numpy

from beamline_client import Client

TEXTS = ["edit photos", "an image manipulation program", "a mail server"]


def main() -> None:
    texts = sys.argv[1:] or TEXTS
    with Client(timeout=60) as client:
        vectors = client.encode("embed-en", texts, normalize=True).numpy()  # [number of texts, dimensions]
    cosines = numpy.inner(vectors, vectors)
    for row, text in zip(cosines, texts):
        print(" ".join(f"{cosine:7.4f}" for cosine in row), text)
    if len(texts) > 1:
        others = cosines - 2 * numpy.eye(len(texts))
        first, second = numpy.unravel_index(others.argmax(), others.shape)
        print(f"closest: {texts[first]!r} and {texts[second]!r}")


if __name__ == "__main__":
    main()
