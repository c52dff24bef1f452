"""How other engines write grammars: GBNF (llama.cpp), EBNF and structural tags (xgrammar), Lark (llguidance)."""
