"""dragoman inside other engines: parsers for vLLM and SGLang, a response template for transformers.

An engine is imported by the module that subclasses its classes, and by nothing else: what registers them is light.
"""
