"""Chat templates written for the tests, one for each way of writing calls. All markers are made up."""

# ruff: noqa: E501 - templates are easier to read on long lines

from __future__ import annotations

HEAD = """{%- if tools %}{{ '<|zon|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|zoff|>\\n' }}{% endif -%}
{%- for m in messages %}
{%- if m.role != 'assistant' %}{{ '<|zon|>' + m.role + '\\n' + m.content + '<|zoff|>\\n' }}
{%- else %}{{ '<|zon|>assistant\\n' }}"""
TAIL = """{{ '<|zoff|>\\n' }}{% endif %}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|zon|>assistant\\n' }}{% endif %}"""
CONTENT = "{{ m.content or '' }}"


def wrap(turn: str, head: str = HEAD, tail: str = TAIL) -> str:
    """A template whose assistant turns are written by ``turn``, which reads the message ``m``."""
    return head + turn + tail


JSON_IN_TAGS = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{% if m.content or not loop.first %}{{ '\\n' }}{% endif -%}
{{ '<qor>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\\n</qor>' }}{% endfor %}"""
)
JSON_ARRAY_WITH_IDS = wrap(
    """{% if m.tool_calls %}{{ '[QALLS][' }}{% for c in m.tool_calls -%}
{%- if c.id | length != 9 %}{{ raise_exception('ids have 9 characters') }}{% endif -%}
{{ (c.function | tojson)[:-1] + ', "id": "' + c.id + '"}' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']' }}
{%- else %}{{ m.content | trim }}{% endif %}"""
)
NAME_AS_KEY = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '<|vops|>[' }}{% for c in m.tool_calls -%}
{{ '{"' + c.function.name + '": ' + (c.function.arguments | tojson) + '}' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']<|/vops|>' }}{% endif %}"""
)
BARE_JSON_ONE_CALL = wrap(
    """{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif -%}
{%- set c = m.tool_calls[0].function %}{{ '{"name": "' + c.name + '", "parameters": ' + (c.arguments | tojson) + '}' }}
{%- else %}{{ m.content }}{% endif %}"""
)
ID_BETWEEN = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kall>' + c.function.name + '<kid>' + c.id + '<kargs>' -}}
{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{% endfor %}"""
)
ID_BEFORE = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kid>' + c.id + '<kname>' + c.function.name + '<kargs>' -}}
{{ c.function.arguments | tojson }}{{ '<kend>' }}{% endfor %}"""
)
COUNTED_IN_SECTION = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '<|sek|>' }}{% for c in m.tool_calls -%}
{{ '<|kol|>fn.' + c.function.name + ':' + (loop.index0 | string) + '<|karg|>' + (c.function.arguments | tojson) + '<|/kol|>' }}
{%- endfor %}{{ '<|/sek|>' }}{% endif %}"""
)
TAGGED = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '\\n<kul>\\n<fun=' + c.function.name + '>\\n' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<par=' + k + '>\\n' + (v if v is string else v | string) + '\\n</par>\\n' }}{% endfor -%}
{{ '</fun>\\n</kul>' }}{% endfor %}"""
)
TAGGED_KEYS_AND_VALUES = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul>' + c.function.name }}
{%- for k, v in c.function.arguments.items() -%}
{{ '\\n<ak>' + k + '</ak>\\n<av>' + (v if v is string else v | tojson) + '</av>' }}{% endfor -%}
{{ '\\n</kul>' }}{% endfor %}"""
)
TYPED_TAGS = wrap(
    CONTENT
    + """{% macro kind(v) %}{% if v is string %}string{% elif v is boolean %}boolean{% elif v is none %}null{% elif v is number %}number
{%- elif v is mapping %}object{% else %}array{% endif %}{% endmacro -%}
{% for c in m.tool_calls or [] %}{{ '<kul n="' + c.function.name + '">' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<a k="' + k + '" t="' + kind(v) + '">' + (v if v is string else v | tojson) + '</a>' }}{% endfor -%}
{{ '</kul>' }}{% endfor %}"""
)
RECIPIENTS = wrap(
    """{% if m.content %}{{ 'everyone\\n' + m.content }}{% endif %}{% for c in m.tool_calls or [] -%}
{{ '###' if m.content or not loop.first }}{{ c.function.name + '\\n' + (c.function.arguments | tojson) }}{% endfor %}""",
    head=HEAD.removesuffix("assistant\\n' }}") + "assistant\\n###' }}",
    tail=TAIL.replace("<|zon|>assistant\\n", "<|zon|>assistant\\n###"),
)
ENTITIES = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul n="' }}{{ c.function.name | e }}{{ '">' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<a k="' }}{{ k | e }}{{ '">' }}{% if v is string %}{{ v | e }}{% else %}{{ v | tojson }}{% endif %}{{ '</a>' }}{% endfor -%}
{{ '</kul>' }}{% endfor %}"""
)
PYTHON_LIKE = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '<|on|>[' }}{% for c in m.tool_calls %}{{ c.function.name + '(' }}
{%- for k, v in c.function.arguments.items() %}{{ k + '=' + (v | tojson) }}{{ ', ' if not loop.last }}{% endfor -%}
{{ ')' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']<|off|>' }}{% endif %}"""
)
# Every value in the same quotes, whatever it is: the history shows that one call, models write the calls of Python.
QUOTED_VALUES = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '[' }}{% for c in m.tool_calls %}{{ c.function.name + '(' }}
{%- for k, v in c.function.arguments.items() %}{{ k + '="' ~ v ~ '"' }}{{ ', ' if not loop.last }}{% endfor -%}
{{ ')' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']' }}{% endif %}"""
)
OWN_QUOTES = wrap(
    """{% macro spell(v) %}{% if v is string %}{{ '<|q|>' + v + '<|q|>' }}{% elif v is boolean or v is none %}{{ v | tojson -}}
{%- elif v is mapping %}{{ '{' }}{% for k, x in v | dictsort %}{{ k + ':' + spell(x) }}{{ ',' if not loop.last }}{% endfor %}{{ '}' -}}
{%- elif v is iterable %}{{ '[' }}{% for x in v %}{{ spell(x) }}{{ ',' if not loop.last }}{% endfor %}{{ ']' -}}
{%- else %}{{ v }}{% endif %}{% endmacro -%}"""
    + CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<|kul>call:' + c.function.name + spell(c.function.arguments) + '<kul|>' }}{% endfor %}"""
)
KEYS_AS_TAGS = wrap(
    """{% macro tags(v) %}{% if v is mapping %}{% for k, x in v.items() if x is not none %}{{ '@]<' + k + '>' + tags(x) + '@]</' + k + '>' }}{% endfor -%}
{%- elif v is string %}{{ v }}{% elif v is iterable %}{% for x in v %}{{ '@]<one>' + tags(x) + '@]</one>' }}{% endfor -%}
{%- else %}{{ v | tojson }}{% endif %}{% endmacro -%}"""
    + CONTENT
    + """{% if m.tool_calls %}{{ '@]<kuls>\\n' }}{% for c in m.tool_calls -%}
{{ '@]<kul n="' + c.function.name + '">' + tags(c.function.arguments) + '@]</kul>\\n' }}{% endfor %}{{ '@]</kuls>' }}{% endif %}"""
)
ID_ON_A_LINE = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul>' + c.id + '\\n' + c.function.name + '\\n' + (c.function.arguments | tojson) + '</kul>' }}{% endfor %}"""
)
TYPES_AS_TAGS = wrap(
    """{% macro kind(v) %}{% if v is string %}str{% elif v is boolean %}bool{% elif v is none %}null{% elif v is integer %}int{% elif v is number %}float
{%- elif v is mapping %}dict{% else %}list{% endif %}{% endmacro -%}"""
    + CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul id="' + c.id + '" n="' + c.function.name + '">' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<' + kind(v) + ' key="' + k + '">' + (v if v is string else v | tojson) + '</' + kind(v) + '>' }}{% endfor -%}
{{ '</kul>' }}{% endfor %}"""
)
TYPE_BEFORE_KEY = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '[KUL]' + c.function.name + '\\n' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '[ARG ' + ('text' if v is string else 'json') + ' ' + k + ']' + (v if v is string else v | tojson) + '[/ARG]\\n' }}{% endfor -%}
{{ '[/KUL]' }}{% endfor %}"""
)
TAGGED_BEFORE_NAME = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul>' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<a k="' + k + '">' + (v if v is string else v | tojson) + '</a>' }}{% endfor -%}
{{ '<id>' + c.id + '</id><nam>' + c.function.name + '</nam></kul>' }}{% endfor %}"""
)
JSON_BEFORE_NAME = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '<|acts|>' }}{% for c in m.tool_calls -%}
{{ '<|with|>' + (c.function.arguments | tojson) + '<|do|>' + c.function.name }}{% endfor %}{{ '<|/acts|>' }}{% endif %}"""
)
NAME_AS_TAG = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<' + c.function.name + '>' + (c.function.arguments | tojson) + '</' + c.function.name + '>' }}{% endfor %}"""
)
NAME_AND_KEYS_AS_TAGS = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '<kuls>\\n' }}{% for c in m.tool_calls %}{{ '<' + c.function.name + '>\\n' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<' + k + '>' + (v if v is string else v | tojson) + '</' + k + '>\\n' }}{% endfor -%}
{{ '</' + c.function.name + '>\\n' }}{% endfor %}{{ '</kuls>' }}{% endif %}"""
)
NAMES_IN_ONE_OBJECT = wrap(
    CONTENT
    + """{% if m.tool_calls %}{{ '<go>{' }}{% for c in m.tool_calls -%}
{{ '"' + c.function.name + '": ' + (c.function.arguments | tojson) + (', ' if not loop.last else '') }}{% endfor %}{{ '}</go>' }}{% endif %}"""
)
TEXT_ARGUMENTS = wrap(
    CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul>' + c.function.name + '\\n' + (c.function.arguments | string) + '</kul>' }}{% endfor %}"""
)
ALWAYS_REFUSES = "{{ raise_exception('closed for today') }}{{ tools }}{{ messages[0].tool_calls }}"
NO_TOOLS = wrap("{{ m.content }}", head=HEAD[HEAD.index("{%- for m") :])

REASONING = wrap(
    """{%- if m.reasoning_content %}{{ '<mull>\\n' + m.reasoning_content + '\\n</mull>\\n\\n' }}
{%- elif loop.last %}{{ '<mull>\\n\\n</mull>\\n\\n' }}{% endif %}"""
    + CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul>' + (c.function | tojson) + '</kul>' }}{% endfor %}""",
    tail=TAIL.removesuffix("{% endif %}")
    + """{% if ponder is defined and ponder is false %}{{ '<mull>\\n\\n</mull>\\n\\n' }}{% endif %}{% endif %}""",
)
PREOPENED = wrap(
    """{% set text = m.content or '' %}{% if '</mull>' in text %}{% set text = text.split('</mull>')[-1].lstrip('\\n') %}{% endif %}{{ text }}""",
    tail="""{{ '<|zoff|>\\n' }}{% endif %}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|zon|>assistant\\n<mull>\\n' }}{% endif %}""",
)
WRAPPED = wrap(
    """{% if m.reasoning %}{{ '<|mull|>' + m.reasoning + '<|/mull|>' }}{% endif %}
{%- if m.tool_calls %}{{ '<|acts|>[' }}{% for c in m.tool_calls %}{{ '\\n  ' + (c.function | tojson) }}{{ ',' if not loop.last }}{% endfor %}{{ '\\n]<|/acts|>' }}
{%- else %}{{ '<|say|>' + m.content + '<|/say|>' }}{% endif %}"""
)
SHARED_PREFIX = """{%- for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') }}
{%- if m.role == 'assistant' %}{{ '<|ends|>' }}{% endif %}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ '<|ends|>' }}{% endif %}"""
