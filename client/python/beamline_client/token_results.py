"""What classify_tokens and fill_mask answer: tokens of texts, with their classes or with what may stand in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from beamline_client.results import ClassScore, Timing, Usage, timing_of, usage_of
from beamline_client.v1 import inference_pb2 as pb


@dataclass(frozen=True)
class ClassifiedToken:
    id: int
    piece: str
    index: int
    """Its place among the input's tokens, special ones included."""
    begin: int
    """Of the bytes of the text in UTF-8 that it stands for."""
    end: int
    classes: tuple[ClassScore, ...]
    """The best first."""

    @property
    def best(self) -> ClassScore:
        """The class with the highest score."""
        return self.classes[0]


@dataclass(frozen=True)
class Entity:
    label: str
    score: float
    text: str
    """As the tokenizer joins its tokens."""
    begin: int
    """Of its bytes in the text's UTF-8."""
    end: int


@dataclass(frozen=True)
class TokenClassification:
    tokens: tuple[ClassifiedToken, ...]
    """Without ``aggregation``."""
    entities: tuple[Entity, ...]
    """With it."""
    num_tokens: int


@dataclass(frozen=True)
class TokenClassifications:
    """Classifications in the order of their texts; a sequence of them."""

    classifications: tuple[TokenClassification, ...]
    usage: Usage
    timing: Timing
    model: str
    request_id: str

    def __len__(self) -> int:
        return len(self.classifications)

    def __getitem__(self, place: int) -> TokenClassification:
        return self.classifications[place]

    def __iter__(self) -> Iterator[TokenClassification]:
        return iter(self.classifications)


@dataclass(frozen=True)
class MaskFill:
    id: int
    text: str
    score: float
    """Its probability in this place."""
    sequence: str
    """The whole text with it."""


@dataclass(frozen=True)
class FilledMask:
    index: int
    """Its place among the text's tokens, special ones included."""
    begin: int
    """Of its bytes in the text's UTF-8."""
    end: int
    fills: tuple[MaskFill, ...]
    """The likeliest first."""


@dataclass(frozen=True)
class FilledText:
    masks: tuple[FilledMask, ...]
    num_tokens: int


@dataclass(frozen=True)
class FilledTexts:
    """Masks in the order of their texts; a sequence of FilledText."""

    texts: tuple[FilledText, ...]
    usage: Usage
    timing: Timing
    model: str
    request_id: str

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: int) -> FilledText:
        return self.texts[place]

    def __iter__(self) -> Iterator[FilledText]:
        return iter(self.texts)


def token_classifications(response: pb.ClassifyTokensResponse) -> TokenClassifications:
    def token(one: pb.ClassifiedToken) -> ClassifiedToken:
        classes = tuple(ClassScore(of.label, of.score) for of in one.classes)
        return ClassifiedToken(one.id, one.piece, one.index, one.begin, one.end, classes)

    return TokenClassifications(
        tuple(TokenClassification(
            tuple(token(of) for of in one.tokens),
            tuple(Entity(of.label, of.score, of.text, of.begin, of.end) for of in one.entities), one.num_tokens)
            for one in response.classifications),
        usage_of(response.usage), timing_of(response.timing), response.model, response.request_id)


def filled_texts(response: pb.FillMaskResponse) -> FilledTexts:
    def mask(one: pb.FilledMask) -> FilledMask:
        fills = tuple(MaskFill(of.id, of.text, of.score, of.sequence) for of in one.fills)
        return FilledMask(one.index, one.begin, one.end, fills)

    return FilledTexts(tuple(FilledText(tuple(mask(of) for of in one.masks), one.num_tokens) for one in response.texts),
                       usage_of(response.usage), timing_of(response.timing), response.model, response.request_id)
