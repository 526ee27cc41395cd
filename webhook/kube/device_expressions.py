"""The part of CEL in which expressions select devices that is evaluated here, and what an expression of it costs.

An expression is read into a tree by this grammar. What the grammar lacks is not read: Kubernetes decides. So there is no list of
what is forbidden, and an expression that nobody has thought of yet costs no more than reading it.

    expression = or [ "?" or ":" expression ]
    or         = and { "||" and }
    and        = relation { "&&" relation }
    relation   = sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum | "in" ( member | group ) ]
    sum        = product { ( "+" | "-" ) product }              whole numbers only
    product    = unary { ( "*" | "/" | "%" ) unary }
    unary      = { "!" } member | "-" member
    member     = ( literal | list | "(" expression ")" | VARIABLE | function | value ) { "." function | "." loop }
    literal    = NUMBER | TEXT | "true" | "false"               a TEXT of at most 256 characters, in one pair of quotes, or raw
    list       = "[" [ expression { "," expression } [ "," ] ] "]"
    function   = NAME "(" [ expression { "," expression } ] ")"  the functions of `device_functions`, and matches( TEXT )
    loop       = ( "all" | "exists" ) "(" NAME "," expression ")"  over a list, and not in another loop
    value      = "device.driver" | "device.allowMultipleAllocations" | attribute | "has(" attribute ")"
               | optional ( ".orValue(" expression ")" | ".hasValue()" | ".value()" )
               | "cel.bind(" NAME "," ( group | attribute ) "," expression ")"
    attribute  = group "." NAME | group "[" TEXT "]"            optional with "?" before a NAME or a TEXT
    group      = ( "device.attributes" | "device.capacity" ) [ "[" TEXT "]" ]

Nothing here makes a text or a list that is longer than one of the device or of the expression, a loop has as many rounds as a
list has entries, and each part is evaluated once in a round. So the cost is known from the tree and the longest text that it
reads (`Expression.cost`). k8s.io/apiserver estimates the same way; its estimate for a whole expression may be 1,000,000
(CELSelectorExpressionMaxCost), far more than `device_kinds` allows.
"""

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple

from webhook.errors import NotRead
from webhook.kube import device_functions as functions
from webhook.kube.device_functions import GLOBAL, MEMBERS, Function, Quantity
from webhook.kube.device_patterns import Pattern
from webhook.kube.device_tokens import Token, number_of, text_of
from webhook.kube.device_tree import (
    MAX_LIST,
    Facts,
    Node,
    Path,
    Run,
    applied,
    bounded,
    constant,
    first_of,
    node,
    there,
    until,
)

_MAX_DEPTH: Final = 16
"""Maximum depth of brackets and of conditions."""
_GROUP_STEPS: Final = 64
"""Looking for a domain among the names of a device."""

_KEYWORDS: Final = frozenset({"true", "false", "null", "in"})
_TAKEN: Final = frozenset({
    "device", "cel", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
"""Names that no variable may have."""
_RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": functions.equal,
    "!=": functions.differs,
    "<": functions.ordered(lt),
    "<=": functions.ordered(le),
    ">": functions.ordered(gt),
    ">=": functions.ordered(ge),
}


class Expression(NamedTuple):
    """An expression that was read."""

    run: Run
    steps: int
    by_length: int
    paths: tuple[Path, ...]
    """What it reads of a device, other than its driver and whether it is shared."""

    def cost(self, longest: int) -> int:
        """The largest number of steps that it takes, by the length of the longest text of the device that it reads. A step is
        the evaluation of one part, which takes 0.3 µs."""
        return self.steps + self.by_length * max(longest, 1)


def parsed(of: list[Token]) -> Expression:
    """The expression of these tokens. Raises NotRead."""
    reader = _Reader(of)
    tree = reader.whole()
    return Expression(tree.run, tree.steps, tree.by_length, tuple(dict.fromkeys(reader.paths)))


class _Reader:
    """Reads one expression, from its first token to its last."""

    def __init__(self, of: list[Token]) -> None:
        self._tokens, self._at, self._depth = of, 0, 0
        self._names: dict[str, Node | Path] = {}
        self._in_loop = False
        self._longest = 1
        """The longest text in it."""
        self.paths: list[Path] = []

    def whole(self) -> Node:
        found = self._expression()
        if self._tokens[self._at][0] != "end":
            raise NotRead
        return found._replace(steps=found.steps + found.by_length * self._longest)

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _sees(self, *signs: str) -> str:
        """The next token if it is one of these signs or names, else ""."""
        kind, text = self._tokens[self._at]
        return text if kind in ("sign", "name") and text in signs else ""

    def _take(self, *signs: str) -> str:
        found = self._sees(*signs)
        self._at += bool(found)
        return found

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise NotRead

    def _name(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "name" or text in _KEYWORDS:
            raise NotRead
        self._at += 1
        return text

    def _new_name(self) -> str:
        name = self._name()
        if name in _TAKEN:
            raise NotRead
        return name

    def _text(self) -> str:
        text = text_of(self._tokens[self._at])
        self._at += 1
        self._longest = max(self._longest, len(text))
        return text

    # --- operators ----------------------------------------------------------------------------------------------------

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise NotRead
        found = self._any()
        if self._take("?"):
            yes = self._any()
            self._expect(":")
            no, condition = self._expression(), found.run

            def choose(facts: Facts, entry: Any) -> Any:
                return (no if functions.negated(condition(facts, entry)) else yes).run(facts, entry)

            found = node(choose, found, yes, no, entries=max(yes.entries, no.entries))
        self._depth -= 1
        return found

    def _any(self) -> Node:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else node(first_of(True, [part.run for part in parts]), *parts)

    def _all(self) -> Node:
        parts = [self._relation()]
        while self._take("&&"):
            parts.append(self._relation())
        return parts[0] if len(parts) == 1 else node(first_of(False, [part.run for part in parts]), *parts)

    def _relation(self) -> Node:
        one = self._sum()
        if self._take("in"):
            other = self._member()
            if isinstance(other, Path) and not other.name:
                return self._within(one, other)
            other = self._valued(other)
            return node(applied(functions.within, one, other), one, other, steps=1 + other.entries)
        if sign := self._take(*_RELATIONS):
            other = self._sum()
            steps = 1 + min(one.entries, other.entries)
            return node(applied(_RELATIONS[sign], one, other), one, other, steps=steps)
        return one

    def _sum(self) -> Node:
        found = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            found = node(applied(functions.calculated(sign), found, other), found, other)
        return found

    def _product(self) -> Node:
        found = self._unary()
        while sign := self._take("*", "/", "%"):
            other = self._unary()
            found = node(applied(functions.calculated(sign), found, other), found, other)
        return found

    def _unary(self) -> Node:
        if self._take("-"):
            kind, text = self._tokens[self._at]
            if kind == "number":
                self._at += 1
                return constant(functions.whole(-number_of(text)))
            value = self._valued(self._member())
            return node(applied(functions.opposite, value), value)
        signs = 0
        while self._take("!"):
            signs += 1
        value = self._valued(self._member())
        for _ in range(2 - signs % 2 if signs else 0):
            value = node(applied(functions.negated, value), value)
        return value

    # --- values -------------------------------------------------------------------------------------------------------

    def _member(self) -> Node | Path:
        found = self._primary()
        while self._sees(".", "["):
            if isinstance(found, Path) and not found.name:
                found = self._further(found)
                continue
            self._expect(".")
            name = self._name()
            self._expect("(")
            found = self._called(found, name)
        return found

    def _primary(self) -> Node | Path:
        kind, text = self._tokens[self._at]
        if kind in ("raw", "text"):
            return constant(self._text())
        self._at += 1
        if kind == "number":
            return constant(functions.whole(number_of(text)))
        if text in ("true", "false"):
            return constant(text == "true")
        if text == "(":
            found = self._expression()
            self._expect(")")
            return found
        if text == "[":
            return self._list()
        if kind != "name":
            raise NotRead
        if text in self._names:
            return self._names[text]
        if text == "device":
            return Path()
        if text == "cel":
            return self._bound()
        self._expect("(")
        return self._has() if text == "has" else self._function(GLOBAL, text, [])

    def _list(self) -> Node:
        entries = list[Node]()
        while not self._take("]"):
            entries.append(self._expression())
            if entries[-1].entries or not self._sees(",", "]"):
                raise NotRead
            self._take(",")
        if all([each.literal is not None for each in entries]):
            made = tuple([each.literal for each in entries])
            return node(lambda *_: made, entries=len(made))
        runs = [each.run for each in entries]
        return node(lambda facts, entry: tuple([run(facts, entry) for run in runs]), *entries, entries=len(runs))

    def _arguments(self) -> list[Node]:
        """The arguments of a call, after its bracket."""
        found = list[Node]()
        while not self._take(")"):
            found.append(self._expression())
            if not self._sees(")"):
                self._expect(",")
                if self._sees(")"):
                    raise NotRead
        return found

    def _function(self, table: dict[tuple[str, int], Function], name: str, of: list[Node]) -> Node:
        arguments = self._arguments()
        function = table.get((name, len(arguments)))
        if function is None:
            raise NotRead
        every = [*of, *arguments]
        made = node(applied(function.call, *every), *every, steps=function.steps)
        return made._replace(by_length=made.by_length + function.by_length)

    def _called(self, of: Node | Path, name: str) -> Node:
        """A call of a value, after its bracket."""
        if isinstance(of, Path) and of.optional:
            return self._optional(of, name)
        value = self._valued(of)
        if name in ("all", "exists"):
            return self._loop(value, name)
        if name != "matches":
            return self._function(MEMBERS, name, [value])
        pattern = Pattern(self._text())
        self._expect(")")
        run = value.run

        def match(facts: Facts, entry: Any) -> bool:
            return pattern.found_in(functions.text(run(facts, entry)))

        made = node(match, value, steps=4)
        return made._replace(by_length=made.by_length + pattern.size)

    def _loop(self, over: Node, name: str) -> Node:
        if self._in_loop:
            raise NotRead
        variable = self._new_name()
        self._expect(",")
        self._in_loop = True
        body = self._where(variable, Node(lambda _, entry: entry))
        self._in_loop = False
        absorbing, run, each = name == "exists", over.run, body.run

        def loop(facts: Facts, _: Any) -> bool:
            return until(absorbing, [each] * len(entries := functions.entries(run(facts, None))), facts, entries)

        rounds = max(over.entries, 1)
        made = node(loop, over, body, steps=4 + rounds * (2 + body.steps))
        return made._replace(by_length=over.by_length + rounds * body.by_length)

    # --- devices ------------------------------------------------------------------------------------------------------

    def _further(self, path: Path) -> Node | Path:
        """The next step of a path."""
        if self._take("["):
            optional, text = bool(self._take("?")), self._text()
            self._expect("]")
            dotted = False
        else:
            self._expect(".")
            optional, text, dotted = bool(self._take("?")), self._name(), True
            if self._sees("("):
                raise NotRead
        if not path.part:
            if optional or not dotted:
                raise NotRead
            return self._of_device(text)
        if path.domain is None:
            if dotted:
                raise NotRead
            return path._replace(domain=text, optional=optional)
        return path._replace(name=text, optional=path.optional or optional, dotted=dotted)

    def _of_device(self, name: str) -> Node | Path:
        if name == "driver":
            return Node(lambda facts, _: bounded(facts.driver))
        if name == "allowMultipleAllocations":
            return Node(lambda facts, _: facts.shared)
        if name in ("attributes", "capacity"):
            return Path(name)
        raise NotRead

    def _valued(self, found: Node | Path) -> Node:
        """The value at a path."""
        if isinstance(found, Node):
            return found
        if found.optional:
            raise NotRead
        return self._read(found)

    def _read(self, path: Path) -> Node:
        if not path.name:
            raise NotRead
        name = self._named(path)
        if path.part == "capacity":
            return Node(lambda facts, _: Quantity(there(facts.capacity.get(name))), steps=2)
        return Node(lambda facts, _: bounded(there(facts.attributes.get(name))), steps=2, entries=MAX_LIST)

    def _named(self, path: Path) -> str:
        """The qualified name of what a path reads, or the beginning of those of a domain."""
        self.paths.append(path._replace(optional=False, dotted=False))
        return f"{path.domain}/{path.name or ''}"

    def _is_there(self, path: Path) -> Node:
        name, of_capacity = self._named(path), path.part == "capacity"
        if path.name:
            return Node(lambda facts, _: name in (facts.capacity if of_capacity else facts.attributes), steps=2)

        def any_of(facts: Facts, _: Any) -> bool:
            return any([each.startswith(name) for each in (facts.capacity if of_capacity else facts.attributes)])

        return Node(any_of, steps=_GROUP_STEPS)

    def _within(self, one: Node, group: Path) -> Node:
        if type(one.literal) is not str or group.optional or not group.part:
            raise NotRead
        found = group._replace(domain=one.literal) if group.domain is None else group._replace(name=one.literal)
        return self._is_there(found)

    def _has(self) -> Node:
        path = self._member()
        self._expect(")")
        if not isinstance(path, Path) or path.optional or not (path.name and path.dotted):
            raise NotRead
        return self._is_there(path)

    def _optional(self, path: Path, name: str) -> Node:
        has_it, value, arguments = self._is_there(path), self._read(path), self._arguments()
        if name == "hasValue" and not arguments:
            return has_it
        if name == "value" and not arguments:
            return value
        if name != "orValue" or len(arguments) != 1:
            raise NotRead
        first, second, is_there = value.run, arguments[0].run, has_it.run

        def either(facts: Facts, entry: Any) -> Any:
            return (first if is_there(facts, entry) else second)(facts, entry)

        return node(either, has_it, value, arguments[0], entries=max(value.entries, arguments[0].entries))

    def _bound(self) -> Node:
        """`cel.bind`, after `cel`: the variable stands for a path."""
        self._expect(".")
        self._expect("bind")
        self._expect("(")
        variable = self._new_name()
        self._expect(",")
        path = self._member()
        self._expect(",")
        if not isinstance(path, Path) or path.optional:
            raise NotRead
        return self._where(variable, path)

    def _where(self, variable: str, value: Node | Path) -> Node:
        """The rest of a call, in which a variable has a value."""
        before = self._names
        self._names = before | {variable: value}
        found = self._expression()
        self._expect(")")
        self._names = before
        return found
