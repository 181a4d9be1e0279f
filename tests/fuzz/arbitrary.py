"""Record values of any kind: bytes, JSON of any shape, and events with one thing odd about them."""

import json
from random import Random

NOW_MS = 1_790_000_000_000
FIELDS = (
    "timestamp_ms", "principal", "client_id", "learning", "broker_id", "topic", "extra", "", "version",
    "producer_ids", "after_ms", "group", "groups", "address", "partitions", "producer_epochs",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "-1", "007", "+1", "1.0", "1.5", "-0.0", "1e3", "1E400", "1e-400", ".5", "5.",
    "0x10", "1_000", "\u0661",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9" * 400, "-" + "9" * 5000, "0." + "1" * 500, "NaN", "Infinity",
    "-Infinity", "nan", "Inf", "1790000000000", "1790000000000.0", "1.79e12", "--1", "1-",
)  # fmt: skip
STRINGS = (
    '"User:a"', '""', '"User:"', '":"', '"unknown"', '"User:\\u0000"', '"User:\\ud800"', '"User:\\udc00\\ud800"',
    '"User:\\ud83d\\ude00"', '"User:\U0001f600"', '"User:\x00"', '"User:\n"', '"User:\t"', '"User:\\n"', '"User:\x7f"',
    '"User:\\x41"', '"User:\\u00zz"', '"User:\\"', '"User:\\/"', '"\\u0055ser:a"', '"User:\ufeff"', "'User:a'",
    '"User:a',
    '"User:\ufffe\uffff"', '"User:\\u"', '"1"', '"true"', '"null"', '"User:' + "x" * 1020 + '"', '"}\\n{"',
)  # fmt: skip
OTHERS = (
    "null",
    "true",
    "false",
    "True",
    "None",
    "nul",
    "[]",
    "{}",
    "[1,2]",
    '{"a":{}}',
    "[,]",
    "{,}",
    "[1,]",
    "",
    "//x\n1",
)
SPACES = ("", "", "", " ", "\t", "\r", "\r\n", "\n", "  ", "\x0b", "\xa0", "\ufeff", "/**/")


def value(random: Random) -> bytes:
    """Return a value: mostly an event with something odd, else anything."""
    kind = random.randrange(10)
    if kind == 0:
        return random.randbytes(random.choice((0, 1, 3, 40, 4000)))
    if kind == 1:
        return _json(random, random.randrange(7)).encode("utf-8", "surrogatepass")
    if kind == 2:
        return _mutilated(random, event(random))
    return event(random)


def event(random: Random) -> bytes:
    fields = [
        ("timestamp_ms", str(NOW_MS - random.randrange(1000))), ("principal", '"User:a"'), ("producer_ids", "[4711]"),
        ("after_ms", "[0]"),
    ]  # fmt: skip
    if random.random() < 0.4:
        fields[2:] = _several(random)
    more = range(random.choice((0, 0, 1, 1, 2)))
    fields += [(random.choice(FIELDS), _json(random, random.choice((0, 0, 1, 3)))) for _ in more]
    if random.random() < 0.4:
        at = random.randrange(len(fields))
        fields[at] = (fields[at][0], _json(random, random.choice((0, 0, 0, 2))))
    if random.random() < 0.1:
        fields.pop(random.randrange(len(fields)))
    if random.random() < 0.3:
        random.shuffle(fields)
    space = random.choice(SPACES) if random.random() < 0.3 else ""
    body = f"{space},{space}".join(f'"{_name(random, name)}"{space}:{space}{each}' for name, each in fields)
    text = f"{{{space}{body}{space}}}"
    return (text + random.choice((space, "", "", "{}", "\n{}", "]", ","))).encode("utf-8", "surrogatepass")


def _several(random: Random) -> list[tuple[str, str]]:
    size = random.randrange(1, 4)
    columns = {"producer_ids": 4711, "after_ms": -3, "group": 0}
    texts = [
        (name, [str(number if random.random() < 0.95 else random.choice(NUMBERS))] * size)
        for name, number in columns.items()
    ]
    if random.random() < 0.2:
        random.choice(texts)[1].append(_json(random, 1))
    group = f'{{"client_id":{random.choice(STRINGS)},"{random.choice(FIELDS)}":{_json(random, 1)}}}'
    groups = f"[{group if random.random() < 0.3 else '{}'}]"
    return [("groups", groups), *((name, f"[{','.join(each)}]") for name, each in texts)]


def huge(random: Random) -> bytes:
    """Return a value of a megabyte or so, or one nested thousands deep."""
    depth = random.choice((100, 1000, 10_000, 100_000))
    shapes = (
        lambda: "[" * depth + "]" * depth, lambda: '{"a":' * depth + "1" + "}" * depth, lambda: "[" * depth,
        lambda: json.dumps("x" * 1_000_000), lambda: "9" * 1_000_000, lambda: '"' + "\\u0041" * 200_000 + '"',
        lambda: "{" + ",".join(f'"k{number}":{number}' for number in range(50_000)) + "}",
    )  # fmt: skip
    odd = random.choice(shapes)()
    name = random.choice((*FIELDS, "principal", "client_id"))
    base = f'"timestamp_ms":{NOW_MS},"producer_ids":[7],"after_ms":[0],"principal":"User:a"'
    return random.choice((odd, f'{{{base},"{name}":{odd}}}', f'{{"{name}":{odd},{base}}}')).encode()


def _name(random: Random, name: str) -> str:
    if random.random() > 0.03:
        return name
    return random.choice((name.upper(), name + " ", "\\u0070rincipal", "\x00" + name, name + "\\u0000", "\\ud800"))


def _json(random: Random, depth: int) -> str:
    if depth and random.random() < 0.5:
        inner = [_json(random, depth - 1) for _ in range(random.randrange(4))]
        if random.random() < 0.5:
            return "[" + ",".join(inner) + "]"
        return "{" + ",".join(f'"{random.choice(FIELDS)}":{each}' for each in inner) + "}"
    return random.choice(random.choice((NUMBERS, STRINGS, OTHERS)))


def _mutilated(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text) + 1)
    odd = random.choice(
        (b"", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\n", b'"', b"\\", b"{", b"}", b"}\n{", b" ")
    )
    return text[:at] + odd + text[at + random.choice((0, 0, 1, 5)) :]
