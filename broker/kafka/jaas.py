"""Reads a login from `sasl.jaas.config`, by the rules of Kafka's `JaasConfig` and Java's `StreamTokenizer`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
# A quoted text may end with its line. A lone slash begins a comment, too.
_TOKEN = re.compile(
    r"""
    (?P<skipped>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |"(?P<double>(?:\\.|[^"\\\r\n])*)(?:"|(?=[\r\n])|\Z)
    |'(?P<single>(?:\\.|[^'\\\r\n])*)(?:'|(?=[\r\n])|\Z)
    |(?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]*)
    |(?P<number>-?[0-9]*\.?[0-9]+\.?|-?\.)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Login:
    """A login module's class, without its package, and options, which hold the password."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse_login(jaas: str) -> Login | None:
    r"""Return the login of an entry such as `CLASS required username="a" password="b";`; None if Kafka refuses it.

    Examples:
        >>> parse_login("org.PlainLoginModule required username=a /* or b */ password='\\156o';").options
        {'username': 'a', 'password': 'no'}
        >>> parse_login("org.PlainLoginModule required username=a")
    """
    tokens = [*_tokens(jaas), ("end", "")]
    kinds = [kind for kind, _ in tokens]
    if len(tokens) < 4 or kinds[:2] != ["text", "text"] or tokens[1][1].lower() not in _FLAGS:
        return None
    # After class and flag, each option takes three tokens, and the rest is a semicolon and the end.
    options, rest = tokens[2:-2], tokens[-2:]
    triples = [options[begin : begin + 3] for begin in range(0, len(options), 3)]
    if rest != [("sign", ";"), ("end", "")] or any(
        [kind for kind, _ in each] != ["text", "sign", "text"] or each[1][1] != "=" for each in triples
    ):
        return None
    return Login(tokens[0][1].rpartition(".")[2], {name: value for (_, name), _, (_, value) in triples})


def _tokens(jaas: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(jaas):
        kind, text = found.lastgroup, found[found.lastgroup or 0]
        if kind in ("double", "single"):
            yield "text", _ESCAPE.sub(_unescaped, text)
        elif kind == "word":
            yield "text", text
        elif kind != "skipped":
            yield str(kind), text


def _unescaped(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _CONTROL.get(text, text)
