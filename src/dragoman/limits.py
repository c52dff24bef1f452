"""Every bound of the core, named and justified, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds; ``DEFAULT`` is used wherever none are given. Sizes are counts unless the name says bytes or ms."""

    # Grammar programs: the largest tool set of the public benchmarks compiles to 60,000 instructions.
    program_instructions: int = 2_000_000
    # Live threads of one machine state; RE2's NFA keeps one per instruction, real formats need under 40.
    machine_threads: int = 4_096
    # Memoised states of one program; past it the cache is dropped and filled anew, as RE2 does.
    machine_states: int = 20_000
    # Short pieces of text whose way through one program is remembered: a vocabulary's common tokens, about 2 MB.
    machine_pieces: int = 16_384
    # Nesting of calls: JSON nested 2,000 deep must work, three calls a level.
    machine_depth: int = 20_000
    # Bytes that may be withheld because live threads dispute them; past it reading recovers.
    machine_withheld_bytes: int = 4_000_000
    # States of one look-ahead automaton (markers are short; follow sets are small).
    guard_states: int = 20_000
    # States and rows of the automaton behind the masks of one grammar (a row has 1 KiB); past one it starts anew.
    mask_states: int = 1 << 18
    mask_rows: int = 1 << 15
    # Trie nodes looked at for one mask: four times those of the largest vocabularies.
    mask_steps: int = 4_000_000
    # Bytes of the masks that are kept for one grammar.
    mask_bytes: int = 32_000_000
    # Rendering: statements executed by one template run, and characters written.
    render_steps: int = 5_000_000
    render_chars: int = 64_000_000
    # Learning: renderings of one template.
    probe_renders: int = 2_000
    # JSON Schema: subschemas visited, $ref depth while inlining.
    schema_nodes: int = 100_000
    # Tools of one request and bytes of one request's schemas.
    tools: int = 2_000


DEFAULT = Limits()
