"""JSON Schema as grammar rules."""

from __future__ import annotations

from .compile import compile_schema
from .options import SchemaOptions

__all__ = ["SchemaOptions", "compile_schema"]
