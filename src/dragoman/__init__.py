"""Between OpenAI-style chat messages and a language model: one grammar, learned from the chat template, both ways."""

__version__ = "0.1.0"
