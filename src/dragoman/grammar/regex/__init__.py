"""Regular expressions: parsed to grammar nodes, made automata, computed with."""
