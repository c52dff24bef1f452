"""The renaming law: every marker of a template replaced by a fresh one gives the same profile, up to the renaming.

So nothing is learned from how a marker is spelled, and no model is known by its markers.
"""

from __future__ import annotations

import json
import random
import re

import pytest

from dragoman.errors import LimitError, TemplateError
from dragoman.template.atoms import closers, openers
from dragoman.template.describe import describe
from dragoman.template.learn import learn
from dragoman.template.render import Template
from dragoman.template.scan import scan
from tests import learned_templates as own
from tests.template_corpus import sampled, shared, templates

# The word inside <word>, </word>, <|word|>, <word=, [WORD]: what a renaming replaces, with the brackets kept.
_WORD = re.compile(r"(?:</?\|?|</｜|<｜|\[/?)([A-Za-z][\w▁]{2,40})(?=\|?>|｜>|=|\])")
_OWN = [value for name, value in vars(own).items() if name.isupper() and name not in ("HEAD", "TAIL", "CONTENT")]
# Words that are also keys, roles, types or code in the templates: to replace them would change what is read.
_CODE = frozenset(
    ["tool", "tools", "user", "system", "assistant", "role", "content", "function", "name", "arguments", "parameters"]
)


def renaming_of(source: str) -> dict[str, str]:
    """marker -> fresh marker, for the tags that the template's own literals show, and writes from no other text."""
    out = _renaming_of(source)
    if written(renamed(source, out)) == renamed(written(source), out):
        return out
    # A marker that is also put together of parts ('<|' + name + '_start|>') is not replaced by replacing its literal.
    one_each = {name: {name: fresh} for name, fresh in out.items()}
    whole = [n for n, one in one_each.items() if written(renamed(source, one)) == renamed(written(source), one)]
    return {name: out[name] for name in whole}


def written(source: str) -> str:
    """A conversation as the template renders it; empty where it refuses."""
    told = [("user", "Hi"), ("assistant", "Hello."), ("user", "Well?")]
    messages = [{"role": role, "content": text} for role, text in told]
    try:
        return Template(source, eos_token="<EOS>").render_text(messages, add_generation_prompt=True)
    except (TemplateError, LimitError):
        return ""


def _renaming_of(source: str) -> dict[str, str]:
    out: dict[str, str] = {}
    words: dict[str, str] = {}
    for literal in scan(source).literals:
        match = _WORD.match(literal)
        if match is None or match.group(1).lower() in _CODE:
            continue
        word = match.group(1)
        fresh = words.setdefault(word, _fresh(word, len(words)))
        # The other end of a pair may be known by its spelling alone.
        for marker in (literal, *closers(literal), *openers(literal)):
            if word in marker:
                out.setdefault(marker, marker.replace(word, fresh))
    return out


def _fresh(word: str, number: int) -> str:
    """A new word of the same case; a beginning or an end that pairs two markers stays."""
    stem = "zq" + "abcdefghijklmnopqrstuvwxyz"[number % 26] + "bcdfghjklm"[number // 26 % 10]
    stem = stem.upper() if word.isupper() else stem
    for part in ("START", "END", "begin", "end", "start"):
        if word.startswith(part + "_") or word.endswith(("_" + part, "▁" + part)):
            return _paired(word, part)
    return stem


def _paired(word: str, part: str) -> str:
    """Both markers of a pair get the same stem: made of the word without its part, not counted."""
    rest = word.replace(part, "").strip("_▁")
    stem = "zv" + "".join(chr(97 + (ord(c) * 7) % 26) for c in rest)[:12]
    stem = stem.upper() if word.isupper() else stem
    return word.replace(rest, stem)


def renamed(text: str, names: dict[str, str]) -> str:
    """``text`` with every marker replaced, the longest first, in one pass."""
    if not names:
        return text
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return pattern.sub(lambda match: names[match.group()], text)


def facts(source: str) -> str:
    out = describe(learn(Template(source, eos_token="<EOS>")))["facts"]
    out.pop("literals")
    return json.dumps(out, ensure_ascii=False, sort_keys=True)


def check(source: str) -> bool:
    """True: the law held; False: nothing to rename, or the renaming is not one to one."""
    names = renaming_of(source)
    if not names or len(set(names.values())) != len(names) or any(fresh in source for fresh in names.values()):
        return False
    other = renamed(source, names)
    assert other != source
    assert renamed(facts(source), names) == facts(other)
    return True


@pytest.mark.parametrize("source", _OWN)
def test_own_templates_keep_the_law(source: str) -> None:
    check(source)


def test_the_law_is_not_empty() -> None:
    assert sum(check(source) for source in _OWN) >= len(_OWN) - 3


def test_real_templates_keep_the_law() -> None:
    every = list(templates())
    handed = {path.name for path in folder.iterdir()} if (folder := shared("templates")) else set()
    sample = random.Random(20240726).sample([item for item in every if item[0] not in handed], 40)
    tried, broken = 0, []
    for name, source in sampled([item for item in every if item[0] in handed] + sample, 2):
        try:
            tried += check(source)
        except TemplateError:
            continue
        except AssertionError:
            broken.append(name)
    assert broken == []
    assert tried >= 15
