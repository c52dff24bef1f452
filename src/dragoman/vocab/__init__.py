"""Token bytes and control tokens of a model, and text to ids that no input can forge."""

from dragoman.vocab.blueprint import AddedToken
from dragoman.vocab.encode import Part
from dragoman.vocab.gguf import Metadata, parse_metadata, read_metadata
from dragoman.vocab.tokens import Vocabulary

__all__ = ["AddedToken", "Metadata", "Part", "Vocabulary", "parse_metadata", "read_metadata"]
