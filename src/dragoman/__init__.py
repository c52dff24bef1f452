"""dragoman: the layer between chat messages and a language model, learned from the model's own chat template."""

from dragoman.chat import Delta, Message, Problem, ToolCall, ToolCallDelta
from dragoman.constraint.constraint import Constraint, fill_batch
from dragoman.engine import Chunk, Engine, EngineInfo, Generation, GrammarSpec, Sampling
from dragoman.errors import (
    DragomanError,
    EngineError,
    GrammarError,
    LimitError,
    OutputError,
    SchemaError,
    StateError,
    TemplateError,
    UsageError,
    VocabularyError,
)
from dragoman.format import ChatFormat
from dragoman.grammar.schema.options import SchemaOptions
from dragoman.grammar.walk import COMPILED as compiled
from dragoman.integrations.logits import apply_mask
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary

__all__ = [
    "ChatFormat",
    "Chunk",
    "Constraint",
    "Delta",
    "DragomanError",
    "Engine",
    "EngineError",
    "EngineInfo",
    "Generation",
    "GrammarError",
    "GrammarSpec",
    "LimitError",
    "Message",
    "OutputError",
    "Problem",
    "Sampling",
    "SchemaError",
    "SchemaOptions",
    "StateError",
    "TemplateError",
    "ToolCall",
    "ToolCallDelta",
    "Turn",
    "UsageError",
    "Vocabulary",
    "VocabularyError",
    "apply_mask",
    "compiled",
    "fill_batch",
]
