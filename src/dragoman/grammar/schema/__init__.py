"""JSON Schema as grammar rules."""

from __future__ import annotations

from dragoman.grammar.schema.compile import compile_schema
from dragoman.grammar.schema.options import SchemaOptions

__all__ = ["SchemaOptions", "compile_schema"]
