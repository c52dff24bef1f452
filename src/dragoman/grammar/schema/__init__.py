"""JSON Schema as grammar rules."""

from __future__ import annotations

from dragoman.grammar.schema.compile import begin_schema, compile_schema
from dragoman.grammar.schema.options import SchemaOptions

__all__ = ["SchemaOptions", "begin_schema", "compile_schema"]
