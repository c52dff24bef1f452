"""The Jinja environment of chat templates: transformers' own dialect, a sandbox, bounds, and marks that survive.

Rules of this file:

- Whatever `transformers` renders must come out with the same text. What differs is what it forbids: here a template
  may change the lists and dicts of its own copy of the request.
- Jinja's runtime makes plain strings in places that no subclass of ``str`` can reach: ``~``, printing, capturing
  blocks. The code generator is pointed to :class:`RenderContext` there.
- Nothing reads a clock, a file, the network or a random source.
"""

from __future__ import annotations

import datetime
import re
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from types import BuiltinMethodType, MethodType
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import Namespace, pass_context

from dragoman.limits import DEFAULT, Limits
from dragoman.template.budget import Budget
from dragoman.template.filters import FILTERS
from dragoman.template.provenance import Marked, Safe, bare, contains_input, escaped, joined, plain, safe
from dragoman.template.serialise import percent_format, repr_of, text_of


class Refusal(jinja2.TemplateError):
    """What ``raise_exception`` raises: the template refuses the conversation."""


class RenderContext(Context):
    """One rendering: the variables, the budget, and how strings are put together."""

    budget: Budget
    now: datetime.datetime

    def __init__(self, environment: jinja2.Environment, *args: Any, **kwargs: Any) -> None:
        super().__init__(environment, *args, **kwargs)
        self.budget = Budget(DEFAULT)

    def begin(self, limits: Limits, now: datetime.datetime) -> None:
        """Set what this rendering may use and what time it is."""
        self.budget = Budget(limits)
        self.now = now

    def derived(self, locals: dict[str, Any] | None = None) -> RenderContext:
        context = super().derived(locals)
        assert isinstance(context, RenderContext)
        context.budget = self.budget
        context.now = self.now
        return context

    def text(self, value: Any) -> str:
        """``value`` as it is printed."""
        return text_of(value, self.budget)

    def concat(self, pieces: Iterable[str]) -> str:
        """What a capturing block, a macro or a call block gives."""
        listed = list(pieces)
        self.budget.grow(sum(map(len, listed)))
        result = joined(listed)
        self.budget.made(result)
        return result

    def tilde(self, values: Iterable[Any]) -> str:
        """The operator ``~``."""
        return self.concat([self.text(value) for value in values])

    def compared(self, value: Any) -> Any:
        """``value``, its items counted: comparing goes through them all."""
        if isinstance(value, (list, tuple, dict)):
            self.budget.walk(value)
        return value


class _Generator(CodeGenerator):
    """Jinja's code generator, with strings and loops handed to the :class:`RenderContext`.

    It notes the names that are looked up in the context, as ``jinja2.meta`` finds them by generating the code anew.
    """

    environment: ChatEnvironment
    _resolved: set[str]

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("concat = context.concat")

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        self._resolved = self.environment.resolved.setdefault(node, set())
        super().visit_Template(node, frame)

    def enter_frame(self, frame: Frame) -> None:
        super().enter_frame(frame)
        loads = (name for action, name in frame.symbols.loads.values() if action == "resolve")
        self._resolved.update(name for name in loads if name is not None and name not in self.environment.globals)

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        self.writeline("context.budget.step()")
        super().blockvisit(nodes, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        if node.test is not None:
            # Items that the test rejects never reach the loop's body, where steps are counted.
            node.iter = nodes.Filter(node.iter, "_counted", [], [], None, None, lineno=node.lineno)
            self.filters.setdefault("_counted", "environment.filters['_counted']")
        super().visit_For(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("context.tilde((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self.write("(context.compared(")
        self.visit(node.expr, frame)
        self.write(")")
        for operand in node.ops:
            self.visit(operand, frame)
        self.write(")")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        # Constant expressions run under the budget as all others do.
        if not isinstance(node, (nodes.TemplateData, nodes.Const)):
            raise nodes.Impossible()
        return super()._output_child_to_const(node, frame, finalize)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("context.text(")


class _Generation(Extension):
    """``{% generation %}`` marks what the model wrote, for training; here it is transparent."""

    tags = frozenset(("generation",))  # type: ignore[assignment]

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Namespace(Namespace):
    """``namespace()`` that refuses underscore attributes."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # Jinja's own way to allow namespace(self=...)
        self, rest = args[0], args[1:]
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            _check_public(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_public(name)
        super().__setitem__(name, value)


def _check_public(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace attribute may not start with an underscore: {name!r}")


class _Dict:
    """``dict(...)`` without the attributes of the type."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _raise_exception(message: Any = "") -> NoReturn:
    raise Refusal(bare(str(message)))


@pass_context
def _strftime_now(context: RenderContext, form: str) -> str:
    for digits in re.findall(r"\d+", form):
        context.budget.grow(int(digits[:12]))
    text = context.now.strftime(bare(form))
    return Marked(text) if contains_input(form) else text


@pass_context
def _range(context: RenderContext, *args: int) -> range:
    return context.budget.range(*args)


class ChatEnvironment(SandboxedEnvironment):
    """The environment that all chat templates are compiled in; holds nothing of a single template."""

    code_generator_class = _Generator
    context_class = RenderContext
    concat = staticmethod(joined)
    intercepted_binops = frozenset(("+", "*", "%", "**"))
    # Tree that is being compiled -> the names that its code looks up; whoever compiles takes them out.
    resolved: dict[nodes.Template | None, set[str]]

    def __init__(self) -> None:
        self.resolved = {}
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.filters.update(FILTERS)
        del self.globals["lipsum"]  # random text
        self.globals.update(
            raise_exception=_raise_exception,
            strftime_now=_strftime_now,
            range=_range,
            dict=_Dict(),
            namespace=_Namespace,
        )

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        assert isinstance(context, RenderContext)
        context.budget.operator(operator, left, right)
        if operator == "%" and isinstance(left, str):
            return _percent(left, right, context.budget)
        return self.binop_table[operator](left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return super().getattr(_with_marks(obj, attribute), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return super().getitem(_with_marks(obj, argument), argument)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        raise jinja2.exceptions.SecurityError(f"a template may not read {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if not isinstance(value, (MethodType, BuiltinMethodType)) or value.__name__ not in ("format", "format_map"):
            return None
        subject = value.__self__
        if not isinstance(subject, str):
            return None
        return _FormatMethod(self, subject, value.__name__ == "format_map")

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: PYI063
        assert isinstance(__context, RenderContext)
        budget = __context.budget
        budget.step()
        # Inside loops and blocks the generated code passes on its own variables as well.
        own = {key: value for key, value in kwargs.items() if key not in ("_loop_vars", "_block_vars")}
        if isinstance(__obj, (MethodType, BuiltinMethodType)):
            if __obj.__name__ == "join" and len(args) == 1 and isinstance(__obj.__self__, str):
                args = (list(args[0]),)
            budget.method(__obj.__self__, __obj.__name__, args, own)
        elif isinstance(__obj, _FormatMethod):
            return __obj.run(budget, args, own)
        result = super().call(__context, __obj, *args, **kwargs)
        budget.made(result)
        return result


# Methods of a template's own string whose result may hold text of their arguments.
_TAKES_TEXT = frozenset(("join", "replace", "center", "ljust", "rjust", "translate"))


def _with_marks(obj: Any, attribute: Any) -> Any:
    return plain(obj) if type(obj) is str and attribute in _TAKES_TEXT else obj


def _percent(form: str, values: Any, budget: Budget) -> str:
    if not isinstance(form, Safe):
        return percent_format(form, values, budget)
    # As Markup does it: every string that is put in is escaped.
    if isinstance(values, Mapping):
        escaped_values: Any = {key: _escaped_value(value) for key, value in values.items()}
    else:
        escaped_values = tuple(map(_escaped_value, values if isinstance(values, tuple) else (values,)))
    return safe(percent_format(form, escaped_values, budget))


def _escaped_value(value: Any) -> Any:
    if value is None or isinstance(value, (int, float)):
        return value
    return escaped(value if isinstance(value, str) else str(value))


class _FormatMethod:
    """``str.format`` of one string, inside the sandbox, marked."""

    def __init__(self, environment: ChatEnvironment, subject: str, takes_mapping: bool) -> None:
        self.environment = environment
        self.subject = subject
        self.takes_mapping = takes_mapping

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        return self.run(Budget(DEFAULT), args, kwargs)

    def run(self, budget: Budget, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The formatted string."""
        if self.takes_mapping:
            if kwargs or len(args) != 1:
                raise TypeError("format_map() takes exactly one argument")
            kwargs, args = args[0], ()
        formatter = _Formatter(self.environment, budget, self.subject)
        text = joined(formatter.pieces(bare(self.subject), args, kwargs))
        return safe(text) if isinstance(self.subject, Safe) else text


class _Formatter(Formatter):
    """:class:`string.Formatter` that yields marked pieces."""

    def __init__(self, environment: ChatEnvironment, budget: Budget, subject: str) -> None:
        self.environment = environment
        self.budget = budget
        # Where literal text stands in the format string is not told: some input in it makes it all input.
        self.literal: Callable[[str], str] = Marked if contains_input(subject) else str
        self.escape = isinstance(subject, Safe)
        self.size = 0

    def pieces(self, form: str, args: Any, kwargs: Any) -> list[str]:
        out: list[str] = []
        counter = 0
        for literal, field, spec, conversion in self.parse(form):
            out.append(self.literal(literal))
            if field is None:
                continue
            first = formatter_field_name_split(field)[0]
            if first == "":
                field, counter = str(counter) + field, counter + 1
            out.append(self._field(field, spec or "", conversion, args, kwargs, counter))
            self.size += len(out[-1])
            self.budget.step()
            self.budget.grow(self.size)
        return out

    def _field(self, field: str, spec: str, conversion: str | None, args: Any, kwargs: Any, counter: int) -> str:
        value, _ = self.get_field(field, args, kwargs)
        if "{" in spec:
            spec = self.vformat(spec, args[counter:] if "{}" in spec else args, kwargs)
        if conversion == "r":
            value = repr_of(value, self.budget)
        elif conversion == "s":
            value = text_of(value, self.budget)
        elif conversion is not None:
            value = self.convert_field(value, conversion)
        for digits in re.findall(r"\d+", spec):
            self.budget.grow(int(digits[:12]))
        if self.escape and isinstance(value, str):
            value = escaped(value)
        if not spec:
            return text_of(value, self.budget)
        text = format(bare(value) if isinstance(value, str) else value, bare(spec))
        return Marked(text) if contains_input(value) or spec.endswith("c") else text

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        first, rest = formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = self.environment.getattr(value, name) if is_attribute else self.environment.getitem(value, name)
        return value, first


ENVIRONMENT = ChatEnvironment()
