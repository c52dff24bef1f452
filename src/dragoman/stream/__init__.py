"""Settled events to messages: what was read, value by value, as deltas that are never taken back."""
